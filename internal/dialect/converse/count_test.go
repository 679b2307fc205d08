package converse_test

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/converse"
)

func TestTokensAreAskedForInsideAConversation(t *testing.T) {
	r, err := converse.Dialect{}.DecodeRequest([]byte(`{"messages":[{"role":"user","content":[{"text":"hi"}]}],"system":[{"text":"s"}],"inferenceConfig":{"maxTokens":5},"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]},"additionalModelRequestFields":{"top_k":3}}`))
	if err != nil {
		t.Fatal(err)
	}
	body, fates, err := converse.Dialect{}.EncodeCountRequest([]byte("x"), r, dialect.RequestTarget{Provider: "bedrock", Model: "anthropic.claude-sonnet-4-5-v1:0"})
	const want = `x{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"hi"}]}],"system":[{"text":"s"}],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]},"additionalModelRequestFields":{"top_k":3}}}}`
	if err != nil || string(body) != want || fates != nil {
		t.Errorf("EncodeCountRequest =\n%s, %v, %v, want\n%s", body, fates, err, want)
	}
	for response, want := range map[string]int64{`{"inputTokens":12}`: 12, `{}`: -1, `{"inputTokens":"x"}`: -1, `{`: -1} {
		n, err := converse.Dialect{}.DecodeCountResponse([]byte(response))
		if (err != nil) != (want < 0) || err == nil && n != want {
			t.Errorf("DecodeCountResponse(%s) = %d, %v, want %d", response, n, err, want)
		}
	}
}

func TestAFoundationModelIsFoundBehindItsNames(t *testing.T) {
	for name, want := range map[string]string{
		"anthropic.claude-sonnet-4-5-v1:0":                                             "anthropic.claude-sonnet-4-5-v1:0",
		"us.anthropic.claude-sonnet-4-5-v1:0":                                          "anthropic.claude-sonnet-4-5-v1:0",
		"arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-x-v1:0": "anthropic.claude-x-v1:0",
		"arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-pro-v1:0":             "amazon.nova-pro-v1:0",
		"arn:aws:bedrock:us-east-1:1:application-inference-profile/abc":                "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc",
		"mine": "mine",
	} {
		if got := converse.Foundation(name); got != want {
			t.Errorf("Foundation(%s) = %s, want %s", name, got, want)
		}
	}
}
