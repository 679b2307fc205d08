package dataplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
)

const titan = "amazon.titan-embed-text-v2:0"

// ask posts a body to a path below the root of a gateway.
func askPath(t *testing.T, g *gatewaytest.Gateway, path, body string, header ...string) gatewaytest.Response {
	t.Helper()
	req := g.Request(http.MethodPost, "", body, header...)
	req.URL.Path = path
	return g.Do(req)
}

// manyInputs is a list of n texts as JSON.
func manyInputs(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("input %d", i)
	}
	b, _ := json.Marshal(list)
	return string(b)
}

func TestAModelThatEmbedsOneInputGetsManyOneByOne(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	const n = 30
	for _, tt := range []struct{ model, config string }{
		{titan, `{"provider":"@converse"}`},
		{"amazon.nova-2-multimodal-embeddings-v1:0", `{"provider":"@converse"}`},
		{"m", `{"provider":"@converse","override_params":{"model":"` + titan + `","dimensions":256}}`},
	} {
		t.Run(tt.model, func(t *testing.T) {
			g.Sim.Reset()
			res := g.Post("/embeddings", `{"model":"`+tt.model+`","input":`+manyInputs(n)+`,"dimensions":256,"user":"u"}`, "x-gateway-provider", "", "x-gateway-config", tt.config)
			v := res.JSON(t)
			if res.Status != 200 || len(v["data"].([]any)) != n {
				t.Fatalf("status %d: %.300s", res.Status, res.Body)
			}
			for i := range n {
				want := simulator.Vector(fmt.Sprintf("input %d", i), 256)[0]
				if at(v, fmt.Sprintf("data.%d.index", i)) != float64(i) || float32(at(v, fmt.Sprintf("data.%d.embedding.0", i)).(float64)) != want {
					t.Fatalf("vector %d is not that of its input", i)
				}
			}
			sent := g.Sim.Requests()
			total := 0
			for i := range n {
				total += (len(fmt.Sprintf("input %d", i)) + 3) / 4
			}
			e := g.Entry(res)
			if len(sent) != n || at(v, "usage.prompt_tokens") != float64(total) || len(e["attempts"].([]any)) != 1 || at(e, "usage.prompt_tokens") != float64(total) {
				t.Errorf("%d requests, usage %v, want %d tokens; recorded %v", len(sent), v["usage"], total, e)
			}
			if p := res.Header.Get("x-gateway-params"); p != "user;dropped" {
				t.Errorf("params %q", p)
			}
		})
	}
}

func TestOneFailureOfManyInputsFailsAll(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: strings.Replace(pairSettings, "limits: {", "limits: {attempts: 1000, ", 1), Simulator: recorder.Options{Record: 50}})
	for fault, want := range map[string]int{"status=429+every=7": 429, "reset+every=7": 502, "malformed=1+every=7": 502, "content-type=text/event-stream+every=7": 502} {
		model := titan + "+" + strings.ReplaceAll(fault, "malformed=1", "cut=20")
		g.Sim.Reset()
		res := g.Post("/embeddings", `{"model":"`+model+`","input":`+manyInputs(300)+`}`, "x-gateway-provider", "@converse")
		if e := g.Entry(res); res.Status != want || str(at(res.JSON(t), "error.message")) == "" || len(e["attempts"].([]any)) != 1 {
			t.Errorf("%s: status %d, want %d: %.300s", fault, res.Status, want, res.Body)
		}
		if n := g.Sim.Calls(model); n >= 300 {
			t.Errorf("%s: %d requests were sent, want none after the failure", fault, n)
		}
	}
	g = newPairs(t) // of the other one requests may still be on their way
	for body, param := range map[string]string{`["a",""]`: "input[1]", `["a",1]`: "input[1]", `["a",{"image":"%%"}]`: "input[1]"} {
		g.Sim.Reset()
		res := g.Post("/embeddings", `{"model":"`+titan+`","input":`+body+`}`, "x-gateway-provider", "@converse")
		if res.Status != 400 || at(res.JSON(t), "error.param") != param && at(res.JSON(t), "error.param") != "input" || len(g.Sim.Requests()) != 0 {
			t.Errorf("%s: %d requests, status %d: %s", body, len(g.Sim.Requests()), res.Status, res.Body)
		}
	}
}

