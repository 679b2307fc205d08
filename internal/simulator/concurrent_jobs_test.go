package simulator_test

import (
	"fmt"
	"sync"
	"testing"

	"modelgate/internal/simulator"
)

// Each line of a batch is run once, and each response adds its two items, however
// many clients read and write at the same time.
func TestStoredObjectsBearConcurrentRequests(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	b := h.mustBatch(t, "sim-counted")
	var v struct{ ID string }
	h.mustPost("/v1/conversations", `{}`).mustDecodeInto(t, &v)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			h.batch(t, b.ID)
			h.mustSend("GET", "/v1/batches", "")
			h.respond(t, fmt.Sprintf(`{"model":"m","input":"Number %d","conversation":%q}`, i, v.ID))
		})
	}
	group.Wait()
	if b = h.batch(t, b.ID); b.Status != "completed" || h.sim.Calls("sim-counted") != 4 {
		t.Errorf("status %s after %d calls, want completed after 4", b.Status, h.sim.Calls("sim-counted"))
	}
	var items itemList
	h.mustSend("GET", "/v1/conversations/"+v.ID+"/items?limit=100", "").mustDecodeInto(t, &items)
	if len(items.Data) != 16 {
		t.Errorf("%d items, want 16", len(items.Data))
	}
	for i := 0; i+1 < len(items.Data); i += 2 {
		if items.Data[i].Role != "assistant" || items.Data[i+1].Role != "user" {
			t.Errorf("items %d and %d are of %s and %s", i, i+1, items.Data[i].Role, items.Data[i+1].Role)
		}
	}
}
