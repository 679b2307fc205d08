package tools

import (
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// listKind is a list that servers have.
type listKind struct {
	method string // of the request
	member string // of the result
	key    string // of a definition, that names the item
	kind   toolserver.Kind
	limit  string // capability that a server with the list declares
}

// listKinds are all lists.
var listKinds = [...]listKind{
	{"tools/list", "tools", "name", toolserver.Tool, "tools"},
	{"prompts/list", "prompts", "name", toolserver.Prompt, "prompts"},
	{"resources/list", "resources", "uri", toolserver.Resource, "resources"},
	{"resources/templates/list", "resourceTemplates", "uriTemplate", toolserver.Template, "resources"},
}

// kindOf returns the list of a kind of items.
func kindOf(k toolserver.Kind) *listKind {
	for i := range listKinds {
		if listKinds[i].kind == k {
			return &listKinds[i]
		}
	}
	return nil
}

// definition is an item of a list as its server described it. It is immutable.
type definition struct {
	name string // or URI
	raw  []byte
	from int // of the name in raw, with its quotes
	to   int
	// digest identifies the definition; see [toolserver.Digest].
	digest string
	// readOnly, destructive and idempotent are what the server says of a tool; without
	// annotations it may destroy something.
	// https://modelcontextprotocol.io/specification/2026-07-28/schema#toolannotations
	readOnly, destructive, idempotent bool
	// headers repeat arguments of a tool.
	headers []paramHeader
}

// maxSchemaDepth is the limit of nested values in a schema.
const maxSchemaDepth = 64

// parseDefinition returns the definition in an element of a list, and why it is left out if
// it is.
func parseDefinition(k *listKind, raw []byte) (d definition, problem string) {
	var doc jsonedit.Doc
	if err := doc.Scan(raw); err != nil {
		return d, "it is not an object, or names something twice"
	}
	name, _ := doc.Find(k.key)
	text, ok := name.Text()
	switch {
	case !ok || text == "" || len(text) > toolserver.MaxItemName:
		return d, "it has no " + k.key + ", or one that is too long"
	case len(raw) > toolserver.MaxDefinition:
		return d, "it is larger than 64 KB"
	}
	d = definition{name: text, raw: raw, digest: toolserver.Digest(raw), destructive: true}
	if k.kind == toolserver.Tool {
		if d.headers, problem = checkSchema(&doc); problem != "" {
			return d, problem
		}
	}
	d.from = offsetIn(raw, name.Raw())
	d.to = d.from + len(name.Raw())
	if hints, ok := doc.Find("annotations"); ok {
		d.readOnly = hint(hints, "readOnlyHint", false)
		d.destructive = hint(hints, "destructiveHint", true) && !d.readOnly
		d.idempotent = hint(hints, "idempotentHint", false) || d.readOnly
	}
	return d, ""
}

func hint(of jsonedit.Value, name string, otherwise bool) bool {
	v, _ := of.Get(name)
	if value, ok := v.Bool(); ok {
		return value
	}
	return otherwise
}

// offsetIn returns where part, a slice of whole, begins.
func offsetIn(whole, part []byte) int { return cap(whole) - cap(part) }

// appendTo appends the definition under another name to a list.
func (d *definition) appendTo(dst []byte, name string) []byte {
	dst = append(dst, d.raw[:d.from]...)
	dst = jsonedit.AppendString(dst, name)
	return append(dst, d.raw[d.to:]...)
}
