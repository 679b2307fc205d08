package batches_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// withBudget returns a client whose key has a budget of tokens.
func (c *client) withBudget(tokens int) *client {
	c.t.Helper()
	made := c.ok("POST", "/api-keys/workspace/service",
		fmt.Sprintf(`{"name":"k","workspace_id":"default","scopes":["completions.write"],"usage_limits":[{"type":"tokens","credit_limit":%d}]}`, tokens))
	return &client{c.Gateway, c.t, made["key"].(string)}
}

// budget returns what is used and reserved of the first budget of the key or a policy.
func (c *client) budget(holder string) (used, reserved float64) {
	c.t.Helper()
	e := c.ok("POST", "/explain", `{"request":{"path":"/v1/chat/completions","headers":{"x-gateway-provider":"@openai"},"body":{"model":"gpt-4o","messages":[{"role":"user","content":"a"}]}}}`)
	attempt, ok := e["attempt"].(map[string]any)
	if !ok {
		c.t.Fatalf("explained: %v", e)
	}
	for _, l := range attempt["limits"].([]any) {
		if l := l.(map[string]any); l["holder"] == holder {
			return l["used"].(float64), l["reserved"].(float64)
		}
	}
	c.t.Fatalf("no limit of a %s: %v", holder, attempt["limits"])
	return 0, 0
}

// capped returns n lines that allow some tokens of output.
func capped(n, tokens int, model string) string {
	return strings.ReplaceAll(lines(n, model), `"messages"`, fmt.Sprintf(`"max_tokens":%d,"messages"`, tokens))
}

// TestABatchReservesItsBudget has a batch whose lines last. What it reserved outlives the
// gateway, is not counted twice with what its lines reserve, and ends with the batch.
func TestABatchReservesItsBudget(t *testing.T) {
	data := t.TempDir()
	settings := "batches: {concurrency: 1}\n"
	c := start(t, gatewaytest.Options{Data: data, Settings: settings})
	k := c.withBudget(100_000)
	const n, output, most = 30, 1000, 1050 // tokens of a line
	id := k.create(k.upload(capped(n, output, "@openai/gpt-4o+headers=5m"), "batch"), now)["id"].(string)
	check := func(when string) {
		t.Helper()
		waittest.Until(t, "the reservation "+when, func() bool {
			_, reserved := k.budget("key")
			if reserved > n*most {
				t.Fatalf("%s: %v tokens are reserved for %d lines of at most %d", when, reserved, n, most)
			}
			return reserved >= (n-2)*output
		})
	}
	check("after the creation")
	waittest.Until(t, "a line in flight", func() bool { return k.ok("GET", "/batches/"+id, "")["status"] == "in_progress" })
	check("while a line is sent")
	c.Stop()
	k.Gateway = start(t, gatewaytest.Options{Data: data, Settings: settings}).Gateway
	if _, reserved := k.budget("key"); reserved < (n-3)*output {
		t.Errorf("%v tokens are reserved after a start", reserved)
	}
	check("after a start")
	k.ok("POST", "/batches/"+id+"/cancel", "")
	k.await(id)
	waittest.Until(t, "the end of the reservation", func() bool {
		_, reserved := k.budget("key")
		return reserved == 0
	})
}

