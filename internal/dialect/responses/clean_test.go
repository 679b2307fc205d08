package responses_test

import (
	"strings"
	"testing"

	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/testing/dialecttest"
)

func TestForeignSignaturesAreRemovedFromPassedBodies(t *testing.T) {
	digits := strings.Repeat("0123456789", 6)
	for _, tt := range []struct{ name, body, want string }{
		{"nothing of the kind", `{"input":"say \"mg1.openai.x\""}`, ""},
		{"its own stays", `{"input":[{"type":"reasoning","summary":[],"encrypted_content":"x"},{"role":"user","content":"mg1.x"}]}`, ""},
		{"marked thinking goes", `{"a" : 1,"input":[{"type":"reasoning","summary":[],"encrypted_content":"mg1.anthropic.x"},{"role":"user" ,"content":"u"}]}`, `{"a" : 1,"input":[{"role":"user" ,"content":"u"}]}`},
		{"long ids of items and calls are replaced", `{"input":[{"type":"mcp_approval_request","id" : "mcpr_` + digits + `"},{"type":"mcp_approval_response","approval_request_id":"mcpr_` + digits + `"},{"type":"message","id":"msg_1","role":"assistant","content":[]}]}`,
			`{"input":[{"type":"mcp_approval_request","id" : "mcpr_` + digits[:50] + `_d1919862"},{"type":"mcp_approval_response","approval_request_id":"mcpr_` + digits[:50] + `_d1919862"},{"type":"message","id":"msg_1","role":"assistant","content":[]}]}`},
		{"ids in arguments stay", `{"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{\"id\":\"` + digits + digits + `\"}"}],"metadata":{"id":"` + digits + digits + `"}}`, ""},
		{"a text that looks so stays", `{"input":[{"role":"user","content":"mg1.a.b"}]}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d jsonedit.Doc
			if err := d.Scan([]byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			edits, _ := responses.Dialect{}.Clean(&d, dialecttest.TargetOf("openai", "gpt-5"))
			got := ""
			if len(edits) > 0 {
				got = string(d.Apply(nil, edits...))
			}
			if got != tt.want {
				t.Errorf("Clean gave %s\nwant %s", got, tt.want)
			}
		})
	}
}
