package dataplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/upstream"
)

// textProvider answers every request with one text, as JSON or as a stream, and
// counts requests.
type textProvider struct {
	texts    []string // of the responses in order; the last repeats
	pieces   func(text string) []string
	pause    time.Duration // after each piece, so that it arrives alone
	requests atomic.Int64
	last     atomic.Pointer[string]
}

func (p *textProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.respond(w, r.URL.Path, string(body))
}

// respond writes the response to a request with this body.
func (p *textProvider) respond(w http.ResponseWriter, path, text string) {
	n := int(p.requests.Add(1))
	var asked struct{ Stream bool }
	p.last.Store(&text)
	_ = json.Unmarshal([]byte(text), &asked)
	response := p.texts[min(n, len(p.texts))-1]
	if strings.HasSuffix(path, "/responses") {
		p.writeResponses(w, response, asked.Stream)
		return
	}
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		quoted, _ := json.Marshal(response)
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`, quoted)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, piece := range p.split(response) {
		quoted, _ := json.Marshal(piece)
		fmt.Fprint(w, chunk(strings.Trim(string(quoted), `"`)))
		http.NewResponseController(w).Flush()
		time.Sleep(p.pause)
	}
	fmt.Fprint(w, finish+done)
}

// writeResponses responds in the responses dialect.
func (p *textProvider) writeResponses(w http.ResponseWriter, response string, stream bool) {
	quoted, _ := json.Marshal(response)
	item := fmt.Sprintf(`{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":%s,"annotations":[]}]}`, quoted)
	complete := fmt.Sprintf(`{"id":"r","object":"response","model":"m","status":"completed","output":[%s],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}`, item)
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, complete)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(typ, rest string) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", typ, typ, rest)
		http.NewResponseController(w).Flush()
	}
	send("response.created", `"response":{"id":"r","object":"response","model":"m","status":"in_progress","output":[]}`)
	send("response.output_item.added", `"output_index":0,"item":{"type":"message","id":"m","role":"assistant","content":[]}`)
	send("response.content_part.added", `"output_index":0,"content_index":0,"item_id":"m","part":{"type":"output_text","text":"","annotations":[]}`)
	for _, piece := range p.split(response) {
		quoted, _ := json.Marshal(piece)
		send("response.output_text.delta", fmt.Sprintf(`"output_index":0,"content_index":0,"item_id":"m","delta":%s`, quoted))
		time.Sleep(p.pause)
	}
	send("response.output_text.done", fmt.Sprintf(`"output_index":0,"content_index":0,"item_id":"m","text":%s`, quoted))
	send("response.content_part.done", fmt.Sprintf(`"output_index":0,"content_index":0,"item_id":"m","part":{"type":"output_text","text":%s,"annotations":[]}`, quoted))
	send("response.output_item.done", `"output_index":0,"item":`+item)
	send("response.completed", `"response":`+complete)
}

// split cuts a response into the pieces of a stream.
func (p *textProvider) split(response string) []string {
	if p.pieces != nil {
		return p.pieces(response)
	}
	return strings.SplitAfter(response, " ")
}

// guarded is a config with further members.
func guarded(members string) string { return oneLine(`{"provider":"@simulator",` + members + `}`) }

const denyBad = `{"id":"g","deny":true,"default.contains":{"words":["bad"],"operator":"none"}}`

func TestDeniedRequestIsAnsweredWith446InEachDialect(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"fine"}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	config := guarded(`"input_guardrails":[{"id":"g","deny":true,"default.contains":{"words":["hello"],"operator":"none"}}]`)
	for _, client := range clientFormats {
		for _, stream := range []bool{false, true} {
			res := g.Do(client.ask(t, g, "x-gateway-config", config, "m", stream))
			if res.Status != 446 {
				t.Errorf("%s, stream %t: status %d, want 446: %s", client.name, stream, res.Status, res.Body)
				continue
			}
			body := res.JSON(t)
			if at(body, client.errorType) == nil || !strings.Contains(fmt.Sprint(at(body, client.message)), "default.contains") {
				t.Errorf("%s: %s is not an error of the dialect that names the check", client.name, res.Body)
			}
			if got := at(body, "hook_results.before_request_hooks.0.checks.0.verdict"); got != false {
				t.Errorf("%s: hook_results = %v", client.name, body["hook_results"])
			}
		}
	}
	if n := p.requests.Load(); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
}

func TestResponseHasTheResultsOfHooks(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"a bad answer"}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	config := guarded(`"input_guardrails":[{"id":"in","default.contains":{"words":["hello"],"operator":"any"}}],
		"output_guardrails":[{"id":"out","default.contains":{"words":["bad"],"operator":"none"}}]`)
	for _, client := range clientFormats {
		res := g.Do(client.ask(t, g, "x-gateway-config", config, "m", false))
		body := res.JSON(t)
		if res.Status != 200 || at(body, client.text) != "a bad answer" {
			t.Errorf("%s: status %d, %s", client.name, res.Status, res.Body)
		}
		if at(body, "hook_results.before_request_hooks.0.verdict") != true || at(body, "hook_results.after_request_hooks.0.verdict") != false {
			t.Errorf("%s: hook_results = %v", client.name, body["hook_results"])
		}
	}
}

