package openapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/provider/toolserver"
)

// Content types of bodies.
const (
	jsonBody = "application/json"
	formBody = "application/x-www-form-urlencoded"
)

// depths are the limits of schemas that are tried until a definition is small enough.
var depths = []int{maxDepth, 6, 4, 2, 1}

// tool returns the tool of an operation. An error says why there is none.
func (b *builder) tool(o *operation) (*Tool, error) {
	for _, of := range [...]map[string]any{o.item, o.fields} {
		if list, ok := of["servers"].([]any); ok && len(list) > 0 {
			return nil, errors.New("it has servers of its own; only the address of the integration is used")
		}
	}
	if id := o.id(); id != "" && b.ids[id] > 1 {
		return nil, fmt.Errorf("other operations have its operationId %.60q; each needs its own", id)
	}
	t := &Tool{Name: b.nameOf(o), method: strings.ToUpper(o.method)}
	params, err := b.params(o)
	if err != nil {
		return nil, err
	}
	in := &input{}
	for _, p := range params {
		if err := b.addParam(t, in, o, p); err != nil {
			return nil, err
		}
	}
	if t.path, err = piecesOf(o.path, t.params); err != nil {
		return nil, err
	}
	if err := b.addBody(t, in, o); err != nil {
		return nil, err
	}
	output, err := b.response(t, o)
	if err != nil {
		return nil, err
	}
	return t, b.define(t, in, o, output)
}

// nameOf returns the unique name of an operation. An operationId that is a name stays: no other
// operation changes it. Where several others have the same, each is marked with a digest of its
// method and path.
func (b *builder) nameOf(o *operation) string {
	name := plainName(o)
	if b.names[name] == 1 || name == o.id() {
		return name
	}
	sum := sha256.Sum256([]byte(o.String()))
	return name + "_" + hex.EncodeToString(sum[:4])
}

// input are the schemas of the arguments of a tool, of the document.
type input struct {
	params []inputParam
	body   any // nil for none
	note   string
}

type inputParam struct {
	param
	schema any
	note   string
}

// params returns the parameters of an operation: those of its path, which its own replace.
func (b *builder) params(o *operation) (list []map[string]any, err error) {
	at := map[string]int{}
	for _, of := range [...]map[string]any{o.item, o.fields} {
		all, _ := of["parameters"].([]any)
		if len(all) > maxParams {
			return nil, fmt.Errorf("it has more than %d parameters", maxParams)
		}
		for _, v := range all {
			fields, err := b.object(v)
			if err != nil {
				return nil, fmt.Errorf("a parameter: %w", err)
			}
			key := textOf(fields, "in") + "\x00" + textOf(fields, "name")
			if i, ok := at[key]; ok {
				list[i] = fields
				continue
			}
			at[key] = len(list)
			list = append(list, fields)
		}
	}
	return list, nil
}

const maxParams = 200

// addParam adds a parameter. One that cannot be sent is left out, with its operation if it is
// required.
func (b *builder) addParam(t *Tool, in *input, o *operation, fields map[string]any) error {
	p, schema, err := readParam(fields)
	if errors.Is(err, errReserved) {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("the parameter %.60q: %w", textOf(fields, "name"), err)
		if p.required {
			return err
		}
		b.leaveOut(o, err.Error()+"; the tool is without it")
		return nil
	}
	t.params = append(t.params, p)
	in.params = append(in.params, inputParam{p, schema, textOf(fields, "description")})
	return nil
}

// errReserved is a parameter that the specification ignores.
// https://spec.openapis.org/oas/v3.1.1.html#parameter-name
var errReserved = errors.New("it is not a parameter")

