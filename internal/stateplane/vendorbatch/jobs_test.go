package vendorbatch_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorbatch"
)

const mistralJob = `{"id":"j1","object":"batch","input_files":["f1"],"endpoint":"/v1/chat/completions","errors":[{"message":"one line is bad","count":1}],"status":"SUCCESS",
"created_at":1700000000,"started_at":1700000010,"completed_at":1700000100,"total_requests":2,"completed_requests":2,"succeeded_requests":1,"failed_requests":1,
"metadata":{"modelgate_record":"batch_own1","n":5},"model":"mistral-small-latest","output_file":"f2","error_file":"f3"}`

func TestMistralHasJobs(t *testing.T) {
	fake := newFake(t, map[string]string{
		"POST /files":                          `{"id":"f1"}`,
		"POST /batch/jobs":                     mistralJob,
		"GET /batch/jobs/j1":                   mistralJob,
		"POST /batch/jobs/j1/cancel":           mistralJob,
		"GET /batch/jobs?page=0&page_size=100": `{"data":[{"id":"j0"},` + mistralJob + `]}`,
		"GET /files/f2/content":                `{"id":"r","custom_id":"a0","response":{"status_code":200,"body":{"choices":[]}},"error":null}`,
		"GET /files/f3/content":                `{"id":"r","custom_id":"a1","response":{"status_code":422,"body":{"detail":"no"}},"error":{"message":"unprocessable"}}`,
	})
	v := mustVendor(t, "mistral")
	in := inputOf(chatURL, "mistral-small-latest", text(strings.ReplaceAll(string(chatLines(2)), `"messages"`, `"max_completion_tokens":7,"user":"u","messages"`)))
	in.Window = "2d"
	if _, err := v.Create(t.Context(), fake, in); err != nil {
		t.Fatal(err)
	}
	_, content := fake.file("POST /files")
	want := `{"custom_id":"a0","body":{"model":"mistral-small-latest","max_tokens":7,"messages":[{"role":"user","content":"number 0"}]}}`
	if first, _, _ := strings.Cut(content, "\n"); first != want {
		t.Errorf("the first line is %s, want %s", first, want)
	}
	var body any
	if err := json.Unmarshal([]byte(fake.bodies["POST /batch/jobs"]), &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(map[string]any{"input_files": []any{"f1"}, "endpoint": chatURL, "model": "mistral-small-latest", "timeout_hours": 48.0,
		"metadata": map[string]any{"modelgate_record": "batch_own1"}}), body); diff != "" {
		t.Error(diff)
	}
	b, err := v.Get(t.Context(), fake, "j1")
	if err != nil {
		t.Fatal(err)
	}
	if b.Status != vendorbatch.Completed || b.CompletedAt != 1700000100 || b.InputFileID != "f1" || b.Errors.Data[0].Message != "one line is bad" ||
		b.RequestCounts != (vendorbatch.Counts{Total: 2, Completed: 1, Failed: 1}) || len(b.Metadata) != 0 {
		t.Errorf("the batch is %+v", b)
	}
	if _, all := mustResults(t, v, fake, b, in); !cmp.Equal(describeAll(all), []string{"a0 200", "a1 provider_error"}) {
		t.Errorf("the results are %v", describeAll(all))
	}
	if b, err := v.Find(t.Context(), fake, in); err != nil || b.ID != "j1" {
		t.Errorf("Find() = %+v, %v", b, err)
	}
	if b, err := v.Cancel(t.Context(), fake, "j1"); err != nil || b.Status != vendorbatch.Completed {
		t.Errorf("Cancel(ended) = %+v, %v", b, err)
	}
	in.Window = "30m"
	if _, err := v.Create(t.Context(), newFake(t, nil), in); err == nil || apierr.From(err).Param != "completion_window" {
		t.Errorf("Create(half an hour) = %v", err)
	}
}

