package logstore_test

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"modelgate/api"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

// traffic makes entries as a busy gateway records them: in the order in which their
// requests end, with ids of when they began. Names follow Zipf's law; ids, times,
// tokens and every second trace are an entry's own. The same seed gives the same entries
// except for the random part of their ids.
type traffic struct {
	r      *rand.Rand
	keys   *rand.Zipf
	models *rand.Zipf
	users  *rand.Zipf
	rate   float64 // requests that begin in a second
	at     time.Time
	n      int
	open   running
}

// rareModel is the model of about one entry in 20,000.
const rareModel = "o1-preview-2024-09-12"

func newTraffic(seed uint64, start time.Time, rate float64) *traffic {
	r := rand.New(rand.NewPCG(seed, 1))
	return &traffic{
		r: r, rate: rate, at: start,
		keys:   rand.NewZipf(r, 1.2, 4, 399),
		models: rand.NewZipf(r, 1.3, 3, 29),
		users:  rand.NewZipf(r, 1.1, 20, 19_999),
	}
}

// running holds requests by when they end.
type running []*reqlog.Entry

func (h running) Len() int           { return len(h) }
func (h running) Less(i, j int) bool { return endOf(h[i]).Before(endOf(h[j])) }
func (h running) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *running) Push(x any)        { *h = append(*h, x.(*reqlog.Entry)) }
func (h *running) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

func endOf(e *reqlog.Entry) time.Time { return e.Time.Add(e.Total) }

// next returns the entry of the request that ends next.
func (t *traffic) next() *reqlog.Entry {
	for len(t.open) == 0 || !endOf(t.open[0]).Before(t.at) {
		heap.Push(&t.open, t.begin())
		t.at = t.at.Add(time.Duration(t.r.ExpFloat64() / t.rate * float64(time.Second)))
	}
	return heap.Pop(&t.open).(*reqlog.Entry)
}

var (
	trafficAgents    = []string{"OpenAI/Python 3.1.0", "OpenAI/JS 6.2.1", "Anthropic/Python 0.80.0", "python-httpx/0.29.1", "LangChain/1.3", "curl/8.15.0", "Go-http-client/2.0", "node-fetch"}
	trafficFeatures  = []string{"search", "support-chat", "summaries", "code-review", "translate", "extract", "classify", "agent", "drafts", "evals"}
	trafficProviders = []string{"openai", "anthropic", "google", "mistral", "bedrock", "azure", "groq", "vertex"}
	trafficParams    = []string{`logit_bias;dropped`, `max_tokens;renamed="max_completion_tokens"`, `temperature;clamped=1.0`}
)

