package simulator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// storedResponse is a response of the responses protocol, as client libraries
// decode it.
type storedResponse struct {
	ID, Object, Status string
	Background         bool
	Store              bool
	Previous           *string `json:"previous_response_id"`
	Conversation       *struct{ ID string }
	Metadata           map[string]string
	Output             []responseItem
	Usage              *struct {
		Input int `json:"input_tokens"`
	}
	Error *failure
}

type responseItem struct {
	ID, Type, Role, Status string
	Name                   string
	CallID                 string `json:"call_id"`
	Content                []struct{ Type, Text string }
}

type itemList struct {
	Object string
	Data   []responseItem
	First  string `json:"first_id"`
	Last   string `json:"last_id"`
	More   bool   `json:"has_more"`
}

func (h *fixture) respond(t *testing.T, body string) (r storedResponse) {
	t.Helper()
	a := h.mustPost("/v1/responses", body)
	if a.mustDecodeInto(t, &r); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return r
}

func (h *fixture) response(t *testing.T, id string) (r storedResponse) {
	t.Helper()
	h.mustSend("GET", "/v1/responses/"+id, "").mustDecodeInto(t, &r)
	return r
}

func TestStoredResponsesAreReadAndDeleted(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	const body = `{"model":"m","input":"Say it","store":true,"metadata":{"a":"b"}}`
	first, second := h.respond(t, body), h.respond(t, body)
	if first.ID == second.ID || !first.Store || first.Metadata["a"] != "b" || first.Status != "completed" {
		t.Errorf("responses %+v and %+v", first, second)
	}
	if got := h.response(t, first.ID); got.ID != first.ID || len(got.Output) != 1 || got.Output[0].Content[0].Text != first.Output[0].Content[0].Text || got.Usage == nil {
		t.Errorf("read %+v", got)
	}
	var items itemList
	h.mustSend("GET", "/v1/responses/"+first.ID+"/input_items?limit=1&order=asc", "").mustDecodeInto(t, &items)
	if items.Object != "list" || len(items.Data) != 1 || items.Data[0].Role != "user" || items.Data[0].Content[0].Type != "input_text" || items.Data[0].Content[0].Text != "Say it" || items.First != items.Data[0].ID || items.More {
		t.Errorf("items %+v", items)
	}
	if a := h.mustSend("DELETE", "/v1/responses/"+first.ID, ""); a.StatusCode != 200 || a.body != `{"deleted":true,"id":"`+first.ID+`","object":"response"}` {
		t.Errorf("delete: %d %s", a.StatusCode, a.body)
	}
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", first.ID, 404}, {"DELETE", first.ID, 404}, {"POST", first.ID + "/cancel", 404}, {"GET", first.ID + "/input_items", 404},
		{"GET", second.ID + "?include=x", 400}, {"GET", second.ID + "?include=message.output_text.logprobs", 200}, {"GET", second.ID + "?x=1", 400},
		{"GET", second.ID + "?stream=true", 400}, {"GET", second.ID + "?starting_after=1", 400}, {"POST", second.ID + "/cancel", 400},
		{"GET", second.ID + "/input_items?limit=101", 400}, {"GET", second.ID + "/other", 404}, {"GET", second.ID + "?stream=false", 200},
	} {
		if a := h.mustSend(tt.method, "/v1/responses/"+tt.path, ""); a.StatusCode != tt.status || tt.status >= 400 && a.mustDecode(t).Error == nil {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, a.StatusCode, a.body)
		}
	}
	plain := h.respond(t, `{"model":"m","input":"Say it"}`)
	if got := h.response(t, plain.ID); got.ID != plain.ID || !plain.Store {
		t.Errorf("a response without store is not stored: %+v", got)
	}
	unstored := h.respond(t, `{"model":"m","input":"Say no","store":false}`)
	if a := h.mustSend("GET", "/v1/responses/"+unstored.ID, ""); a.StatusCode != 404 || unstored.Store {
		t.Errorf("a response with store=false: %d %s", a.StatusCode, a.body)
	}
	streamed := h.mustPost("/v1/responses", `{"model":"m","input":"Say it","store":true,"stream":true}`)
	list := events(streamed.body)
	var last struct{ Response storedResponse }
	if err := json.Unmarshal([]byte(list[len(list)-1].data), &last); err != nil || h.response(t, last.Response.ID).Status != "completed" {
		t.Errorf("a streamed response is not stored: %v", err)
	}
}

