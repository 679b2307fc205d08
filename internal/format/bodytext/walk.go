package bodytext

import (
	"hash/maphash"
	"slices"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// object walks an object, which is next. name is its field, and r the rule of the
// field.
func (w *walker) object(name string, r rule) {
	first := len(w.Texts)
	var o properties
	w.c.Enter('{')
	for {
		key, ok := w.c.Field()
		if !ok {
			break
		}
		w.member(name, canonical(jsonedit.Unescape(key)), key, &o)
	}
	w.applyType(first, name, &o)
	if kind := o.kindOfText(r); kind != "" {
		w.setKind(first, kind)
	}
	if o.role != "" {
		w.setRole(first, o.role)
	}
}

// properties are what an object says about the text in it. The last of several
// members with a name wins.
type properties struct {
	role    Role
	typ     string
	thought bool
	data    bool // there is a field data
}

// member walks the value of a member of an object that is in the field parent. Its name
// is the canonical one of key, which is a view of the body.
func (w *walker) member(parent, name string, key []byte, o *properties) {
	switch name {
	case "role":
		text, _ := w.c.Value().Text()
		o.role = Role(text)
	case "type":
		o.typ, _ = w.c.Value().Text()
	case "thought":
		o.thought, _ = w.c.Value().Bool()
	case "logprobs", "logprobsResult":
		if v := w.c.Value(); v.Kind() == jsonedit.Object || v.Kind() == jsonedit.Array || v.Kind() == jsonedit.String {
			w.logprobs = append(w.logprobs, v)
		}
	case "bytes":
		if w.c.Skip(); parent == "source" {
			w.uncovered("media")
		}
	default:
		if name == "" || isDefinition(name) {
			w.parameter(key)
			return
		}
		if what, ok := opaque[name]; ok {
			if v := w.c.Value(); !v.IsNull() && string(v.Raw()) != "[]" {
				w.uncovered(what)
			}
			return
		}
		w.field(parent, fields[name], o)
	}
}

// isDefinition reports whether a field defines tools.
func isDefinition(field string) bool { return slices.Contains(definitions, field) }

// parameter walks the value of a member that is not in the tables, or defines tools. In
// requests, all of it may reach a model; responses repeat it.
func (w *walker) parameter(key []byte) {
	if w.form != Request {
		w.c.Skip()
		return
	}
	name := jsonedit.Unescape(key)
	if w.skipName(name) {
		return
	}
	if !IsFieldName(name) {
		w.addName(key)
	}
	w.any(parameter)
}

// maxTag is the limit in bytes of a string of [tokens] that is read where the tables have
// no text: a longer one is data of a provider.
const maxTag = 64

// parameterText adds a string, which is next, of a field that leads to text.
func (w *walker) parameterText() {
	ahead := w.c
	if raw := ahead.Raw(); len(raw) > maxTag && isToken(raw[1:len(raw)-1]) {
		w.c = ahead
		return
	}
	w.add(parameter)
}

// field walks the value of a field of an object that is in the field parent.
func (w *walker) field(parent string, f field, o *properties) {
	o.data = o.data || f.name == "data"
	r, ok := w.ruleOf(parent, f)
	if !ok {
		w.c.Skip()
		return
	}
	first := len(w.noRole)
	w.value(f.name, r)
	if isSystem(f.name) {
		for _, i := range w.noRole[first:] {
			w.Texts[i].system = true
		}
	}
}

// isSystem reports whether a field is a system prompt.
func isSystem(field string) bool {
	return field == "system" || field == "instructions" || field == "systemInstruction" || field == "system_instruction"
}

// kindOfText returns the kind of all text in an object in a field with the rule r,
// and empty if its fields say it.
func (o *properties) kindOfText(r rule) Kind {
	switch {
	case r.kind == Thinking || strings.Contains(o.typ, "reasoning") || strings.HasPrefix(o.typ, "thinking"):
		return Thinking
	case strings.Contains(o.typ, "_call_arguments") || strings.Contains(o.typ, "tool_call_input"):
		return Arguments
	case o.thought:
		return Thinking
	}
	return ""
}

// ruleOf returns the rule of a field in an object that is in the field parent.
func (w *walker) ruleOf(parent string, f field) (rule, bool) {
	response := w.form != Request
	switch f.name {
	case "instructions", "input", "system", "prompt":
		if response && (parent == "" || parent == "response" && f.name != "system") {
			return rule{}, false // of the request
		}
		if f.name == "input" {
			if parent == "toolUse" {
				return rule{kind: Arguments, all: true}, true
			}
			f.typed = f.name
		}
	case "response":
		if parent == "functionResponse" {
			return rule{kind: Arguments, all: true}, true
		}
	case "title":
		if parent != "" {
			f.typed = f.name
		}
	case "data":
		if parent == "source" {
			return rule{kind: Content, typed: f.name}, true
		}
	}
	return f.rule, true
}

// applyType decides about text from number first on that depend on the type of
// the object, which is in the field parent.
func (w *walker) applyType(first int, parent string, o *properties) {
	for i := len(w.unproven); i > 0 && w.unproven[i-1].text >= first; i-- {
		c := w.unproven[i-1]
		w.unproven = w.unproven[:i-1]
		t := &w.Texts[c.text]
		switch {
		case c.field == "input" && (o.typ == "tool_use" || o.typ == "server_tool_use" || o.typ == "custom_tool_call"):
			t.Kind = Arguments
		case c.field == "title" && o.typ == "object", c.field == "data" && o.typ != "text": // of a schema, of a medium
			t.dropped = true
			w.dropped++
		}
	}
	switch {
	case !o.data:
	case parent == "source":
		if o.typ != "text" {
			w.uncovered("media")
		}
	case o.typ == "redacted_thinking":
		w.uncovered("encrypted")
	}
}

// value walks the value of a field, which is next.
func (w *walker) value(name string, r rule) {
	switch kind := w.c.Kind(); {
	case kind == jsonedit.String && r.kind != "":
		w.add(r)
	case kind == jsonedit.String && w.form == Request: // where the tables have none
		w.parameterText()
	case kind == jsonedit.Object && r.all:
		w.all(kindOfArguments(r.kind))
	case kind == jsonedit.Object:
		w.object(name, r)
	case kind == jsonedit.Array:
		w.elements(name, r)
	default:
		w.c.Skip()
	}
}

// kindOfArguments returns the kind of an object that holds text in every string.
func kindOfArguments(k Kind) Kind {
	if k == Content {
		return Arguments
	}
	return k
}

// elements walks an array, which is next.
func (w *walker) elements(name string, r rule) {
	counts := w.message < 0 && (w.form == Request && isList(name) || w.form == Response && (name == "choices" || name == "candidates"))
	numbered := w.inEvents() && (name == "choices" || name == "tool_calls" || name == "candidates")
	w.c.Enter('[')
	w.lists++
	for n := 0; w.c.Element(); n++ {
		if counts {
			w.message = n
		}
		outer := w.path
		if numbered {
			w.path = pathTo(outer, w.number(n))
		}
		switch w.c.Kind() {
		case jsonedit.Number:
			if name == "input" || name == "prompt" {
				w.uncovered(Tokens)
			}
			w.c.Skip()
		case jsonedit.Object: // an element is an object of the list, whatever its strings are
			w.object(name, rule{kind: r.kind})
		default:
			w.value(name, r)
		}
		w.path = outer
	}
	w.lists--
	if counts {
		w.message = -1
	}
}

// maxNumbered is the depth of lists up to which elements have numbers of their own. It
// bounds the time for reading ahead. Those of real events are two deep.
const maxNumbered = 16

// number returns the number of the next element: its own, or its place.
func (w *walker) number(place int) int64 {
	if w.lists <= maxNumbered && w.c.Kind() == jsonedit.Object {
		ahead := w.c
		if own, ok := ahead.Value().Get("index"); ok {
			if i, ok := own.Int(); ok {
				return i
			}
		}
	}
	return int64(place)
}

// pathSeed makes it impossible to choose elements whose paths are equal by chance.
var pathSeed = maphash.MakeSeed()

// pathTo returns the path to the element with a name or number in a value.
func pathTo[T string | int64](to uint64, element T) uint64 {
	return maphash.Comparable(pathSeed, struct {
		to      uint64
		element T
	}{to, element})
}
