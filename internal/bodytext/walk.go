package bodytext

import (
	"strconv"
	"strings"
	"unicode"

	"modelgate/internal/jsonedit"
)

// rule says what a field holds.
type rule struct {
	// kind is the kind of a string. Empty means that a string is not text.
	kind Kind
	// all means that an object holds text in every string, at any depth.
	all bool
}

var (
	content   = rule{kind: Content}
	thinking  = rule{kind: Thinking}
	structure = rule{}
)

// fields are the fields that hold text or lead to it, in all client dialects. A
// name has one meaning in all of them, with the exceptions in [walker.ruleOf].
var fields = map[string]rule{
	// chat, completions, embeddings, images, rerank, speech
	"messages": structure, "choices": structure, "message": structure, "delta": content,
	"content": content, "text": content, "refusal": content, "tool_calls": structure, "function": structure,
	"function_call": structure, "custom": structure, "arguments": {kind: Arguments, all: true}, "prompt": content, "suffix": content,
	"reasoning_content": thinking, "reasoning": thinking, "reasoning_details": thinking, "transcript": content, "audio": structure,
	"input": {kind: Content, all: true}, "query": content, "documents": content, "document": content, "results": structure,
	"annotations": structure, "url_citation": structure, "title": content, "data": structure, "revised_prompt": content,
	// messages
	"system": content, "thinking": thinking, "partial_json": {kind: Arguments}, "content_block": structure, "source": structure,
	"citations": structure, "citation": structure, "cited_text": content, "completion": content, "stdout": content, "stderr": content,
	// responses
	"instructions": content, "output": content, "summary": structure, "item": structure, "part": structure, "response": structure,
	// gemini
	"systemInstruction": structure, "system_instruction": structure, "contents": structure, "parts": structure, "candidates": structure,
	"functionCall": structure, "function_call_args": {kind: Arguments}, "args": {kind: Arguments, all: true}, "functionResponse": structure,
	"requests": structure, "executableCode": structure, "codeExecutionResult": structure, "code": content,
	// converse
	"toolUse": structure, "toolResult": structure, "json": {kind: Arguments, all: true}, "reasoningContent": structure, "reasoningText": thinking,
	"start": structure, "guardContent": structure,
}

// opaque are fields whose content is not read, with the name for it.
var opaque = map[string]string{
	"image_url": "image", "image": "image", "input_image": "image", "input_audio": "audio", "file": "file", "file_data": "file", "file_id": "file",
	"inlineData": "media", "inline_data": "media", "fileData": "media", "file_data_uri": "media", "video": "video",
	"encrypted_content": "encrypted", "redactedContent": "encrypted", "tools": "tools", "toolConfig": "tools",
}

// HoldsText reports whether a member of this name holds text of a request or leads to it.
func HoldsText(name string) bool {
	_, ok := fields[canonical(name)]
	return ok
}

// canonical returns the spelling in which the tables have a field: some readers compare
// names without case.
func canonical(field string) string {
	if _, ok := fields[field]; ok {
		return field
	}
	folded := strings.Map(func(r rune) rune {
		switch r {
		case 'ſ':
			return 's'
		case '\u212a': // the Kelvin sign
			return 'k'
		}
		return unicode.ToLower(r)
	}, field)
	if _, ok := fields[folded]; ok {
		return folded
	}
	return field
}

// isList reports whether name is a field whose elements are the messages of a conversation, or
// the inputs of a request.
func isList(name string) bool {
	switch name {
	case "messages", "contents", "input", "prompt", "requests", "documents":
		return true
	}
	return false
}

// object walks the members of an object. name is its field, and r the rule of the
// field.
func (w *walker) object(v jsonedit.Value, name string, r rule) {
	role, over := w.role, w.over
	defer func() { w.role, w.over = role, over }()
	if own := textOf(v, "role"); own != "" {
		w.role = Role(own)
	}
	if kind := kindOf(v, r); kind != "" {
		w.over = kind
	}
	for key, m := range v.Fields() {
		field := canonical(key.String())
		if what, ok := opaque[field]; ok && !m.IsNull() {
			if m.Kind() != jsonedit.Array || string(m.Raw()) != "[]" {
				w.uncovered(what)
			}
			continue
		}
		if field == "logprobs" || field == "logprobsResult" {
			if !m.IsNull() && m.Kind() != jsonedit.Bool && m.Kind() != jsonedit.Number {
				w.logprobs = append(w.logprobs, m)
			}
			continue
		}
		f, ok := w.ruleOf(name, field, v)
		if !ok {
			continue
		}
		if isSystem(field) && w.role == "" {
			w.role = "system"
			w.value(m, field, f)
			w.role = ""
			continue
		}
		w.value(m, field, f)
	}
}

// isSystem reports whether a field is a system prompt.
func isSystem(field string) bool {
	return field == "system" || field == "instructions" || field == "systemInstruction" || field == "system_instruction"
}

