package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/waittest"
)

// What went wrong at other gateways with batches of providers: in their books, with their
// owners, and in their shape.

// vendorLines returns n lines for a batch of a provider.
func vendorLines(n int, model string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":"hi"}]}}`+"\n", i, model)
	}
	return b.String()
}

// vendorBatch creates a batch of a provider with n lines for a model, and returns its id.
func (g *gateway) vendorBatch(t *testing.T, n int, model string) string {
	t.Helper()
	file := g.upload(t, "batch", vendorLines(n, model), "x-gateway-provider", "@sim")
	b := g.do(t, "POST", "/v1/batches", `{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, managed("@sim")...).wantOK(t).object(t)
	return b["id"].(string)
}

// bills returns the log entries of batches of providers, once there are n or more.
func (g *gateway) bills(t *testing.T, n int) (list []any) {
	t.Helper()
	waittest.Until(t, fmt.Sprint(n, " log entries of batches"), func() bool {
		list, _ = g.do(t, "GET", "/v1/logs?operation=batches&provider=openai", "", own()...).wantOK(t).object(t)["data"].([]any)
		return len(list) >= n
	})
	return list
}

// wantTokens fails the test unless a log entry has the tokens of a batch.
func wantTokens(t *testing.T, entry any, b map[string]any) {
	t.Helper()
	if tokens := fmt.Sprint(at(b, "usage", "total_tokens")); fmt.Sprint(at(entry, "usage", "total_tokens")) != tokens || tokens == "0" {
		t.Errorf("the entry has the usage %v, the batch %v", at(entry, "usage"), b["usage"])
	}
}

// wantBill fails the test unless a log entry has the tokens of a batch, and a cost.
func wantBill(t *testing.T, entry any, b map[string]any) {
	t.Helper()
	wantTokens(t, entry, b)
	if cost := fmt.Sprint(at(entry, "cost")); cost == "<nil>" || cost == "0" {
		t.Errorf("the entry has the cost %s: %v", cost, entry)
	}
}

func TestABatchIsBilledWhenItsClientSeesTheEndFirst(t *testing.T) {
	g := keeping(t)
	id := g.vendorBatch(t, 3, "gpt-4o")
	b := g.batchAfter(t, id, "completed") // reads all the time
	wantBill(t, g.bills(t, 1)[0], b)
}

func TestABatchIsBilledThatNobodyReads(t *testing.T) {
	g := keeping(t)
	id := g.vendorBatch(t, 3, "gpt-4o")
	entry := g.bills(t, 1)[0]
	wantBill(t, entry, g.batchAfter(t, id, "completed"))
}

func TestABatchIsBilledOnce(t *testing.T) {
	g := keeping(t)
	first, second := g.vendorBatch(t, 3, "gpt-4o"), g.vendorBatch(t, 5, "gpt-4o")
	var readers sync.WaitGroup
	for range 4 {
		for _, id := range []string{first, second} {
			readers.Go(func() { g.batchAfter(t, id, "completed") })
		}
	}
	readers.Wait()
	g.bills(t, 2)
	for range 10 {
		g.do(t, "GET", "/v1/batches/"+first, "", own()...).wantOK(t)
	}
	if list := g.bills(t, 2); len(list) != 2 || at(list[0], "id") == at(list[1], "id") {
		t.Errorf("%d entries of two batches: %v", len(list), list)
	}
}

// TestBatchesWithoutAllResultsAreBilled has batches that end early: what they have is billed.
func TestBatchesWithoutAllResultsAreBilled(t *testing.T) {
	for _, tt := range []struct {
		state, fault string
		billed       bool
	}{{"expired", "expire", true}, {"failed", "fail", false}, {"cancelled", "slow-cancel", false}} {
		t.Run(tt.state, func(t *testing.T) {
			g := keeping(t)
			id := g.vendorBatch(t, 6, "gpt-4o+job="+tt.fault)
			if tt.state == "cancelled" {
				g.do(t, "POST", "/v1/batches/"+id+"/cancel", "", own()...).wantOK(t)
			}
			b := g.batchAfter(t, id, tt.state)
			entry := g.bills(t, 1)[0]
			if !tt.billed {
				if at(entry, "usage") != nil || b["output_file_id"] != nil {
					t.Errorf("usage %v of a batch without results: %v", at(entry, "usage"), b)
				}
				return
			}
			if lines := g.resultLines(t, b["output_file_id"]); len(lines) == 0 || len(lines) >= 6 {
				t.Errorf("%d results", len(lines))
			}
			wantTokens(t, entry, b) // the simulator's words in the name of the model have no price
		})
	}
}

func TestABatchIsBilledToTheKeyThatCreatedIt(t *testing.T) {
	g := keeping(t)
	made := g.do(t, "POST", "/v1/api-keys/workspace/service", `{"name":"maker","workspace_id":"default","scopes":["completions.write"]}`, own()...).wantOK(t).object(t)
	key, keyID := made["key"].(string), made["id"]
	file := g.upload(t, "batch", vendorLines(2, "gpt-4o"), "x-gateway-provider", "@sim")
	var b response
	waittest.Until(t, "the key is known", func() bool {
		b = g.do(t, "POST", "/v1/batches", `{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, "x-gateway-api-key", key, "x-gateway-provider", "@sim")
		return b.status != http.StatusUnauthorized
	})
	g.batchAfter(t, b.wantOK(t).object(t)["id"].(string), "completed") // read by another key
	if entry := g.bills(t, 1)[0]; at(entry, "api_key", "id") != keyID {
		t.Errorf("the key of the entry is %v, want %v: %v", at(entry, "api_key", "id"), keyID, entry)
	}
}