func TestXAIResultsComeInPages(t *testing.T) {
	batch := func(state string) string {
		return `{"batch_id":"x1","name":"modelgate [batch_own1]","create_time":"2025-01-02T03:04:05Z","expire_time":"2025-01-03T03:04:05Z","input_file_id":"f1","state":` + state + `}`
	}
	fake := newFake(t, map[string]string{
		"POST /files":                       `{"id":"f1"}`,
		"POST /batches":                     batch(`{}`),
		"GET /batches/x1":                   batch(`{"num_requests":2,"num_pending":0,"num_success":1,"num_error":1}`),
		"GET /batches?limit=100":            `{"batches":[` + batch(`{}`) + `],"pagination_token":""}`,
		"POST /batches/x1:cancel":           `{}`,
		"GET /batches/x1/results?limit=100": `{"results":[{"batch_request_id":"a1","batch_result":{"response":{"chat_get_completion":{"id":"c1","model":"grok","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}}}}],"pagination_token":"p2"}`,
		"GET /batches/x1/results?limit=100&pagination_token=p2": `{"results":[{"batch_request_id":"a0","error_message":"no such model"}],"pagination_token":"p2"}`,
	})
	v, in := mustVendor(t, "xai"), inputOf(chatURL, "grok-4", chatLines(2))
	b, err := v.Create(t.Context(), fake, in)
	if err != nil || b.Status != vendorbatch.Validating || b.InputFileID != "f1" {
		t.Fatalf("Create() = %+v, %v", b, err)
	}
	if b, err = v.Get(t.Context(), fake, "x1"); err != nil || b.Status != vendorbatch.Completed || b.RequestCounts.Total != 2 {
		t.Fatalf("Get() = %+v, %v", b, err)
	}
	_, all := mustResults(t, v, fake, b, in)
	if diff := cmp.Diff([]string{"a1 200", "a0 provider_error"}, describeAll(all)); diff != "" {
		t.Fatal(diff)
	}
	if all[0].Usage.Prompt() != 3 || all[1].Error.Message != "no such model" {
		t.Errorf("the results are %+v", all)
	}
	if b, err := v.Find(t.Context(), fake, in); err != nil || b.ID != "x1" {
		t.Errorf("Find() = %+v, %v", b, err)
	}
	for _, tt := range []struct {
		more string
		want vendorbatch.Status
	}{
		{`"state":{"num_requests":2,"num_pending":1}`, inProgress},
		{`"cancel_time":"2025-01-02T04:04:05Z","state":{"num_requests":2,"num_pending":1}`, cancelling},
		{`"cancel_time":"2025-01-02T04:04:05Z","state":{"num_requests":2,"num_cancelled":1}`, cancelled},
		{`"expire_time":"2025-01-02T05:04:05Z","state":{"num_requests":2,"num_pending":1}`, expired},
	} {
		fake.routes["GET /batches/x1"] = "^Date: Thu, 02 Jan 2025 06:00:00 GMT\n{\"batch_id\":\"x1\"," + tt.more + "}"
		if b, err := v.Get(t.Context(), fake, "x1"); err != nil || b.Status != tt.want {
			t.Errorf("%s: %+v, %v, want %s", tt.more, b, err, tt.want)
		}
	}
	if b, err := v.Cancel(t.Context(), fake, "x1"); err != nil || b.Status != expired {
		t.Errorf("Cancel(expired) = %+v, %v", b, err)
	}
}

func TestFireworksHasDatasets(t *testing.T) {
	const job = `{"name":"accounts/acme/batchInferenceJobs/modelgate-batch-own1","displayName":"modelgate [batch_own1]","createTime":"2025-01-02T03:04:05Z",
"updateTime":"2025-01-02T04:04:05Z","state":"JOB_STATE_EXPIRED","model":"accounts/fireworks/models/m","inputDatasetId":"accounts/acme/datasets/i",
"outputDatasetId":"accounts/acme/datasets/o","jobProgress":{"totalInputRequests":3,"successfullyProcessedRequests":1,"failedRequests":1,"inputTokens":7,"outputTokens":3,"cachedInputTokenCount":2}}`
	at := "host:/v1/accounts/acme/"
	fake := newFake(t, map[string]string{
		"POST " + at + "datasets": `{"name":"accounts/acme/datasets/modelgate-batch-own1-in"}`,
		"POST " + at + "datasets/modelgate-batch-own1-in:getUploadEndpoint":          `{"filenameToSignedUrls":{"modelgate-batch_own1.jsonl":"https://store.example/up"}}`,
		"PUT https://store.example/up":                                               ``,
		"POST " + at + "datasets/modelgate-batch-own1-in:validateUpload":             `{}`,
		"POST " + at + "batchInferenceJobs?batchInferenceJobId=modelgate-batch-own1": job,
		"GET " + at + "batchInferenceJobs/modelgate-batch-own1":                      job,
		"GET " + at + "datasets/o:getDownloadEndpoint":                               `{"filenameToSignedUrls":{"results.jsonl":"https://store.example/b","errors.jsonl":"https://store.example/a"}}`,
		"GET https://store.example/a":                                                `{"custom_id":"a1","error":{"code":"invalid_request","message":"too long"}}`,
		"GET https://store.example/b":                                                `{"custom_id":"a0","response":{"id":"c","object":"chat.completion","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}}`,
	})
	v, in := mustVendor(t, "fireworks"), inputOf(chatURL, "accounts/fireworks/models/m", chatLines(3))
	if _, err := v.Create(t.Context(), newFake(t, nil), in); err == nil || apierr.From(err).Param != "account_id" {
		t.Errorf("Create(without an account) = %v", err)
	}
	in.Options = map[string]string{"account_id": "acme"}
	b, err := v.Create(t.Context(), fake, in)
	if err != nil {
		t.Fatal(err)
	}
	if sent := fake.bodies["PUT https://store.example/up"]; strings.Count(sent, "\n") != 3 || !strings.HasPrefix(sent, `{"custom_id":"a0","body":{"model":"accounts/`) {
		t.Errorf("the dataset is %s", sent)
	}
	if b.Status != expired || b.ExpiredAt != 1735790645 || b.Usage.TotalTokens != 10 || b.RequestCounts != (vendorbatch.Counts{Total: 3, Completed: 1, Failed: 1}) {
		t.Errorf("the batch is %+v", b)
	}
	_, all := mustResults(t, v, fake, b, in)
	if diff := cmp.Diff([]string{"a1 invalid_request", "a0 200", "a2 batch_expired"}, describeAll(all)); diff != "" {
		t.Error(diff)
	}
	if b, err := v.Find(t.Context(), fake, in); err != nil || b.OwnID != "batch_own1" {
		t.Errorf("Find() = %+v, %v", b, err)
	}
	if _, err := v.Cancel(t.Context(), fake, b.ID); !errors.Is(err, vendorbatch.ErrUnsupported) {
		t.Errorf("Cancel() = %v, want ErrUnsupported", err)
	}
}