// readParam reads a parameter.
func readParam(fields map[string]any) (p param, schema any, err error) {
	p = param{name: textOf(fields, "name"), in: textOf(fields, "in")}
	p.required, _ = fields["required"].(bool)
	schema = fields["schema"]
	if p.name == "" || len(p.name) > maxTitle || strings.ContainsFunc(p.name, isControl) {
		return p, nil, errors.New("it must have a name of at most 255 bytes")
	}
	if content, ok := fields["content"].(map[string]any); ok {
		media, ok := content[jsonBody].(map[string]any)
		if !ok || len(content) != 1 {
			return p, nil, errors.New("its content must be application/json")
		}
		p.json, schema = true, media["schema"]
	}
	style := textOf(fields, "style")
	switch p.in {
	case "path":
		p.required = true
		style = cmp.Or(style, "simple")
	case "header":
		if slices.Contains([]string{"Accept", "Content-Type", "Authorization"}, http.CanonicalHeaderKey(p.name)) {
			return p, nil, errReserved
		}
		if !isToken(p.name) {
			return p, nil, errors.New("it is not the name of a header")
		}
		if isFixed(p.name) {
			p.required = false // what the integration sends is enough
			return p, nil, errors.New("arguments do not set this header")
		}
		style = cmp.Or(style, "simple")
	case "query":
		style = cmp.Or(style, "form")
	case "cookie":
		return p, nil, errors.New("cookies are not sent")
	default:
		return p, nil, fmt.Errorf("it cannot be in %.20q", p.in)
	}
	explode, set := fields["explode"].(bool)
	p.explode = explode || !set && style == "form"
	switch p.deep = style == "deepObject"; {
	case p.json:
	case p.deep && p.in == "query":
	case p.in == "query" && style != "form", p.in != "query" && style != "simple":
		return p, nil, fmt.Errorf("the style %.30q is not supported", style)
	}
	return p, schema, nil
}

// addBody adds the body of an operation.
func (b *builder) addBody(t *Tool, in *input, o *operation) error {
	if o.fields["requestBody"] == nil {
		return nil
	}
	fields, err := b.object(o.fields["requestBody"])
	if err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	t.needsArg, _ = fields["required"].(bool)
	content, _ := fields["content"].(map[string]any)
	name := b.jsonType(content)
	if _, ok := content[formBody]; name == "" && ok {
		name = formBody
	}
	if name == "" {
		err := errors.New("a body must be JSON or a form; files are not sent")
		if t.needsArg {
			return err
		}
		b.leaveOut(o, err.Error()+"; the tool is without it")
		return nil
	}
	media, _ := content[name].(map[string]any)
	t.body, in.body, in.note = name, media["schema"], textOf(fields, "description")
	if in.body == nil {
		in.body = true
	}
	return nil
}

// jsonType returns the content type among several that is JSON, empty for none.
func (r *resolver) jsonType(content map[string]any) string {
	r.left -= len(content)
	if _, ok := content[jsonBody]; ok {
		return jsonBody
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		plain, _, _ := strings.Cut(name, ";")
		plain = strings.ToLower(strings.TrimSpace(plain))
		if (plain == jsonBody || strings.HasSuffix(plain, "+json")) && !strings.ContainsFunc(name, isControl) && !strings.Contains(plain, "*") {
			return name
		}
	}
	return ""
}

// response returns the schema of the result of an operation if all its successes have the same
// JSON, and sets what the tool accepts.
func (b *builder) response(t *Tool, o *operation) (schema any, err error) {
	t.accept = "*/*"
	all, _ := o.fields["responses"].(map[string]any)
	successes := 0
	for _, status := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		fields, err := b.object(all[status])
		if err != nil {
			return nil, fmt.Errorf("the response %.5s: %w", status, err)
		}
		content, _ := fields["content"].(map[string]any)
		name := b.jsonType(content)
		if successes++; name == "" {
			successes++ // without a body, the schema says nothing
			continue
		}
		media, _ := content[name].(map[string]any)
		t.accept, schema = name+", */*;q=0.1", media["schema"]
	}
	if successes != 1 {
		return nil, nil
	}
	return schema, nil
}