// No more than eight requests of a bundle are under way at a time.
func TestABundleIsSentFewAtATime(t *testing.T) {
	t.Parallel()
	const most = 8
	var mu sync.Mutex
	var under, all int
	next := make(chan struct{})
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		under, all = under+1, all+1
		mu.Unlock()
		io.Copy(io.Discard, r.Body)
		select {
		case <-next:
		case <-r.Context().Done():
		}
		mu.Lock()
		under--
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"embedding":[1],"inputTextTokenCount":2}`)
	})})
	done := make(chan gatewaytest.Response, 1)
	go func() {
		done <- g.Post("/embeddings", `{"model":"`+titan+`","input":`+manyInputs(30)+`}`, "x-gateway-provider", "@converse")
	}()
	for left := 30; left > 0; left-- {
		waittest.Until(t, "as many requests as may be are under way", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return under == min(most, left)
		})
		next <- struct{}{}
	}
	res := receive(t, done, "the response")
	if res.Status != 200 || all != 30 || at(res.JSON(t), "usage.total_tokens") != 60.0 {
		t.Errorf("status %d, %d requests: %.200s", res.Status, all, res.Body)
	}
}

func TestExplainShowsEachRequestOfABundle(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	res := g.Post("/explain", `{"request":{"path":"/v1/embeddings","body":{"model":"`+titan+`","input":["a","b"],"user":"u"}},"config":{"provider":"@converse"}}`, "x-gateway-provider", "")
	if v := res.JSON(t); res.Status != 200 || at(v, "attempt.body.inputText") == nil || !strings.Contains(fmt.Sprint(at(v, "attempt.params")), "user;dropped") {
		t.Errorf("explained %s", res.Body)
	}
	if n := len(g.Sim.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestContentsOfGooglesClientsAreEmbeddedByEveryProvider(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	const one, batch = `{"content":{"parts":[{"text":"hello"}]},"taskType":"CLUSTERING"%s}`, `{"requests":[{"model":"models/%[2]s","content":{"parts":[{"text":"hello"}]}%[1]s},{"model":"models/%[2]s","content":{"parts":[{"text":"you"}]}%[1]s}]}`
	for target, model := range map[string]string{"gemini": "gemini-embedding-001", "chat": "text-embedding-3-small", "cohere": "embed-v4.0", "converse": titan} {
		t.Run(target, func(t *testing.T) {
			g.Sim.Reset()
			dimensions := `,"outputDimensionality":256`
			res := askPath(t, g, "/v1beta/models/"+model+":embedContent", fmt.Sprintf(one, dimensions), "x-gateway-provider", "@"+target)
			v := res.JSON(t)
			want := simulator.Vector("hello", 256)[0]
			if res.Status != 200 || float32(at(v, "embedding.values.0").(float64)) != want || at(v, "usageMetadata.promptTokenCount") != 2.0 {
				t.Fatalf("status %d: %.300s", res.Status, res.Body)
			}
			if p := res.Header.Get("x-gateway-params"); target != "gemini" && p != "taskType;dropped" {
				t.Errorf("params %q", p)
			}
			if e := g.Entry(res); at(e, "usage.prompt_tokens") != 2.0 {
				t.Errorf("recorded %v", e["usage"])
			}
			res = askPath(t, g, "/v1/models/"+model+":batchEmbedContents", fmt.Sprintf(batch, dimensions, model), "x-gateway-provider", "@"+target)
			v = res.JSON(t)
			want = simulator.Vector("you", 256)[0]
			if res.Status != 200 || len(v["embeddings"].([]any)) != 2 || float32(at(v, "embeddings.1.values.0").(float64)) != want {
				t.Errorf("status %d: %.300s", res.Status, res.Body)
			}
		})
	}
	// The model of a config is in the bodies too.
	res := askPath(t, g, "/v1beta/models/m:batchEmbedContents", fmt.Sprintf(batch, "", "m"), "x-gateway-provider", "", "x-gateway-config", `{"provider":"@gemini","override_params":{"model":"gemini-embedding-001"}}`)
	if res.Status != 200 {
		t.Errorf("status %d: %s", res.Status, res.Body)
	}
	for path, body := range map[string]string{":embedContent": `{"content":{"parts":[{"inlineData":{}}]}}`, ":batchEmbedContents": `{}`} {
		res := askPath(t, g, "/v1beta/models/m"+path, body, "x-gateway-provider", "@chat")
		if res.Status != 400 || at(res.JSON(t), "error.status") != "INVALID_ARGUMENT" {
			t.Errorf("%s %s: status %d: %s", path, body, res.Status, res.Body)
		}
	}
	if res := askPath(t, g, "/v1beta/models/m:embedContent", fmt.Sprintf(one, ""), "x-gateway-provider", "@messages"); res.Status != 501 {
		t.Errorf("at a provider without embeddings: status %d: %s", res.Status, res.Body)
	}
}

func TestDocumentsAreRanked(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	for target, model := range map[string]string{"cohere": "rerank-v3.5", "converse": "cohere.rerank-v3-5:0"} {
		res := g.Post("/rerank", `{"model":"`+model+`","query":"red fox","documents":["a dog",{"text":"red"},"a red fox"],"top_n":2,"return_documents":true}`, "x-gateway-provider", "@"+target)
		v := res.JSON(t)
		if res.Status != 200 || len(v["results"].([]any)) != 2 || at(v, "results.0.index") != 2.0 || at(v, "results.0.relevance_score") != 1.0 || at(v, "results.1.document.text") != "red" {
			t.Errorf("%s: status %d: %s", target, res.Status, res.Body)
		}
	}
	for target, want := range map[string]int{"gemini": 501, "converse": 400} {
		res := g.Post("/rerank", `{"model":"amazon.rerank-v1:0","query":"q"}`, "x-gateway-provider", "@"+target)
		if res.Status != want {
			t.Errorf("%s: status %d, want %d: %s", target, res.Status, want, res.Body)
		}
	}
}

func TestTokensAreCountedWhereTheProviderCounts(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Simulator: recorder.Options{Record: 50}, Settings: pairSettings + `
  - {slug: vertex, provider: vertex-ai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}", options: {project_id: p, region: us-east5}}
