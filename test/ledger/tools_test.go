package ledger

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// priceOfCall is the price of each call of a tool in this file, in nano-dollars.
const priceOfCall = 10_000_000

// calls are calls of a tool over all rounds.
type calls struct {
	mu       sync.Mutex
	complete map[reqlog.ID]bool // whose result the client has

	intents map[reqlog.ID]reqlog.Intent
	settled map[reqlog.ID]reqlog.Settlement
	doubled int // settled twice
}

// newTools makes a server at address one of the default workspace, whose calls all have a price.
func newTools(t *testing.T, g *gateway, address string) {
	t.Helper()
	g.wantOK(t, "POST", "/mcp-integrations", key, fmt.Sprintf(`{"name":"Tools","slug":"tools","url":%q,"transport":"http","auth_type":"none","workspace_id":"default"}`, address))
	g.wantOK(t, "POST", "/mcp-servers", key, `{"name":"Tools","slug":"tools","mcp_integration_id":"tools","workspace_id":"default"}`)
	g.wantOK(t, "PUT", "/mcp-servers/tools/capabilities?workspace_id=default", key, `{"capabilities":[{"type":"tool","name":"*","price_per_call":0.01}]}`)
}

// callTool calls the tool echo. ok is true if the client has its result, alive false when the
// gateway is gone.
func (g *gateway) callTool(text string) (id reqlog.ID, ok, alive bool) {
	req, err := http.NewRequest("POST", strings.TrimSuffix(g.url, "/v1")+"/mcp/tools",
		strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q}}}`, text)))
	if err != nil {
		return id, false, false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-gateway-api-key", key)
	res, err := g.client.Do(req)
	if err != nil {
		return id, false, false
	}
	defer res.Body.Close()
	id, _ = reqlog.ParseID(res.Header.Get("x-gateway-request-id"))
	body, err := io.ReadAll(res.Body)
	return id, err == nil && res.StatusCode == 200 && strings.Contains(string(body), `"text":"`+text+`"`), err == nil
}

// storm keeps calling the tool from many clients, and kills the gateway when they have the
// results of least calls.
func (c *calls) storm(t *testing.T, g *gateway, round, least int) {
	t.Helper()
	var wg sync.WaitGroup
	seen := make(chan struct{}, 1<<20)
	for n := range 24 {
		wg.Go(func() {
			for i := 0; ; i++ {
				id, ok, alive := g.callTool(fmt.Sprintf("call-%d-%d-%d", round, n, i))
				if ok {
					c.mu.Lock()
					c.complete[id] = true
					c.mu.Unlock()
					seen <- struct{}{}
				}
				if !alive {
					return
				}
			}
		})
	}
	for range least {
		select {
		case <-seen:
		case <-time.After(60 * time.Second):
			t.Fatalf("the gateway does not answer: %s", g.errText)
		}
	}
	g.kill()
	wg.Wait()
}

// read takes in what the ledger has now of calls.
func (c *calls) read(t *testing.T, data string) {
	t.Helper()
	err := ledger.Each(filepath.Join(data, "ledger"), func(r ledger.Record) {
		switch {
		case r.Intent != nil && r.Intent.Provider == reqlog.ProviderTools:
			c.intents[r.Intent.ID] = *r.Intent
		case r.Settle != nil:
			if before, ok := c.settled[r.Settle.ID]; ok && before != *r.Settle {
				c.doubled++
			}
			c.settled[r.Settle.ID] = *r.Settle
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAKilledGatewayChargesEachCallOfATool kills a gateway while clients call a tool with a
// price, several times on one data folder. Each call that reached the server is charged, once,
// and the log and the counters of budgets are those of the ledger.
func TestAKilledGatewayChargesEachCallOfATool(t *testing.T) {
	rounds := number(t, "MODELGATE_TEST_KILL_ROUNDS", 3)
	tools := toolservertest.New(t)
	data := t.TempDir()
	c := &calls{complete: map[reqlog.ID]bool{}, intents: map[reqlog.ID]reqlog.Intent{}, settled: map[reqlog.ID]reqlog.Settlement{}}
	for round := range rounds {
		g := start(t, data, "http://127.0.0.1:1")
		if round == 0 {
			newTools(t, g, tools.URL)
		}
		waittest.Until(t, "the tool can be called", func() bool {
			id, ok, _ := g.callTool("first")
			c.complete[id] = c.complete[id] || ok
			return ok
		})
		c.storm(t, g, round, 200+37*round)
		c.read(t, data)
	}
	start(t, data, "http://127.0.0.1:1").stop(t)
	c.read(t, data)
	c.check(t, data, tools)
}

// check compares the ledger with the server, the clients, the log and the counters.
func (c *calls) check(t *testing.T, data string, tools *toolservertest.Server) {
	t.Helper()
	served, cut := map[string]int{}, 0
	for _, r := range tools.Requests("tools/call") {
		served[string(r.Message.Params)]++
	}
	for params, n := range served {
		if n > 1 && !strings.Contains(params, `"first"`) {
			t.Errorf("the call with %s reached the server %d times", params, n)
		}
	}
	if n := tools.Count("tools/call"); n > len(c.intents) || n < len(c.complete) || len(c.complete) == 0 {
		t.Errorf("%d calls reached the server, the ledger has the intents of %d, and clients the results of %d", n, len(c.intents), len(c.complete))
	}
	if c.doubled > 0 {
		t.Errorf("%d calls were settled twice, and differently", c.doubled)
	}
	log := logged(t, data)
	var sum reqlog.Spend
	for id, i := range c.intents {
		s, ok := c.settled[id]
		if !ok || int64(s.Cost) != priceOfCall || i.Price != priceOfCall || !s.Priced {
			t.Errorf("%s: settled: %t, with %+v, and the intent is %+v", id, ok, s, i)
		}
		if s.Outcome == reqlog.Estimated {
			cut++
		}
		if e := log[id]; len(e) != 1 || int64(e[0].Cost) != priceOfCall {
			t.Errorf("%s is %d times in the log: %+v", id, len(e), e)
		}
		sum.AddSettlement(&s)
	}
	for id := range c.complete {
		if s := c.settled[id]; s.Outcome != reqlog.Answered {
			t.Errorf("%s: the client has the result, and the ledger %+v", id, s)
		}
	}
	db, err := store.Open(t.Context(), "file:"+filepath.Join(data, "modelgate.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for kind, id := range map[string]string{store.KeyBudget: "bootstrap", store.WorkspaceBudget: store.DefaultWorkspace} {
		if got, err := db.Spending(t.Context(), kind, id); err != nil || got[id] != sum || int(sum.Cost) != priceOfCall*len(c.intents) {
			t.Errorf("the %s spent %+v by the counters, %+v by the ledger, with %d calls: %v", kind, got[id], sum, len(c.intents), err)
		}
	}
	summary, _ := json.Marshal(map[string]int{"sent": len(c.intents), "served": tools.Count("tools/call"), "results": len(c.complete), "cut": cut})
	t.Logf("calls: %s", summary)
}
