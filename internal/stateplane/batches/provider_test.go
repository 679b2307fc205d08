package batches_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

const day = `,"completion_window":"24h"`

// batchesThere returns how many batches the provider has.
func (c *client) batchesThere() int {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), "GET", c.Upstream+"/batches", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+gatewaytest.SimulatorKey)
	var list struct{ Data []json.RawMessage }
	if res := c.Do(r); json.Unmarshal(res.Body, &list) != nil || res.Status != http.StatusOK {
		c.t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	return len(list.Data)
}

// TestABatchWhoseCreationWasNotAnsweredIsFound has the provider create a batch and cut the
// connection.
func TestABatchWhoseCreationWasNotAnsweredIsFound(t *testing.T) {
	c := start(t, gatewaytest.Options{})
	b := c.create(c.upload(lines(3, "gpt-4o+lost+times=1"), "batch"), day, "x-gateway-provider", "@openai")
	if b["status"] != "validating" {
		t.Errorf("created: %v", b)
	}
	b = c.await(b["id"].(string))
	if n := c.batchesThere(); b["status"] != "completed" || n != 1 {
		t.Fatalf("%d batches at the provider; %v", n, b)
	}
	once(t, 3, c.rows(b["output_file_id"]), c.rows(b["error_file_id"]))
}

// TestEndsOfBatchesOfProvidersAreSettled has batches that end without all results.
func TestEndsOfBatchesOfProvidersAreSettled(t *testing.T) {
	for _, tt := range []struct {
		fault, state string
		cancel, paid bool
	}{{"expire", "expired", false, true}, {"fail", "failed", false, false}, {"slow-cancel", "cancelled", true, false}} {
		t.Run(tt.state, func(t *testing.T) {
			c := start(t, gatewaytest.Options{})
			const n = 6
			id := c.create(c.upload(lines(n, "gpt-4o+job="+tt.fault), "batch"), day, "x-gateway-provider", "@openai")["id"].(string)
			if tt.cancel {
				if b := c.ok("POST", "/batches/"+id+"/cancel", ""); b["status"] != "cancelling" {
					t.Errorf("cancelled: %v", b)
				}
			}
			b := c.await(id)
			var entries []any
			waittest.Until(t, "the log entry", func() bool {
				entries = c.ok("GET", "/logs?operation=batches&provider=openai", "")["data"].([]any)
				return len(entries) > 0
			})
			usage := entries[0].(map[string]any)["usage"]
			if b["status"] != tt.state || len(entries) != 1 || tt.paid != (usage != nil) {
				t.Errorf("%d entries, usage %v: %v", len(entries), usage, b)
			}
			good := c.rows(b["output_file_id"])
			if tt.paid != (len(good) > 0) || len(good) == n {
				t.Errorf("%d lines have a response", len(good))
			}
		})
	}
}

// TestReadersAndNodesSettleABatchOnce has two gateways on one database follow a batch, and
// clients read it all the time.
func TestReadersAndNodesSettleABatchOnce(t *testing.T) {
	if testing.Short() {
		return // needs PostgreSQL
	}
	dsn, data, second := storetest.Postgres(t), t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(data, "blob", "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(data, "blob"), filepath.Join(second, "blob")); err != nil {
		t.Fatal(err)
	}
	c := start(t, gatewaytest.Options{Database: dsn, Data: data})
	settings := fmt.Sprintf("providers:\n  - {slug: openai, provider: openai, custom_host: %q, api_key: \"${SIM_KEY}\"}\n", c.Upstream)
	other := &client{gatewaytest.New(t, gatewaytest.Options{Database: dsn, Data: second, MasterKey: masterKey, Settings: settings}), t, gatewaytest.Key}
	id := c.create(c.upload(lines(5, "gpt-4o"), "batch"), day, "x-gateway-provider", "@openai")["id"].(string)
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			if i%2 == 0 {
				c.await(id)
			} else {
				other.await(id)
			}
		})
	}
	readers.Wait()
	b := c.await(id)
	once(t, 5, c.rows(b["output_file_id"]), c.rows(b["error_file_id"]))
	var bill float64 // US cents
	waittest.Until(t, "the log entry", func() bool {
		for _, from := range []*client{c, other} { // each gateway has a log of its own
			for _, e := range from.ok("GET", "/logs?operation=batches&provider=openai", "")["data"].([]any) {
				bill, _ = e.(map[string]any)["cost"].(float64)
			}
		}
		return bill > 0
	})
	c.Stop()
	other.Stop()
	spent, err := storetest.Open(t, dsn).Spending(t.Context(), store.WorkspaceBudget, store.DefaultWorkspace)
	if err != nil {
		t.Fatal(err)
	}
	got, used := spent[store.DefaultWorkspace], b["usage"].(map[string]any)["total_tokens"].(float64)
	if got.Tokens != int64(used) || got.Unpriced != 0 || got.Cost <= 0 || math.Abs(float64(got.Cost)-bill*1e7) > 1 || b["status"] != "completed" {
		t.Errorf("spent %+v for a batch of %v tokens and %v cents: %v", got, used, bill, b)
	}
}

