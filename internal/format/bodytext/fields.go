package bodytext

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// rule says what a field holds.
type rule struct {
	// kind is the kind of a string. Empty means that a string is not text.
	kind Kind
	// all means that an object holds text in every string, at any depth.
	all bool
	// complete means that no other event continues a string.
	complete bool
	// typed is the name of the field if the type of its object decides what a
	// string in it is.
	typed string
}

var (
	content   = rule{kind: Content}
	thinking  = rule{kind: Thinking}
	structure = rule{}
	parameter = rule{kind: Parameter}
)

// field is a field that holds text or leads to it.
type field struct {
	name string
	rule
}

// fields are the fields that hold text or lead to it, in all client dialects. A
// name has one meaning in all of them, with the exceptions in [walker.ruleOf].
var fields = named(map[string]rule{
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
	"toolUse": structure, "toolResult": structure, "json": {kind: Arguments, all: true}, "reasoningContent": structure,
	"reasoningText": thinking,
	"start":         structure, "guardContent": structure,
})

func named(rules map[string]rule) map[string]field {
	all := make(map[string]field, len(rules))
	for name, r := range rules {
		all[name] = field{name, r}
	}
	return all
}

// opaque are fields whose content is not read, with the name for it.
var opaque = map[string]string{
	"image_url": "image", "image": "image", "input_image": "image", "input_audio": "audio", "file": "file", "file_data": "file",
	"file_id":    "file",
	"inlineData": "media", "inline_data": "media", "fileData": "media", "file_data_uri": "media", "video": "video",
	"encrypted_content": "encrypted", "redactedContent": "encrypted",
}

// propertyNames are the fields that say what the text of their object is.
var propertyNames = []string{"role", "type", "thought", "logprobs", "logprobsResult", "bytes"}

// definitions are the fields that define tools.
var definitions = []string{"tools", "toolConfig"}

// names are all names in the tables, by their spelling and in lower case.
var names = func() map[string]string {
	all := map[string]string{}
	for _, list := range [...][]string{slices.Collect(maps.Keys(fields)), slices.Collect(maps.Keys(opaque)), propertyNames, definitions} {
		for _, name := range list {
			all[strings.ToLower(name)] = name
		}
		for _, name := range list {
			all[name] = name
		}
	}
	return all
}()

// HoldsText reports whether a member of a request holds text or leads to it.
func HoldsText(name string, value []byte) bool {
	if _, ok := fields[canonical([]byte(name))]; ok {
		return true
	}
	return !notText[name] && bytes.IndexByte(value, '"') >= 0
}

// canonical returns the spelling in which the tables have a name, and empty if they do
// not: some readers compare names without case.
func canonical(key []byte) string {
	if name, ok := names[string(key)]; ok {
		return name
	}
	if !slices.ContainsFunc(key, func(c byte) bool { return c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' }) {
		return ""
	}
	return names[strings.Map(func(r rune) rune {
		switch r {
		case 'ſ':
			return 's'
		case '\u212a': // the Kelvin sign
			return 'k'
		}
		return unicode.ToLower(r)
	}, string(key))]
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
