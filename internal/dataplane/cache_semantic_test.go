package dataplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/api"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const semanticCache = `{"provider":"@simulator","cache":{"mode":"semantic"}}`

// statusOf returns the cache status of a response that has ended.
func statusOf(g *gatewaytest.Gateway, res gatewaytest.Response) string {
	status := res.Header.Get(api.HeaderCacheStatus)
	if e := g.Entry(res); e["cache_status"] != status {
		return fmt.Sprintf("%s, but %v in the log", status, e["cache_status"])
	}
	return status
}

// questions are the conversations of all dialects; %s is the last turn.
var questions = []struct{ name, path, body string }{
	{"chat", "/chat/completions", `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":%s}]}`},
	{"chat parts", "/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":%s},{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}]}`},
	{"chat stream", "/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":%s}]}`},
	{"completions", "/completions", `{"model":"m","prompt":%s}`},
	{"messages", "/messages", `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":%s}]}`},
	{"responses", "/responses", `{"model":"m","input":%s}`},
	{"responses list", "/responses", `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":%s}]}]}`},
	{"gemini", "/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":%s}]}]}`},
	{"converse", "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":%s}]}]}`},
}

func TestAQuestionInAnotherFormIsAnsweredFromTheCache(t *testing.T) {
	t.Parallel()
	model := new(countingModel)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: model})
	for _, tt := range questions {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(turn string) gatewaytest.Response {
				return cachedPost(g, tt.path, fmt.Sprintf(tt.body, quotedText(turn)), semanticCache)
			}
			first := ask("What is the capital of France?")
			if got := statusOf(g, first); first.Status != 200 || got != "SEMANTIC MISS" {
				t.Fatalf("first: %d %s %s", first.Status, got, first.Body)
			}
			calls := model.calls.Load()
			for _, again := range []struct{ turn, want string }{
				{"What is the capital of France?", "HIT"},
				{"Could you please tell me the capital of france", "SEMANTIC HIT"},
			} {
				res := ask(again.turn)
				if got := statusOf(g, res); got != again.want || string(res.Body) != string(first.Body) {
					t.Errorf("%q: %s, want %s\n%s\nfirst\n%s", again.turn, got, again.want, res.Body, first.Body)
				}
			}
			if n := model.calls.Load() - calls; n != 0 {
				t.Errorf("the provider was called %d times for stored responses", n)
			}
			if got := statusOf(g, ask("What is the capital of Germany?")); got != "SEMANTIC MISS" {
				t.Errorf("another question: %s", got)
			}
		})
	}
}

func TestOnlyQuestionsWithEverythingElseEqualAreCompared(t *testing.T) {
	t.Parallel()
	model := new(countingModel)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: model})
	const first, again = "How do I sort a list in Haskell?", "how can i sort a list in haskell"
	base := `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"TURN"}],"temperature":0,"tools":[{"type":"function","function":{"name":"f","description":"d"}}],"response_format":{"type":"text"}}`
	post := func(body, turn string, h ...string) string {
		return statusOf(g, cachedPost(g, "/chat/completions", strings.Replace(body, "TURN", turn, 1), semanticCache, h...))
	}
	post(base, first)
	if got := post(base, again); got != "SEMANTIC HIT" {
		t.Fatalf("the same question: %s", got)
	}
	for _, tt := range []struct {
		name, from, to string
		headers        []string
		want           string
	}{
		{"system prompt", `"content":"s"`, `"content":"t"`, nil, "SEMANTIC MISS"},
		{"earlier turn", `"content":"hi"`, `"content":"ho"`, nil, "SEMANTIC MISS"},
		{"earlier answer", `"content":"yes"`, `"content":"no"`, nil, "SEMANTIC MISS"},
		{"tools", `"name":"f"`, `"name":"g"`, nil, "SEMANTIC MISS"},
		{"format", `{"type":"text"}`, `{"type":"json_object"}`, nil, "SEMANTIC MISS"},
		{"parameter", `"temperature":0`, `"temperature":1`, nil, "SEMANTIC MISS"},
		{"model", `"model":"m"`, `"model":"n"`, nil, "SEMANTIC MISS"},
		{"stream", `"model":"m"`, `"stream":true,"model":"m"`, nil, "SEMANTIC MISS"},
		{"user", `"model":"m"`, `"model":"m","user":"u"`, nil, "SEMANTIC MISS"},
		{"namespace", "", "", []string{"x-gateway-cache-namespace", "n"}, "SEMANTIC MISS"},
		{"metadata", "", "", []string{"x-gateway-metadata", `{"a":"b"}`}, "SEMANTIC MISS"},
		{"last turn of the assistant", `{"role":"user","content":"TURN"}`, `{"role":"assistant","content":"TURN"}`, nil, "MISS"},
		{"repeated content", `{"role":"user","content":"TURN"}`, `{"role":"user","content":"a","content":"TURN"}`, nil, "MISS"},
		{"no words", `TURN`, `?`, nil, "MISS"},
	} {
		if got := post(strings.Replace(base, tt.from, tt.to, 1), again, tt.headers...); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestOperationsThatDependOnEveryLetterAreNotCompared(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: new(countingModel)})
	for _, tt := range []struct{ path, body string }{
		{"/embeddings", `{"model":"m","input":%s}`},
		{"/images/generations", `{"model":"m","prompt":%s}`},
		{"/audio/speech", `{"model":"m","voice":"alloy","input":%s}`},
		{"/deployments/m/chat/completions", `{"model":"m","messages":[{"role":"user","content":%s}]}`},
	} {
		for _, turn := range []string{"What is the time?", "what is the time"} {
			res := cachedPost(g, tt.path, fmt.Sprintf(tt.body, quotedText(turn)), semanticCache)
			if got := statusOf(g, res); got != "MISS" || res.Status != 200 {
				t.Errorf("%s %q: %d %s", tt.path, turn, res.Status, got)
			}
		}
	}
}

