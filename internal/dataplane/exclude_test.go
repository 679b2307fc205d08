package dataplane_test

import (
	"fmt"
	"strings"
	"testing"
)

// OpenRouter's object says that the model thinks and that the client does not
// want to read it: targets that cannot leave it out are announced.
// https://openrouter.ai/docs/use-cases/reasoning-tokens
func TestExcludedReasoningIsLeftOutOrAnnounced(t *testing.T) {
	t.Parallel()
	send := newRequestRecorder(t)
	const announced = "reasoning.exclude;dropped"
	for _, tt := range []struct{ slug, model, excluded, included string }{
		{"messages", "claude-opus-4-6", `"display":"omitted"`, `"display":"summarized"`},
		{"messages", "claude-sonnet-4-5", `"display":"omitted"`, `"budget_tokens"`},
		{"gemini", "gemini-2.5-flash", `"thinkingConfig":{"thinkingBudget"`, `"includeThoughts":true`},
		{"gemini", "gemini-3-pro", `"thinkingConfig":{"thinkingLevel"`, `"includeThoughts":true`},
		{"responses", "gpt-5-codex", `"reasoning":{"effort":"high"}`, `"reasoning":{"effort":"high"}`},
		{"converse", "anthropic.claude-sonnet-4-5-20250929-v1:0", `"display":"omitted"`, `"budget_tokens"`},
		{"converse", "openai.gpt-oss-120b-1:0", announced, ""},
		{"cohere", "command-a-reasoning-08-2025", announced, ""},
		{"ollama", "qwen3", announced, ""},
		{"oracle", "meta.llama", announced, ""},
	} {
		for exclude, want := range map[bool]string{true: tt.excluded, false: tt.included} {
			body := fmt.Sprintf(`{"model":%%q,"stream":%%t,"max_tokens":5000,"reasoning":{"effort":"high","exclude":%t},"messages":[{"role":"user","content":"hello"}]}`, exclude)
			_, sent, e := send(clientFormats[0], body, tt.slug, tt.model)
			notes := fmt.Sprint(e["params"])
			if !strings.Contains(sent+notes, want) || sent == "" || strings.Contains(notes, announced) != (exclude && want == announced) {
				t.Errorf("%s, exclude %t: sent %s with %s, want %s", tt.model, exclude, sent, notes, want)
			}
			if !exclude && tt.excluded != tt.included && strings.Contains(sent, tt.excluded) {
				t.Errorf("%s, exclude %t: sent %s", tt.model, exclude, sent)
			}
		}
	}
}
