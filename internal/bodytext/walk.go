package bodytext

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"

	"modelgate/internal/jsonedit"
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
	if !isFieldName(name) {
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
				w.uncovered("tokens")
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

// all adds every string of the next value, which is data of a tool, and the names and
// the long numbers in it.
func (w *walker) all(kind Kind) {
	switch w.c.Kind() {
	case jsonedit.String:
		w.add(rule{kind: kind, complete: w.inEvents()})
	case jsonedit.Number:
		w.c.Peek()
		from := w.c.Offset()
		if raw := w.c.Raw(); len(raw) >= minNumber && len(raw) <= maxNumber {
			w.addText(rule{kind: Parameter, complete: w.inEvents()}, string(raw), from, from+len(raw))
		}
	case jsonedit.Object:
		w.c.Enter('{')
		for {
			key, ok := w.c.Field()
			if !ok {
				return
			}
			w.addName(key)
			w.all(kind)
		}
	case jsonedit.Array:
		w.c.Enter('[')
		for w.c.Element() {
			w.all(kind)
		}
	default:
		w.c.Skip()
	}
}

// Lengths in bytes of numbers that may be those of persons or accounts.
const (
	minNumber = 7
	maxNumber = 32
)

// addName adds the name of a member, which is a view of the body without its quotes.
func (w *walker) addName(key []byte) {
	from := cap(w.raw) - cap(key) - 1
	w.addText(rule{kind: Parameter, complete: w.inEvents()}, string(jsonedit.Unescape(key)), from, from+len(key)+2)
}

// notText are members that identify something or hold what only their maker reads. A string
// in them that could be words is text nevertheless.
var notText = map[string]bool{
	"id": true, "object": true, "type": true, "model": true, "role": true, "signature": true, "encrypted_content": true, "b64_json": true,
	"file_data": true, "bytes": true, "finish_reason": true, "stop_reason": true, "status": true, "system_fingerprint": true, "created_at": true,
	"tool_call_id": true, "call_id": true, "tool_use_id": true, "toolUseId": true, "thoughtSignature": true, "previous_response_id": true,
}

// skipName skips the next value and returns true if it is a string that is no text, for
// the name that it has.
func (w *walker) skipName(key []byte) bool {
	if !notText[string(key)] || w.c.Kind() != jsonedit.String {
		return false
	}
	ahead := w.c
	if raw := ahead.Raw(); !isToken(raw[1 : len(raw)-1]) {
		return false
	}
	w.c = ahead
	return true
}

// tokens are the bytes of identifiers and of encoded data.
var tokens = func() (set [256]bool) {
	for c := range set {
		set[c] = c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("+/=_-.:@|#", byte(c)) >= 0
	}
	return set
}()

// isToken reports whether a text has only bytes of identifiers and of encoded data.
func isToken(text []byte) bool {
	for _, c := range text {
		if !tokens[c] {
			return false
		}
	}
	return true
}

// maxToken is the length from which a string of [tokens] is taken for encoded data.
const maxToken = 4 << 10

// isData reports whether a long string is encoded data, such as that of an image.
func isData(text []byte) bool {
	if len(text) <= maxToken {
		return false
	}
	if bytes.HasPrefix(text, []byte("data:")) {
		if head, _, ok := bytes.Cut(text[:256], []byte(",")); ok {
			text = text[len(head)+1:]
		}
	}
	return isToken(text)
}

// any adds every string of the next value that may be text. In values of unknown APIs it
// leaves out names that fields of APIs have.
func (w *walker) any(r rule) {
	switch w.c.Kind() {
	case jsonedit.String:
		ahead := w.c
		if raw := ahead.Raw(); isData(raw[1 : len(raw)-1]) {
			w.uncovered("media")
			w.c = ahead
			return
		}
		w.add(r)
	case jsonedit.Object:
		w.c.Enter('{')
		for {
			key, ok := w.c.Field()
			if !ok {
				return
			}
			plain := jsonedit.Unescape(key)
			if w.skipName(plain) {
				continue
			}
			if r.kind == Parameter && !schemaWords[string(plain)] || r.kind != Parameter && !isFieldName(plain) {
				w.addName(key)
			}
			key = plain
			outer := w.path
			if w.inEvents() {
				w.path = pathTo(outer, string(key))
			}
			w.any(r)
			w.path = outer
		}
	case jsonedit.Array:
		w.c.Enter('[')
		w.lists++
		for n := 0; w.c.Element(); n++ {
			outer := w.path
			if w.inEvents() {
				w.path = pathTo(outer, w.number(n))
			}
			w.any(r)
			w.path = outer
		}
		w.lists--
	default:
		w.c.Skip()
	}
}

// schemaWords are the names of members in definitions of tools and in schemas, which
// every such definition has.
var schemaWords = map[string]bool{
	"type": true, "name": true, "description": true, "parameters": true, "properties": true, "required": true, "items": true, "enum": true, "format": true,
	"function": true, "strict": true, "additionalProperties": true, "input_schema": true, "inputSchema": true, "json": true, "json_schema": true, "schema": true,
	"toolSpec": true, "tools": true, "functionDeclarations": true, "function_declarations": true, "default": true, "title": true, "anyOf": true, "$ref": true,
	"minimum": true, "maximum": true, "cache_control": true,
}

// maxFieldName is the length in bytes of the longest name that fields of APIs have.
const maxFieldName = 40

// isFieldName reports whether a name is written as those of fields of APIs, in snake_case or
// camelCase.
func isFieldName(key []byte) bool {
	if len(key) == 0 || len(key) > maxFieldName || key[0] < 'a' || key[0] > 'z' {
		return false
	}
	return !slices.ContainsFunc(key, func(c byte) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}
