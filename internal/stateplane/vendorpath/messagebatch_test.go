package vendorpath_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const messages, haiku, sonnet = "/v1/messages/batches", "claude-haiku-4-5", "claude-sonnet-4-5"

// messageTo is the body of a message to a model.
func messageTo(model string) string {
	return fmt.Sprintf(`{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, model)
}

// messageBatch is the body of a batch with a request to each of the models.
func messageBatch(models ...string) string {
	var list []string
	for i, m := range models {
		list = append(list, fmt.Sprintf(`{"custom_id":"r%d","params":%s}`, i, messageTo(m)))
	}
	return `{"requests":[` + strings.Join(list, ",") + `]}`
}

func createMessages(t *testing.T, g *gatewaytest.Gateway, models ...string) string {
	t.Helper()
	return mustAsk(t, g, "POST", messages, messageBatch(models...))["id"].(string)
}

// awaitMessages reads a batch until it has ended, and its results.
func awaitMessages(t *testing.T, g *gatewaytest.Gateway, id string) (results string) {
	t.Helper()
	waittest.Until(t, "the end of the batch", func() bool { return mustAsk(t, g, "GET", messages+"/"+id, "")["processing_status"] == "ended" })
	res := ask(g, "GET", messages+"/"+id+"/results", "")
	if res.Status != 200 {
		t.Fatalf("results: %d %s", res.Status, res.Body)
	}
	return string(res.Body)
}

// TestBatchesOfMessagesAreSettledOnce has batches that the client reads to their ends all the
// time, and one that nobody reads. Each request is billed by its own model.
func TestBatchesOfMessagesAreSettledOnce(t *testing.T) {
	g := start(t)
	var prices []float64 // of a request, by model
	for _, m := range []string{haiku, sonnet} {
		mustAsk(t, g, "POST", "/v1/messages", messageTo(m), "x-gateway-provider", "@claude")
	}
	waittest.Until(t, "the messages in the log", func() bool {
		prices = nil
		for _, e := range mustAsk(t, g, "GET", "/v1/logs?operation=messages", "")["data"].([]any) {
			if cost, ok := e.(map[string]any)["cost"].(float64); ok {
				prices = append(prices, cost)
			}
		}
		return len(prices) == 2
	})
	id := createMessages(t, g, haiku, sonnet, haiku+"+status=400")
	for range 3 {
		if results := awaitMessages(t, g, id); strings.Count(results, `"succeeded"`) != 2 || strings.Count(results, `"errored"`) != 1 {
			t.Fatalf("results: %s", results)
		}
	}
	read := settled(t, g, "anthropic", 1)
	if half := (prices[0] + prices[1]) / 2; read.cost == nil || half == 0 || math.Abs(*read.cost-half) > half/1e6 {
		t.Errorf("messages cost %v, and both in a batch %v", prices, read)
	}
	unread := createMessages(t, g, haiku, sonnet)
	if both := settled(t, g, "anthropic", 2); both.cost == nil || math.Abs(*both.cost-2**read.cost) > *read.cost/1e6 || both.tokens != 2*read.tokens {
		t.Errorf("one batch costs %v, and two cost %v", read, both)
	}
	for _, b := range mustAsk(t, g, "GET", messages, "")["data"].([]any) {
		if b := b.(map[string]any); b["processing_status"] != "ended" || b["id"] != id && b["id"] != unread {
			t.Errorf("list: %v", b)
		}
	}
	mustAsk(t, g, "DELETE", messages+"/"+id, "")
	if res := ask(g, "GET", messages+"/"+id, ""); res.Status != 404 {
		t.Errorf("deleted: %d %s", res.Status, res.Body)
	}
}

// TestADeletedBatchOfMessagesIsSettled deletes a batch that has ended, and whose results the job
// has not been able to read. It tries to delete one that has not ended.
func TestADeletedBatchOfMessagesIsSettled(t *testing.T) {
	var failing atomic.Bool
	failing.Store(true)
	sim := simulator.New(simulator.Options{Key: gatewaytest.SimulatorKey})
	g := startWith(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failing.Load() && strings.HasSuffix(r.URL.Path, "/results") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		sim.ServeHTTP(w, r)
	})})
	hanging := messages + "/" + createMessages(t, g, haiku+"+job=hang")
	if res := ask(g, "DELETE", hanging, ""); res.Status != 409 || !strings.Contains(string(res.Body), "cancel it") {
		t.Errorf("in progress: %d %s", res.Status, res.Body)
	}
	if b := mustAsk(t, g, "POST", hanging+"/cancel", ""); b["processing_status"] != "canceling" && b["processing_status"] != "ended" {
		t.Errorf("cancelled: %v", b)
	}
	id := createMessages(t, g, haiku)
	waittest.Until(t, "the end of the batch", func() bool { return mustAsk(t, g, "GET", messages+"/"+id, "")["processing_status"] == "ended" })
	if b := mustAsk(t, g, "DELETE", messages+"/"+id, ""); b["id"] != id || b["type"] != "message_batch_deleted" {
		t.Errorf("deleted: %v", b)
	}
	failing.Store(false)
	for _, path := range []string{"", "/results"} {
		if res := ask(g, "GET", messages+"/"+id+path, ""); res.Status != 404 {
			t.Errorf("%s of a deleted batch: %d %s", path, res.Status, res.Body)
		}
	}
	if list := mustAsk(t, g, "GET", messages, "")["data"].([]any); len(list) != 1 {
		t.Errorf("list: %v", list)
	}
	if x := settled(t, g, "anthropic", 1); x.tokens == 0 || x.cost == nil {
		t.Errorf("%v", x)
	}
	waittest.Until(t, "the provider has deleted the batch", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), "GET", g.Upstream+"/messages/batches/"+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("x-api-key", gatewaytest.SimulatorKey)
		r.Header.Set("anthropic-version", "2023-06-01")
		return g.Do(r).Status == 404
	})
}

// TestABatchOfMessagesWithoutAPriceCostsNull has a model that no price is known of.
func TestABatchOfMessagesWithoutAPriceCostsNull(t *testing.T) {
	g := start(t)
	awaitMessages(t, g, createMessages(t, g, haiku, "sim"))
	if x := settled(t, g, "anthropic", 1); x.tokens == 0 || x.cost != nil {
		t.Errorf("%v", x)
	}
}

// TestBatchesOfMessagesCountForBudgets has a key whose budget a batch uses up, and policies by
// model.
func TestBatchesOfMessagesCountForBudgets(t *testing.T) {
	g := start(t)
	const policies = "/policies/usage-limits"
	for _, model := range []string{haiku, sonnet, "other"} {
		res := g.Post(policies, fmt.Sprintf(`{"name":%[1]q,"workspace_id":"default","type":"tokens","credit_limit":100000,`+
			`"conditions":[{"key":"model","value":%[1]q}],"group_by":[{"key":"api_key"}]}`, model), "x-gateway-provider", "")
		if res.Status/100 != 2 {
			t.Fatalf("policy: %d %s", res.Status, res.Body)
		}
	}
	list := func(path string) []any {
		res := g.Get(policies+path, "x-gateway-provider", "")
		data, _ := res.JSON(t)["data"].([]any)
		return data
	}
	key := budgetKey(t, g, 100)
	mustAsk(t, g, "POST", messages, messageBatch(append(slices.Repeat([]string{sonnet}, 50), haiku)...), "x-gateway-api-key", key)
	waittest.Until(t, "the budget refuses", func() bool {
		res := ask(g, "POST", messages, messageBatch(haiku+"+job=hang"), "x-gateway-api-key", key)
		return res.Status == 412
	})
	waittest.Until(t, "the counters of policies", func() bool {
		counts := make(map[string]float64)
		for _, v := range list("") {
			p := v.(map[string]any)
			for _, e := range list("/" + p["id"].(string) + "/entities") {
				counts[p["name"].(string)], _ = e.(map[string]any)["current_usage"].(float64)
			}
		}
		return counts[haiku] > 0 && counts[sonnet] == 50*counts[haiku] && counts["other"] == 0
	})
}

// TestBatchesOfMessagesAreRefusedWhereTheyMustFitIntoABudget has a key with a budget, and one
// without.
func TestBatchesOfMessagesAreRefusedWhereTheyMustFitIntoABudget(t *testing.T) {
	g := startWith(t, gatewaytest.Options{Settings: "batches: {over_budget: refuse}\n"})
	key := budgetKey(t, g, 500)
	if res := ask(g, "POST", messages, messageBatch(haiku), "x-gateway-api-key", key); res.Status != 400 || !strings.Contains(string(res.Body), "a budget binds this key") {
		t.Errorf("with a budget: %d %s", res.Status, res.Body)
	}
	createMessages(t, g, haiku)
}

// TestModelsInBatchesOfMessagesAreChecked has a provider with a list of models.
func TestModelsInBatchesOfMessagesAreChecked(t *testing.T) {
	g := start(t)
	res := g.Do(g.Request("PUT", "/integrations/claude/models", fmt.Sprintf(`{"allow_all_models":false,"models":[{"slug":%q,"enabled":true}]}`, haiku)))
	if res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	waittest.Until(t, "the list of models is in force", func() bool {
		return ask(g, "POST", "/v1/messages", messageTo(sonnet), "x-gateway-provider", "@claude").Status == 403
	})
	createMessages(t, g, haiku)
	for _, size := range []int{0, 2 << 20} { // in memory, and in a stream
		body := `{"requests":[` + strings.Repeat(" ", size) + messageBatch(haiku, sonnet)[len(`{"requests":[`):]
		if res := ask(g, "POST", messages, body); res.Status != 403 || !strings.Contains(string(res.Body), sonnet) {
			t.Errorf("%d spaces: %d %s", size, res.Status, res.Body)
		}
	}
}
