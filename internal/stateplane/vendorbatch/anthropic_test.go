package vendorbatch_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/stateplane/vendorbatch"
)

const anthropicEnded = `{"id":"msgbatch_1","type":"message_batch","processing_status":"ended","request_counts":{"processing":0,"succeeded":1,"errored":1,"canceled":0,"expired":0},
"ended_at":"2024-08-20T18:37:24.100435Z","created_at":"2024-08-20T18:37:23Z","expires_at":"2024-08-21T18:37:23Z","cancel_initiated_at":null,"results_url":"https://elsewhere.example/results"}`

func TestAnthropicGetsMessages(t *testing.T) {
	fake := newFake(t, map[string]string{"POST /messages/batches": strings.Replace(anthropicEnded, `"ended"`, `"in_progress"`, 1)})
	in := inputOf(chatURL, "claude-sonnet-4-5", text(`{"custom_id":"task:1","url":"/v1/chat/completions","body":{"model":"x","max_tokens":5,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}}
{"custom_id":"b","url":"/v1/chat/completions","body":{"model":"x","max_tokens":6,"messages":[{"role":"user","content":"ho"}]}}
`))
	b, err := mustVendor(t, "anthropic").Create(t.Context(), fake, in)
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Requests []struct {
			CustomID string `json:"custom_id"`
			Params   map[string]any
		}
	}
	if err := json.Unmarshal([]byte(fake.bodies["POST /messages/batches"]), &body); err != nil {
		t.Fatal(err)
	}
	if len(body.Requests) != 2 || body.Requests[0].CustomID != "modelgateline1" || body.Requests[1].CustomID != "b" {
		t.Fatalf("the requests are %+v", body.Requests)
	}
	if p := body.Requests[0].Params; p["model"] != "claude-sonnet-4-5" || p["max_tokens"] != 5.0 || p["system"] == nil {
		t.Errorf("the parameters are %v", p)
	}
	if b.Status != vendorbatch.InProgress || b.RequestCounts.Total != 2 || b.Endpoint != chatURL {
		t.Errorf("the batch is %+v", b)
	}
}

