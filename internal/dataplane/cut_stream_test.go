package dataplane_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/api"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/provider"
	"modelgate/internal/testing/gatewaytest"
)

// running is a provider whose response does not end.
type running struct {
	start, event string
	binary       bool
	events       int           // that it sends; zero sends all
	end          string        // after the last event
	left         chan struct{} // closed when the gateway has left
}

func (p *running) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	if p.binary {
		w.Header().Set("Content-Type", eventstream.ContentType)
	}
	io.WriteString(w, p.start)
	rc := http.NewResponseController(w)
	for n := 0; p.events == 0 || n < p.events; n++ {
		if _, err := io.WriteString(w, p.event); err != nil || rc.Flush() != nil || r.Context().Err() != nil {
			if p.left != nil {
				close(p.left)
			}
			return
		}
	}
	io.WriteString(w, p.end)
}

// eventTokens are the tokens of the text in an event of the endless streams, and
// eventText is this text.
const eventTokens = 10

var eventText = strings.Repeat("word", eventTokens)

// endlessText returns a stream of text in a dialect.
func endlessText(dialect string) *running {
	switch dialect {
	case "chat":
		return &running{event: chunk(eventText)}
	case "messages":
		return &running{start: messageStart, event: messageDelta(eventText)}
	case "responses":
		return &running{start: `data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"served","output":[],"metadata":{"a":"b"}}}` + "\n\n" +
			`data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}` + "\n\n" +
			`data: {"type":"response.output_item.done","sequence_number":2,"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"x"}}` + "\n\n" +
			`data: {"type":"response.output_item.added","sequence_number":3,"output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}` + "\n\n" +
			`data: {"type":"response.content_part.added","sequence_number":4,"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}` + "\n\n",
			event: fmt.Sprintf(`data: {"type":"response.output_text.delta","sequence_number":5,"item_id":"msg_1","output_index":1,"content_index":0,"delta":%q}`+"\n\n", eventText)}
	case "gemini":
		return &running{event: fmt.Sprintf(`data: {"candidates":[{"content":{"parts":[{"text":%q}],"role":"model"},"index":0}],"modelVersion":"served","responseId":"r1"}`+"\r\n\r\n", eventText)}
	case "converse":
		return &running{binary: true, start: awsMessage("event", "messageStart", `{"role":"assistant"}`),
			event: awsMessage("event", "contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":0,"delta":{"text":%q}}`, eventText))}
	}
	panic(dialect)
}

// endlessCall returns a stream whose call does not end.
func endlessCall(dialect string) *running {
	for _, c := range callTargets {
		if c.name == dialect {
			start, event := c.call(`{"a":"`), ""
			switch dialect {
			case "chat":
				event = strings.Replace(chatCall(eventText), `"id":"call_1","type":"function",`, "", 1)
				event = strings.Replace(event, `"name":"f",`, "", 1)
			default:
				event = strings.TrimPrefix(c.call(eventText), c.call(""))
			}
			if dialect == "converse" {
				event = awsMessage("event", "contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":0,"delta":{"toolUse":{"input":%q}}}`, eventText))
			}
			return &running{binary: dialect == "converse", start: start, event: event}
		}
	}
	panic(dialect)
}

// budgeted is a gateway in which each user has a budget that ends responses.
type budgeted struct {
	*gatewaytest.Gateway
	u      *swapped
	policy string
	users  atomic.Int64
}

const budgetTokens = 200

func newBudgeted(t *testing.T) *budgeted {
	b := &budgeted{u: new(swapped)}
	b.Gateway = gatewaytest.New(t, gatewaytest.Options{
		Settings: strings.Replace(pairSettings, "provider: openai,", "provider: deepseek,", 1) + `  - {slug: responses, provider: only-responses, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}` + "\n",
		Upstream: b.u, MasterKey: "the master key of this test", Specs: []*provider.Spec{
			{ID: "only-responses", Name: "Only responses", Dialect: api.DialectResponses, Auth: provider.Bearer(), Paths: map[api.Operation]string{api.Responses: "/responses"}},
		}})
	made := b.Do(b.Request("POST", "/policies/usage-limits", fmt.Sprintf(`{"name":"each user","type":"tokens","credit_limit":%d,"on_budget_end":"stop",
		"conditions":[{"key":"workspace_id","value":"*"}],"group_by":[{"key":"metadata._user"}]}`, budgetTokens)))
	if b.policy, _ = made.JSON(t)["id"].(string); b.policy == "" {
		t.Fatalf("%d %s", made.Status, made.Body)
	}
	return b
}

// user returns a header with a user who has not used anything.
func (b *budgeted) user() string { return fmt.Sprintf(`{"_user":"u%d"}`, b.users.Add(1)) }

// ask sends a request of a client for a user.
func (b *budgeted) ask(t *testing.T, client clientFormat, target, user string, stream bool) gatewaytest.Response {
	t.Helper()
	client.body = strings.Replace(client.body, `"max_tokens":100`, `"max_tokens":1000`, 1) // which does not fit
	req := client.ask(t, b.Gateway, "x-gateway-provider", "@"+target, "m", stream)
	req.Header.Set("x-gateway-metadata", user)
	return b.Do(req)
}

// limitOf returns the use of the policy in a log entry.
func limitOf(t *testing.T, e map[string]any) map[string]any {
	t.Helper()
	for _, l := range e["limits"].([]any) {
		if l := l.(map[string]any); l["holder"] == "policy" {
			return l
		}
	}
	t.Fatalf("the entry has the limits %v", e["limits"])
	return nil
}

// lengthStops is what a stream that ended at its length says, by the name of the
// client.
var lengthStops = map[string]string{
	"chat": `"finish_reason":"length"`, "messages": `"stop_reason":"max_tokens"`, "responses": `"incomplete_details":{"reason":"max_output_tokens"}`,
	"gemini": `"finishReason":"MAX_TOKENS"`, "converse": `"stopReason":"max_tokens"`,
	"invoke": `"stop_reason":"max_tokens"`,
}

// plainBody returns the response with the events in binary messages in plain text.
func plainBody(t *testing.T, client clientFormat, res gatewaytest.Response) string {
	t.Helper()
	if client.name != "invoke" {
		return string(res.Body)
	}
	var all strings.Builder
	for _, e := range binaryData(t, res.Body) {
		data, err := base64.StdEncoding.DecodeString(str(at(e, "bytes")))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

// TestStreamEndsAtItsLengthWhenTheBudgetEnds covers each pair of dialects: the
// client reads a complete stream that ended at the limit of output tokens, the
// provider is no longer read, and what is counted exceeds the budget by one event
// at most.
func TestStreamEndsAtItsLengthWhenTheBudgetEnds(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t)
	for _, target := range []string{"chat", "messages", "responses", "gemini", "converse"} {
		for _, client := range clientFormats {
			t.Run(target+" for "+client.name, func(t *testing.T) {
				p := endlessText(target)
				p.left = make(chan struct{})
				b.u.set(p)
				user := b.user()
				res := b.ask(t, client, target, user, true)
				h := client.readResponse(t, res)
				body := plainBody(t, client, res)
				if res.Status != 200 || h.end != "done" || !strings.Contains(body, lengthStops[client.name]) {
					t.Fatalf("status %d, end %s, want done with %s:\n%s", res.Status, h.end, lengthStops[client.name], body)
				}
				receive(t, p.left, "the end of the connection to the provider")
				if h.text == "" || h.text != strings.Repeat(eventText, len(h.text)/len(eventText)) {
					t.Errorf("the text is %.200q", h.text)
				}
				e := b.Entry(res)
				l := limitOf(t, e)
				used, reserved := l["used"].(float64), l["reserved"].(float64)
				if used < budgetTokens || used > budgetTokens+eventTokens || reserved != budgetTokens || l["refused"] != true {
					t.Errorf("%v used of %d, reserved %v, refused %v", used, budgetTokens, reserved, l["refused"])
				}
				usage := e["usage"].(map[string]any)
				if e["usage_estimated"] != true || e["finish_reason"] != "length" || e["status"] != 200.0 || e["error"] != nil {
					t.Errorf("the entry has the usage %v, the finish reason %v, the status %v and the error %v", usage, e["finish_reason"], e["status"], e["error"])
				}
				if got := client.usageIn(body); got != used {
					t.Errorf("the client reads %v tokens, %v are counted:\n%s", got, used, body)
				}
				if again := b.ask(t, client, target, user, true); again.Status != 412 {
					t.Errorf("a further request gets %d: %.300s", again.Status, again.Body)
				}
			})
		}
	}
}

// usageIn returns the tokens of the last usage in a stream.
func (g clientFormat) usageIn(body string) (n float64) {
	for _, names := range [][2]string{{`"prompt_tokens":`, `"completion_tokens":`}, {`"input_tokens":`, `"output_tokens":`},
		{`"promptTokenCount":`, `"candidatesTokenCount":`}, {`"inputTokens":`, `"outputTokens":`}} {
		sum := 0.0
		for _, name := range names {
			var v float64
			if i := strings.LastIndex(body, name); i >= 0 {
				json.NewDecoder(strings.NewReader(body[i+len(name):])).Decode(&v)
			}
			sum += v
		}
		n = max(n, sum)
	}
	return n
}

// Clients run a call as soon as its end arrives.
func TestCallInWhichTheBudgetEndsIsNotReportedAsFinished(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t)
	for _, target := range []string{"chat", "messages", "responses", "converse"} {
		for _, client := range clientFormats[:5] {
			t.Run(target+" for "+client.name, func(t *testing.T) {
				b.u.set(endlessCall(target))
				res := b.ask(t, client, target, b.user(), true)
				body := string(res.Body)
				if h := client.readResponse(t, res); res.Status != 200 || h.end != "done" || !strings.Contains(body, lengthStops[client.name]) {
					t.Fatalf("status %d, end %s, want done with %s:\n%s", res.Status, h.end, lengthStops[client.name], body)
				}
				for _, finished := range []string{"arguments.done", "output_item.done", `"status":"completed"`, "functionCall", `tool_calls"}`, "tool_use\"}", "\"}\"}"} {
					if strings.Contains(body, finished) {
						t.Errorf("the client received %s:\n%s", finished, body)
					}
				}
			})
		}
	}
}

