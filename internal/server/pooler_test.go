package server_test

import (
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// TestNodesShareADatabaseBehindAPooler runs two nodes through a pooler of transactions: their
// tables, changes, log, counters and budgets.
func TestNodesShareADatabaseBehindAPooler(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	through := storetest.Bouncer(t, dsn)
	const settings = priced + "limits:\n  counters: {store: postgres}\n"
	here := gatewaytest.New(t, gatewaytest.Options{Database: through, Settings: settings, MasterKey: master})
	there := gatewaytest.New(t, gatewaytest.Options{Database: through + "&direct=" + u.Host, Settings: settings, MasterKey: master})
	for _, nodes := range [][2]*gatewaytest.Gateway{{here, there}, {there, here}} {
		slug := slugOf(t, saveConfig(nodes[0], "config"))
		waittest.Until(t, "the other node has the config", func() bool { return useConfig(nodes[1], slug) == 200 })
		res := nodes[0].Post("/chat/completions", chat)
		id := res.Header.Get("x-gateway-request-id")
		waittest.Until(t, "the other node has the exchange in its log", func() bool { return nodes[1].Get("/logs/"+id).Status == 200 })
		if got := nodes[1].Get("/logs?limit=5"); got.Status != 200 || !strings.Contains(string(got.Body), id) {
			t.Errorf("the log on the other node: %d %s", got.Status, got.Body)
		}
		if got := nodes[1].Get("/analytics/graphs/requests"); got.Status >= 500 {
			t.Errorf("analytics: %d %s", got.Status, got.Body)
		}
	}
	db := storetest.Open(t, dsn)
	key, k := mustPoor(t, db, 60)
	for _, g := range []*gatewaytest.Gateway{here, there} {
		waittest.Until(t, "the budget is used up on every node", func() bool {
			return g.Do(g.Request("POST", "/chat/completions", thrifty, "x-gateway-api-key", key.Reveal())).Status == 412
		})
	}
	waittest.Until(t, "the tokens are counted", func() bool { return mustSpent(t, db, k.ID).Tokens >= 60 })
	for _, g := range []*gatewaytest.Gateway{here, there} {
		if text := g.Log.String(); strings.Contains(text, "level=ERROR") || strings.Contains(text, "prepared statement") {
			t.Errorf("the process log has errors:\n%s", text)
		}
	}
}
