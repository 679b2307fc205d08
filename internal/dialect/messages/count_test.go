package messages_test

import (
	"encoding/base64"
	"testing"

	"modelgate/internal/dialect/messages"
	"modelgate/internal/testing/dialecttest"
)

const countable = `{"model":"m","system":"s","messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"thinking":{"type":"enabled","budget_tokens":2048},"stop_sequences":["x"]}`

func TestTokensAreAskedForInTheFormOfTheHost(t *testing.T) {
	r, err := messages.Dialect{}.DecodeCountRequest([]byte(countable))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		provider, model, want string
	}{
		{"anthropic", "claude-sonnet-4-5", `x{"model":"claude-sonnet-4-5","system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"thinking":{"type":"enabled","budget_tokens":2048}}`},
		{"vertex-ai", "claude-sonnet-4-5", `x{"model":"claude-sonnet-4-5","anthropic_version":"vertex-2023-10-16","system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"thinking":{"type":"enabled","budget_tokens":2048}}`},
		{"bedrock", "anthropic.claude-sonnet-4-5-v1:0", `x{"input":{"invokeModel":{"body":"` + base64.StdEncoding.EncodeToString([]byte(
			`{"anthropic_version":"bedrock-2023-05-31","max_tokens":64000,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stop_sequences":["x"],"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"thinking":{"type":"enabled","budget_tokens":2048}}`)) + `"}}}`},
	} {
		t.Run(tt.provider, func(t *testing.T) {
			body, fates, err := messages.Dialect{}.EncodeCountRequest([]byte("x"), r, dialecttest.TargetOf(tt.provider, tt.model))
			if err != nil || string(body) != tt.want || fates != nil {
				t.Errorf("EncodeCountRequest =\n%s, %v, %v, want\n%s", body, fates, err, tt.want)
			}
		})
	}
}

func TestANumberOfTokensIsReadFromEachHost(t *testing.T) {
	for response, want := range map[string]int64{`{"input_tokens":12}`: 12, `{"inputTokens":13}`: 13, `{}`: -1, `{`: -1} {
		n, err := messages.Dialect{}.DecodeCountResponse([]byte(response))
		if (err != nil) != (want < 0) || err == nil && n != want {
			t.Errorf("DecodeCountResponse(%s) = %d, %v, want %d", response, n, err, want)
		}
	}
	if got := string(messages.Dialect{}.EncodeCountResponse([]byte("x"), 7)); got != `x{"input_tokens":7}` {
		t.Errorf("EncodeCountResponse = %s", got)
	}
}
