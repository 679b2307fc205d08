package dataplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// countingModel is a provider of the chat dialect each of whose responses is
// different: it has the number of the call.
type countingModel struct {
	calls  atomic.Int64
	finish string                            // finish reason; empty means stop
	serve  func(http.ResponseWriter, string) // replaces the response
}

func (m *countingModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := m.calls.Add(1)
	body, _ := io.ReadAll(r.Body)
	if m.serve != nil {
		m.serve(w, string(body))
		return
	}
	finish := m.finish
	if finish == "" {
		finish = "stop"
	}
	var in struct{ Stream bool }
	json.Unmarshal(body, &in)
	w.Header().Set("X-Request-Id", fmt.Sprint("upstream-", n))
	w.Header().Set("Set-Cookie", "session=secret")
	switch {
	case strings.HasSuffix(r.URL.Path, "/embeddings"):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"list","model":"served","data":[{"object":"embedding","index":0,"embedding":[0.%d]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`, n)
	case strings.HasSuffix(r.URL.Path, "/images/generations"):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"created":%d,"data":[{"url":"https://images.example/%d.png"}]}`, n, n)
	case strings.HasSuffix(r.URL.Path, "/audio/speech"):
		w.Header().Set("Content-Type", "audio/mpeg")
		fmt.Fprintf(w, "sound %d", n)
	case strings.HasSuffix(r.URL.Path, "/completions") && !strings.Contains(r.URL.Path, "chat"):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c%d","object":"text_completion","created":1,"model":"served","choices":[{"index":0,"text":"call %d","finish_reason":%q}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`, n, n, finish)
	case strings.HasSuffix(r.URL.Path, "/responses"):
		m.respond(w, n, in.Stream)
	case in.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range []string{"call ", fmt.Sprint(n), " of the model"} {
			fmt.Fprintf(w, "data: {\"id\":\"c%d\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"served\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", n, word)
		}
		fmt.Fprintf(w, "data: {\"id\":\"c%d\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"served\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4,\"total_tokens\":7}}\n\ndata: [DONE]\n\n", n, finish)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c%d","object":"chat.completion","created":1,"model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"call %d"},"finish_reason":%q}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`, n, n, finish)
	}
}

// respond writes a response of the responses dialect.
func (m *countingModel) respond(w http.ResponseWriter, n int64, stream bool) {
	whole := fmt.Sprintf(`{"id":"r%d","object":"response","created_at":1,"status":"completed","error":null,"incomplete_details":null,"model":"served","output":[{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"call %d","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`, n, n)
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r%d\",\"status\":\"in_progress\",\"model\":\"served\"}}\n\n", n)
	fmt.Fprintf(w, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"item_id\":\"m\",\"output_index\":0,\"content_index\":0,\"delta\":\"call %d\"}\n\n", n)
	fmt.Fprintf(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":%s}\n\n", whole)
}

const simpleCache = `{"provider":"@simulator","cache":{"mode":"simple"}}`

// cachedPost sends a request with a config, and no provider in a header.
func cachedPost(g *gatewaytest.Gateway, path, body, config string, h ...string) gatewaytest.Response {
	return g.Do(cachedRequest(g, path, body, config, h...))
}

func cachedRequest(g *gatewaytest.Gateway, path, body, config string, h ...string) *http.Request {
	prefix := ""
	if strings.HasPrefix(path, "/model/") || strings.HasPrefix(path, "/v1beta/") {
		prefix = g.Root
	} else {
		prefix = g.URL
	}
	req := g.Request(http.MethodPost, "/", body, append([]string{api.HeaderProvider, "", api.HeaderConfig, config, "Content-Type", "application/json"}, h...)...)
	u, err := req.URL.Parse(prefix + path)
	if err != nil {
		panic(err)
	}
	req.URL = u
	return req
}

// cachedCalls are requests of every dialect and operation.
var cachedCalls = []struct{ name, path, body string }{
	{"chat", "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
	{"chat stream", "/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`},
	{"completions", "/completions", `{"model":"m","prompt":"hi"}`},
	{"embeddings", "/embeddings", `{"model":"m","input":"hi"}`},
	{"images", "/images/generations", `{"model":"m","prompt":"a dog"}`},
	{"speech", "/audio/speech", `{"model":"m","input":"hi","voice":"alloy"}`},
	{"messages", "/messages", `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`},
	{"messages stream", "/messages", `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}`},
	{"responses", "/responses", `{"model":"m","input":"hi"}`},
	{"responses stream", "/responses", `{"model":"m","stream":true,"input":"hi"}`},
	{"gemini", "/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`},
	{"gemini stream", "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`},
	{"gemini array", "/v1beta/models/m:streamGenerateContent", `{"contents":[{"role":"user","parts":[{"text":"list"}]}]}`},
	{"converse", "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`},
	{"converse stream", "/model/m/converse-stream", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`},
	{"pass-through", "/deployments/m/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`},
	{"pass-through stream", "/deployments/m/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`},
}

func TestACachedResponseIsTheFirstOneByteForByteInEveryDialect(t *testing.T) {
	model := new(countingModel)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: model})
	for _, tt := range cachedCalls {
		t.Run(tt.name, func(t *testing.T) {
			before := model.calls.Load()
			first := cachedPost(g, tt.path, tt.body, simpleCache)
			if first.Status != 200 || first.Header.Get(api.HeaderCacheStatus) != "MISS" {
				t.Fatalf("first: %d %s %s", first.Status, first.Header.Get(api.HeaderCacheStatus), first.Body)
			}
			g.Entry(first) // it has ended, and the response is stored
			second := cachedPost(g, tt.path, tt.body, simpleCache)
			if got := second.Header.Get(api.HeaderCacheStatus); got != "HIT" {
				t.Errorf("cache status %s, want HIT", got)
			}
			if string(second.Body) != string(first.Body) || second.Status != first.Status || second.Err != nil {
				t.Errorf("cached: %d %v\n%s\nfirst: %d\n%s", second.Status, second.Err, second.Body, first.Status, first.Body)
			}
			for _, name := range []string{"Content-Type", api.HeaderProvider, api.HeaderModel, api.HeaderOptionIndex, api.HeaderParams} {
				if first.Header.Get(name) != second.Header.Get(name) {
					t.Errorf("%s: %q, first %q", name, second.Header.Get(name), first.Header.Get(name))
				}
			}
			if streams := strings.Contains(tt.path+tt.body, "tream"); !streams && second.Header.Get("Content-Length") != strconv.Itoa(len(second.Body)) {
				t.Errorf("a complete response of %d bytes has the length %q", len(second.Body), second.Header.Get("Content-Length"))
			}
			if second.Header.Get("Set-Cookie") != "" || second.Header.Get("X-Request-Id") != "" {
				t.Errorf("headers of the first request: %v", second.Header)
			}
			if n := model.calls.Load() - before; n != 1 {
				t.Errorf("the provider was called %d times", n)
			}
		})
	}
}

func TestOnlyCompleteResponsesAreStored(t *testing.T) {
	sse := func(text string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, text)
		}
	}
	whole := func(status int, text string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			io.WriteString(w, text)
		}
	}
	choice := func(message, finish string) string {
		return `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":` + message + `,"finish_reason":"` + finish + `"}]}`
	}
	text := `{"role":"assistant","content":"x","refusal":null}`
	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	chunk := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
	end := func(reason string) string {
		return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n"
	}
	twice := `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":` + text + `,"finish_reason":"stop"},{"index":1,"message":` + text + `,"finish_reason":"length"}]}`
	const withCalls = `{"provider":"@simulator","cache":{"mode":"simple","tool_calls":true}}`
	for _, tt := range []struct {
		name, config string
		stream       bool
		serve        func(http.ResponseWriter, string)
		stored       bool
	}{
		{"stop", simpleCache, false, whole(200, choice(text, "stop")), true},
		{"a word that is a mark in text", simpleCache, false, whole(200, choice(`{"role":"assistant","content":"\"tool_calls\": [1], \"finish_reason\": \"length\""}`, "stop")), true},
		{"an empty list of calls", simpleCache, false, whole(200, choice(`{"role":"assistant","content":"x","tool_calls":[]}`, "stop")), true},
		{"length", simpleCache, false, whole(200, choice(text, "length")), false},
		{"filtered", simpleCache, false, whole(200, choice(text, "content_filter")), false},
		{"an unknown reason", simpleCache, false, whole(200, choice(text, "whatever")), false},
		{"the second choice is cut", simpleCache, false, whole(200, twice), false},
		{"refusal", simpleCache, false, whole(200, choice(`{"role":"assistant","content":null,"refusal":"no"}`, "stop")), false},
		{"tool call", simpleCache, false, whole(200, choice(call, "tool_calls")), false},
		{"tool call with stop", simpleCache, false, whole(200, choice(call, "stop")), false},
		{"tool call when asked for", withCalls, false, whole(200, choice(call, "tool_calls")), true},
		{"error", simpleCache, false, whole(500, `{"error":{"message":"boom"}}`), false},
		{"client error", simpleCache, false, whole(400, `{"error":{"message":"boom"}}`), false},
		{"error with a success status", simpleCache, false, whole(200, `{"error":{"message":"boom"}}`), false},
		{"stream", simpleCache, true, sse(chunk + end("stop") + done), true},
		{"stream without its terminator", simpleCache, true, sse(chunk + end("stop")), true},
		{"stream that is cut", simpleCache, true, sse(chunk + end("length") + done), false},
		{"stream without a finish reason", simpleCache, true, sse(chunk + done), false},
		{"stream that breaks", simpleCache, true, func(w http.ResponseWriter, s string) {
			sse(chunk)(w, s)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, false},
		{"stream with an error", simpleCache, true, sse(chunk + "data: {\"error\":{\"message\":\"boom\"}}\n\n" + done), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := &countingModel{serve: tt.serve}
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: model})
			body := fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"hi"}]}`, tt.stream)
			first := cachedPost(g, "/chat/completions", body, tt.config)
			g.Entry(first) // the exchange has ended, and the response would be stored
			second := cachedPost(g, "/chat/completions", body, tt.config)
			if hit := second.Header.Get(api.HeaderCacheStatus) == "HIT"; hit != tt.stored || (model.calls.Load() == 1) != tt.stored {
				t.Errorf("status %s after %d calls, want stored %v", second.Header.Get(api.HeaderCacheStatus), model.calls.Load(), tt.stored)
			}
			if tt.stored && string(first.Body) != string(second.Body) {
				t.Errorf("%s\nafter\n%s", second.Body, first.Body)
			}
		})
	}
}

func TestCacheControls(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	model := new(countingModel)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: model, Time: func() time.Time { return time.Unix(0, now.Load()) }})
	for _, tt := range cachedCalls {
		t.Run(tt.name, func(t *testing.T) {
			const config = `{"provider":"@simulator","cache":{"mode":"simple","max_age":60}}`
			ask := func(want string, calls int64, h ...string) gatewaytest.Response {
				t.Helper()
				before := model.calls.Load()
				res := cachedPost(g, tt.path, tt.body, config, h...)
				g.Entry(res)
				if got := res.Header.Get(api.HeaderCacheStatus); got != want || model.calls.Load()-before != calls {
					t.Errorf("%v: %s after %d calls, want %s after %d", h, got, model.calls.Load()-before, want, calls)
				}
				return res
			}
			first := ask("MISS", 1)
			ask("HIT", 0)
			ask("MISS", 1, api.HeaderCacheNamespace, "a")
			ask("HIT", 0, api.HeaderCacheNamespace, "a")
			ask("HIT", 0, api.HeaderCacheNamespace, "a", api.HeaderMetadata, `{"_user":"ada"}`) // a namespace replaces metadata
			ask("MISS", 1, api.HeaderMetadata, `{"_user":"ada"}`)
			ask("HIT", 0, api.HeaderMetadata, `{"_user":"ada"}`)
			fresh := ask("REFRESH", 1, api.HeaderCacheRefresh, "true")
			if string(fresh.Body) == string(first.Body) {
				t.Error("the refreshed response is the stored one")
			}
			if res := ask("HIT", 0, api.HeaderCacheRefresh, "false"); string(res.Body) != string(fresh.Body) {
				t.Errorf("the refreshed response was not stored: %s", res.Body)
			}
			now.Add(int64(59 * time.Second))
			ask("HIT", 0)
			now.Add(int64(time.Second))
			ask("MISS", 1)
		})
	}
}

func TestDifferentRequestsDoNotShareResponses(t *testing.T) {
	model := new(countingModel)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: model})
	other := httptest.NewServer(model)
	t.Cleanup(other.Close)
	base := `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]}`
	inMessages := `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`
	own := func(key, host string) string {
		return fmt.Sprintf(`{"provider":"openai-compatible","api_key":%q,"custom_host":%q,"cache":{"mode":"simple"}}`, key, host)
	}
	path := "/chat/completions"
	seen := make(map[string]string) // body of a response → its request
	for _, tt := range []struct {
		name, path, body, config string
		h                        []string
	}{
		{"base", path, base, simpleCache, nil},
		{"system prompt", path, strings.Replace(base, `"s"`, `"t"`, 1), simpleCache, nil},
		{"tools", path, strings.Replace(base, `"name":"f"`, `"name":"g"`, 1), simpleCache, nil},
		{"model", path, strings.Replace(base, `"m"`, `"n"`, 1), simpleCache, nil},
		{"number", path, strings.Replace(base, `"model"`, `"temperature":0.1,"model"`, 1), simpleCache, nil},
		{"another number", path, strings.Replace(base, `"model"`, `"temperature":0.10000001,"model"`, 1), simpleCache, nil},
		{"user", path, strings.Replace(base, `"model"`, `"user":"ada","model"`, 1), simpleCache, nil},
		{"metadata", path, base, simpleCache, []string{api.HeaderMetadata, `{"a":"b"}`}},
		{"metadata with the same text", path, base, simpleCache, []string{api.HeaderMetadata, `{"ab":""}`}},
		{"namespace", path, base, simpleCache, []string{api.HeaderCacheNamespace, "metadata"}},
		{"overridden parameter", path, base, `{"provider":"@simulator","cache":{"mode":"simple"},"override_params":{"temperature":0}}`, nil},
		{"default parameter", path, base, `{"provider":"@simulator","cache":{"mode":"simple"},"default_params":{"top_p":1}}`, nil},
		{"dropped parameter", path, base, `{"provider":"@simulator","cache":{"mode":"simple"},"drop_params":["tools"]}`, nil},
		{"response model", path, base, `{"provider":"@simulator","cache":{"mode":"simple"},"response_model":"requested"}`, nil},
		{"compliance", path, base, `{"provider":"@simulator","cache":{"mode":"simple"},"strict_vendora_compliance":false}`, nil},
		{"own key", path, base, own("sk-one", g.Upstream), nil},
		{"another key", path, base, own("sk-two", g.Upstream), nil},
		{"another host", path, base, own("sk-one", other.URL+"/v1"), nil},
		{"forwarded header", path, base, `{"provider":"@simulator","cache":{"mode":"simple"},"forward_headers":["X-Tenant"]}`, []string{"X-Tenant", "one"}},
		{"another forwarded header", path, base, `{"provider":"@simulator","cache":{"mode":"simple"},"forward_headers":["X-Tenant"]}`, []string{"X-Tenant", "two"}},
		{"version header", "/messages", inMessages, simpleCache, nil},
		{"another version header", "/messages", inMessages, simpleCache, []string{"Anthropic-Version", "2023-06-01"}},
		{"pass-through", "/deployments/m/chat/completions", base, simpleCache, nil},
		{"pass-through query", "/deployments/m/chat/completions?api-version=1", base, simpleCache, nil},
		{"pass-through header", "/deployments/m/chat/completions", base, simpleCache, []string{"X-Tenant", "one"}},
	} {
		res := cachedPost(g, tt.path, tt.body, tt.config, tt.h...)
		g.Entry(res)
		if res.Status != 200 || res.Header.Get(api.HeaderCacheStatus) != "MISS" {
			t.Errorf("%s: %d %s %s", tt.name, res.Status, res.Header.Get(api.HeaderCacheStatus), res.Body)
		}
		if before, ok := seen[string(res.Body)]; ok {
			t.Errorf("%s has the response of %s", tt.name, before)
		}
		seen[string(res.Body)] = tt.name
		if again := cachedPost(g, tt.path, tt.body, tt.config, tt.h...); string(again.Body) != string(res.Body) {
			t.Errorf("%s: the second response is different", tt.name)
		}
	}
	spaced := strings.NewReplacer(`{"model":"m",`, "{ \"model\" : \"m\" ,\n", `"tools"`, ` "tools"`).Replace(base)
	if res := cachedPost(g, path, spaced, simpleCache); res.Header.Get(api.HeaderCacheStatus) != "HIT" {
		t.Error("spaces make another request")
	}
	messages, tools, _ := strings.Cut(strings.TrimPrefix(base, `{"model":"m",`), `,"tools"`)
	if res := cachedPost(g, path, `{"tools"`+strings.TrimSuffix(tools, "}")+`,`+messages+`,"model":"m"}`, simpleCache); res.Header.Get(api.HeaderCacheStatus) != "HIT" {
		t.Error("the order of members makes another request")
	}
}

func TestRequestsWithEffectsAreNotCached(t *testing.T) {
	model := new(countingModel)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: model})
	for _, tt := range []struct{ path, body string }{
		{"/assistants", `{"model":"m"}`},
		{"/threads/t/runs", `{"model":"m"}`},
		{"/responses", `{"model":"m","input":"hi","background":true}`},
	} {
		for range 2 {
			res := cachedPost(g, tt.path, tt.body, simpleCache, api.HeaderCacheNamespace, "n")
			if got := res.Header.Get(api.HeaderCacheStatus); got != "DISABLED" {
				t.Errorf("%s: %s", tt.path, got)
			}
			if !strings.Contains(res.Header.Get(api.HeaderParams), "x-gateway-cache-namespace;ignored") {
				t.Errorf("%s: the namespace is not announced as ignored: %s", tt.path, res.Header.Get(api.HeaderParams))
			}
		}
	}
	if n := model.calls.Load(); n != 4 && n != 6 {
		t.Errorf("%d calls", n)
	}
}

func TestAHitCostsNothingAndIsLogged(t *testing.T) {
	model := new(countingModel)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: model, Settings: "prices: [{provider: openai-compatible, model: m, input: 1, output: 1}]\n"})
	body := `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	first := g.Entry(cachedPost(g, "/chat/completions", body, simpleCache))
	hit := g.Entry(cachedPost(g, "/chat/completions", body, simpleCache))
	if first["cache_status"] != "MISS" || hit["cache_status"] != "HIT" {
		t.Errorf("statuses %v, %v", first["cache_status"], hit["cache_status"])
	}
	saved := hit["saved_cost"].(map[string]any)
	if saved["response_cache"] != first["cost"] || saved["prompt_cache"] != 0.0 || first["saved_cost"].(map[string]any)["response_cache"] != 0.0 {
		t.Errorf("saved %v, first %v; want what the first cost", saved, first["saved_cost"])
	}
	if first["cost"] == nil || first["cost"] == 0.0 || hit["cost"] != 0.0 {
		t.Errorf("costs %v, then %v; want one, then 0", first["cost"], hit["cost"])
	}
	if u := hit["usage"].(map[string]any); u["total_tokens"] != 0.0 {
		t.Errorf("usage of a hit: %v", u)
	}
	if attempts := hit["attempts"].([]any); len(attempts) != 0 || hit["provider"] != "openai-compatible" {
		t.Errorf("a hit has the attempts %v at %v", attempts, hit["provider"])
	}
}

// Requests that share a call save what its own request spends.
func TestASharedCallIsSpentOnceAndSavedByTheOthers(t *testing.T) {
	for name, body := range map[string]string{
		"complete": `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
		"stream":   `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			release, arrived := make(chan struct{}), make(chan struct{}, 9)
			model := new(countingModel)
			g := gatewaytest.New(t, gatewaytest.Options{
				Settings: "prices: [{provider: openai-compatible, model: m, input: 1, output: 1}]\n",
				Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					arrived <- struct{}{}
					<-release
					model.ServeHTTP(w, r)
				}),
			})
			responses := make([]gatewaytest.Response, 3)
			var wg sync.WaitGroup
			ask := func(i int) {
				wg.Go(func() { responses[i] = cachedPost(g, "/chat/completions", body, simpleCache) })
			}
			ask(0)
			receive(t, arrived, "the call")
			ask(1)
			ask(2)
			awaitInFlight(t, g, 3)
			close(release)
			wg.Wait()
			spent := g.Entry(responses[0])["cost"]
			if spent == nil || spent == 0.0 {
				t.Fatalf("the call cost %v", spent)
			}
			for _, r := range responses[1:] {
				e := g.Entry(r)
				if saved := e["saved_cost"].(map[string]any)["response_cache"]; e["cost"] != 0.0 || saved != spent {
					t.Errorf("a request that shares the call: cost %v, saved %v; want 0 and %v", e["cost"], saved, spent)
				}
			}
			if n := model.calls.Load(); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// awaitInFlight waits until the gateway serves n requests.
func awaitInFlight(t *testing.T, g *gatewaytest.Gateway, n int) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("the gateway serves %d requests", n), func() bool {
		res, err := http.Get(g.AdminURL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return strings.Contains(string(b), fmt.Sprintf("modelgate_requests_in_flight %d\n", n))
	})
}

func TestEqualRequestsInFlightShareOneCall(t *testing.T) {
	for _, tt := range cachedCalls {
		t.Run(tt.name, func(t *testing.T) {
			release, arrived := make(chan struct{}), make(chan struct{}, 100)
			model := new(countingModel)
			inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				<-release
				model.ServeHTTP(w, r)
			})
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: inner})
			const clients = 20
			bodies := make([]string, clients)
			var wg sync.WaitGroup
			ask := func(i int) {
				wg.Go(func() { bodies[i] = string(cachedPost(g, tt.path, tt.body, simpleCache).Body) })
			}
			ask(0)
			receive(t, arrived, "the call")
			for i := 1; i < clients; i++ {
				ask(i)
			}
			awaitInFlight(t, g, clients)
			close(release)
			wg.Wait()
			if model.calls.Load() != 1 {
				t.Errorf("%d calls", model.calls.Load())
			}
			for i, b := range bodies {
				if b != bodies[0] || b == "" {
					t.Errorf("client %d: %q, want %q", i, b, bodies[0])
				}
			}
		})
	}
}

