package attempt

import (
	"testing"

	"modelgate/internal/model/llm"
)

// Decoders report what is known so far, and some providers correct it downwards.
func TestALaterReportOfUsageReplacesTheOneBefore(t *testing.T) {
	var seen translationTap
	for _, u := range []llm.Usage{{Input: 5, Known: true}, {Input: 2, CachedInput: 3, Output: 7, Known: true}, {Input: 2, Output: 1, Known: true}} {
		seen.event(&llm.Event{Kind: llm.EventUsage, Usage: u})
	}
	if want := (llm.Usage{Input: 2, Output: 1, Known: true}); seen.Info().Usage != want {
		t.Errorf("usage = %+v, want %+v", seen.Info().Usage, want)
	}
}