// The last event repeats the response as it was when it ended.
func TestResponseObjectHasTheItemsSoFarWhenTheBudgetEnds(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t)
	b.u.set(endlessText("responses"))
	events := sseData(b.ask(t, clientFormats[2], "responses", b.user(), true).Body)
	last := events[len(events)-1]
	text := str(at(last, "response.output.1.content.0.text"))
	if at(last, "type") != "response.incomplete" || at(last, "response.id") != "resp_1" || at(last, "response.metadata.a") != "b" || at(last, "response.status") != "incomplete" ||
		at(last, "response.output.0.encrypted_content") != "x" || at(last, "response.output.1.id") != "msg_1" || at(last, "response.output.1.status") != "incomplete" ||
		len(text) < 100 || at(last, "response.usage.total_tokens") == nil {
		t.Errorf("the last event is %v", last)
	}
	var ends []string
	for i, e := range events[len(events)-4:] {
		ends = append(ends, fmt.Sprint(at(e, "type"), " ", at(e, "item_id"), " ", at(e, "sequence_number") == 6.0+float64(i)))
	}
	want := "[response.output_text.done msg_1 true response.content_part.done msg_1 true response.output_item.done <nil> true response.incomplete <nil> true]"
	if fmt.Sprint(ends) != want || at(events[len(events)-4], "text") != text {
		t.Errorf("the stream ends with\n%v, want\n%v", ends, want)
	}

	b.u.set(endlessCall("responses"))
	events = sseData(b.ask(t, clientFormats[2], "responses", b.user(), true).Body)
	last = events[len(events)-1]
	if args := str(at(last, "response.output.0.arguments")); !strings.HasPrefix(args, `{"a":"`) || at(last, "response.output.0.status") != "incomplete" || at(last, "response.output.0.call_id") != "call_1" {
		t.Errorf("the last event is %v", last)
	}
}

