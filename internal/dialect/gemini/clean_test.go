package gemini_test

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/format/jsonedit"
)

func TestForeignSignaturesAreRemovedFromPassedBodies(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"nothing of the kind", `{"contents":[{"parts":[{"text":"u"}]}]}`, ""},
		{"its own stays", `{"contents":[{"role":"model","parts":[{"text":"a","thought":true,"thoughtSignature":"YQ=="},{"text":"bWcxLngueQ=="}]}]}`, ""},
		{"marked thinking goes", `{"contents":[{"role":"model","parts":[{"text":"a","thought":true,"thoughtSignature":"bWcxLmFudGhyb3BpYy5z"},{"text":"","thought_signature":"bWcxLm9wZW5haS5z"},{"text" : "t"}]}]}`, `{"contents":[{"role":"model","parts":[{"text" : "t"}]}]}`},
		{"words stay without it", `{"contents":[{"role":"model","parts":[{"text":"a","thoughtSignature":"bWcxLm9wZW5haS5z"}]}]}`, `{"contents":[{"role":"model","parts":[{"text":"a"}]}]}`},
		{"calls with what stands for it", `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"},"thought_signature":"bWcxLm9wZW5haS5z"}]}]}`, `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"},"thought_signature":"skip_thought_signature_validator"}]}]}`},
		{"base64 for addresses is read too", `{"contents":[{"role":"model","parts":[{"text":"","thoughtSignature":"bWcxLm9wZW5haS5zPz4_"},{"text":"t"}]}]}`, `{"contents":[{"role":"model","parts":[{"text":"t"}]}]}`},
		{"a mark that is not base64 too", `{"contents":[{"role":"model","parts":[{"text":"","thoughtSignature":"mg1.openai.s"},{"text":"t"}]}]}`, `{"contents":[{"role":"model","parts":[{"text":"t"}]}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d jsonedit.Doc
			if err := d.Scan([]byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			edits, _ := gemini.Dialect{}.Clean(&d, dialect.RequestTarget{})
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
