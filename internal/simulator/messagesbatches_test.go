package simulator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// messageBatch is a batch of messages, as client libraries decode it.
type messageBatch struct {
	ID, Type string
	Status   string  `json:"processing_status"`
	Created  string  `json:"created_at"`
	Expires  string  `json:"expires_at"`
	Ended    *string `json:"ended_at"`
	Canceled *string `json:"cancel_initiated_at"`
	Results  *string `json:"results_url"`
	Counts   struct {
		Processing, Succeeded, Errored, Canceled, Expired int
	} `json:"request_counts"`
}

// messageRequests returns a body with n requests for a model.
func messageRequests(model string, n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"custom_id":"c%d","params":{"model":%q,"max_tokens":50,"messages":[{"role":"user","content":"Line %d"}]}}`, i+1, model, i+1))
	}
	return `{"requests":[` + strings.Join(list, ",") + `]}`
}

func (h *fixture) messageBatch(t *testing.T, method, path, body string) (b messageBatch) {
	t.Helper()
	a := h.mustSend(method, "/v1/messages/batches"+path, body, anthropicVersion...)
	if a.mustDecodeInto(t, &b); a.StatusCode != 200 {
		t.Fatalf("%s %s: %d %s", method, path, a.StatusCode, a.body)
	}
	return b
}

// messageResults returns the results by the names of their requests, and these
// names in order.
func (h *fixture) messageResults(t *testing.T, b messageBatch) (results map[string]string, order []string) {
	t.Helper()
	if b.Results == nil {
		t.Fatalf("no results of %+v", b)
	}
	path, ok := strings.CutPrefix(*b.Results, h.url)
	if !ok {
		t.Fatalf("results at %s", *b.Results)
	}
	results = map[string]string{}
	for line := range strings.Lines(h.mustSend("GET", path, "", anthropicVersion...).body) {
		var r struct {
			ID     string `json:"custom_id"`
			Result struct {
				Type    string
				Message *struct{ Content []struct{ Text string } }
				Error   *struct{ Error struct{ Type string } }
			}
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		results[r.ID] = r.Result.Type
		if r.Result.Message != nil {
			results[r.ID] += " " + r.Result.Message.Content[0].Text[:12]
		}
		if r.Result.Error != nil {
			results[r.ID] += " " + r.Result.Error.Error.Type
		}
		order = append(order, r.ID)
	}
	return results, order
}

func TestMessageBatchesRunTheirRequests(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	body := strings.Replace(messageRequests("m", 3), `"max_tokens":50,"messages":[{"role":"user","content":"Line 3"}]`, `"messages":[]`, 1)
	b := h.messageBatch(t, "POST", "", body)
	if b.Type != "message_batch" || !strings.HasPrefix(b.ID, "msgbatch_") || b.Status != "in_progress" || b.Counts.Processing != 3 || b.Results != nil || b.Ended != nil {
		t.Errorf("created %+v", b)
	}
	if a := h.mustSend("GET", "/v1/messages/batches/"+b.ID+"/results", "", anthropicVersion...); a.StatusCode != 404 || !strings.Contains(a.body, "not_found_error") {
		t.Errorf("early results: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("DELETE", "/v1/messages/batches/"+b.ID, "", anthropicVersion...); a.StatusCode != 400 {
		t.Errorf("early delete: %d %s", a.StatusCode, a.body)
	}
	h.messageBatch(t, "GET", "/"+b.ID, "")
	if b = h.messageBatch(t, "GET", "/"+b.ID, ""); b.Status != "ended" || b.Ended == nil || b.Counts.Succeeded != 2 || b.Counts.Errored != 1 || b.Counts.Processing != 0 {
		t.Errorf("ended %+v", b)
	}
	results, order := h.messageResults(t, b)
	if !slices.Equal(order, []string{"c3", "c2", "c1"}) || results["c1"] != "succeeded echo: Line 1" || results["c3"] != "errored invalid_request_error" {
		t.Errorf("results %v in order %v", results, order)
	}
	if a := h.mustSend("POST", "/v1/messages/batches/"+b.ID+"/cancel", "", anthropicVersion...); a.StatusCode != 400 {
		t.Errorf("late cancel: %d %s", a.StatusCode, a.body)
	}
	if got := h.messageBatch(t, "DELETE", "/"+b.ID, ""); got.Type != "message_batch_deleted" || got.ID != b.ID {
		t.Errorf("deleted %+v", got)
	}
	if a := h.mustSend("GET", "/v1/messages/batches/"+b.ID, "", anthropicVersion...); a.StatusCode != 404 || !strings.Contains(a.body, "not_found_error") {
		t.Errorf("after delete: %d %s", a.StatusCode, a.body)
	}
}

func TestMessageBatchesEndEarly(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for _, tt := range []struct {
		name, model    string
		reads          int
		cancel         bool
		want           map[string]string
		canceledStatus string
	}{
		{"expired", "m+job=expire", 2, false, map[string]string{"c1": "succeeded echo: Line 1", "c2": "expired"}, ""},
		{"failed", "m+job=fail", 1, false, map[string]string{"c1": "errored api_error", "c2": "errored api_error"}, ""},
		{"canceled at once", "m", 0, true, map[string]string{"c1": "canceled", "c2": "canceled"}, "canceling"},
		{"canceled while it runs", "m+job=hang", 3, true, map[string]string{"c1": "succeeded echo: Line 1", "c2": "canceled"}, "canceling"},
		{"lines without a response", "m+hang", 2, false, map[string]string{"c1": "errored api_error", "c2": "errored api_error"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := h.messageBatch(t, "POST", "", messageRequests(tt.model, 2))
			for range tt.reads {
				b = h.messageBatch(t, "GET", "/"+b.ID, "")
			}
			if tt.cancel {
				for range 2 {
					if b = h.messageBatch(t, "POST", "/"+b.ID+"/cancel", ""); b.Status != "canceling" || b.Canceled == nil {
						t.Errorf("canceled %+v", b)
					}
				}
				b = h.messageBatch(t, "GET", "/"+b.ID, "")
			}
			if results, _ := h.messageResults(t, b); fmt.Sprint(results) != fmt.Sprint(tt.want) || b.Status != "ended" {
				t.Errorf("%s with %v, want %v", b.Status, results, tt.want)
			}
		})
	}
	b := h.messageBatch(t, "POST", "", messageRequests("m+half-content+takes=0s", 4))
	b = h.messageBatch(t, "GET", "/"+b.ID, "")
	if a := h.mustSend("GET", strings.TrimPrefix(*b.Results, h.url), "", anthropicVersion...); a.err == nil {
		t.Errorf("complete results: %s", a.body)
	}
}

func TestMessageBatchesAreCheckedAndListed(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	good := messageRequests("m", 1)
	for _, tt := range []struct{ name, body, want string }{
		{"no requests", `{}`, "requests"},
		{"an empty list", `{"requests":[]}`, "requests"},
		{"an unknown member", `{"x":1,` + good[1:], "x: Extra inputs are not permitted"},
		{"an unknown member of a request", strings.Replace(good, `"params"`, `"url":"/","params"`, 1), "requests.0.url: Extra inputs are not permitted"},
		{"no parameters", `{"requests":[{"custom_id":"a"}]}`, "requests.0.params"},
		{"no id", strings.Replace(good, `"custom_id":"c1",`, ``, 1), "requests.0.custom_id: Field required"},
		{"an id with a space", strings.Replace(good, `c1`, `c 1`, 1), "requests.0.custom_id"},
		{"a duplicate id", strings.Replace(messageRequests("m", 2), `c2`, `c1`, 1), "must be unique"},
	} {
		a := h.mustSend("POST", "/v1/messages/batches", tt.body, anthropicVersion...)
		if a.StatusCode != 400 || !strings.Contains(a.body, tt.want) || !strings.Contains(a.body, `"type":"invalid_request_error"`) {
			t.Errorf("%s: %d %s", tt.name, a.StatusCode, a.body)
		}
	}
	if a := h.mustSend("POST", "/v1/messages/batches", good); a.StatusCode != 400 || !strings.Contains(a.body, "anthropic-version") {
		t.Errorf("no version: %d %s", a.StatusCode, a.body)
	}
	var ids []string
	for range 3 {
		ids = append([]string{h.messageBatch(t, "POST", "", good).ID}, ids...)
	}
	for _, tt := range []struct {
		query string
		want  []string
		more  bool
	}{
		{"", ids, false}, {"?limit=2", ids[:2], true}, {"?limit=2&after_id=" + ids[1], ids[2:], false},
		{"?limit=1&before_id=" + ids[2], ids[1:2], true}, {"?before_id=" + ids[1], ids[:1], false},
	} {
		var got struct {
			Data  []messageBatch
			First *string `json:"first_id"`
			Last  *string `json:"last_id"`
			More  bool    `json:"has_more"`
		}
		h.mustSend("GET", "/v1/messages/batches"+tt.query, "", anthropicVersion...).mustDecodeInto(t, &got)
		var found []string
		for _, b := range got.Data {
			found = append(found, b.ID)
		}
		if !slices.Equal(found, tt.want) || got.More != tt.more || deref(got.First) != tt.want[0] || deref(got.Last) != tt.want[len(tt.want)-1] {
			t.Errorf("%s: %v, more %t", tt.query, found, got.More)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?after_id=none", "?before_id=none", "?page=1"} {
		if a := h.mustSend("GET", "/v1/messages/batches"+query, "", anthropicVersion...); a.StatusCode != 400 {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
}