`})
	const ofMessages, ofGemini = `{"model":%q,"messages":[{"role":"user","content":"hello"}],"system":"be brief","tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]}`,
		`{"generateContentRequest":{"model":"models/%s","contents":[{"role":"user","parts":[{"text":"hello"}]}],"systemInstruction":{"parts":[{"text":"be brief"}]}}}`
	const ofConverse = `{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"hello"}]}],"system":[{"text":"be brief"}]}}}`
	for _, tt := range []struct{ target, model, path string }{
		{"messages", "claude-sonnet-4-5", "/v1/v1/messages/count_tokens"},
		{"gemini", "gemini-2.5-flash", "/v1/v1beta/models/gemini-2.5-flash:countTokens"},
		{"converse", "us.anthropic.claude-sonnet-4-5-v1:0", "/v1/model/anthropic.claude-sonnet-4-5-v1%3A0/count-tokens"},
		{"converse", "amazon.nova-pro-v1:0", "/v1/model/amazon.nova-pro-v1%3A0/count-tokens"},
		{"vertex", "gemini-2.5-flash", "/v1/v1/projects/p/locations/us-east5/publishers/google/models/gemini-2.5-flash:countTokens"},
		{"vertex", "claude-sonnet-4-5", "/v1/v1/projects/p/locations/us-east5/publishers/anthropic/models/count-tokens:rawPredict"},
	} {
		t.Run(tt.target+" "+tt.model, func(t *testing.T) {
			g.Sim.Reset()
			res := askPath(t, g, "/v1/messages/count_tokens", fmt.Sprintf(ofMessages, tt.model), "x-gateway-provider", "@"+tt.target)
			if n, _ := res.JSON(t)["input_tokens"].(float64); res.Status != 200 || n < 5 {
				t.Fatalf("messages: status %d: %s", res.Status, res.Body)
			}
			res = askPath(t, g, "/v1beta/models/"+tt.model+":countTokens", fmt.Sprintf(ofGemini, tt.model), "x-gateway-provider", "@"+tt.target)
			if n, _ := res.JSON(t)["totalTokens"].(float64); res.Status != 200 || n < 3 {
				t.Errorf("gemini: status %d: %s", res.Status, res.Body)
			}
			sent := g.Sim.Requests()
			res = askPath(t, g, "/model/"+url.PathEscape(tt.model)+"/count-tokens", ofConverse, "x-gateway-provider", "@"+tt.target)
			if n, _ := res.JSON(t)["inputTokens"].(float64); res.Status != 200 || n < 3 || res.Header.Get("X-Gateway-Params") != "" {
				t.Errorf("converse: status %d: %s", res.Status, res.Body)
			}
			if len(sent) != 2 || sent[0].URI != tt.path && "/v1"+sent[0].URI != tt.path {
				t.Errorf("sent %d requests, the first to %s", len(sent), sent[0].URI)
			}
		})
	}
	res := askPath(t, g, "/v1/messages/count_tokens", fmt.Sprintf(ofMessages, "us.anthropic.claude-sonnet-4-5-v1:0+status=429"), "x-gateway-provider", "@converse")
	if res.Status != 429 || at(res.JSON(t), "type") != "error" {
		t.Errorf("a provider that fails: status %d: %s", res.Status, res.Body)
	}
	res = askPath(t, g, "/v1/messages/count_tokens", fmt.Sprintf(ofMessages, "m+content-type=text/event-stream"), "x-gateway-provider", "@gemini")
	if res.Status != 502 {
		t.Errorf("a stream for a count: status %d: %s", res.Status, res.Body)
	}
}