func TestDeniedResponseIsAnsweredWith446InEachDialect(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"a bad answer"}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	for _, client := range clientFormats {
		res := g.Do(client.ask(t, g, "x-gateway-config", guarded(`"output_guardrails":[`+denyBad+`]`), "m", false))
		if res.Status != 446 || strings.Contains(string(res.Body), "a bad answer") {
			t.Errorf("%s: status %d, %s; want 446 without the text", client.name, res.Status, res.Body)
		}
		if at(res.JSON(t), "hook_results.after_request_hooks.0.deny") != true {
			t.Errorf("%s: %s", client.name, res.Body)
		}
	}
}

func TestFallbackAndRetryActOnDeniedResponses(t *testing.T) {
	t.Parallel()
	const out = `"output_guardrails":[` + denyBad + `]`
	for _, tt := range []struct {
		name, config string
		want         int64 // requests
		status       int
	}{
		{"fallback by default", `{"strategy":{"mode":"fallback"},` + out + `,"targets":[{"provider":"@simulator"},{"provider":"@simulator"}]}`, 2, 200},
		{"retry of a listed status", guarded(out + `,"retry":{"attempts":1,"on_status_codes":[446]}`), 2, 200},
		{"no retry of a status that is not listed", guarded(out + `,"retry":{"attempts":1}`), 1, 446},
		{"246 listed", `{"strategy":{"mode":"fallback","on_status_codes":[246]},"output_guardrails":[{"default.contains":{"words":["bad"],"operator":"none"}}],"targets":[{"provider":"@simulator"},{"provider":"@simulator"}]}`, 2, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := &textProvider{texts: []string{"bad", "good"}}
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
			res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", tt.config)
			if res.Status != tt.status || p.requests.Load() != tt.want {
				t.Errorf("status %d after %d requests, want %d after %d: %s", res.Status, p.requests.Load(), tt.status, tt.want, res.Body)
			}
			if tt.status == 200 && !strings.Contains(string(res.Body), "good") {
				t.Errorf("body = %s, want the second answer", res.Body)
			}
		})
	}
}

func TestInheritedChecksRunOnceForARequest(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"bad", "bad", "good"}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	config := `{"strategy":{"mode":"fallback"},"input_guardrails":[{"id":"in","default.contains":{"words":["hi"],"operator":"any"}}],"output_guardrails":[` + denyBad + `],
		"targets":[{"provider":"@simulator"},{"provider":"@simulator"},{"provider":"@simulator"}]}`
	res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", oneLine(config))
	entry := entryOf(t, g, res.Header.Get("x-gateway-trace-id"))
	before, after := 0, 0
	for _, c := range entry["checks"].([]any) {
		switch c.(map[string]any)["event"] {
		case "before":
			before++
		case "after":
			after++
		}
	}
	if res.Status != 200 || before != 1 || after != 3 {
		t.Errorf("status %d, %d checks of the request and %d of responses; want 200, 1 and 3: %v", res.Status, before, after, entry["checks"])
	}
}

func TestLogSaysWhichChecksWereMadeAndWhatWasNotCovered(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: &textProvider{texts: []string{"fine"}}})
	body := `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a private word"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`
	res := g.Post("/chat/completions", body, "x-gateway-provider", "", "x-gateway-config", guarded(`"input_guardrails":[{"id":"in","default.contains":{"words":["private"],"operator":"none"}}]`))
	entry := entryOf(t, g, res.Header.Get("x-gateway-trace-id"))
	text, _ := json.Marshal(entry)
	if at(entry, "checks.0.check") != "default.contains" || at(entry, "checks.0.verdict") != "failed" || at(entry, "checks.0.hook") != "in" || at(entry, "unchecked.0") != "image" {
		t.Errorf("entry = %s", text)
	}
	if strings.Contains(string(text), "a private word") {
		t.Errorf("the entry has the text of the request: %s", text)
	}
}

func TestAsyncChecksDoNotDelayAndAreRecorded(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: &textProvider{texts: []string{"bad"}}})
	config := guarded(`"output_guardrails":[{"id":"out","deny":true,"async":true,"default.contains":{"words":["bad"],"operator":"none"}}]`)
	for _, body := range []string{plainChat, streamChat} {
		res := g.Post("/chat/completions", body, "x-gateway-provider", "", "x-gateway-config", config)
		if res.Status != 200 || strings.Contains(string(res.Body), "hook_results") {
			t.Errorf("status %d, %s; want 200 without results", res.Status, res.Body)
		}
		entry := entryOf(t, g, res.Header.Get("x-gateway-trace-id"))
		if at(entry, "checks.0.verdict") != "failed" || at(entry, "checks.0.async") != true || at(entry, "checks.0.denied") != false {
			t.Errorf("checks = %v", entry["checks"])
		}
	}
}

