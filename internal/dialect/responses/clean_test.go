package responses_test

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/jsonedit"
)

func TestForeignSignaturesAreRemovedFromPassedBodies(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"nothing of the kind", `{"input":"say \"mg1.openai.x\""}`, ""},
		{"its own stays", `{"input":[{"type":"reasoning","summary":[],"encrypted_content":"x"},{"role":"user","content":"mg1.x"}]}`, ""},
		{"marked thinking goes", `{"a" : 1,"input":[{"type":"reasoning","summary":[],"encrypted_content":"mg1.anthropic.x"},{"role":"user" ,"content":"u"}]}`, `{"a" : 1,"input":[{"role":"user" ,"content":"u"}]}`},
		{"a text that looks so stays", `{"input":[{"role":"user","content":"mg1.a.b"}]}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d jsonedit.Doc
			if err := d.Scan([]byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			edits, got := responses.Dialect{}.Clean(&d, dialect.RequestTarget{}), ""
			if len(edits) > 0 {
				got = string(d.Apply(nil, edits...))
			}
			if got != tt.want {
				t.Errorf("Clean gave %s\nwant %s", got, tt.want)
			}
		})
	}
}