func TestABatchWithoutAPriceCostsNothingKnown(t *testing.T) {
	g := keeping(t)
	g.batchAfter(t, g.vendorBatch(t, 2, "model-of-nobody"), "completed")
	entry := g.bills(t, 1)[0].(map[string]any)
	if cost, isThere := entry["cost"]; cost != nil || !isThere {
		t.Errorf("cost = %v, want null", cost)
	}
	if at(entry, "usage") == nil {
		t.Errorf("no usage: %v", entry)
	}
}

// TestAProviderThatHangsDelaysNoOtherBatch has twenty batches at a provider that answers no
// question about them.
func TestAProviderThatHangsDelaysNoOtherBatch(t *testing.T) {
	ends := make(chan struct{})
	var created atomic.Int64
	stuck := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
		body := `{"object":"file","id":"file-1","bytes":1,"created_at":1700000001,"filename":"a.jsonl","purpose":"batch","status":"processed"}`
		switch {
		case r.Method == http.MethodGet:
			select {
			case <-ends:
			case <-r.Context().Done():
			}
			return
		case strings.HasSuffix(r.URL.Path, "/batches"):
			body = strings.ReplaceAll(strings.ReplaceAll(batch, "STATUS", "in_progress"), "batch_1", fmt.Sprint("batch_", created.Add(1)))
		}
		says(http.StatusOK, "application/json", body)(w, r, in)
	})
	defer close(ends)
	g := launchFor(t, "version: 1\nproviders:\n  - {slug: sim, provider: openai, custom_host: \""+simulate(t)+"/v1\", api_key: \"${STORED_KEY}\"}\n"+
		"  - {slug: stuck, provider: openai, custom_host: \""+stuck.url+"\", api_key: \"${STORED_KEY}\"}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	file := g.upload(t, "batch", vendorLines(1, "gpt-4o"), "x-gateway-provider", "@stuck")
	for range 20 {
		g.do(t, "POST", "/v1/batches", `{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, managed("@stuck")...).wantOK(t)
	}
	g.vendorBatch(t, 2, "gpt-4o")
	g.bills(t, 1) // nobody read the batch
}

func TestABatchWhoseCreationWasNotAnsweredIsFollowed(t *testing.T) {
	g := keeping(t)
	file := g.upload(t, "batch", vendorLines(3, "gpt-4o+lost+times=1"))
	made := g.do(t, "POST", "/v1/batches", `{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, managed("@sim")...).wantOK(t).object(t)
	b := g.batchAfter(t, made["id"].(string), "completed")
	wantTokens(t, g.bills(t, 1)[0], b)
	if list := g.bills(t, 1); len(list) != 1 {
		t.Errorf("%d entries, want that of one batch: %v", len(list), list)
	}
}

// TestBatchesBelongToTheirWorkspace creates a batch with one key and goes on with others.
func TestBatchesBelongToTheirWorkspace(t *testing.T) {
	g, ids, foreignKey := keptObjects(t)
	colleague := g.do(t, "POST", "/v1/api-keys/workspace/service", `{"name":"colleague","workspace_id":"default","scopes":["completions.write"]}`, own()...).wantOK(t).object(t)["key"].(string)
	waittest.Until(t, "the key is known", func() bool {
		return g.do(t, "GET", "/v1/batches", "", "x-gateway-api-key", colleague).status != http.StatusUnauthorized
	})
	b := g.batchAfter(t, g.vendorBatch(t, 2, "gpt-4o"), "completed")
	for name, batch := range map[string]map[string]any{
		"of a provider": b, "of the gateway": g.batchAfter(t, ids["BATCH"], "completed"),
	} {
		t.Run("results of a batch "+name, func(t *testing.T) {
			path := "/v1/files/" + batch["output_file_id"].(string) + "/content"
			g.do(t, "GET", path, "", "x-gateway-api-key", foreignKey).refused(t, http.StatusNotFound)
			if lines := g.do(t, "GET", path, "", "x-gateway-api-key", colleague).wantOK(t); !strings.Contains(string(lines.body), `"custom_id"`) {
				t.Errorf("%s", lines.body)
			}
		})
	}
	t.Run("a colleague reads and cancels", func(t *testing.T) {
		id := g.vendorBatch(t, 2, "gpt-4o+job=hang")
		g.do(t, "GET", "/v1/batches/"+id, "", "x-gateway-api-key", colleague).wantOK(t)
		g.do(t, "POST", "/v1/batches/"+id+"/cancel", "", "x-gateway-api-key", colleague).wantOK(t)
		g.batchAfter(t, id, "cancelled")
	})
}

// TestObjectsAreReadAtTheirProvider has two providers of one kind.
func TestObjectsAreReadAtTheirProvider(t *testing.T) {
	at := func(name string) *provider {
		return newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
			if r.Method != http.MethodPost && !strings.Contains(in.uri, name) {
				says(http.StatusNotFound, "application/json", `{"error":{"message":"not here","type":"invalid_request_error"}}`)(w, r, in)
				return
			}
			says(http.StatusOK, "application/json", `{"object":"file","id":"file-`+name+`","bytes":1,"created_at":1700000001,"filename":"a.jsonl","purpose":"batch","status":"processed"}`)(w, r, in)
		})
	}
	one, two := at("one"), at("two")
	g := launchFor(t, "version: 1\nproviders:\n  - {slug: one, provider: openai, custom_host: \""+one.url+"\", api_key: \"${STORED_KEY}\"}\n"+
		"  - {slug: two, provider: openai, custom_host: \""+two.url+"\", api_key: \"${STORED_KEY}\"}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	for _, name := range []string{"one", "two"} {
		id := g.upload(t, "batch", "{}", "x-gateway-provider", "@"+name)
		g.do(t, "GET", "/v1/files/"+id, "", own()...).wantOK(t)
		g.do(t, "GET", "/v1/files/"+id, "", managed("@"+name)...).wantOK(t)
	}
	for _, p := range []*provider{one, two} {
		if got := len(p.requests()); got != 3 {
			t.Errorf("a provider got %d requests, want 3", got)
		}
	}
}

