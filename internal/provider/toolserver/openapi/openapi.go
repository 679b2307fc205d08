// Package openapi makes tools of the operations of an HTTP API that an OpenAPI document of the
// versions 3.0 and 3.1 describes.
//
// It guarantees that the same document always makes the same tools, that reading one takes
// bounded time and memory, that nothing outside of it is fetched, and that no argument of a call
// changes the host, the path or the other headers of its request. It does not send requests (see
// dataplane/tools/peer), and does not check arguments against their schemas: the API does.
package openapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"modelgate/internal/provider/toolserver"
)

// Limits of a document.
const (
	// MaxDocument is the limit of a document in bytes.
	MaxDocument = 3 << 20

	maxTools   = 2000
	maxSize    = 4 << 20 // of all definitions, in bytes
	maxLeftOut = 100
	maxServers = 20
	maxText    = 4096 // of the description of a tool, in bytes
	maxTitle   = 255  // in bytes
	maxRefs    = 16   // from one object of the document to the next
)

// Document is an API as tools. It is immutable.
type Document struct {
	Title, Version string // of the API; empty if it does not say
	// Servers are the addresses that the document names, in which variables have their default
	// values. They may be relative to its own address.
	Servers []string
	Tools   []*Tool // in the order of their paths and methods
	// LeftOut says which operations and parameters have no tool, and why. The last of 100 says
	// that there are more.
	LeftOut []string

	byName map[string]*Tool
}

// Tool is an operation as a tool.
type Tool struct {
	Name       string
	Definition []byte // of MCP, as JSON

	method   string // of HTTP
	path     []piece
	params   []param
	body     string // content type; empty for none
	needsArg bool   // the body is required
	accept   string
}

// piece is a part of a path: text as it is sent, or the value of a parameter.
type piece struct{ text, param string }

// param is a parameter of an operation.
type param struct {
	name, in string // in is path, query or header
	required bool
	explode  bool
	deep     bool // deepObject
	json     bool // the value is sent as JSON
}

// Tool returns the tool with a name, nil if there is none.
func (d *Document) Tool(name string) *Tool { return d.byName[name] }