// An event without content that precedes the first one, such as the results of a filter,
// does not cost the client the first one: both have arrived when the budget ends.
func TestFirstEventArrivesIfItUsesUpTheBudget(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t)
	text := strings.Repeat("word", budgetTokens+50)
	b.u.set(&running{start: `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"served","choices":[],"prompt_filter_results":[]}` + "\n\n" + chunk(text), event: chunk(eventText)})
	for _, client := range []clientFormat{clientFormats[0], clientFormats[1]} {
		res := b.ask(t, client, "chat", b.user(), true)
		h := client.readResponse(t, res)
		if res.Status != 200 || h.end != "done" || h.text != text || !strings.Contains(string(res.Body), lengthStops[client.name]) {
			t.Errorf("%s: status %d, end %s, %d characters of text, want %d: %.400s", client.name, res.Status, h.end, len(h.text), len(text), res.Body)
		}
	}
}

// A response that ends by itself before the budget is not touched.
func TestResponseThatEndsWithinTheBudgetIsNotChanged(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t)
	p := endlessText("chat")
	p.events, p.end = 3, finish+done
	b.u.set(p)
	user := b.user()
	req := func() gatewaytest.Response {
		return b.Post("/chat/completions", streamChat, "x-gateway-provider", "@chat", "x-gateway-metadata", user)
	}
	for range 3 {
		if res := req(); string(res.Body) != strings.Repeat(p.event, 3)+finish+done {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
	}
	l := limitOf(t, b.Entry(req()))
	if l["refused"] != false || l["reserved"].(float64) >= budgetTokens || l["used"].(float64) < 30 {
		t.Errorf("the entry has the limit %v", l)
	}
}

