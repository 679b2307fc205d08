package prompt

import (
	"bytes"
	"encoding/json"
	"strings"

	"modelgate/internal/base/apierr"
)

// What rendering one prompt may take. Work is counted in nodes, lookups and
// bytes that are read as JSON.
const (
	maxOutput   = 8 << 20
	maxWork     = 4 << 20
	maxValue    = 1 << 20 // bytes of a variable that is read as JSON
	maxPartials = 16      // partials inside partials
)

// run is the rendering of one prompt, of all templates in it.
type run struct {
	variables map[string]string
	partial   func(ref string) (text string, ok bool)

	contexts []any // of the sections that are open, the innermost last
	parsed   map[string]template
	inside   int // of how many partials
	quoted   bool
	work     int
	written  int
}

// text renders a template whose result is plain text.
func (r *run) text(text string) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, r.count(0, len(text))
	}
	out, err := r.all(text, false)
	return string(out), err
}

// all renders a template.
func (r *run) all(text string, isJSON bool) ([]byte, error) {
	t, err := parse(text)
	if err != nil {
		return nil, err
	}
	s := &sink{json: isJSON}
	if err := r.writeNodes(s, t); err != nil {
		return nil, err
	}
	return s.dst, nil
}

// count takes work and output into account.
func (r *run) count(work, written int) error {
	r.work += work
	r.written += written
	if r.work > maxWork || r.written > maxOutput {
		return apierr.New(apierr.Invalid, "the prompt becomes too large with these variables").WithParam("variables").WithCode("prompt_too_large")
	}
	return nil
}

func (r *run) writeNodes(s *sink, list []node) error {
	for i := range list {
		before := len(s.dst)
		err := r.node(s, &list[i])
		written := len(s.dst) - before
		if list[i].inner != nil || list[i].kind == partial || list[i].kind == named {
			written = 0 // the nodes inside have counted it
		}
		if err == nil {
			err = r.count(1, written)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) node(s *sink, n *node) error {
	switch n.kind {
	case literal:
		s.literal(n.text, r.quoted)
		return nil
	case variable:
		v, err := r.find(n.text)
		if err != nil {
			return err
		}
		text, err := r.print(v)
		if err != nil {
			return err
		}
		return s.value(n.text, text)
	case partial:
		return r.insert(s, n.text)
	case named:
		v, err := r.find(n.text)
		ref, _ := v.(string)
		if ref = strings.TrimSpace(ref); err != nil || ref == "" {
			return err
		}
		return r.insert(s, ref)
	}
	return r.section(s, n)
}

// insert renders a partial in its place.
func (r *run) insert(s *sink, ref string) error {
	if r.inside >= maxPartials {
		return apierr.New(apierr.Invalid, "partials are nested more than %d deep; the last one is %.60q", maxPartials,
			ref).WithCode("invalid_template")
	}
	t, known := r.parsed[ref]
	if !known {
		text, ok := r.partial(ref)
		if !ok {
			return apierr.New(apierr.NotFound, "partial %.60q or its version not found", ref).WithParam("prompt").WithCode("unknown_partial")
		}
		var err error
		if err = r.count(len(text), 0); err != nil {
			return err
		}
		if t, err = parse(text); err != nil {
			return err
		}
		if r.parsed == nil {
			r.parsed = make(map[string]template)
		}
		r.parsed[ref] = t
	}
	before := r.quoted
	r.quoted = before || s.json && s.inString
	r.inside++
	err := r.writeNodes(s, t)
	r.inside--
	r.quoted = before
	return err
}

// section renders what a section holds: once for each element of a list, once
// for anything else that counts as true, or not at all.
func (r *run) section(s *sink, n *node) error {
	v, err := r.find(n.text)
	if err != nil {
		return err
	}
	if v, err = r.read(v); err != nil {
		return err
	}
	if n.kind == inverted {
		if isTruthy(v) {
			return nil
		}
		return r.writeNodes(s, n.inner)
	}
	if !isTruthy(v) {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, v := range list {
		r.contexts = append(r.contexts, v)
		err := r.writeNodes(s, n.inner)
		r.contexts = r.contexts[:len(r.contexts)-1]
		if err != nil {
			return err
		}
		if err := r.count(1, 0); err != nil {
			return err
		}
	}
	return nil
}

// isTruthy reports whether a value, as read returns it, counts as true.
func isTruthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	}
	return true
}

// read decodes a string that is a JSON array, object, true, false or null, because
// variables are strings and have no other way to represent these.
func (r *run) read(v any) (any, error) {
	text, ok := v.(string)
	if !ok {
		return v, nil
	}
	switch plain := strings.TrimSpace(text); {
	case plain == "false" || plain == "null":
		return nil, nil
	case plain == "" || plain[0] != '[' && plain[0] != '{':
		return text, nil
	case len(plain) > maxValue:
		return nil, apierr.New(apierr.Invalid, "a variable of a section has more than %d bytes of JSON",
			maxValue).WithParam("variables").WithCode("prompt_too_large")
	default:
		if err := r.count(len(plain), 0); err != nil {
			return nil, err
		}
		return decoded(plain, text), nil
	}
}

// decoded reads JSON, or returns the text where it is none.
func decoded(plain, text string) any {
	var v any
	d := json.NewDecoder(strings.NewReader(plain))
	d.UseNumber()
	if d.Decode(&v) != nil || d.More() {
		return text
	}
	return v
}

// find returns what a name stands for, nil for nothing: in the innermost section
// that has it, then among the variables. A dot leads into objects, where no
// name holds it itself.
func (r *run) find(name string) (any, error) {
	if name == "." {
		if n := len(r.contexts); n > 0 {
			return r.contexts[n-1], nil
		}
		return nil, nil
	}
	if v, ok := r.lookup(name); ok {
		return v, r.count(len(r.contexts), 0)
	}
	first, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return nil, r.count(len(r.contexts), 0)
	}
	v, _ := r.lookup(first)
	for rest != "" {
		opened, err := r.read(v)
		if err != nil {
			return nil, err
		}
		object, ok := opened.(map[string]any)
		if !ok {
			return nil, nil
		}
		first, rest, _ = strings.Cut(rest, ".")
		v = object[first]
	}
	return v, nil
}

func (r *run) lookup(name string) (any, bool) {
	for i := len(r.contexts) - 1; i >= 0; i-- {
		if object, ok := r.contexts[i].(map[string]any); ok {
			if v, ok := object[name]; ok {
				return v, true
			}
		}
	}
	v, ok := r.variables[name]
	if !ok {
		return nil, false
	}
	return v, true
}

// print returns a value as text.
func (r *run) print(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		if v {
			return "true", nil
		}
		return "false", nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), r.count(b.Len(), 0)
}
