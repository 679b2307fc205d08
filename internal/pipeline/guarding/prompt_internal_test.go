package guarding

import (
	"testing"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

func TestPromptWithoutEditsIsNoneOfTheRequest(t *testing.T) {
	edits := []jsonedit.Edit{{Name: "model", Value: []byte(`"m"`)}}
	r := &exchange.Request{Leaves: []exchange.Leaf{{}, {Prompt: &exchange.PromptEdits{}}, {Prompt: &exchange.PromptEdits{Edits: edits}}}}
	for leaf, want := range map[int]bool{0: false, 1: false, 2: true, 3: false} {
		if got := promptOf(r, leaf) != nil; got != want {
			t.Errorf("leaf %d has a prompt: %t, want %t", leaf, got, want)
		}
	}
}