func TestIDsOfResultsStayTheSame(t *testing.T) {
	g := keeping(t)
	id := g.vendorBatch(t, 2, "gpt-4o")
	b := g.batchAfter(t, id, "completed")
	var readers sync.WaitGroup
	bodies := make([]string, 8)
	for i := range bodies {
		readers.Go(func() { bodies[i] = string(g.do(t, "GET", "/v1/batches/"+id, "", own()...).wantOK(t).body) })
	}
	readers.Wait()
	for _, body := range bodies {
		if body != bodies[0] {
			t.Errorf("%s\n%s", body, bodies[0])
		}
	}
	file := b["output_file_id"].(string)
	if f := g.do(t, "GET", "/v1/files/"+file, "", own()...).wantOK(t).object(t); f["id"] != file || b["input_file_id"] == file {
		t.Errorf("the file of results %s is %v", file, f)
	}
	if n := len(g.resultLines(t, file)); n != 2 {
		t.Errorf("%d results", n)
	}
}

func TestCancellingABatchReachesItsProvider(t *testing.T) {
	g := keeping(t)
	id := g.vendorBatch(t, 2, "gpt-4o+job=hang")
	g.do(t, "POST", "/v1/batches/"+id+"/cancel", "", own()...).wantOK(t)
	g.batchAfter(t, id, "cancelled")
	r, err := http.NewRequestWithContext(t.Context(), "GET", simulate(t)+"/v1/batches/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+storedKey)
	if there := send(t, r).wantOK(t).object(t); there["status"] != "cancelled" {
		t.Errorf("at the provider the batch is %v", there["status"])
	}
}

func TestABatchWithoutASuccessEnds(t *testing.T) {
	g := keeping(t)
	file := g.upload(t, "batch", vendorLines(3, "@sim/gpt-4o+status=400"))
	for name, id := range map[string]string{
		"of a provider":  g.vendorBatch(t, 3, "gpt-4o+status=400"),
		"of the gateway": g.newBatch(t, file, `,"completion_window":"immediate"`).wantOK(t).object(t)["id"].(string),
	} {
		t.Run(name, func(t *testing.T) {
			b := g.batchAfter(t, id, "completed")
			if counts := fmt.Sprint(b["request_counts"]); b["output_file_id"] != nil || counts != "map[completed:0 failed:3 total:3]" {
				t.Errorf("%v", b)
			}
			if n := len(g.resultLines(t, b["error_file_id"])); n != 3 {
				t.Errorf("%d failures", n)
			}
		})
	}
}

// TestAFailedResponseIsReported has a provider whose stream ends in response.failed.
func TestAFailedResponseIsReported(t *testing.T) {
	const failed = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"in_progress\",\"model\":\"m-1\",\"output\":[]}}\n\n" +
		"event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":1,\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"failed\",\"model\":\"m-1\",\"output\":[],\"error\":{\"code\":\"server_error\",\"message\":\"broken\"}}}\n\n"
	p := newProvider(t, streams(failed))
	g := launchFor(t, "version: 1\nproviders:\n  - {slug: first, provider: openai, custom_host: \""+p.url+"\", api_key: \"${STORED_KEY}\"}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	got := g.do(t, "POST", "/v1/responses", `{"model":"m-1","input":"hi","stream":true}`, managed("@first")...)
	if body := string(got.body); got.status == http.StatusOK && !strings.Contains(body, `"type":"response.failed"`) || !strings.Contains(body, "broken") {
		t.Errorf("status %d: %s", got.status, body)
	}
	if e := g.entry(t, got); e["outcome"] == "success" {
		t.Errorf("the log says of a failed response %s", jsonText(e))
	}
}

// TestCredentialsGoToTheHostOfTheProviderOnly has a batch of messages whose results_url is
// at another host.
func TestCredentialsGoToTheHostOfTheProviderOnly(t *testing.T) {
	other := newProvider(t, says(http.StatusOK, "application/x-jsonl", "{}\n"))
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
		body := `{"id":"msgbatch_1","type":"message_batch","processing_status":"ended","results_url":"` + other.url + `/messages/batches/msgbatch_1/results"}`
		if strings.HasSuffix(in.uri, "/results") {
			body = `{"custom_id":"a","result":{"type":"canceled"}}` + "\n"
		}
		says(http.StatusOK, "application/json", body)(w, r, in)
	})
	g := launchFor(t, "version: 1\nproviders:\n  - {slug: ant, provider: anthropic, custom_host: \""+p.url+"\", api_key: \"${STORED_KEY}\"}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	made := g.do(t, "POST", "/v1/messages/batches", `{"requests":[{"custom_id":"a","params":{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}}]}`, managed("@ant", "anthropic-version", "2023-06-01")...).wantOK(t).object(t)
	address, _ := made["results_url"].(string)
	if strings.Contains(address, other.host) {
		t.Errorf("results_url = %s, which clients send their key to", address)
	}
	got := g.do(t, "GET", "/v1/messages/batches/msgbatch_1/results", "", managed("@ant", "anthropic-version", "2023-06-01")...).wantOK(t)
	if !strings.Contains(string(got.body), "canceled") {
		t.Errorf("%s", got.body)
	}
	other.wantNoRequests(t)
}
