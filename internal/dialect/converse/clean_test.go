package converse_test

import (
	"strings"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

func TestForeignSignaturesAreRemovedFromPassedBodies(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"nothing of the kind", `{"messages":[{"role":"user","content":[{"text":"u"}]}]}`, ""},
		{"its own stays", `{"messages":[{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"a","signature":"s"}}},{"reasoningContent":{"reasoningText":{"text":"unsigned"}}},{"reasoningContent":{"redactedContent":"YQ=="}},{"text":"mg1.x"}]}]}`, ""},
		{"marked, unsigned and hidden thinking goes", `{"messages":[{"role":"assistant" ,"content":[{"reasoningContent":{"reasoningText":{"text":"a","signature":"mg1.google.s"}}},{"reasoningContent":{"reasoningText":{"text":"a","signature":"mg1.none.-"}}},{"reasoningContent":{"redactedContent":"bWcxLm9wZW5haS5z"}},{"text":"t"}]}]}`, `{"messages":[{"role":"assistant" ,"content":[{"text":"t"}]}]}`},
		{"and sources without their text", `{"messages":[{"role":"assistant","content":[{"text":"t"},{"citationsContent":{"content":[],"citations":[{"title":"A"}]}},{"citationsContent":{"content":[{"text":"u"}],"citations":[{"title":"A"}]}}]}]}`, `{"messages":[{"role":"assistant","content":[{"text":"t"},{"citationsContent":{"content":[{"text":"u"}],"citations":[{"title":"A"}]}}]}]}`},
		{"and so does a message of nothing else", `{"messages":[{"role":"user","content":[{"text":"u"}]},{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"a","signature":"mg1.google.s"}}}]}]}`, `{"messages":[{"role":"user","content":[{"text":"u"}]}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d jsonedit.Doc
			if err := d.Scan([]byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			edits, _ := converse.Dialect{}.Clean(&d, dialect.RequestTarget{})
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

func TestThinkingThatNobodySignedIsMarked(t *testing.T) {
	r := &llm.Response{Choices: []llm.Choice{{Stop: llm.StopEnd, Parts: []llm.Part{llm.Thinking{Text: "why"}, llm.Text{Text: "so"}}}}}
	response := dialect.ResponseTarget{Request: &llm.Request{}}
	const want = `"signature":"mg1.none.-"`
	if got := string(converse.Dialect{}.EncodeResponse(nil, r, response)); !strings.Contains(got, want) {
		t.Errorf("EncodeResponse = %s, want %s in it", got, want)
	}
	enc := converse.Dialect{}.NewEncoder(response)
	var stream []byte
	for e := range dialect.Replay(r) {
		stream = enc.Encode(stream, &e)
	}
	if !strings.Contains(string(stream), want) {
		t.Errorf("the stream is %q, want %s in it", stream, want)
	}
	if s := dialect.ReadSignature(llm.Anthropic, dialect.Unsigned); s != (llm.Signature{}) {
		t.Errorf("ReadSignature = %+v, want none", s)
	}
}