// TestAProviderThatFailsLeavesTheLastKnownState reads a batch whose provider answers with an
// error, and again when it answers.
func TestAProviderThatFailsLeavesTheLastKnownState(t *testing.T) {
	var failing atomic.Bool
	sim := simulator.New(simulator.Options{Key: gatewaytest.SimulatorKey})
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failing.Load() && r.Method == http.MethodGet {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		sim.ServeHTTP(w, r)
	})
	c := start(t, gatewaytest.Options{Upstream: up})
	id := c.create(c.upload(lines(3, "gpt-4o+takes=10s"), "batch"), day, "x-gateway-provider", "@openai")["id"].(string)
	failing.Store(true)
	waittest.Until(t, "a read that asks the provider", func() bool {
		res := c.do("GET", "/batches/"+id, "")
		if b := res.JSON(t); res.Status != http.StatusOK || b["id"] != id || b["status"] != "validating" {
			t.Fatalf("status %d: %s", res.Status, res.Body)
		}
		age, err := strconv.Atoi(res.Header.Get("x-gateway-stale"))
		return err == nil && age >= 1
	})
	failing.Store(false)
	if res := c.do("GET", "/batches/"+id, ""); res.Header.Get("x-gateway-stale") != "" || res.Status != http.StatusOK {
		t.Errorf("status %d, %v: %s", res.Status, res.Header, res.Body)
	}
}

// TestBatchesThatNobodyFollowsAreRefused has a file at a provider whose batches the gateway
// does not know.
func TestBatchesThatNobodyFollowsAreRefused(t *testing.T) {
	c := start(t, gatewaytest.Options{Settings: `  - {slug: other, provider: deepinfra, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
`})
	file := c.upload(lines(2, "gpt-4o"), "batch", "x-gateway-provider", "@other")
	before := c.batchesThere()
	res := c.do("POST", "/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions"%s}`, file, day))
	e, _ := res.JSON(t)["error"].(map[string]any)
	if e["code"] != "unsupported_operation" || e["param"] != "input_file_id" || !strings.Contains(fmt.Sprint(e["message"]), "upload the file without") {
		t.Errorf("status %d: %s", res.Status, res.Body)
	}
	if n := c.batchesThere(); n != before {
		t.Errorf("the provider has %d batches", n)
	}
}

// TestARelayedBatchWhoseCreationWasNotAnsweredIsSettledOnce has the provider create a batch of
// a file that it has, and cut the connection. The client tries again, as it may.
func TestARelayedBatchWhoseCreationWasNotAnsweredIsSettledOnce(t *testing.T) {
	c := start(t, gatewaytest.Options{})
	file := c.upload(lines(3, "gpt-4o+lost+times=1"), "batch", "x-gateway-provider", "@openai")
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions"%s}`, file, day)
	if res := c.do("POST", "/batches", body); res.Status != http.StatusBadGateway {
		t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	c.ok("POST", "/batches", body)
	waittest.Until(t, "the end of both batches", func() bool {
		ended := 0
		for _, b := range c.ok("GET", "/batches", "")["data"].([]any) {
			if b.(map[string]any)["status"] == "completed" {
				ended++
			}
		}
		return ended == 2
	})
	for _, b := range c.ok("GET", "/batches", "")["data"].([]any) {
		once(t, 3, c.rows(b.(map[string]any)["output_file_id"]))
	}
	waittest.Until(t, "the settlements in the log", func() bool {
		paid := 0
		for _, e := range c.ok("GET", "/logs?operation=batches&provider=openai", "")["data"].([]any) {
			if e.(map[string]any)["usage"] != nil {
				paid++
			}
		}
		if paid > 2 {
			t.Fatalf("two batches are settled %d times", paid)
		}
		return paid == 2
	})
	if n := c.batchesThere(); n != 2 {
		t.Errorf("%d batches at the provider", n)
	}
}
