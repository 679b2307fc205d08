package server_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/records/ledger"
	"modelgate/internal/server"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

func TestPostedEntriesAreTailedAndKeptOutOfMetrics(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data})
	w := watch(t, g, gatewaytest.Key, "operation=logs.insert")
	g.Post("/chat/completions", chat)
	// A request is counted, settled and recorded after its client has the response.
	var before map[string]string
	waittest.Until(t, "the request is counted", func() bool {
		before = requestLabels(t, g)
		return before["modelgate_requests_in_flight"] == "0" && slices.ContainsFunc(slices.Collect(maps.Keys(before)), func(name string) bool { return strings.HasPrefix(name, "modelgate_requests_total{") })
	})
	posted, _ := g.Post("/logs", `{"request":{"url":"https://api.openai.com/v1/chat/completions","body":{"model":"gpt-4o"}},
		"response":{"status":503,"body":{"usage":{"prompt_tokens":7,"completion_tokens":1000000}}},"metadata":{"trace_id":"t"}}`).JSON(t)["ids"].([]any)
	if got := w.next(); len(posted) != 1 || !strings.Contains(got, `"id":"`+posted[0].(string)+`"`) {
		t.Errorf("the watcher received %.200s", got)
	}
	if len(before) < 20 {
		t.Errorf("%d series before, want those of the gateway", len(before))
	}
	for name, after := range requestLabels(t, g) {
		if after != before[name] && strings.HasPrefix(name, "modelgate_re") || strings.Contains(name, "logs.insert") { // requests, request_seconds, retries
			t.Errorf("%s = %s, and was %s before anything was posted", name, after, before[name])
		}
	}
	g.Stop()
	intents, settled, rows := 0, 0, 0
	err := ledger.Each(server.LedgerDir(data), func(r ledger.Record) {
		if r.Intent != nil {
			intents++
		}
		if r.Settle != nil {
			settled++
		}
		if r.Row != nil {
			rows++
		}
	})
	if err != nil || intents != 1 || settled != 1 || rows != 2 {
		t.Errorf("the ledger has %d intents, %d settlements and %d rows, %v; want one of each for the attempt, and a row", intents, settled, rows, err)
	}
}
