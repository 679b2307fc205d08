package vendorbatch_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorbatch"
)

const openAIBatch = `{"id":"batch_1","object":"batch","endpoint":"/v1/chat/completions","errors":null,"input_file_id":"file-1","completion_window":"24h",
"status":"completed","output_file_id":"file-2","error_file_id":"file-3","created_at":1711471533,"in_progress_at":1711471538,"expires_at":1711557933,
"finalizing_at":1711493133,"completed_at":1711493163,"failed_at":null,"request_counts":{"total":3,"completed":2,"failed":1},
"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":2},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":15},
"metadata":{"customer":"c1","modelgate_record":"batch_own1"}}`

func TestOpenAICreatesABatchFromItsLines(t *testing.T) {
	fake := newFake(t, map[string]string{
		"POST /files":   `{"id":"file-1","object":"file"}`,
		"POST /batches": strings.Replace(openAIBatch, "completed", "validating", 1),
	})
	in := inputOf(chatURL, "gpt-up", chatLines(3))
	in.Metadata = map[string]string{"customer": "c1"}
	b, err := mustVendor(t, "openai").Create(t.Context(), fake, in)
	if err != nil {
		t.Fatal(err)
	}
	fields, content := fake.file("POST /files")
	if fields["purpose"] != "batch" || fields["filename"] != "modelgate-batch_own1.jsonl" {
		t.Errorf("the form has %v", fields)
	}
	sent := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	want := `{"custom_id":"a1","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-up","messages":[{"role":"user","content":"number 1"}]}}`
	if len(sent) != 3 || sent[1] != want {
		t.Errorf("the file has %q, want %s as the second line", sent, want)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(fake.bodies["POST /batches"]), &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"input_file_id": "file-1", "endpoint": chatURL, "completion_window": "24h",
		"metadata": map[string]any{"customer": "c1", "modelgate_record": "batch_own1"}}, body); diff != "" {
		t.Error(diff)
	}
	if b.Status != vendorbatch.Validating || b.OwnID != "batch_own1" || !cmp.Equal(b.Metadata, in.Metadata) {
		t.Errorf("the batch is %+v", b)
	}
}