// kindOf returns the kind of all text in an object, and empty if its fields say
// it.
func kindOf(v jsonedit.Value, r rule) Kind {
	kind := textOf(v, "type")
	switch {
	case r.kind == Thinking || strings.Contains(kind, "reasoning") || strings.HasPrefix(kind, "thinking"):
		return Thinking
	case strings.Contains(kind, "_call_arguments") || strings.Contains(kind, "tool_call_input"):
		return Arguments
	}
	if t, ok := v.Get("thought"); ok {
		if thought, _ := t.Bool(); thought {
			return Thinking
		}
	}
	return ""
}

// ruleOf returns the rule of a field in an object that is in the field parent.
func (w *walker) ruleOf(parent, field string, in jsonedit.Value) (rule, bool) {
	response := w.form != Request
	switch {
	case parent == "" && response && (field == "instructions" || field == "input" || field == "system" || field == "prompt"),
		parent == "response" && (field == "instructions" || field == "input" || field == "prompt"):
		return rule{}, false // of the request
	case field == "response" && parent == "functionResponse":
		return rule{kind: Arguments, all: true}, true
	case field == "input" && (parent == "toolUse" || textOf(in, "type") == "tool_use" || textOf(in, "type") == "server_tool_use" || textOf(in, "type") == "custom_tool_call"):
		return rule{kind: Arguments, all: true}, true
	case field == "data" && parent == "source":
		if textOf(in, "type") != "text" {
			w.uncovered("media")
			return rule{}, false
		}
		return content, true
	case field == "data" && textOf(in, "type") == "redacted_thinking":
		w.uncovered("encrypted")
		return rule{}, false
	case field == "bytes" && parent == "source":
		w.uncovered("media")
		return rule{}, false
	case field == "title" && parent != "" && textOf(in, "type") == "object": // of a schema
		return rule{}, false
	}
	r, ok := fields[field]
	return r, ok
}

// value walks the value of a field.
func (w *walker) value(v jsonedit.Value, name string, r rule) {
	switch v.Kind() {
	case jsonedit.String:
		if r.kind != "" {
			w.add(v, r.kind)
		}
	case jsonedit.Object:
		if r.all {
			w.all(v, kindOfArguments(r.kind))
			return
		}
		w.object(v, name, r)
	case jsonedit.Array:
		w.elements(v, name, r)
	}
}

// kindOfArguments returns the kind of an object that holds text in every string.
func kindOfArguments(k Kind) Kind {
	if k == Content {
		return Arguments
	}
	return k
}

// elements walks an array.
func (w *walker) elements(v jsonedit.Value, name string, r rule) {
	counts := w.message < 0 && (w.form == Request && isList(name) || w.form == Response && (name == "choices" || name == "candidates"))
	n := 0
	for e := range v.Elements() {
		if counts {
			w.message = n
		}
		numbered := name == "choices" || name == "tool_calls" || name == "candidates"
		if numbered {
			w.path = append(w.path, number(e, n))
		}
		switch e.Kind() {
		case jsonedit.Number:
			if name == "input" || name == "prompt" {
				w.uncovered("tokens")
			}
		case jsonedit.Object: // an element is an object of the list, whatever its strings are
			w.object(e, name, rule{kind: r.kind})
		default:
			w.value(e, name, r)
		}
		if numbered {
			w.path = w.path[:len(w.path)-1]
		}
		n++
	}
	if counts {
		w.message = -1
	}
}

// number returns the number of an element: its own, or its place.
func number(e jsonedit.Value, place int) string {
	if own, ok := e.Get("index"); ok {
		if i, ok := own.Int(); ok {
			return strconv.FormatInt(i, 10)
		}
	}
	return strconv.Itoa(place)
}

// all adds every string of v.
func (w *walker) all(v jsonedit.Value, kind Kind) {
	switch v.Kind() {
	case jsonedit.String:
		w.add(v, kind)
	case jsonedit.Object:
		for _, m := range v.Fields() {
			w.all(m, kind)
		}
	case jsonedit.Array:
		for e := range v.Elements() {
			w.all(e, kind)
		}
	}
}

// notText are fields of unknown APIs that hold no text.
var notText = map[string]bool{
	"id": true, "object": true, "type": true, "model": true, "role": true, "signature": true, "encrypted_content": true, "b64_json": true,
	"file_data": true, "bytes": true, "finish_reason": true, "stop_reason": true, "status": true, "system_fingerprint": true, "created_at": true,
}

// maxToken is the length from which a string without white space is taken for
// encoded data.
const maxToken = 4 << 10

// any adds every string that may be text.
func (w *walker) any(v jsonedit.Value, name string) {
	switch v.Kind() {
	case jsonedit.String:
		if raw := v.Raw(); len(raw) > maxToken && !strings.ContainsAny(string(raw), " \t\\") {
			w.uncovered("media")
			return
		}
		w.add(v, Content)
	case jsonedit.Object:
		for key, m := range v.Fields() {
			field := key.String()
			if notText[field] && m.Kind() == jsonedit.String {
				continue
			}
			w.path = append(w.path, field)
			w.any(m, field)
			w.path = w.path[:len(w.path)-1]
		}
	case jsonedit.Array:
		n := 0
		for e := range v.Elements() {
			w.path = append(w.path, number(e, n))
			w.any(e, name)
			w.path = w.path[:len(w.path)-1]
			n++
		}
	}
}