func TestInvalidatedResponsesAreNotServed(t *testing.T) {
	model := new(countingModel)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: model})
	const path, body = "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	status := func(namespace string) string {
		t.Helper()
		res := cachedPost(g, path, body, simpleCache, api.HeaderCacheNamespace, namespace)
		g.Entry(res)
		return res.Header.Get(api.HeaderCacheStatus)
	}
	fill := func() {
		for _, n := range []string{"a", "b"} {
			status(n)
			if got := status(n); got != "HIT" {
				t.Fatalf("namespace %s: %s", n, got)
			}
		}
	}
	key := g.Entry(cachedPost(g, path, body, simpleCache))["api_key"].(map[string]any)["id"].(string)
	for _, tt := range []struct{ body, a, b string }{
		{`{"namespace":"a"}`, "MISS", "HIT"},
		{`{"namespace":"c"}`, "HIT", "HIT"},
		{`{"config":"another"}`, "HIT", "HIT"},
		{`{"api_key_id":"another"}`, "HIT", "HIT"},
		{`{"api_key_id":"` + key + `","namespace":"b"}`, "HIT", "MISS"},
		{`{"api_key_id":"` + key + `"}`, "MISS", "MISS"},
		{`{}`, "MISS", "MISS"},
	} {
		fill()
		if res := g.Post("/cache/invalidate", tt.body, api.HeaderProvider, ""); res.Status != 200 {
			t.Fatalf("%s: %d %s", tt.body, res.Status, res.Body)
		}
		if a, b := status("a"), status("b"); a != tt.a || b != tt.b {
			t.Errorf("after %s: %s, %s; want %s, %s", tt.body, a, b, tt.a, tt.b)
		}
	}
}