// begin returns a request that begins now, as it will have ended.
func (t *traffic) begin() *reqlog.Entry {
	r := t.r
	t.n++
	key, m := t.keys.Uint64(), t.models.Uint64()
	model, provider := fmt.Sprintf("%s-large-%d", trafficProviders[m%8], m), trafficProviders[m%8]
	if r.IntN(20_000) == 0 {
		model, provider = rareModel, "openai"
	}
	e := &reqlog.Entry{
		ID: reqlog.NewID(t.at), Time: t.at,
		Trace:  reqlog.Trace{SpanID: fmt.Sprintf("%016x", r.Uint64()), SpanName: "POST /v1/chat/completions"},
		Sender: reqlog.Sender{Organisation: fmt.Sprintf("01970000-0000-7000-8000-%012d", key%24/20), Workspace: fmt.Sprintf("01970000-1111-7000-8000-%012d", key%24), KeyID: fmt.Sprintf("01970000-2222-7000-8000-%012d", key), KeyName: fmt.Sprintf("service %d", key), UserAgent: trafficAgents[r.IntN(8)]},
		Input:  reqlog.Input{Method: "POST", Path: "/v1/chat/completions", Operation: api.Chat, Stream: r.IntN(3) == 0, Model: model, Config: fmt.Sprintf("01970000-3333-7000-8000-%012d", key%60), Metadata: map[string]string{"_user": fmt.Sprintf("user-%d", t.users.Uint64()), "env": "production", "feature": trafficFeatures[r.IntN(10)]}},
		Origin: reqlog.Origin{Provider: provider, Slug: provider + "-prod", UpstreamModel: model, ResponseModel: model + "-2026-05-01", OptionIndex: "config.targets[0]", CacheStatus: "DISABLED"},
		Result: reqlog.Result{Status: 200, Finish: "stop"},
		// The median of the total is 1.8 s.
		Durations: reqlog.Durations{Total: time.Duration(math.Exp(0.8*r.NormFloat64()) * float64(1800*time.Millisecond)), Overhead: time.Duration(60+r.IntN(200)) * time.Microsecond},
	}
	e.TraceID = fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
	if r.IntN(2) == 0 { // a step of one of the agents that run now
		e.TraceID = fmt.Sprintf("%016x%016x", uint64(t.n/40)*0x9e3779b97f4a7c15, uint64(r.IntN(4)))
		e.ParentSpanID = fmt.Sprintf("%016x", uint64(t.n/40))
		e.Metadata["session"] = e.TraceID[:12]
	}
	if r.IntN(8) == 0 {
		e.Path, e.Operation, e.Stream, e.Finish = "/v1/embeddings", api.Embeddings, false, ""
	}
	e.Upstream = e.Total - e.Overhead - time.Duration(r.IntN(300))*time.Microsecond
	e.FirstToken = e.Upstream / time.Duration(2+r.IntN(6))
	e.RequestBytes, e.ResponseBytes = int64(400+r.ExpFloat64()*9000), int64(300+r.ExpFloat64()*3000)
	e.Attempts = []reqlog.Attempt{{Target: e.OptionIndex, Provider: provider, Slug: e.Slug, Status: 200, Start: e.Overhead, Took: e.FirstToken}}
	t.vary(e)
	return e
}

// vary sets what only some entries have: errors, further attempts, decisions.
func (t *traffic) vary(e *reqlog.Entry) {
	r := t.r
	switch n := r.IntN(1000); {
	case n < 30:
		e.Status, e.ErrorCode, e.ErrorMessage = 429, "rate_limit_exceeded", fmt.Sprintf("Rate limit reached for %s: used %d, requested %d.", e.Model, r.IntN(200_000), r.IntN(9000))
	case n < 40:
		e.Status, e.ErrorCode, e.ErrorMessage = 400, "invalid_request", fmt.Sprintf("messages[%d].content must not be empty", r.IntN(20))
	case n < 52:
		e.Status, e.ErrorCode, e.ErrorMessage = 502, "upstream_error", fmt.Sprintf("The server had an error (request req_%016x).", r.Uint64())
	default:
		e.Usage = llm.Usage{Input: int64(r.ExpFloat64() * 2500), Output: int64(r.ExpFloat64() * 400), Known: true}
		e.Usage.CachedInput = e.Usage.Input / int64(1+r.IntN(8))
		e.Cost, e.Priced = catalog.NanoDollars(e.Usage.Input*2500+e.Usage.Output*10_000), true
		e.Price = e.Provider + "/" + e.Model
	}
	if e.Status != 200 {
		e.ErrorSource, e.Finish, e.Attempts[0].Status, e.Attempts[0].Error = "provider", "", e.Status, e.ErrorCode
	}
	if r.IntN(12) == 0 {
		failed := e.Attempts[0]
		failed.Status, failed.Error = 503, "overloaded"
		e.Attempts = append([]reqlog.Attempt{failed}, e.Attempts...)
		e.Decisions = append(e.Decisions, reqlog.Decision{Path: "config", Text: fmt.Sprintf("fallback: targets[0] returned 503 after %d ms", r.IntN(900))})
	}
	if r.IntN(5) == 0 {
		e.Decisions = append(e.Decisions, reqlog.Decision{Path: "config", Text: fmt.Sprintf("conditional: metadata.feature is %q; targets[%d]", e.Metadata["feature"], r.IntN(3))})
	}
	if r.IntN(10) == 0 {
		e.Params = []string{trafficParams[r.IntN(3)]}
	}
	if r.IntN(10) == 0 {
		p := r.IntN(30)
		e.Prompt = reqlog.Prompt{ID: fmt.Sprintf("01970000-4444-7000-8000-%012d", p), Slug: fmt.Sprintf("prompt-%d", p), Version: int64(1 + r.IntN(9))}
	}
}
