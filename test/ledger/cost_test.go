package ledger

import (
	"testing"

	"modelgate/internal/model/catalog"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/server"
	"modelgate/internal/testing/gatewaytest"
)

// TestTheLogAndTheLedgerAgreeOnCosts sends exchanges of every kind: an entry of
// the log costs what the attempts of its exchange cost together, and so does all.
func TestTheLogAndTheLedgerAgreeOnCosts(t *testing.T) {
	data := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data, Settings: "prices:\n  - {provider: openai-compatible, model: \"sim-1*\", input: 1, output: 4}\n"})
	for _, tt := range []struct{ body, config string }{
		{body: plain}, {body: stream}, {body: usage},
		{body: plain, config: config("", "sim-1+status=500", "sim-1+tokens=8")},
		{body: plain, config: config("", "sim-1+reset", "unpriced+tokens=8")},
		{body: usage, config: config(`"hedge":{"delay_ms":20,"max":1},`, "sim-1+first=20s", "sim-1+tokens=8")},
		{body: usage, config: config(`"hedge":{"delay_ms":20,"max":1},`, "sim-1+headers=150ms+tokens=9", "sim-1+headers=150ms+tokens=7")},
		{body: usage, config: config(`"stream_continuation":true,`, "sim-1+tokens=20+cut=5", "sim-1+tokens=8")},
		{body: plain, config: `{"provider":"@simulator","retry":{"attempts":2,"on_status_codes":[503]},"override_params":{"model":"sim-1+status=503"}}`},
		{body: plain, config: `{"strategy":{"mode":"cost"},"targets":[{"provider":"@simulator","override_params":{"model":"unpriced+tokens=9"}},{"provider":"@simulator","override_params":{"model":"sim-1+tokens=9"}}]}`},
	} {
		provider := "@simulator"
		if tt.config != "" {
			provider = ""
		}
		g.Post("/chat/completions", tt.body, "x-gateway-provider", provider, "x-gateway-config", tt.config)
	}
	g.Stop()
	type bill struct {
		cost  catalog.NanoDollars
		known bool
		open  bool // a response whose cost is unknown
	}
	bills, total := map[reqlog.ID]bill{}, catalog.NanoDollars(0)
	err := ledger.Each(server.LedgerDir(data), func(r ledger.Record) {
		if s := r.Settle; s != nil {
			b := bills[s.ID]
			b.cost += s.Cost
			b.known, b.open = b.known || s.Priced, b.open || !s.Priced && s.Outcome == reqlog.Answered
			bills[s.ID] = b
			total += s.Cost
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for id, entries := range logged(t, data) {
		b, e := bills[id], entries[0]
		if want := b.known && !b.open; e.Priced != want || want && e.Cost != b.cost || !want && e.Cost != 0 {
			t.Errorf("%s costs %d, %t in the log; its attempts %d, %t", id, e.Cost, e.Priced, b.cost, want)
		}
		if e.Priced {
			known++
			total -= e.Cost
		}
		delete(bills, id)
	}
	if known < 5 || total < 0 || len(bills) > 0 {
		t.Errorf("%d exchanges with a cost, %d nano-dollars and %d exchanges that the log lacks", known, total, len(bills))
	}
}