// Parse reads a document, as JSON. An error says what its author can change.
func Parse(text []byte) (*Document, error) {
	if len(text) > MaxDocument {
		return nil, fmt.Errorf("the document has %d bytes, and at most %d are read", len(text), MaxDocument)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var root map[string]any
	if err := dec.Decode(&root); err != nil {
		return nil, fmt.Errorf("the document is not a JSON object: %w", err)
	}
	if dec.More() {
		return nil, errors.New("the document has something after its end")
	}
	if err := checkKeys(text); err != nil {
		return nil, err
	}
	version, _ := root["openapi"].(string)
	old := strings.HasPrefix(version, "3.0.")
	if !old && !strings.HasPrefix(version, "3.1.") {
		if _, ok := root["swagger"]; ok {
			return nil, errors.New("the document is Swagger 2.0; convert it to OpenAPI 3")
		}
		return nil, fmt.Errorf(`the document must have the version 3.0 or 3.1 in "openapi", not %.20q`, version)
	}
	b := &builder{resolver: resolver{root: root, old: old, left: maxCost}, doc: &Document{byName: map[string]*Tool{}}}
	if err := b.build(); err != nil {
		return nil, err
	}
	return b.doc, nil
}

// builder makes the tools of a document.
type builder struct {
	resolver
	doc   *Document
	names map[string]int // how many operations have a name
	ids   map[string]int // how many operations have an operationId
	size  int            // of all definitions, in bytes
}

// methods are those of operations that become tools, in the order of their tools.
var methods = []string{"get", "head", "post", "put", "patch", "delete"}

// operation is an operation of the document.
type operation struct {
	path, method string
	item, fields map[string]any // what all operations of the path have, and what this one has
}

func (o *operation) String() string { return strings.ToUpper(o.method) + " " + o.path }

// id returns the operationId, empty for none.
func (o *operation) id() string { return textOf(o.fields, "operationId") }

var errTooManyParts = errors.New("the document is too large once its references are resolved; split it")

func (b *builder) build() error {
	info, _ := b.root["info"].(map[string]any)
	b.doc.Title, b.doc.Version = cut(textOf(info, "title"), maxTitle), cut(textOf(info, "version"), maxTitle)
	b.doc.Servers = serversOf(b.root)
	list := b.operations()
	if b.left <= 0 {
		return errTooManyParts
	}
	if len(list) > maxTools {
		return fmt.Errorf("the document has %d operations, and at most %d become tools; split it", len(list), maxTools)
	}
	b.names, b.ids = make(map[string]int, len(list)), make(map[string]int, len(list))
	for _, o := range list {
		b.names[plainName(o)]++
		b.ids[o.id()]++
	}
	for _, o := range list {
		t, err := b.tool(o)
		switch {
		case b.left <= 0:
			return errTooManyParts
		case err != nil:
			b.leaveOut(o, err.Error())
			continue
		case b.doc.byName[t.Name] != nil:
			b.leaveOut(o, "another operation has its name")
			continue
		}
		if b.size += len(t.Definition); b.size > maxSize {
			return fmt.Errorf("the tools of the document have more than %d bytes; split it", maxSize)
		}
		b.doc.Tools = append(b.doc.Tools, t)
		b.doc.byName[t.Name] = t
	}
	if len(b.doc.Tools) == 0 {
		if len(b.doc.LeftOut) > 0 {
			return fmt.Errorf("no operation of the document can be a tool; the first: %s", b.doc.LeftOut[0])
		}
		return errors.New("the document has no operations")
	}
	return nil
}

// operations returns the operations of the document, in a fixed order.
func (b *builder) operations() (list []*operation) {
	paths, _ := b.root["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, err := b.object(paths[path])
		for _, method := range methods {
			if fields, ok := item[method].(map[string]any); ok && err == nil {
				list = append(list, &operation{path, method, item, fields})
			}
		}
		if err != nil {
			b.leaveOut(&operation{path: path, method: "all of"}, err.Error())
			continue
		}
		for _, method := range [...]string{"options", "trace"} {
			if _, ok := item[method]; ok {
				b.leaveOut(&operation{path: path, method: method}, "the method is not one of tools")
			}
		}
	}
	return list
}

// leaveOut notes what has no tool, or only a part of one.
func (b *builder) leaveOut(o *operation, why string) {
	switch n := len(b.doc.LeftOut); {
	case n < maxLeftOut-1:
		b.doc.LeftOut = append(b.doc.LeftOut, cut(o.String(), maxTitle)+": "+cut(why, maxTitle))
	case n == maxLeftOut-1:
		b.doc.LeftOut = append(b.doc.LeftOut, "and more")
	}
}

// serversOf returns the addresses in an object of the document.
func serversOf(of map[string]any) (list []string) {
	servers, _ := of["servers"].([]any)
	for _, s := range servers[:min(len(servers), maxServers)] {
		fields, _ := s.(map[string]any)
		variables, _ := fields["variables"].(map[string]any)
		address, fits := toolserver.ExpandAddress(textOf(fields, "url"), maxRequest, func(name string) (string, bool) {
			variable, ok := variables[name].(map[string]any)
			return textOf(variable, "default"), ok
		})
		if address != "" && fits && !strings.ContainsAny(address, "{}") {
			list = append(list, address)
		}
	}
	return list
}

// textOf returns a member that is a string, empty for others.
func textOf(of map[string]any, name string) string {
	s, _ := of[name].(string)
	return s
}

// cut returns the beginning of a text, of at most n bytes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-3], "") + "..."
}

// object returns an object of the document, for a reference that to which it leads.
func (r *resolver) object(v any) (map[string]any, error) {
	for range maxRefs {
		fields, ok := v.(map[string]any)
		if !ok {
			return nil, errors.New("a part of it is not an object")
		}
		ref, ok := fields["$ref"].(string)
		if !ok {
			return fields, nil
		}
		var err error
		if v, err = r.lookUp(ref); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("references lead from one to the next")
}

// plainName returns the name of an operation, which others may have as well.
func plainName(o *operation) string {
	name := cmp.Or(o.id(), o.method+o.path)
	var out strings.Builder
	gap := false
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_':
			if gap && out.Len() > 0 {
				out.WriteByte('_')
			}
			gap = false
			out.WriteRune(c)
		default:
			gap = true
		}
		if out.Len() >= maxName {
			break
		}
	}
	if out.Len() == 0 {
		return o.method
	}
	return out.String()
}

// maxName is the limit of a name without what makes it unique, in bytes.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-names
const maxName = 100
