package table_test

import (
	"testing"

	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

func TestReasoningOptionIsKeepOrDrop(t *testing.T) {
	for value, ok := range map[string]bool{"": true, "keep": true, "drop": true, "kep": false, "true": false} {
		for _, id := range []string{"openai-compatible", "vllm", "cerebras"} {
			spec, _ := table.Lookup(id)
			_, err := provider.NewTarget(spec, provider.Settings{CustomHost: "https://models.example.com/v1", Options: options{"reasoning": value}})
			if (err == nil) != ok {
				t.Errorf("%s with %q: %v, want accepted: %t", id, value, err, ok)
			}
		}
	}
}
