package dataplane_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/api"
	"modelgate/internal/testing/gatewaytest"
)

// answering is a provider that keeps the last body and gives every request one response.
type answering struct {
	response string
	last     atomic.Value // string
}

func (p *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.last.Store(string(body))
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, p.response)
}

// https://docs.voyageai.com/reference/embeddings-api
// https://docs.voyageai.com/reference/reranker-api
func TestVoyageGetsTheParametersThatItHas(t *testing.T) {
	t.Parallel()
	const vectors = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5, -1]}],"model":"voyage-3.5","usage":{"total_tokens":1}}`
	const ranks = `{"object":"list","data":[{"index":2,"relevance_score":0.8},{"index":0,"relevance_score":0.9}],"model":"rerank-2.5","usage":{"total_tokens":9}}`
	p := new(answering)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: "providers:\n  - {slug: voyage, provider: voyage, custom_host: SIMULATOR, api_key: \"${PAIR_KEY}\"}\n"})
	for _, tt := range []struct{ name, path, body, response, sent, want, params string }{
		{"numbers", "/embeddings", `{"model":"voyage-3.5","input":["planet"],"encoding_format":"float","input_type":"query","user":"u","dimensions":256}`, vectors,
			`{"model":"voyage-3.5","input":["planet"],"input_type":"query","output_dimension":256}`, vectors, "user;dropped"},
		{"base64", "/embeddings", `{"model":"voyage-3.5","input":"planet","encoding_format":"base64"}`, vectors, `{"model":"voyage-3.5","input":"planet","encoding_format":"base64"}`, vectors, ""},
		{"ranks", "/rerank", `{"model":"rerank-2.5","query":"planets","documents":["Mars",{"text":"a chair"},{"text":"Venus"}],"top_n":2,"return_documents":true,"max_chunks_per_doc":3}`, ranks,
			`{"model":"rerank-2.5","query":"planets","documents":["Mars","a chair","Venus"],"top_k":2}`,
			strings.TrimSuffix(ranks, "}") + `,"results":[{"index":0,"relevance_score":0.9,"document":{"text":"Mars"}},{"index":2,"relevance_score":0.8,"document":{"text":"Venus"}}]}`, "max_chunks_per_doc;dropped"},
		{"its own parameters", "/rerank", `{"model":"rerank-2.5","query":"q","documents":["a"],"top_k":1,"truncation":false}`, ranks, `{"model":"rerank-2.5","query":"q","documents":["a"],"top_k":1,"truncation":false}`,
			strings.TrimSuffix(ranks, "}") + `,"results":[{"index":0,"relevance_score":0.9},{"index":2,"relevance_score":0.8}]}`, ""},
	} {
		p.response = tt.response
		res := g.Post(tt.path, tt.body, "x-gateway-provider", "@voyage")
		if sent := p.last.Load(); sent != tt.sent || res.Status != 200 || string(res.Body) != tt.want || res.Header.Get(api.HeaderParams) != tt.params {
			t.Errorf("%s: sent %s, status %d: %s\nparameters %q", tt.name, sent, res.Status, res.Body, res.Header.Get(api.HeaderParams))
		}
	}
	before := p.last.Load()
	if res := g.Post("/embeddings", `{"model":"voyage-3.5","input":[[1,2]]}`, "x-gateway-provider", "@voyage"); res.Status != 400 || p.last.Load() != before || !strings.Contains(string(res.Body), `"param":"input"`) {
		t.Errorf("tokens: status %d: %s", res.Status, res.Body)
	}
}

// The index of an embedding says of which input it is.
func TestEmbeddingsAreInTheOrderOfTheirIndexes(t *testing.T) {
	t.Parallel()
	p := &answering{response: `{"object":"list","data":[{"object":"embedding","index":1,"embedding":[2]},{"object":"embedding","index":0,"embedding":[1]}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}`}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: pairSettings})
	res := askPath(t, g, "/v1beta/models/m:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]}}]}`, "x-gateway-provider", "@chat")
	if v := res.JSON(t); res.Status != 200 || at(v, "embeddings.0.values.0") != 1.0 || at(v, "embeddings.1.values.0") != 2.0 {
		t.Errorf("status %d: %s", res.Status, res.Body)
	}
}

// https://ai.google.dev/api/generate-content#generationconfig
func TestSeedsBeyond32BitsAreSentToGeminiAsTheirLowerBits(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	for seed, want := range map[string]string{"7": "7", "-1": "-1", "2147483647": "2147483647", "2147483648": "-2147483648", "4294967297": "1", "9007199254740991": "-1"} {
		g.Sim.Reset()
		res := g.Post("/chat/completions", `{"model":"gemini-2.5-flash","seed":`+seed+`,"messages":[{"role":"user","content":"x"}]}`, "x-gateway-provider", "@gemini")
		g.Entry(res)
		sent := ""
		if list := g.Sim.Requests(); len(list) == 1 {
			sent = string(list[0].Body)
		}
		if announced := strings.Contains(res.Header.Get(api.HeaderParams), "seed;adapted"); res.Status != 200 || !strings.Contains(sent, `"seed":`+want+`}`) || announced != (seed != want) {
			t.Errorf("%s: sent %s, announced %t, status %d: %s", seed, sent, announced, res.Status, res.Body)
		}
	}
}

// All parts of the usage of a response of Gemini add up to the provider's total.
func TestUsageOfGeminiAddsUpToItsTotal(t *testing.T) {
	t.Parallel()
	p := new(answering)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: pairSettings})
	for usage, want := range map[string][2]float64{ // prompt and completion
		`"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15`:                                                     {10, 5},
		`"promptTokenCount":10,"totalTokenCount":15`:                                                                              {10, 5},
		`"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":22`:                                                     {10, 12},
		`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":7,"totalTokenCount":22`:                              {10, 12},
		`"promptTokenCount":10,"candidatesTokenCount":12,"thoughtsTokenCount":7,"totalTokenCount":22`:                             {10, 12},
		`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":7,"totalTokenCount":30`:                              {18, 12},
		`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":7,"toolUsePromptTokenCount":8,"totalTokenCount":30`:  {18, 12},
		`"promptTokenCount":18,"candidatesTokenCount":5,"thoughtsTokenCount":7,"toolUsePromptTokenCount":8,"totalTokenCount":30`:  {18, 12},
		`"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":7,"toolUsePromptTokenCount":8,"totalTokenCount":100`: {88, 12},
	} {
		p.response = `{"candidates":[{"content":{"role":"model","parts":[{"text":"x"}]},"finishReason":"STOP","index":0}],"usageMetadata":{` + usage + `},"modelVersion":"m"}`
		res := g.Post("/chat/completions", `{"model":"gemini-2.5-flash","messages":[{"role":"user","content":"x"}]}`, "x-gateway-provider", "@gemini")
		v := res.JSON(t)
		if got := [2]any{at(v, "usage.prompt_tokens"), at(v, "usage.completion_tokens")}; res.Status != 200 || got != [2]any{want[0], want[1]} || at(v, "usage.total_tokens") != want[0]+want[1] {
			t.Errorf("%s: %v, want %v: %s", usage, got, want, res.Body)
		}
	}
}