// A response that is not a stream cannot be ended early.
func TestRequestWithoutAStreamMustFitIntoTheBudget(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t)
	b.u.set(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("the request was sent") }))
	for _, client := range clientFormats[:5] {
		if res := b.ask(t, client, "chat", b.user(), false); res.Status != 412 || !strings.Contains(string(res.Body), "set a lower limit of output tokens") {
			t.Errorf("%s: %d %s", client.name, res.Status, res.Body)
		}
	}
	long := fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":%q}]}`, strings.Repeat("word", budgetTokens))
	res := b.Post("/chat/completions", long, "x-gateway-provider", "@chat", "x-gateway-metadata", b.user())
	if res.Status != 412 || !strings.Contains(string(res.Body), "the input of the request uses about 3") {
		t.Errorf("an input that does not fit: %d %s", res.Status, res.Body)
	}
}

// A provider that ignores the limit of output tokens is cut when its response is
// twice as long as it may be.
func TestStreamOfAProviderThatIgnoresTheTokenLimitEnds(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t)
	b.u.set(endlessText("chat"))
	body := `{"model":"m","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	res := b.Post("/chat/completions", body, "x-gateway-provider", "@chat", "x-gateway-metadata", b.user())
	if l := limitOf(t, b.Entry(res)); !strings.Contains(string(res.Body), lengthStops["chat"]) || l["used"].(float64) > budgetTokens+eventTokens {
		t.Errorf("%d, the limit is %v", res.Status, l)
	}
}

// A stream takes what other requests return before it is ended.
func TestStreamContinuesWithWhatOtherRequestsReturn(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t)
	u := newScripted(t)
	b.u.set(u)
	user := b.user()
	send := func(body string) chan gatewaytest.Response {
		got := make(chan gatewaytest.Response, 1)
		go func() {
			got <- b.Post("/chat/completions", body, "x-gateway-provider", "@chat", "x-gateway-metadata", user)
		}()
		return got
	}
	other := send(`{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`)
	held := u.next()
	stream := send(streamChat)
	c := u.next()
	c.events()
	c.send(chunk(eventText))
	held.w.Header().Set("Content-Type", "application/json")
	held.send(chatBody)
	held.finish()
	if res := receive(t, other, "the other response"); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	go func() {
		for c.Context().Err() == nil {
			c.send(chunk(eventText))
		}
	}()
	res := receive(t, stream, "the end of the stream")
	l := limitOf(t, b.Entry(res))
	used := l["used"].(float64)
	if !strings.Contains(string(res.Body), lengthStops["chat"]) || used < budgetTokens-5 || used > budgetTokens-5+eventTokens || l["reserved"].(float64) != budgetTokens-5 {
		t.Errorf("the limit is %v", l)
	}
}

// What a budget has cut is not stored for others, whose budgets have room.
func TestResponseThatABudgetEndsIsNotCached(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t)
	b.u.set(endlessText("chat"))
	send := func() gatewaytest.Response {
		return b.Post("/chat/completions", streamChat, "x-gateway-config", `{"provider":"@chat","cache":{"mode":"simple"}}`,
			"x-gateway-cache-namespace", "shared", "x-gateway-metadata", b.user())
	}
	for range 2 {
		res := send()
		if h := clientFormats[0].readResponse(t, res); h.end != "done" || !strings.Contains(string(res.Body), lengthStops["chat"]) || res.Header.Get("x-gateway-cache-status") != "MISS" {
			t.Fatalf("%d %s, cache status %s: %.300s", res.Status, h.end, res.Header.Get("x-gateway-cache-status"), res.Body)
		}
		if e := b.Entry(res); e["finish_reason"] != "length" || limitOf(t, e)["used"].(float64) > budgetTokens+eventTokens {
			t.Errorf("the entry has the finish reason %v and the limit %v", e["finish_reason"], limitOf(t, e))
		}
	}
}

// Streams at the same time share what is left: together they exceed the budget by
// one event each at most.
func TestConcurrentStreamsExceedTheBudgetByOneEventEachAtMost(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t)
	b.u.set(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p := endlessText("chat")
		if strings.Contains(string(body), "max_tokens") { // the provider keeps it
			p.events, p.end = 3, strings.Replace(finish, "stop", "length", 1)+done
		}
		p.ServeHTTP(w, r)
	}))
	for range 5 {
		user := b.user()
		var used, streams atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				body := `{"model":"m","max_tokens":30,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
				if i%4 == 0 {
					body = strings.Replace(body, `"max_tokens":30,`, "", 1)
				}
				res := b.Post("/chat/completions", body, "x-gateway-provider", "@chat", "x-gateway-metadata", user)
				if res.Status == 412 {
					return
				}
				used.Add(int64(limitOf(t, b.Entry(res))["used"].(float64)))
				streams.Add(1)
			})
		}
		wg.Wait()
		if n := used.Load(); n > budgetTokens+eventTokens*streams.Load() || n < budgetTokens/2 {
			t.Errorf("%d streams used %d tokens of %d", streams.Load(), n, budgetTokens)
		}
	}
}
