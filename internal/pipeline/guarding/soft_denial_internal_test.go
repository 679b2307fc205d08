package guarding

import (
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
)

// The body of a request for a saved prompt is not one of the protocol.
func TestSoftDenialsOfSavedPromptsAreCompletions(t *testing.T) {
	soft := denied(exchange.HookResults{Before: []guardrail.HookResult{{ID: "g", Deny: true, SoftDeny: true, Checks: []guardrail.CheckResult{{ID: "c"}}}}})
	for name, client := range map[api.Dialect]dialect.ClientDialect{
		api.DialectChat: chat.Dialect{}, api.DialectMessages: messages.Dialect{}, api.DialectResponses: responses.Dialect{},
		api.DialectGemini: gemini.Dialect{}, api.DialectConverse: converse.Dialect{},
	} {
		for _, stream := range []bool{false, true} {
			body, err := bytepool.New(0).ReadAll(strings.NewReader(`{"variables":{"a":"b"}}`), -1, 100)
			if err != nil {
				t.Fatal(err)
			}
			r := &exchange.Request{Client: client, Dialect: name, Operation: name.ConversationOperation(), Stream: stream, Received: exchange.Received{Body: body, Doc: new(jsonedit.Doc), RequestedModel: "m"}}
			res := SoftDenial(r, soft)
			if res == nil {
				t.Fatalf("%s, stream %t: no completion", name, stream)
			}
			text := string(res.Bytes)
			if stream {
				e, err := res.Events.Next()
				if err != nil {
					t.Fatal(err)
				}
				text = string(e.Raw)
			}
			if !strings.Contains(text, "the guardrail checks failed: c (g)") || strings.Contains(text, "hook_results") {
				t.Errorf("%s, stream %t: %s, want the denial", name, stream, text)
			}
			for what, other := range map[string]error{"another error": apierr.New(apierr.Denied, "x"), "no error": nil} {
				if SoftDenial(r, other) != nil {
					t.Errorf("%s became a completion", what)
				}
			}
			body.Release()
		}
	}
}