// embeddingModel answers chats by number, and embeds every text that contains
// "alike" as the same vector, and others as another.
type embeddingModel struct {
	countingModel
	embedded atomic.Int64
	status   atomic.Int64 // of embeddings; 0 means 200
	response atomic.Value // string that replaces the body of an embedding
}

func (m *embeddingModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/embeddings") {
		m.countingModel.ServeHTTP(w, r)
		return
	}
	m.embedded.Add(1)
	var in struct{ Model, Input string }
	body, _ := io.ReadAll(r.Body)
	json.Unmarshal(body, &in)
	w.Header().Set("Content-Type", "application/json")
	if s := m.status.Load(); s != 0 {
		w.WriteHeader(int(s))
		io.WriteString(w, `{"error":{"message":"no","type":"t"}}`)
		return
	}
	if text, ok := m.response.Load().(string); ok {
		io.WriteString(w, text)
		return
	}
	vector := "[0,1]"
	if strings.Contains(in.Input, "alike") {
		vector = "[1,0.1]"
	}
	fmt.Fprintf(w, `{"object":"list","model":%q,"data":[{"object":"embedding","index":0,"embedding":%s}],"usage":{"prompt_tokens":5,"total_tokens":5}}`, in.Model, vector)
}

const embeddedCache = `{"provider":"@simulator","cache":{"mode":"semantic","threshold":0.9,"embedding":{"provider":"@simulator","model":"embedder"}}}`

