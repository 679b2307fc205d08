package messages_test

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/format/jsonedit"
)

func TestThinkingOfOtherVendorsLeavesBodiesThatAreSentAsTheyCame(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"nothing of the kind", `{"messages":[{"role":"user","content":"mg1. and \"signature\": \"\""}]}`, ""},
		{"its own stays", `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"s"},{"type":"redacted_thinking","data":"d"}]}]}`, ""},
		{"marked, unsigned and hidden thinking goes", `{"a" : 1, "messages":[{"role":"user","content":"u"}, {"role":"assistant" ,"content":[{"type":"thinking","thinking":"a","signature":"mg1.openai.s"},` +
			`{"type":"thinking","thinking":"b","signature" : ""},{"type":"redacted_thinking","data":"mg1.google.s"},{"type":"text","text":"t"}]}]}`,
			`{"a" : 1, "messages":[{"role":"user","content":"u"},{"role":"assistant" ,"content":[{"type":"text","text":"t"}]}]}`},
		{"and so does a message of nothing else", `{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"thinking","thinking":"b","signature":""}]}]}`,
			`{"messages":[{"role":"user","content":"u"}]}`},
		{"signatures of text go, and its citations stay", `{"messages":[{"role":"assistant","content":[{"type":"text","text":"a","citations":[{"type":"char_location","cited_text":"","document_index":-1,"document_title":"mg1.google.g","start_char_index":0,"end_char_index":0}]},` +
			`{"type":"text","citations":[{"type":"char_location","document_title":"mg1.google.g"}, {"type":"char_location","document_title":"t","document_index":0}], "text":"b"}]}]}`,
			`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","citations":[{"type":"char_location","document_title":"t","document_index":0}], "text":"b"}]}]}`},
		{"no messages", `{"messages":"\"signature\":\"\"","signature":""}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d jsonedit.Doc
			if err := d.Scan([]byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			edits, _ := messages.Dialect{}.Clean(&d, dialect.RequestTarget{})
			got := ""
			if len(edits) > 0 {
				got = string(d.Apply(nil, edits...))
			}
			if got != tt.want {
				t.Errorf("ForeignThinking gave %s\nwant %s", got, tt.want)
			}
		})
	}
}
