package replay

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/testing/gatewaytest"
)

// books is what the log should say of an exchange, read from the recording by
// decoding it whole, without the gateway's code.
type books struct {
	Status int
	Model  string // asked for
	Served string // that the provider names
	Finish string
	Usage  *usage // nil when the provider reports none
	Cost   int64  // in nano-dollars, -1 if it is unknown
	Tier   string // that says that the price may be another; of the recording alone

	Sent, Received int // bytes of the client's body and of its response
}

// quiet are settings that send no comments into a stream, be the machine ever so slow, and
// let pass what was created before there were records.
const quiet = "timeouts: {keep_alive: 24h}\nfiles: {unrecorded: pass}\n"

// prices says that every model costs 3 dollars for a million tokens read, 0.3
// where they were cached, 15 for as many written and 20 for those of reasoning.
func prices() string {
	var text strings.Builder
	text.WriteString(quiet + "prices:\n")
	for _, id := range slices.Compact(slices.Sorted(maps.Values(rows))) {
		text.WriteString("  - {provider: " + id + ", model: \"*\", input: 3, cached_input: 0.3, output: 15, reasoning: 20}\n")
	}
	return text.String()
}

// cost is what that comes to, in nano-dollars.
func (u *usage) cost() int64 {
	if u == nil {
		return -1
	}
	return 3000*(u.Prompt-u.Cached) + 300*u.Cached + 15_000*(u.Completion-u.Reasoning) + 20_000*u.Reasoning
}

type usage struct {
	Prompt, Completion, Total, Cached, Reasoning int64
}

// books reads the recorded response.
func (x *exchange) books() books {
	b := books{Status: x.Response.Status}
	body, _ := x.sent()
	var asked struct{ Model string }
	if json.Unmarshal(body, &asked) != nil && string(body) == form {
		asked.Model = "recorded-model"
	}
	b.Model, b.Sent = asked.Model, len(body)
	r := reading{finish: map[int]string{}, numbers: map[string]int64{}}
	for _, text := range x.documents() {
		var v map[string]any
		if json.Unmarshal([]byte(text), &v) == nil {
			r.document(v)
		}
	}
	b.Served, b.Finish = r.model, r.finish[0]
	if b.Usage = r.usage(x.API != "embeddings"); x.API == "embeddings" && b.Usage != nil && *b.Usage == (usage{}) {
		b.Usage = nil // no embedding takes no tokens: such usage is estimated
	}
	b.Cost = b.Usage.cost()
	if r.tier == "provisioned" || r.tier == "flex" { // the others of the recordings are the standard one
		b.Tier = r.tier
	}
	return b
}

// documents returns the JSON texts of the response: its body, or what its events hold.
func (x *exchange) documents() []string {
	if !x.streamed() {
		return []string{string(x.body())}
	}
	var list []string
	for line := range strings.Lines(string(x.body())) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok {
			list = append(list, data)
		}
	}
	return list
}

// reading gathers what the documents of one response say. Counters count up, so
// the largest holds.
type reading struct {
	model   string
	tier    string
	finish  map[int]string // by choice
	numbers map[string]int64
}

func (r *reading) document(v map[string]any) {
	if m, _ := v["model"].(string); r.model == "" {
		r.model = m
	}
	if tier, _ := v["service_tier"].(string); r.tier == "" {
		r.tier = tier
	}
	choices, _ := v["choices"].([]any)
	for i, c := range choices {
		choice, _ := c.(map[string]any)
		if n, ok := choice["index"].(float64); ok {
			i = int(n)
		}
		if reason, _ := choice["finish_reason"].(string); r.finish[i] == "" {
			r.finish[i] = reason
		}
	}
	r.count("", v["usage"])
	if groq, ok := v["x_groq"].(map[string]any); ok {
		r.count("", groq["usage"])
	}
}

func (r *reading) count(path string, v any) {
	object, _ := v.(map[string]any)
	for name, v := range object {
		if n, ok := v.(float64); ok {
			r.numbers[path+name] = max(r.numbers[path+name], int64(n))
		}
		r.count(path+name+".", v)
	}
}

// usage reads the counters. Tokens of a conversation that only the total has
// were spent on reasoning; of other responses they are input.
func (r *reading) usage(conversation bool) *usage {
	n := r.numbers
	u := usage{
		Prompt:     max(n["prompt_tokens"], n["input_tokens"]),
		Completion: max(n["completion_tokens"], n["output_tokens"]),
		Cached: max(n["prompt_tokens_details.cached_tokens"], n["input_tokens_details.cached_tokens"],
			n["cached_tokens"], n["num_cached_tokens"], n["prompt_cache_hit_tokens"]),
		Reasoning: max(n["completion_tokens_details.reasoning_tokens"], n["output_tokens_details.reasoning_tokens"], n["reasoning_tokens"]),
	}
	u.Total = max(n["total_tokens"], u.Prompt+u.Completion)
	if _, measured := n["total_tokens"]; u.Total == 0 && !measured {
		return nil
	}
	hidden := u.Total - u.Prompt - u.Completion
	if conversation {
		u.Completion += hidden
		u.Reasoning = max(u.Reasoning, hidden)
	} else {
		u.Prompt += hidden
	}
	u.Cached, u.Reasoning = min(u.Cached, u.Prompt), min(u.Reasoning, u.Completion)
	return &u
}

// logged is the same out of a log entry. Estimates are not part of it.
func logged(entry map[string]any) books {
	number := func(name string) int { f, _ := entry[name].(float64); return int(f) }
	b := books{Status: number("status"), Sent: number("request_bytes"), Received: number("response_bytes")}
	b.Model, _ = entry["model"].(string)
	b.Served, _ = entry["response_model"].(string)
	b.Finish, _ = entry["finish_reason"].(string)
	b.Cost = -1
	if cents, ok := entry["cost"].(float64); ok && entry["cost_estimated"] == false {
		b.Cost = int64(math.Round(cents * 1e7))
	}
	if u, ok := entry["usage"].(map[string]any); ok && entry["usage_estimated"] == false {
		n := func(name string) int64 { f, _ := u[name].(float64); return int64(f) }
		b.Usage = &usage{n("prompt_tokens"), n("completion_tokens"), n("total_tokens"), n("cached_tokens"), n("reasoning_tokens")}
	}
	return b
}

// entry pairs an exchange with the response that the client got.
type entry struct {
	x   *exchange
	res gatewaytest.Response
}

// checkBooks compares the log with the recordings.
func checkBooks(t *testing.T, g *gatewaytest.Gateway, entries []entry) {
	t.Helper()
	known := 0
	for _, e := range entries {
		want := e.x.books()
		want.Received = len(e.res.Body)
		if want.Usage != nil {
			known++
		}
		got := g.Entry(e.res)
		if want.Tier != "" && got["provider"] != "openrouter" { // which bills its tiers alike; no row has a price of theirs
			want.Cost = -1
		}
		want.Tier = ""
		if diff := cmp.Diff(want, logged(got)); diff != "" {
			t.Errorf("%s: log entry (-want +got):\n%s", e.x.name, diff)
		}
	}
	t.Logf("%d log entries compared, %d with usage", len(entries), known)
}

// sink gathers entries of exchanges that are played side by side.
type sink struct {
	mu      sync.Mutex
	entries []entry // guarded by mu
}

func (s *sink) add(x *exchange, res *gatewaytest.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, entry{x, *res})
}