func TestABatchIsUnified(t *testing.T) {
	b, err := mustVendor(t, "openai").Get(t.Context(), newFake(t, map[string]string{"GET /batches/batch_1": openAIBatch}), "batch_1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"batch_1","object":"batch","endpoint":"/v1/chat/completions","errors":null,"input_file_id":"file-1","completion_window":"24h",` +
		`"status":"completed","output_file_id":"file-2","error_file_id":"file-3","created_at":1711471533,"in_progress_at":1711471538,` +
		`"expires_at":1711557933,"finalizing_at":1711493133,"completed_at":1711493163,"request_counts":{"total":3,"completed":2,"failed":1},` +
		`"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":2},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":1},` +
		`"total_tokens":15},"metadata":{"customer":"c1"}}`
	if string(got) != want {
		t.Errorf("the batch is\n%s\nwant\n%s", got, want)
	}
}

func TestResultsAreThoseOfBothFiles(t *testing.T) {
	fake := newFake(t, map[string]string{
		"GET /batches/batch_1": openAIBatch,
		"GET /files/file-2/content": `{"id":"r1","custom_id":"a1","response":{"status_code":200,"request_id":"q1","body":{"model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}},"error":null}
{"id":"r0","custom_id":"a0","response":{"status_code":200,"request_id":"q0","body":{"choices":[]}},"error":null}
`,
		"GET /files/file-3/content": `{"id":"r2","custom_id":"a2","response":{"status_code":400,"request_id":"q2","body":{"error":{"message":"too long"}}},"error":null}`,
	})
	v, in := mustVendor(t, "openai"), inputOf(chatURL, "m", chatLines(3))
	b, err := v.Get(t.Context(), fake, "batch_1")
	if err != nil {
		t.Fatal(err)
	}
	lines, all := mustResults(t, v, fake, b, in)
	if diff := cmp.Diff([]string{"a1 200", "a0 200", "a2 400"}, describeAll(all)); diff != "" {
		t.Fatal(diff)
	}
	if u := all[0].Usage; !u.Known || u.Prompt() != 3 || u.Completion() != 2 || all[0].Model != "gpt-x" {
		t.Errorf("the first result has the usage %+v of the model %q", u, all[0].Model)
	}
	if all[0].Failed() || !all[2].Failed() {
		t.Error("results are in the wrong file")
	}
	want := `{"id":"r2","custom_id":"a2","response":{"status_code":400,"request_id":"q2","body":{"error":{"message":"too long"}}},"error":null}`
	if lines[2] != want {
		t.Errorf("the last line is %s, want %s", lines[2], want)
	}
}

func TestBadResultsAreReportedByLine(t *testing.T) {
	ok := `"response":{"status_code":200,"request_id":"q","body":{"choices":[]}}`
	fake := newFake(t, map[string]string{
		"GET /files/out/content": `{"custom_id":"a0",` + ok + `}` + "\n" +
			"<html>busy</html>\n" + // not JSON
			"\xef\xbb\xbf" + `{"custom_id":"a1",` + ok + `}` + "\r\n\n" + // BOM, CRLF, an empty line
			`{` + ok + "}\n" + // without custom_id
			`{"custom_id":"a0",` + ok + "}\n" + // doubled
			`{"custom_id":"zz",` + ok + "}\n" + // unknown
			`{"custom_id":"a2"}` + "\n" + // without a response
			`{"custom_id":"a3","error":"it broke"}`, // an error that is a string
	})
	v, in := mustVendor(t, "openai"), inputOf(chatURL, "m", chatLines(5))
	b := &vendorbatch.Batch{ID: "b", Status: vendorbatch.Completed, OutputFileID: "out"}
	_, all := mustResults(t, v, fake, b, in)
	want := []string{"a0 200", " invalid_result", "a1 200", " invalid_result", "a0 duplicate_result", "zz unknown_custom_id",
		"a2 invalid_result", "a3 provider_error", "a4 missing_result"}
	if diff := cmp.Diff(want, describeAll(all)); diff != "" {
		t.Error(diff)
	}
	ids := map[string]bool{}
	for _, r := range all {
		ids[r.ID] = true
	}
	if len(ids) != len(all) || ids[""] {
		t.Errorf("the results have the ids %v, want a different one each", ids)
	}
	for status, code := range map[vendorbatch.Status]string{
		vendorbatch.Expired: "batch_expired", vendorbatch.Cancelled: "batch_cancelled", vendorbatch.Failed: "batch_failed",
	} {
		b.Status = status
		_, all := mustResults(t, v, fake, b, in)
		if got := describe(&all[len(all)-1]); got != "a4 "+code {
			t.Errorf("the missing line of a batch that is %s is %q", status, got)
		}
	}
	b.Status = vendorbatch.Cancelling
	if _, all := mustResults(t, v, fake, b, in); describe(&all[len(all)-1]) != "a3 provider_error" {
		t.Error("lines are reported as missing before the batch has ended")
	}
}

func TestTogetherHasItsOwnShape(t *testing.T) {
	const job = `{"id":"j1","status":"IN_PROGRESS","created_at":"2025-01-02T03:04:05.678Z","job_deadline":"2025-01-03T03:04:05Z","endpoint":"/v1/chat/completions","input_file_id":"f1","model_id":"mm","error":""}`
	fake := newFake(t, map[string]string{
		"POST /files/upload":      `{"id":"f1"}`,
		"POST /batches":           `{"job":` + job + `,"warning":"slow"}`,
		"GET /batches/j1":         job,
		"POST /batches/j1/cancel": strings.Replace(job, "IN_PROGRESS", "CANCELLED", 1),
		"GET /files":              `{"data":[{"id":"f0","filename":"x"},{"id":"f1","filename":"modelgate-batch_own1.jsonl"}]}`,
		"GET /batches?limit=100":  `[{"id":"j0","input_file_id":"f0"},` + job + `]`,
	})
	v := mustVendor(t, "together")
	b, err := v.Create(t.Context(), fake, inputOf(chatURL, "mm", chatLines(2)))
	if err != nil {
		t.Fatal(err)
	}
	if fields, _ := fake.file("POST /files/upload"); fields["purpose"] != "batch-api" {
		t.Errorf("the form has %v", fields)
	}
	if strings.Contains(fake.bodies["POST /batches"], "metadata") {
		t.Error("metadata is sent")
	}
	if b.ID != "j1" || b.Status != vendorbatch.InProgress || b.CreatedAt != 1735787045 || b.ExpiresAt != 1735873445 || b.VendorStatus != "IN_PROGRESS" {
		t.Errorf("the batch is %+v", b)
	}
	if b, err = v.Find(t.Context(), fake, &vendorbatch.Input{OwnID: "batch_own1"}); err != nil || b.ID != "j1" {
		t.Errorf("Find() = %+v, %v", b, err)
	}
	if b, err = v.Cancel(t.Context(), fake, "j1"); err != nil || b.Status != vendorbatch.Cancelling {
		t.Errorf("Cancel() = %+v, %v", b, err)
	}
}

func TestABatchIsFoundByItsRecord(t *testing.T) {
	fake := newFake(t, map[string]string{
		"GET /batches?limit=100":          `{"data":[{"id":"b9"}],"has_more":true}`,
		"GET /batches?after=b9&limit=100": `{"data":[` + openAIBatch + `],"has_more":false}`,
	})
	v := mustVendor(t, "openai")
	if b, err := v.Find(t.Context(), fake, &vendorbatch.Input{OwnID: "batch_own1"}); err != nil || b.ID != "batch_1" {
		t.Errorf("Find() = %+v, %v", b, err)
	}
	if _, err := v.Find(t.Context(), fake, &vendorbatch.Input{OwnID: "batch_other"}); !apierr.IsNotFound(err) {
		t.Errorf("Find(another record) = %v, want an error of the kind NotFound", err)
	}
}

func TestCancelOfAnEndedBatchReturnsIt(t *testing.T) {
	fake := newFake(t, map[string]string{
		"POST /batches/batch_1/cancel": `!409 {"error":{"message":"already completed"}}`,
		"GET /batches/batch_1":         openAIBatch,
	})
	v := mustVendor(t, "openai")
	if b, err := v.Cancel(t.Context(), fake, "batch_1"); err != nil || b.Status != vendorbatch.Completed {
		t.Errorf("Cancel() = %+v, %v", b, err)
	}
	fake.routes["GET /batches/batch_1"] = strings.Replace(openAIBatch, "completed", "in_progress", 1)
	if _, err := v.Cancel(t.Context(), fake, "batch_1"); err == nil || !strings.Contains(err.Error(), "already completed") {
		t.Errorf("Cancel(refused) = %v", err)
	}
}

func TestErrorsOfVendorsHaveTheirMessage(t *testing.T) {
	v := mustVendor(t, "groq")
	for reply, want := range map[string]apierr.Kind{
		`!400 {"error":{"message":"bad window"}}`: apierr.Invalid,
		`!401 {"error":{"message":"bad key"}}`:    apierr.UpstreamFailed,
		`!404 {"error":{"message":"no batch"}}`:   apierr.NotFound,
		"!429 ^Retry-After: 7\nslow":              apierr.RateLimited,
		`!503 busy`:                               apierr.Unavailable,
		`{"id":""}`:                               apierr.UpstreamFailed,
		`not JSON`:                                apierr.UpstreamFailed,
	} {
		_, err := v.Get(t.Context(), newFake(t, map[string]string{"GET /batches/b": reply}), "b")
		e, ok := errors.AsType[*apierr.Error](err)
		if !ok || e.Kind != want {
			t.Errorf("%s: the error is %v, want the kind %d", reply, err, want)
			continue
		}
		if at := strings.Index(reply, `"message":"`); at > 0 && !strings.Contains(e.Message, reply[at+11:len(reply)-3]) {
			t.Errorf("%s: the message is %q", reply, e.Message)
		}
		if want == apierr.RateLimited && e.RetryAfter.Seconds() != 7 {
			t.Errorf("retry after %v, want 7 s", e.RetryAfter)
		}
	}
}

func TestOnlyAnUncertainCreateIsUnanswered(t *testing.T) {
	in := inputOf(chatURL, "m", chatLines(1))
	v := mustVendor(t, "openai")
	for name, tt := range map[string]struct {
		reply string
		down  error
		want  bool
	}{
		"refused":         {`!400 {"error":{"message":"no"}}`, nil, false},
		"bad credential":  {`!401 no`, nil, false},
		"broken gateway":  {`!502 bad gateway`, nil, true},
		"timeout":         {`!504 late`, nil, true},
		"unreadable":      {`<html>`, nil, true},
		"cut connection":  {``, errors.New("connection reset"), true},
		"nothing is sent": {``, apierr.New(apierr.BudgetExhausted, "no budget"), false},
	} {
		fake := newFake(t, map[string]string{"POST /files": `{"id":"f"}`, "POST /batches": tt.reply, "DELETE /files/f": `{"deleted":true}`})
		if tt.down != nil {
			fake.down = map[string]error{"POST /batches": tt.down}
		}
		if _, err := v.Create(t.Context(), fake, in); err == nil || errors.Is(err, vendorbatch.ErrUnanswered) != tt.want {
			t.Errorf("%s: Create() = %v, want unanswered: %t", name, err, tt.want)
		}
		if deleted := slices.Contains(fake.calls, "DELETE /files/f"); deleted == tt.want {
			t.Errorf("%s: the input was deleted: %t", name, deleted)
		}
	}
	fake := newFake(t, nil)
	fake.down = map[string]error{"POST /files": errors.New("connection reset")}
	if _, err := v.Create(t.Context(), fake, in); err == nil || errors.Is(err, vendorbatch.ErrUnanswered) {
		t.Errorf("Create(without an upload) = %v, want an error that is certain", err)
	}
}

func TestAFileOfTheVendorIsNotUploaded(t *testing.T) {
	fake := newFake(t, map[string]string{"POST /batches": openAIBatch})
	in := &vendorbatch.Input{Endpoint: chatURL, FileID: "file-9"}
	if _, err := mustVendor(t, "openai").Create(t.Context(), fake, in); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(fake.calls, []string{"POST /batches"}) || !strings.Contains(fake.bodies["POST /batches"], `"input_file_id":"file-9"`) {
		t.Errorf("requests %v with %v", fake.calls, fake.bodies)
	}
}
