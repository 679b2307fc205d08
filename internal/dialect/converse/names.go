package converse

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// toolNames is the rule for names of tools.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html
var toolNames = dialect.NameRule{Max: maxName, Others: "_-"}

// wireName returns a tool's name as the protocol accepts it.
func wireName(s string) string { return toolNames.Fit(s) }

// calledTool returns the tool of the request with a name on the wire, nil if
// there is none.
func calledTool(r *llm.Request, wire string) *llm.Tool {
	if r == nil {
		return nil
	}
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Name == wire || wireName(t.Name) == wire {
			return t
		}
	}
	return nil
}

// blank reports whether s is only white space, which is rejected as text.
func blank(s string) bool { return strings.TrimSpace(s) == "" }

// wrap returns an object with one member.
func wrap(name string, value []byte) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name(name)
	b.Raw(value)
	b.Close('}')
	return b.Bytes()
}