// define writes the definition of a tool: with as much of its schemas as fits.
func (b *builder) define(t *Tool, in *input, o *operation, output any) error {
	var err error
	for _, depth := range depths {
		for _, out := range [...]any{output, nil} {
			if t.Definition, err = b.definition(t, in, o, out, depth); err == nil && len(t.Definition) <= toolserver.MaxDefinition {
				return nil
			}
			if err != nil && !errors.Is(err, errTooLarge) {
				return err
			}
			if out == nil {
				break
			}
		}
	}
	return errors.New("its definition is too large")
}

// definition writes a definition. Its members are in a fixed order.
func (b *builder) definition(t *Tool, in *input, o *operation, output any, depth int) ([]byte, error) {
	summary, about := textOf(o.fields, "summary"), textOf(o.fields, "description")
	d := struct {
		Name        string         `json:"name"`
		Title       string         `json:"title,omitempty"`
		Description string         `json:"description"`
		Input       map[string]any `json:"inputSchema"`
		Output      any            `json:"outputSchema,omitempty"`
		Annotations any            `json:"annotations,omitempty"`
		// Meta makes a definition that another operation has under the same name a changed one.
		Meta map[string]string `json:"_meta"`
	}{Name: t.Name, Title: cut(strings.Join(strings.Fields(summary), " "), maxTitle), Annotations: annotationsOf(t.method),
		Meta: map[string]string{"modelgate/operation": o.String()}}
	if about != summary && summary != "" && about != "" {
		summary += "\n\n"
	} else if about == summary {
		about = ""
	}
	d.Description = cut(cmp.Or(summary+about, o.String()), maxText)
	if gone, _ := o.fields["deprecated"].(bool); gone {
		d.Description += " (deprecated)"
	}
	var err error
	if d.Input, err = b.inputSchema(t, in, depth); err != nil {
		return nil, err
	}
	if output != nil {
		out, err := b.schema(output, depth, "writeOnly")
		if err != nil {
			return nil, err
		}
		if fields, ok := out.(map[string]any); ok && fields["type"] == "object" {
			d.Output = fields
		}
	}
	return json.Marshal(d)
}

// annotationsOf returns what a method of HTTP says of an operation.
// https://www.rfc-editor.org/rfc/rfc9110#section-9.2
func annotationsOf(method string) any {
	switch method {
	case http.MethodGet, http.MethodHead:
		return map[string]bool{"readOnlyHint": true}
	case http.MethodDelete:
		return map[string]bool{"destructiveHint": true, "idempotentHint": true}
	case http.MethodPut:
		return map[string]bool{"idempotentHint": true}
	}
	return nil
}

// inputSchema returns the schema of the arguments of a tool: an object for each place, and the
// body.
func (b *builder) inputSchema(t *Tool, in *input, depth int) (map[string]any, error) {
	places, required := map[string]any{}, []string{}
	for _, place := range [...]string{"path", "query", "header"} {
		props, needed := map[string]any{}, []string{}
		for _, p := range in.params {
			if p.in != place {
				continue
			}
			schema, err := b.schema(p.schema, depth, "readOnly")
			if err != nil {
				return nil, err
			}
			props[p.name] = describe(schema, p.note)
			if p.required {
				needed = append(needed, p.name)
			}
		}
		if len(props) == 0 {
			continue
		}
		object := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
		if len(needed) > 0 {
			object["required"] = needed
			required = append(required, place)
		}
		places[place] = object
	}
	if t.body != "" {
		schema, err := b.schema(in.body, depth, "readOnly")
		if err != nil {
			return nil, err
		}
		places["body"] = describe(schema, in.note)
		if t.needsArg {
			required = append(required, "body")
		}
	}
	out := map[string]any{"type": "object", "properties": places, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out, nil
}

// describe adds a description to a schema without one.
func describe(schema any, note string) any {
	if schema == true {
		schema = map[string]any{}
	}
	fields, ok := schema.(map[string]any)
	if !ok || note == "" || fields["description"] != nil {
		return schema
	}
	fields = maps.Clone(fields)
	fields["description"] = cut(note, maxNote)
	return fields
}
