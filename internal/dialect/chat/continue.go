package chat

import (
	"bytes"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

var _ dialect.StreamContinuer = Dialect{}

// deltaPath is the path of the text in a chunk.
var deltaPath = mustPath("choices[0].delta.content")

// Delta implements dialect.StreamContinuer.
func (Dialect) Delta(data []byte) (text []byte, plain bool) {
	v, err := jsonedit.ParseValue(data)
	if err != nil {
		return nil, true // the terminator, or data that cannot be read
	}
	choices, ok := v.Get("choices")
	if !ok {
		return nil, true
	}
	n := 0
	for choice := range choices.Elements() {
		n++
		index, ok := choice.Get("index")
		if i, isInt := index.Int(); ok && isInt && i != 0 || n > 1 {
			return nil, false
		}
		delta, ok := choice.Get("delta")
		if !ok {
			continue
		}
		if hasContent(delta, "tool_calls") || hasContent(delta, "function_call") {
			return nil, false
		}
		if content, ok := delta.Get("content"); ok {
			text, _ = content.TextBytes()
		}
	}
	return text, true
}

// hasContent reports whether the member exists and is not empty.
func hasContent(v jsonedit.Value, name string) bool {
	m, ok := v.Get(name)
	return ok && !m.IsNull() && !bytes.Equal(m.Raw(), []byte("[]"))
}

// WithDelta implements dialect.StreamContinuer.
func (Dialect) WithDelta(data, text []byte) ([]byte, bool) {
	out, err := jsonedit.Set(nil, data, deltaPath, jsonedit.AppendString(nil, string(text)))
	return out, err == nil
}

// goOn asks a model to continue. It is sent as a user message, since most
// models of this dialect start a new response after an assistant message.
const goOn = "Your answer above was cut off. Continue it exactly where it stops, in the middle of a word if need be. Repeat nothing of it and say nothing else."

// Continue implements dialect.StreamContinuer.
func (Dialect) Continue(body *jsonedit.Doc, said string) []jsonedit.Edit {
	messages, ok := body.Find("messages")
	if !ok || said == "" {
		return nil // no text yet: repeat the request itself
	}
	raw := messages.Raw()
	list := append([]byte(nil), raw[:len(raw)-1]...) // without the closing bracket
	list = append(list, `,{"role":"assistant","content":`...)
	list = jsonedit.AppendString(list, said)
	list = append(list, `},{"role":"user","content":`...)
	list = jsonedit.AppendString(list, goOn)
	return []jsonedit.Edit{{Name: "messages", Value: append(list, "}]"...)}}
}