func TestResponsesContinueAChain(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	first := h.respond(t, `{"model":"m","store":true,"input":"Weather?","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}`)
	call := first.Output[0]
	if call.Type != "function_call" {
		t.Fatalf("output %+v", first.Output)
	}
	second := h.respond(t, fmt.Sprintf(`{"model":"m","previous_response_id":%q,"input":[{"type":"function_call_output","call_id":%q,"output":"sun"}]}`, first.ID, call.CallID))
	third := h.respond(t, fmt.Sprintf(`{"model":"m+report","previous_response_id":%q,"input":"And?"}`, second.ID))
	if *third.Previous != second.ID || third.Usage.Input <= second.Usage.Input {
		t.Errorf("third %+v", third)
	}
	var report simulator.Report
	if err := json.Unmarshal([]byte(third.Output[0].Content[0].Text), &report); err != nil {
		t.Fatal(err)
	}
	if strings.Join(report.Roles, " ") != "user assistant user" || len(report.Calls) != 1 || len(report.Results) != 1 || report.Texts[2] != "And?" {
		t.Errorf("report %+v", report)
	}
	if a := h.mustPost("/v1/responses", fmt.Sprintf(`{"model":"m","previous_response_id":%q,"input":"No result"}`, first.ID)); a.StatusCode != 400 || !strings.Contains(a.body, "No tool output found") {
		t.Errorf("a call without its result: %d %s", a.StatusCode, a.body)
	}
	h.mustSend("DELETE", "/v1/responses/"+second.ID, "")
	a := h.mustPost("/v1/responses", fmt.Sprintf(`{"model":"m","previous_response_id":%q,"input":"x"}`, third.ID))
	if e := a.mustDecode(t).Error; a.StatusCode != 400 || deref(e.Code) != "previous_response_not_found" || deref(e.Param) != "previous_response_id" {
		t.Errorf("a broken chain: %d %s", a.StatusCode, a.body)
	}
}

func TestBackgroundResponsesMoveOnWhenTheyAreRead(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	create := func(model string) storedResponse {
		t.Helper()
		return h.respond(t, `{"model":"`+model+`","input":"Say it","background":true}`)
	}
	r := create("m")
	if r.Status != "queued" || !r.Background || len(r.Output) != 0 || r.Usage != nil {
		t.Errorf("created %+v", r)
	}
	for _, want := range []string{"in_progress", "completed", "completed"} {
		if r = h.response(t, r.ID); r.Status != want {
			t.Errorf("status %s, want %s", r.Status, want)
		}
	}
	if len(r.Output) != 1 || r.Usage == nil {
		t.Errorf("completed %+v", r)
	}
	if h.mustPost("/v1/responses/"+r.ID+"/cancel", "").mustDecodeInto(t, &r); r.Status != "completed" {
		t.Errorf("cancelled after the end: %s", r.Status)
	}
	r = create("m+job=hang")
	for range 3 {
		if got := h.response(t, r.ID); got.Status != "in_progress" {
			t.Errorf("status %s of one that hangs", got.Status)
		}
	}
	for range 2 {
		if h.mustPost("/v1/responses/"+r.ID+"/cancel", "").mustDecodeInto(t, &r); r.Status != "cancelled" {
			t.Errorf("cancelled: %s", r.Status)
		}
	}
	if r = create("m+job=fail"); h.response(t, r.ID).Status != "failed" || h.response(t, r.ID).Error == nil {
		t.Errorf("failed: %+v", h.response(t, r.ID))
	}
	r = create("m+takes=0s")
	if h.response(t, r.ID).Status != "completed" {
		t.Error("a response that takes no time has not ended")
	}
	if _, err := h.send("POST", "/v1/responses", `{"model":"m+lost","input":"Say it","background":true}`); err == nil {
		t.Error("the response to a create is not lost")
	}
}

func TestBackgroundStreamsAreRejoined(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	const body = `{"model":"MODEL","input":"Say it","background":true,"stream":true}`
	whole := events(h.mustPost("/v1/responses", strings.Replace(body, "MODEL", "m", 1)).body)
	cut := h.mustPost("/v1/responses", strings.Replace(body, "MODEL", "m+cut=4+reads=2", 1))
	first := events(cut.body)
	if cut.err == nil || len(first) != 4 || first[1].name != "response.queued" || len(whole) < 10 || whole[len(whole)-1].name != "response.completed" {
		t.Fatalf("%v, events %+v of %d", cut.err, first, len(whole))
	}
	var created struct{ Response storedResponse }
	json.Unmarshal([]byte(first[0].data), &created)
	if created.Response.Status != "queued" || !created.Response.Background {
		t.Errorf("created %+v", created)
	}
	if got := h.response(t, created.Response.ID); got.Status != "in_progress" {
		t.Errorf("status %s after the cut", got.Status)
	}
	path := "/v1/responses/" + created.Response.ID + "?stream=true"
	after := events(h.mustSend("GET", path+"&starting_after=3", "").body)
	for i, e := range after {
		var got struct {
			Number int `json:"sequence_number"`
		}
		if json.Unmarshal([]byte(e.data), &got) != nil || got.Number != i+4 || e.name != whole[i+4].name {
			t.Errorf("event %d is %s number %d", i+4, e.name, got.Number)
		}
	}
	if len(after) != len(whole)-4 || h.response(t, created.Response.ID).Status != "completed" {
		t.Errorf("%d events after the fourth, want %d", len(after), len(whole)-4)
	}
	if all := events(h.mustSend("GET", path, "").body); len(all) != len(whole) {
		t.Errorf("%d events from the start, want %d", len(all), len(whole))
	}
	if none := events(h.mustSend("GET", path+"&starting_after=10000", "").body); len(none) != 0 {
		t.Errorf("events after the last: %+v", none)
	}
	if last := events(h.mustPost("/v1/responses", strings.Replace(body, "MODEL", "m+job=fail", 1)).body); last[len(last)-1].name != "response.failed" {
		t.Errorf("a failed stream ends in %+v", last[len(last)-1])
	}
}

