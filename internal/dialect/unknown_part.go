package dialect

import (
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// TextOfUnknown returns a part of a response that only one dialect has as text if it
// holds text for its reader, since clients of other dialects cannot read the part.
// Content of tools that run at the provider holds none.
func TextOfUnknown(n llm.Native) llm.Part {
	v, err := jsonedit.ParseValue(n.Raw)
	if err != nil {
		return n
	}
	if inner, ok := v.Get(n.Type); ok {
		v = inner
	}
	words := partText(v)
	content, _ := v.Get("content")
	if words == "" && n.Dialect == "responses" {
		for e := range content.Elements() {
			words += partText(e)
		}
	}
	if words == "" || strings.HasSuffix(n.Type, "_result") || strings.HasSuffix(n.Type, "_call") || strings.HasSuffix(n.Type, "_output") {
		return n
	}
	return llm.Text{Text: words}
}

// partText returns the text member of an object, or an empty string.
func partText(v jsonedit.Value) string {
	m, _ := v.Get("text")
	text, _ := m.Text()
	return text
}
