package simulator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// A cut can end a stream between the pieces of a call's arguments, so that
// clients of the provider meet a call that is begun and not finished.
func TestCutCanLeaveACallHalfFinished(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for _, g := range protocolCases {
		if strings.HasPrefix(g.name, "gemini") || g.name == "ollama" { // whose calls are complete by nature
			continue
		}
		for _, clean := range []string{"", ",clean"} {
			t.Run(g.name+clean, func(t *testing.T) {
				for n := 1; n < 30; n++ {
					got := g.follow(g.post(h, fmt.Sprintf("m+cut=%d%s", n, clean), withTools, true).body)
					if len(got.calls) == 1 && got.calls[0].arguments != "" && !json.Valid([]byte(got.calls[0].arguments)) {
						if got.ended || got.stop != "" {
							t.Errorf("cut=%d: the stream ends as if it was complete: %+v", n, got)
						}
						return
					}
				}
				t.Error("no cut leaves arguments without their end")
			})
		}
	}
}