func TestInputIsCountedAndCompacted(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	var count struct {
		Object string
		Tokens int `json:"input_tokens"`
	}
	h.mustPost("/v1/responses/input_tokens", `{"model":"m","input":"Say it"}`).mustDecodeInto(t, &count)
	if r := h.respond(t, `{"model":"m","input":"Say it"}`); count.Object != "response.input_tokens" || count.Tokens != r.Usage.Input {
		t.Errorf("count %+v, want %d", count, r.Usage.Input)
	}
	var compact struct {
		ID, Object string
		Output     []responseItem
	}
	h.mustPost("/v1/responses/compact", `{"model":"m","input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`).mustDecodeInto(t, &compact)
	if compact.Object != "response.compaction" || len(compact.Output) != 2 || compact.Output[0].Role != "user" || compact.Output[1].Type != "compaction" {
		t.Errorf("compacted %+v", compact)
	}
	for _, path := range []string{"input_tokens", "compact"} {
		if a := h.mustPost("/v1/responses/"+path, `{"model":"m","input":"x","stream":true}`); a.StatusCode != 400 || !strings.Contains(a.body, "'stream'") {
			t.Errorf("%s with an unknown member: %d %s", path, a.StatusCode, a.body)
		}
	}
}

func TestConversationsCollectItems(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	var v struct {
		ID, Object string
		Metadata   map[string]string
	}
	h.mustPost("/v1/conversations", `{"items":[{"role":"user","content":"Hello"}],"metadata":{"a":"b"}}`).mustDecodeInto(t, &v)
	if v.Object != "conversation" || v.Metadata["a"] != "b" {
		t.Errorf("created %+v", v)
	}
	path := "/v1/conversations/" + v.ID
	r := h.respond(t, `{"model":"m","input":"Say it","conversation":"`+v.ID+`"}`)
	if a := h.mustPost("/v1/responses", `{"model":"m+status=500","input":"Fails","conversation":{"id":"`+v.ID+`"}}`); a.StatusCode != 500 {
		t.Errorf("%d", a.StatusCode)
	}
	var items itemList
	h.mustSend("GET", path+"/items?order=asc", "").mustDecodeInto(t, &items)
	if r.Conversation == nil || r.Conversation.ID != v.ID || len(items.Data) != 3 || items.Data[1].Content[0].Text != "Say it" || items.Data[2].Role != "assistant" || items.Data[2].ID != r.Output[0].ID {
		t.Errorf("conversation %+v of %+v", items, r)
	}
	var added itemList
	h.mustPost(path+"/items", `{"items":[{"type":"message","role":"user","content":[{"type":"input_text","text":"More"}]}]}`).mustDecodeInto(t, &added)
	if len(added.Data) != 1 || added.First != added.Data[0].ID {
		t.Errorf("added %+v", added)
	}
	h.mustSend("GET", path+"/items?limit=1", "").mustDecodeInto(t, &items)
	if len(items.Data) != 1 || items.Data[0].ID != added.First || !items.More {
		t.Errorf("the newest %+v", items)
	}
	if a := h.mustSend("GET", path+"/items/"+added.First, ""); a.StatusCode != 200 || !strings.Contains(a.body, "More") {
		t.Errorf("item: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("DELETE", path+"/items/"+added.First, ""); a.StatusCode != 200 || !strings.Contains(a.body, `"object":"conversation"`) {
		t.Errorf("delete: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("GET", path+"/items/"+added.First, ""); a.StatusCode != 404 {
		t.Errorf("a deleted item: %d %s", a.StatusCode, a.body)
	}
	if h.mustPost(path, `{"metadata":{"c":"d"}}`).mustDecodeInto(t, &v); v.Metadata["c"] != "d" {
		t.Errorf("updated %+v", v)
	}
	many := strings.Repeat(`{"role":"user","content":"x"},`, 21)
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/conversations", `{"items":[` + strings.TrimSuffix(many, ",") + `]}`, 400}, {"POST", "/v1/conversations", `{"x":1}`, 400},
		{"POST", "/v1/conversations", ``, 200}, {"POST", path, `{}`, 400}, {"POST", path + "/items", `{"items":[]}`, 400},
		{"POST", path + "/items", `{"items":[{"type":"unknown"}]}`, 400}, {"GET", path + "/items?limit=0", ``, 400},
		{"DELETE", path, ``, 200}, {"GET", path, ``, 404}, {"POST", path + "/items", `{"items":[{"role":"user","content":"x"}]}`, 404},
		{"POST", "/v1/responses", `{"model":"m","input":"x","conversation":"` + v.ID + `"}`, 404},
	} {
		if a := h.mustSend(tt.method, tt.path, tt.body); a.StatusCode != tt.status || tt.status >= 400 && a.mustDecode(t).Error == nil {
			t.Errorf("%s %s %.80s: %d %s, want %d", tt.method, tt.path, tt.body, a.StatusCode, a.body, tt.status)
		}
	}
}