func TestAnthropicResultsAreCompletions(t *testing.T) {
	fake := newFake(t, map[string]string{
		"GET /messages/batches/msgbatch_1": anthropicEnded,
		"GET /messages/batches/msgbatch_1/results": `{"custom_id":"b","result":{"type":"errored","error":{"type":"error","error":{"type":"invalid_request_error","message":"too long"},"request_id":"req_1"}}}
{"custom_id":"modelgateline1","result":{"type":"succeeded","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":11,"cache_read_input_tokens":4,"output_tokens":2}}}}
{"custom_id":"c","result":{"type":"expired"}}
{"custom_id":"d","result":{"type":"canceled"}}
{"custom_id":"e","result":{"type":"succeeded","message":{"nothing":1}}}
`,
	})
	v := mustVendor(t, "anthropic")
	var lines text
	for _, id := range []string{"task:1", "b", "c", "d", "e"} {
		lines += text(`{"custom_id":"` + id + `","url":"/v1/chat/completions","body":{"model":"x","messages":[{"role":"user","content":"hi"}]}}` + "\n")
	}
	b, err := v.Get(t.Context(), fake, "msgbatch_1")
	if err != nil {
		t.Fatal(err)
	}
	if b.Status != vendorbatch.Completed || b.CompletedAt != 1724179044 || b.RequestCounts != (vendorbatch.Counts{Total: 2, Completed: 1, Failed: 1}) {
		t.Errorf("the batch is %+v", b)
	}
	_, all := mustResults(t, v, fake, b, inputOf(chatURL, "claude-sonnet-4-5", lines))
	want := []string{"b invalid_request_error", "task:1 200", "c batch_expired", "d batch_cancelled", "e invalid_result"}
	if diff := cmp.Diff(want, describeAll(all)); diff != "" {
		t.Fatal(diff)
	}
	if all[0].Error.Message != "too long" || all[0].RequestID != "req_1" {
		t.Errorf("the error is %+v", all[0].Error)
	}
	var completion struct {
		Object  string
		Choices []struct {
			Message      struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal(all[1].Body, &completion); err != nil {
		t.Fatal(err)
	}
	if completion.Object != "chat.completion" || completion.Choices[0].Message.Content != "Hello" || completion.Choices[0].FinishReason != "stop" ||
		completion.Usage.PromptTokens != 15 {
		t.Errorf("the completion is %s", all[1].Body)
	}
	if u := all[1].Usage; !u.Known || u.Input != 11 || u.CachedInput != 4 || u.Output != 2 {
		t.Errorf("the usage is %+v", u)
	}
}

func TestAnthropicEndsByItsCounts(t *testing.T) {
	v := mustVendor(t, "anthropic")
	for _, tt := range []struct {
		status, cancel, counts string
		want                   vendorbatch.Status
	}{
		{"in_progress", "null", `{"processing":2}`, vendorbatch.InProgress},
		{"canceling", `"2024-08-20T18:37:24Z"`, `{"processing":2}`, vendorbatch.Cancelling},
		{"ended", "null", `{"succeeded":1,"errored":1}`, vendorbatch.Completed},
		{"ended", "null", `{"errored":2}`, vendorbatch.Completed},
		{"ended", "null", `{"succeeded":1,"expired":1}`, vendorbatch.Completed},
		{"ended", "null", `{"succeeded":1,"canceled":1}`, vendorbatch.Completed},
		{"ended", "null", `{"expired":2}`, vendorbatch.Expired},
		{"ended", `"2024-08-20T18:37:24Z"`, `{"succeeded":1,"canceled":1}`, vendorbatch.Cancelled},
		{"ended", `"2024-08-20T18:37:24Z"`, `{"succeeded":2}`, vendorbatch.Completed},
	} {
		body := `{"id":"x","processing_status":"` + tt.status + `","cancel_initiated_at":` + tt.cancel + `,"request_counts":` + tt.counts + `}`
		b, err := v.Get(t.Context(), newFake(t, map[string]string{"GET /messages/batches/x": body}), "x")
		if err != nil || b.Status != tt.want || b.UnknownStatus {
			t.Errorf("%s: %+v, %v, want %s", body, b, err, tt.want)
		}
	}
}

func TestAnthropicNamesBetaFeaturesOnce(t *testing.T) {
	fake := newFake(t, map[string]string{"POST /messages/batches": anthropicEnded})
	in := inputOf("/v1/messages", "", text(`{"custom_id":"a","body":{"model":"claude-sonnet-4-5","max_tokens":5,"anthropic_beta":["x-1","y-2"],"messages":[{"role":"user","content":"hi"}]}}
{"custom_id":"b","body":{"model":"claude-opus-4-1","max_tokens":5,"anthropic_beta":["x-1"],"messages":[{"role":"user","content":"hi"}]}}
`))
	if _, err := mustVendor(t, "anthropic").Create(t.Context(), fake, in); err != nil {
		t.Fatal(err)
	}
	if got := fake.headers["POST /messages/batches"].Get("Anthropic-Beta"); got != "x-1,y-2" {
		t.Errorf("Anthropic-Beta: %s", got)
	}
	if body := fake.bodies["POST /messages/batches"]; strings.Contains(body, "anthropic_beta") || !strings.Contains(body, "claude-opus-4-1") {
		t.Errorf("the body is %s", body)
	}
}

func TestAnthropicBatchesCannotBeFound(t *testing.T) {
	if _, err := mustVendor(t, "anthropic").Find(t.Context(), newFake(t, nil), &vendorbatch.Input{OwnID: "batch_own1"}); !errors.Is(err, vendorbatch.ErrUnsupported) {
		t.Errorf("Find() = %v, want ErrUnsupported", err)
	}
}
