package attempt

import (
	"testing"

	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

func TestImagesCountAsTokensOfARequest(t *testing.T) {
	const mediaTokens = 1000
	a := &attempt{plan: plan{record: exchange.Attempt{Target: &provider.Target{Spec: &provider.Spec{ID: "openai"}}, Model: "gpt-4o"}}}
	count := func(content string) int64 {
		return a.plan.countTokens([]byte(`{"model":"gpt-4o","messages":[{"role":"user","content":[` + content + `]}]}`))
	}
	const image = `{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`
	text, one, two := count(`{"type":"text","text":"hello"}`), count(`{"type":"text","text":"hello"},`+image), count(image+`,{"type":"text","text":"hello"},`+image)
	if text <= 0 || text >= mediaTokens || one-text < mediaTokens || two-one < mediaTokens || two >= 4*mediaTokens {
		t.Errorf("tokens of a text %d, with an image %d, with two %d; want %d more for each image", text, one, two, mediaTokens)
	}
}
