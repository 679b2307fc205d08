package pipeline

import (
	"testing"

	"modelgate/internal/catalog"
	"modelgate/internal/llm"
)

func TestACostIsKnownOnlyWhereUsageAndPriceAre(t *testing.T) {
	a := account{provider: "openai", model: "gpt-x", prices: catalog.NewBook([]catalog.Price{{Provider: "openai", Model: "gpt-x", Input: 1000, Output: 4000}})}
	used := llm.Usage{Input: 10, CachedInput: 5, Output: 3, Known: true}
	if cost, row, known := a.cost(used); cost != 27_000 || row != "openai/gpt-x" || !known {
		t.Errorf("cost = %d, %q, %t; want 27000 by openai/gpt-x", cost, row, known)
	}
	used.Known = false
	if _, _, known := a.cost(used); known {
		t.Error("the cost is known although the usage is not")
	}
	used.Known, a.model = true, "other"
	if cost, _, known := a.cost(used); known || cost != 0 {
		t.Errorf("cost = %d, known %t, although no price is", cost, known)
	}
}
