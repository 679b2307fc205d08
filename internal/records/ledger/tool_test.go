package ledger_test

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/model/catalog"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
)

// A call of a tool whose process is killed may have been made: it costs its price, and no
// tokens, however long its message is. Nothing of it counts for a managed provider that has
// the slug of the server.
func TestAnInterruptedToolCallCostsItsPrice(t *testing.T) {
	dir, c := t.TempDir(), newCountStore()
	o := ledger.Options{Dir: dir, Counter: c, SyncInterval: 5 * time.Millisecond}
	l := mustOpen(t, o)
	begin := func(key string, price catalog.NanoDollars, name string) reqlog.Intent {
		t.Helper()
		i := intent(reqlog.NewID(time.Now()), 1)
		i.KeyID, i.Provider, i.Model, i.RequestBytes = key, reqlog.ProviderTools, name, 30_000
		i.Flat, i.Price, i.Counters = true, price, []string{"budget"}
		if err := l.RecordIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		return i
	}
	begin("open", 7_000_000, "create_issue")
	begin("open", 1, strings.Repeat("long", 200)) // names that do not fit are before the price
	begin("free", 0, "list")
	ended := begin("ended", 5, "create_issue")
	s := settlement(ended.ID, 1)
	s.Cost, s.Usage.Input, s.Usage.Output = 5, 0, 0
	l.RecordSettlement(s)
	exchange(t, l) // writes the settlement
	left := kill(t, dir)
	mustClose(t, l)
	o.Dir = left
	c = newCountStore()
	o.Counter = c
	l = mustOpen(t, o)
	waitCounted(t, l)
	mustClose(t, l)
	for key, want := range map[string]reqlog.Spend{
		"open": {Attempts: 2, Cost: 7_000_001}, "free": {Attempts: 1}, "ended": {Attempts: 1, Cost: 5},
	} {
		if got := c.sums()[reqlog.SpendOwner{Organisation: "org", Workspace: "ws", KeyID: key}]; got != want {
			t.Errorf("the key %q has %+v, want %+v", key, got, want)
		}
	}
	if got := c.names["budget"]; got.Cost != 7_000_006 || got.Attempts != 4 || got.Tokens != 0 {
		t.Errorf("the budget of the policy has %+v", got)
	}
}
