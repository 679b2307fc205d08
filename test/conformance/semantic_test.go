package conformance

import (
	"fmt"
	"testing"
)

// TestSemanticCacheAnswersEqualQuestions proves when a stored response answers
// another question.
func TestSemanticCacheAnswersEqualQuestions(t *testing.T) {
	g, _ := start(t)
	ask := func(t *testing.T, config, turn string) response {
		t.Helper()
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, turn)
		return g.do(t, "POST", modelRoutes[0].path, body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", config).wantOK(t)
	}
	status := func(r response) string { return r.header.Get("x-gateway-cache-status") }
	prove(t, "S-032", "a paraphrase hits, an unrelated question misses", func(t *testing.T) {
		p := newProvider(t, saying("fine"))
		config := leaf(p, `"cache":{"mode":"semantic"}`)
		for _, tt := range []struct{ turn, want string }{
			{"What is the capital of France?", "SEMANTIC MISS"},
			{"could you tell me the capital of france", "SEMANTIC HIT"},
			{"What is the capital of France?", "HIT"},
			{"How do I boil an egg?", "SEMANTIC MISS"},
			{"What is the capital of Ghana?", "SEMANTIC MISS"},
		} {
			got := ask(t, config, tt.turn)
			g.entry(t, got) // it has ended, and its response is stored
			if status(got) != tt.want {
				t.Errorf("%q: %s, want %s", tt.turn, status(got), tt.want)
			}
		}
		called(t, []int{3}, p)
	})
}