// The first call of the webhook is answered once the client has the response, so the
// second one is made for a request that has ended.
func TestAsyncChecksOutliveTheirRequest(t *testing.T) {
	t.Parallel()
	release := make(chan struct{}, 4)
	asked := make(chan string, 4)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- string(body)
		<-release
		io.WriteString(w, `{"verdict":true}`)
	}))
	t.Cleanup(hook.Close)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: &textProvider{texts: []string{"a response"}}, Reach: upstream.Options{TrustedHosts: []string{"127.0.0.1"}}})
	call := `{"id":"default.webhook","parameters":{"webhookURL":"` + hook.URL + `"}}`
	for _, tt := range []struct {
		guards, sends string
		calls         int
	}{
		{`"input_guardrails":[{"async":true,"sequential":true,"default.addPrefix":{"prefix":"a"},"default.webhook":{"webhookURL":"` + hook.URL + `"}}]`, `"ahi"`, 1},
		{`"after_request_hooks":[{"id":"h","async":true,"sequential":true,"checks":[` + call + `,` + call + `]}]`, `"a response"`, 2},
	} {
		res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", guarded(tt.guards))
		for range tt.calls {
			release <- struct{}{}
		}
		entry := entryOf(t, g, res.Header.Get("x-gateway-trace-id"))
		if res.Status != 200 || at(entry, "checks.0.verdict") != "passed" || at(entry, "checks.1.verdict") != "passed" {
			t.Errorf("%s: status %d, checks = %v", tt.guards, res.Status, entry["checks"])
			continue
		}
		for range tt.calls {
			if body := receive(t, asked, "the call of the webhook"); !strings.Contains(body, tt.sends) {
				t.Errorf("the webhook has %s, want %s", body, tt.sends)
			}
		}
	}
}

func TestFeedbackOfAHookIsStoredForTheTrace(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: &textProvider{texts: []string{"bad"}}})
	config := guarded(`"before_request_hooks":[{"id":"h","checks":[{"id":"default.contains","parameters":{"words":["hi"],"operator":"none"}}],"on_fail":{"feedback":{"value":-4,"weight":0.5,"metadata":{"a":"b"}}}}]`)
	res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", config)
	trace := res.Header.Get("x-gateway-trace-id")
	deadline := time.Now().Add(stallTimer)
	for {
		list, _ := g.Get("/feedback?trace_id=" + trace).JSON(t)["data"].([]any)
		if len(list) == 1 {
			f := list[0].(map[string]any)
			if f["value"] != -4.0 || f["weight"] != 0.5 || at(f, "metadata.a") != "b" || at(f, "metadata.failedChecks") != "default.contains" {
				t.Errorf("feedback = %v", f)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no feedback for trace %s", trace)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func TestFailedHooksAnswer246OnlyWhereItIsConfigured(t *testing.T) {
	t.Parallel()
	config := guarded(`"input_guardrails":[{"default.contains":{"words":["hi"],"operator":"none"}}]`)
	for settings, want := range map[string]int{"": 200, "version: 1\ncompat:\n  status_246: true\n": 246} {
		g := gatewaytest.New(t, gatewaytest.Options{Settings: settings, Upstream: &textProvider{texts: []string{"fine"}}})
		for _, body := range []string{plainChat, streamChat} {
			res := g.Post("/chat/completions", body, "x-gateway-provider", "", "x-gateway-config", config)
			if res.Status != want {
				t.Errorf("status %d, want %d", res.Status, want)
			}
		}
	}
}

func TestUnknownCheckIsRefusedWithItsPath(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	for config, path := range map[string]string{
		guarded(`"input_guardrails":[{"default.nothing":{}}]`):                                                                                              `$.input_guardrails[0]["default.nothing"]`,
		guarded(`"input_guardrails":[{"default.contains":{"colour":1}}]`):                                                                                   `$.input_guardrails[0]["default.contains"]`,
		`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@simulator","before_request_hooks":[{"id":"h","checks":[{"id":"no","parameters":{}}]}]}]}`: `$.targets[0].before_request_hooks[0].checks[0].id`,
	} {
		res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", config)
		if res.Status != 400 || !strings.Contains(string(res.Body), "AB01") || !strings.Contains(fmt.Sprint(errorOf(t, string(res.Body))["message"]), path) {
			t.Errorf("status %d, %s; want AB01 with %s", res.Status, res.Body, path)
		}
	}
}

func TestADryRunNamesTheGuardrailsAndRunsNone(t *testing.T) {
	t.Parallel()
	p := &judgingProvider{textProvider: textProvider{texts: []string{"fine"}}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	config := guarded(`"input_guardrails":[{"id":"in","deny":true,` + judgeCheck + `,"default.contains":{"words":["rude"],"operator":"none"}}],"output_guardrails":[{"id":"out","mode":"shadow","default.notNull":{}}]`)
	res := g.Post("/explain", `{"config":`+config+`,"request":{"body":`+sayChat("rude", false)+`}}`)
	text := string(res.Body)
	for _, want := range []string{
		"the guardrail in would check the request with gateway.modelCheck, default.contains, and a failure denies it",
		"the guardrail out would check the response with default.notNull, in shadow mode",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("status %d, lacks %q: %s", res.Status, want, text)
		}
	}
	if len(p.sawJudge())+int(p.requests.Load()) != 0 {
		t.Error("a dry run sent a request")
	}
}