// TestAReservationIsForItsOwnLines has lines that use all of their budget, of which others
// get nothing.
func TestAReservationIsForItsOwnLines(t *testing.T) {
	c := start(t, gatewaytest.Options{Settings: "batches: {concurrency: 1}\n"})
	k := c.withBudget(10_000)
	input := capped(1, 1000, "@openai/gpt-4o+headers=5m") + strings.ReplaceAll(capped(20, 1000, "@openai/gpt-4o"), `:"c`, `:"d`)
	id := k.create(k.upload(input, "batch"), now)["id"].(string)
	waittest.Until(t, "the first line", func() bool { return k.ok("GET", "/batches/"+id, "")["status"] == "in_progress" })
	res := k.do("POST", "/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"a"}]}`, "x-gateway-provider", "@openai")
	for res.Status == http.StatusOK { // the share of lines that may be in flight is not reserved
		res = k.do("POST", "/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"a"}]}`, "x-gateway-provider", "@openai")
	}
	if res.Status != http.StatusPreconditionFailed || !strings.Contains(string(res.Body), "reserved") {
		t.Errorf("another request: status %d: %s", res.Status, res.Body)
	}
	k.ok("POST", "/batches/"+id+"/cancel", "")
	k.await(id)
}

// TestBatchesOverTheirBudgetAreRefused has batches that must fit, run here and at providers.
func TestBatchesOverTheirBudgetAreRefused(t *testing.T) {
	for name, h := range map[string][]string{"here": nil, "there": {"x-gateway-provider", "@openai"}} {
		t.Run(name, func(t *testing.T) {
			k := start(t, gatewaytest.Options{Settings: "batches: {over_budget: refuse}\n"}).withBudget(5_000)
			more, model := now, "@openai/gpt-4o"
			if h != nil {
				more, model = day, "gpt-4o"
			}
			body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions"%s}`, k.upload(capped(10, 1000, model), "batch"), more)
			res := k.do("POST", "/batches", body, h...)
			if text := string(res.Body); res.Status != http.StatusPreconditionFailed || !strings.Contains(text, "budget_exhausted") ||
				!strings.Contains(text, "this gateway key has 5000 tokens left and the batch is estimated at 1") {
				t.Errorf("status %d: %s", res.Status, text)
			}
			if list := k.ok("GET", "/batches", ""); len(list["data"].([]any)) != 0 {
				t.Errorf("it was stored: %v", list)
			}
			if _, reserved := k.budget("key"); reserved != 0 {
				t.Errorf("%v tokens are reserved", reserved)
			}
			id := k.create(k.upload(capped(4, 1000, model), "batch"), more, h...)["id"].(string)
			if b := k.await(id); b["status"] != "completed" {
				t.Errorf("%v", b)
			}
			k.ok("GET", "/batches/"+id, "")
			waittest.Until(t, "the end of the reservation", func() bool {
				used, reserved := k.budget("key")
				return reserved == 0 && used > 0
			})
		})
	}
}

// TestABatchRunsToTheEndOfItsBudget has lines that fail with the name of the limit.
func TestABatchRunsToTheEndOfItsBudget(t *testing.T) {
	c := start(t, gatewaytest.Options{Settings: "batches: {concurrency: 1}\n"})
	k := c.withBudget(100)
	b := k.await(k.create(k.upload(lines(20, "@openai/gpt-4o"), "batch"), now)["id"].(string))
	good, bad := c.rows(b["output_file_id"]), c.rows(b["error_file_id"])
	once(t, 20, good, bad)
	if len(good) == 0 || len(bad) == 0 {
		t.Fatalf("%d lines succeeded and %d failed", len(good), len(bad))
	}
	for _, r := range bad {
		if r.Error == nil || r.Error.Code != "budget_exhausted" || !strings.Contains(r.Error.Message, "the budget of this gateway key") {
			t.Errorf("%+v", r.Error)
		}
	}
}

// TestPoliciesCountBatchesAtProviders has policies by model count what lines for it used.
func TestPoliciesCountBatchesAtProviders(t *testing.T) {
	c := start(t, gatewaytest.Options{})
	for _, p := range []string{
		`"type":"tokens","credit_limit":100000,"conditions":[{"key":"model","value":"gpt-4o"}],"group_by":[{"key":"metadata.team"}]`,
		`"type":"requests","credit_limit":100000,"conditions":[{"key":"model","value":"gpt-4o"}],"group_by":[{"key":"api_key"}]`,
		`"type":"tokens","credit_limit":100000,"conditions":[{"key":"model","value":"gpt-4o-mini"}],"group_by":[{"key":"api_key"}]`,
	} {
		res := c.do("POST", "/policies/usage-limits", `{"name":"p","workspace_id":"default",`+p+`}`)
		if res.Status != http.StatusOK && res.Status != http.StatusCreated {
			t.Fatalf("status %d: %s", res.Status, res.Body)
		}
	}
	id := c.create(c.upload(capped(6, 50, "gpt-4o"), "batch"), day, "x-gateway-provider", "@openai", "x-gateway-metadata", `{"team":"a"}`)["id"].(string)
	total := c.await(id)["usage"].(map[string]any)["total_tokens"].(float64)
	var got string
	want := fmt.Sprint([]any{total, 6.0, "none"})
	waittest.Until(t, "the counters of policies", func() bool {
		var counts []any
		list := c.ok("GET", "/policies/usage-limits", "")["data"].([]any)
		for i := range list {
			p := list[len(list)-1-i].(map[string]any)
			entities := c.ok("GET", "/policies/usage-limits/"+p["id"].(string)+"/entities", "")["data"].([]any)
			if len(entities) == 0 {
				counts = append(counts, "none")
				continue
			}
			counts = append(counts, entities[0].(map[string]any)["current_usage"])
		}
		got = fmt.Sprint(counts)
		return got == want
	})
}