func TestAProviderEmbedsTheLastTurnAsAnAttempt(t *testing.T) {
	t.Parallel()
	model := new(embeddingModel)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: model})
	ask := func(turn string) gatewaytest.Response {
		return cachedPost(g, "/messages", fmt.Sprintf(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":%q}]}`, turn), embeddedCache)
	}
	first := ask("Please explain how good ways are alike")
	second := ask("Describe how simple ways are alike")
	if a, b := statusOf(g, first), statusOf(g, second); a != "SEMANTIC MISS" || b != "SEMANTIC HIT" || string(first.Body) != string(second.Body) {
		t.Fatalf("%s, %s: %s %s", a, b, first.Body, second.Body)
	}
	if got := statusOf(g, ask("Describe how simple ways are important")); got != "SEMANTIC MISS" {
		t.Errorf("a turn with another vector: %s", got)
	}
	if got := statusOf(g, ask("Describe how 2 simple ways are alike")); got != "SEMANTIC MISS" {
		t.Errorf("a turn with another number: %s", got)
	}
	if got := statusOf(g, ask("Please explain how good ways are alike")); got != "HIT" || model.embedded.Load() != 4 {
		t.Errorf("an equal request: %s after %d embeddings, want HIT after 4", got, model.embedded.Load())
	}
	e := g.Entry(second)
	attempts := e["attempts"].([]any)
	if len(attempts) != 1 || at(attempts[0], "target") != "config.cache.embedding" || at(attempts[0], "status") != 200.0 || e["option_index"] != "config" {
		t.Errorf("attempts of the hit are %v, option_index %v", attempts, e["option_index"])
	}
	if n := len(g.Entry(first)["attempts"].([]any)); n != 2 {
		t.Errorf("the miss has %d attempts, want the embedding and the call", n)
	}
}

// Policies for the model and the operation of the embedder count embeddings, those for
// the model of the request do not, and those for its config count both.
func TestPoliciesCountTheEmbedder(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: new(embeddingModel)})
	saved := g.Post("/configs", `{"name":"embedded","config":`+embeddedCache+`}`)
	slug := str(at(saved.JSON(t), "data.slug"))
	conditions := []string{
		`{"key":"model","value":"embedder"}`, `{"key":"endpoint_type","value":"embeddings"}`,
		`{"key":"model","value":"m"}`, `{"key":"config","value":"` + slug + `"}`,
	}
	ids := make([]string, len(conditions))
	for i, c := range conditions {
		res := g.Post("/policies/rate-limits", `{"name":"p","workspace_id":"default","type":"tokens","unit":"rpd","value":100000,"conditions":[`+c+`],"group_by":[{"key":"workspace_id"}]}`)
		if ids[i] = str(res.JSON(t)["id"]); ids[i] == "" {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
	}
	ask := func(turn string) map[string]any {
		return g.Entry(cachedPost(g, "/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, turn), slug))
	}
	used := func() (list [4]float64) {
		for i, id := range ids {
			list[i], _ = at(g.Get("/limits?owner=policy&id="+id).JSON(t), "data.0.used").(float64)
		}
		return list
	}
	n := 0
	waittest.Until(t, "all policies are known", func() bool {
		n++
		ask(fmt.Sprint("warm up ", n))
		list := used()
		return !slices.Contains(list[:], 0)
	})
	before := used()
	e := ask("one more")
	response, _ := at(e, "usage.total_tokens").(float64)
	after := used()
	for i, want := range [4]float64{5, 5, response, response + 5} {
		if got := after[i] - before[i]; got != want || response == 0 {
			t.Errorf("the policy for %s counted %v tokens, want %v", conditions[i], got, want)
		}
	}
}

func TestAnEmbeddingThatFailsIsAMiss(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, config string
		status       int64
		response     string
	}{
		{"error", embeddedCache, 500, ""},
		{"rate limit", embeddedCache, 429, ""},
		{"not JSON", embeddedCache, 0, "hello"},
		{"no vector", embeddedCache, 0, `{"data":[]}`},
		{"two vectors", embeddedCache, 0, `{"data":[{"embedding":[1]},{"embedding":[1]}]}`},
		{"a vector without direction", embeddedCache, 0, `{"data":[{"embedding":[0,0]}]}`},
		{"too long a vector", embeddedCache, 0, `{"data":[{"embedding":[1` + strings.Repeat(",1", 20_000) + `]}]}`},
		{"unknown provider", strings.Replace(embeddedCache, `"embedding":{"provider":"@simulator"`, `"embedding":{"provider":"@gone"`, 1), 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := new(embeddingModel)
			model.status.Store(tt.status)
			if tt.response != "" {
				model.response.Store(tt.response)
			}
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: model})
			for _, turn := range []string{"Explain how they are alike", "Please explain how they are alike"} {
				res := cachedPost(g, "/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, turn), tt.config)
				if got := statusOf(g, res); res.Status != 200 || got != "SEMANTIC MISS" {
					t.Errorf("%d %s: %.200s", res.Status, got, res.Body)
				}
			}
		})
	}
}

func TestARefreshReplacesWhatSimilarQuestionsGet(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: new(countingModel)})
	ask := func(turn string, h ...string) gatewaytest.Response {
		return cachedPost(g, "/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, turn), semanticCache, h...)
	}
	statusOf(g, ask("What is the time in Rome?"))
	fresh := ask("Tell me the time in Rome.", "x-gateway-cache-force-refresh", "true")
	if got := statusOf(g, fresh); got != "REFRESH" {
		t.Fatalf("refresh: %s", got)
	}
	again := ask("please tell me the time in rome")
	if got := statusOf(g, again); got != "SEMANTIC HIT" || string(again.Body) != string(fresh.Body) {
		t.Errorf("%s %s, want the refreshed %s", got, again.Body, fresh.Body)
	}
}

func TestInvalidSemanticOptionsAreRefused(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: new(countingModel)})
	for _, tt := range []struct{ options, want string }{
		{`"threshold":0`, "$.cache.threshold"},
		{`"threshold":1.01`, "$.cache.threshold"},
		{`"threshold":"0.9"`, "$.cache.threshold"},
		{`"embedding":{"provider":"openai","model":"m"}`, "$.cache.embedding.provider"},
		{`"embedding":{"provider":"@simulator"}`, "$.cache.embedding"},
	} {
		res := cachedPost(g, "/chat/completions", plainChat, `{"provider":"@simulator","cache":{"mode":"semantic",`+tt.options+`}}`)
		if res.Status != 400 || !strings.Contains(string(res.Body), "AB01") || !strings.Contains(string(res.Body), tt.want) {
			t.Errorf("%s: %d %s", tt.options, res.Status, res.Body)
		}
	}
}
