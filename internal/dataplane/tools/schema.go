package tools

import (
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// checkSchema returns why a tool is left out of lists: a schema that refers to other hosts,
// is nested too deep, or has an x-mcp-header that clients must refuse.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters
//
// It returns the headers as well.
func checkSchema(doc *jsonedit.Doc) (headers []paramHeader, problem string) {
	for _, name := range [...]string{"inputSchema", "outputSchema"} {
		schema, ok := doc.Find(name)
		if !ok {
			continue
		}
		if schema.Kind() != jsonedit.Object {
			return nil, name + " is not an object"
		}
		c := schemaCheck{seen: map[string]bool{}}
		if c.walk(schema, schemaPlace{reachable: name == "inputSchema"}); c.problem != "" {
			return nil, name + ": " + c.problem
		}
		headers = append(headers, c.headers...)
	}
	return headers, ""
}

// schemaCheck looks at every part of a schema once.
type schemaCheck struct {
	seen    map[string]bool // names of headers, in small letters
	headers []paramHeader
	problem string
}

// schemaPlace is where a part of a schema is.
type schemaPlace struct {
	path      []string // names of the properties that lead there
	depth     int
	reachable bool // only properties lead there, so that it may name a header
}

// below returns a place that something else than properties leads to.
func (p schemaPlace) below() schemaPlace { return schemaPlace{depth: p.depth + 1} }

// walk checks a schema.
func (c *schemaCheck) walk(v jsonedit.Value, at schemaPlace) {
	switch {
	case c.problem != "":
	case at.depth > maxSchemaDepth:
		c.problem = "it is nested too deep"
	case v.Kind() == jsonedit.Array:
		for e := range v.Elements() {
			c.walk(e, at.below())
		}
	case v.Kind() == jsonedit.Object:
		for key, value := range v.Fields() {
			c.field(v, key.String(), value, at)
		}
	}
}

func (c *schemaCheck) field(of jsonedit.Value, key string, value jsonedit.Value, at schemaPlace) {
	switch key {
	case "$ref", "$dynamicRef", "$recursiveRef":
		if text, ok := value.Text(); ok && !strings.HasPrefix(text, "#") {
			c.problem = "a reference leads out of it"
		}
	case "const", "enum", "default", "examples": // data, not schemas
	case "x-mcp-header":
		c.header(of, value, at)
	case "properties":
		for name, p := range value.Fields() {
			c.walk(p, schemaPlace{append(slices.Clip(at.path), name.String()), at.depth + 2, at.reachable})
		}
	default:
		c.walk(value, at.below())
	}
}

func (c *schemaCheck) header(of, value jsonedit.Value, at schemaPlace) {
	name, ok := value.Text()
	typ, _ := of.Get("type")
	small := strings.ToLower(name)
	switch {
	case !ok || !isToken(name):
		c.problem = "x-mcp-header is not the name of a header"
	case !at.reachable || len(at.path) == 0:
		c.problem = "x-mcp-header is allowed at properties only"
	case !typ.IsText("string") && !typ.IsText("integer") && !typ.IsText("boolean"):
		c.problem = "x-mcp-header is allowed for strings, integers and booleans only"
	case c.seen[small]:
		c.problem = "two properties have the same x-mcp-header"
	}
	c.seen[small] = true
	c.headers = append(c.headers, paramHeader{http.CanonicalHeaderKey(headerParam + name), at.path})
}

// isToken reports whether a name is a token, as names of headers are (RFC 9110, section
// 5.6.2).
func isToken(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}
