package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/quotatest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// TestLimitsOfToolsHoldOverNodes calls tools through two nodes at once, with each store of
// counters that nodes share: a rate limit of one tool and a budget admit exactly what they say,
// together.
func TestLimitsOfToolsHoldOverNodes(t *testing.T) {
	t.Parallel()
	redis := quotatest.NewRedis(t)
	for name, counters := range map[string]string{
		"redis":    "{store: redis, url: '${COUNTERS_REDIS}', deadline: 10s}",
		"postgres": "{store: postgres, deadline: 10s}",
		"leased":   "{store: leased, deadline: 10s}",
	} {
		t.Run(name, func(t *testing.T) {
			dsn, s := storetest.Postgres(t), new(nodes)
			for range 2 {
				s.list = append(s.list, launchFor(t, "version: 1\nlimits: {counters: "+counters+"}\n", "DATABASE_URL="+dsn, "MODELGATE_TRUSTED_HOSTS=127.0.0.1",
					"MODELGATE_MASTER_KEY=the master key of a conformance test", "COUNTERS_REDIS="+redis.URL()))
			}
			tools := toolservertest.New(t)
			s.addTools(t, "tools", tools.URL, "")
			s.change(t, "PUT", "/v1/mcp-servers/tools/capabilities?workspace_id=default", `{"capabilities":[{"type":"tool","name":"add","price_per_call":0.01}]}`)
			s.change(t, "POST", "/v1/policies/rate-limits", `{"name":"r","workspace_id":"default","target":"mcp_tools","conditions":[{"key":"tool","value":"tools/echo"}],
				"group_by":[{"key":"mcp_server"}],"type":"requests","unit":"rpw","value":7}`)
			s.change(t, "POST", "/v1/policies/usage-limits", `{"name":"b","workspace_id":"default","target":"mcp_tools","conditions":[{"key":"tool","value":"tools/add"}],
				"group_by":[{"key":"workspace_id"}],"type":"cost","credit_limit":0.05,"on_budget_end":"stop"}`)
			later := s.change(t, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["models.list"]}`).object(t)
			s.arrival(t, "the policies apply, as what was changed after them does", func(g *gateway) bool {
				return g.as(t, fmt.Sprint(later["key"]), "GET", "/v1/models", "").status == http.StatusOK
			})
			for tool, want := range map[string]int{"echo": 7, "add": 5} {
				passed := 0
				waittest.Until(t, "the limit is used up", func() bool { // nodes return what they hold of it in advance
					passed += s.callAtOnce(t, "tools__"+tool, 40)
					return passed >= want
				})
				passed += s.callAtOnce(t, "tools__"+tool, 40)
				if passed != want || tools.Count("tools/call "+tool) != want {
					t.Errorf("%d calls of %s passed, and %d reached the server, want %d", passed, tool, tools.Count("tools/call "+tool), want)
				}
			}
		})
	}
}

// callAtOnce calls a tool n times on all nodes at once, and returns how many calls passed. The
// others must be refused for a limit.
func (s *nodes) callAtOnce(t *testing.T, tool string, n int) (passed int) {
	t.Helper()
	answers := make(chan response, n)
	var all sync.WaitGroup
	for i := range n {
		req := s.list[i%len(s.list)].request(t, "POST", "/mcp", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":{"a":%d}}}`, tool, i)),
			"x-gateway-api-key", bootstrapKey, "Content-Type", "application/json")
		all.Go(func() { answers <- send(t, req) })
	}
	all.Wait()
	close(answers)
	for got := range answers {
		switch got.status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests, http.StatusPreconditionFailed, http.StatusPaymentRequired:
			got.failsAlone(t, "a limit")
		default:
			t.Errorf("%s: %d %s", tool, got.status, got.body)
		}
	}
	return passed
}