// Clients decide by the count when to shorten a conversation, so they get one
// for every provider; a header marks an estimate.
func TestTokensAreEstimatedWithoutACounterOfTheProvider(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	text := strings.Repeat("ten words ", 400) // two tokens each
	for _, tt := range []struct{ path, field, body string }{
		{"/v1/messages/count_tokens", "input_tokens", `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`},
		{"/v1beta/models/m:countTokens", "totalTokens", `{"contents":[{"role":"user","parts":[{"text":"` + text + `"}]}]}`},
		{"/model/m/count-tokens", "inputTokens", `{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"` + text + `"}]}]}}}`},
	} {
		for _, target := range []string{"chat", "cohere"} {
			t.Run(tt.field+" "+target, func(t *testing.T) {
				g.Sim.Reset()
				res := askPath(t, g, tt.path, tt.body, "x-gateway-provider", "@"+target)
				n, _ := res.JSON(t)[tt.field].(float64)
				if res.Status != 200 || n < 780 || n > 920 {
					t.Fatalf("status %d: %s", res.Status, res.Body)
				}
				if told := res.Header.Get("X-Gateway-Params"); told != tt.field+`;adapted="an estimate: the provider offers no token count"` {
					t.Errorf("announced %q", told)
				}
				if res.Header.Get("Content-Type") != "application/json" {
					t.Errorf("content type %q", res.Header.Get("Content-Type"))
				}
				if sent := g.Sim.Requests(); len(sent) != 0 {
					t.Errorf("%d requests at the provider, want none", len(sent))
				}
				if e := g.Entry(res); e["usage"] != nil && at(e, "usage.input_tokens") != nil {
					t.Errorf("recorded usage %v of a count", e["usage"])
				}
			})
		}
	}
	res := askPath(t, g, "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":[{"type":"nothing-known"}]}],"thread":"t"}`, "x-gateway-provider", "@chat")
	if res.Status != 400 || at(res.JSON(t), "type") != "error" {
		t.Errorf("a request that cannot be read: status %d: %s", res.Status, res.Body)
	}
	res = askPath(t, g, "/model/m/count-tokens", `{"input":{"invokeModel":{"body":"e30="}}}`, "x-gateway-provider", "@chat")
	if res.Status != 400 || at(res.JSON(t), "param") != "input.invokeModel" || at(res.JSON(t), "__type") != "ValidationException" {
		t.Errorf("a body of another API: status %d: %s", res.Status, res.Body)
	}
	for _, body := range []string{`{}`, `{"input":{}}`, `{"input":"x"}`, `{"input":{"converse":[]}}`} {
		if res := askPath(t, g, "/model/m/count-tokens", body, "x-gateway-provider", "@chat"); res.Status != 400 || !strings.Contains(string(res.Body), "input") {
			t.Errorf("%s: status %d: %s", body, res.Status, res.Body)
		}
	}
}
