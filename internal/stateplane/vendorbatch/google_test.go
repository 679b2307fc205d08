package vendorbatch_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/stateplane/vendorbatch"
)

const googleOperation = `{"name":"batches/b1","metadata":{"@type":"type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch","model":"models/gemini-2.5-flash",
"displayName":"nightly [batch_own1]","state":"BATCH_STATE_SUCCEEDED","createTime":"2025-07-10T09:30:00.123Z","endTime":"2025-07-10T10:00:00Z","updateTime":"2025-07-10T10:00:00Z",
"batchStats":{"requestCount":"2","successfulRequestCount":"1","failedRequestCount":"1"},"output":{"responsesFile":"files/out1"}},"done":true,
"response":{"@type":"x","responsesFile":"files/out1"}}`

func TestGoogleReadsAnUploadedFile(t *testing.T) {
	fake := newFake(t, map[string]string{
		"POST /upload/v1beta/files":                                 "^X-Goog-Upload-Url: https://upload.example/u?id=1\n{}",
		"POST https://upload.example/u?id=1":                        `{"file":{"name":"files/in1","state":"ACTIVE"}}`,
		"POST /v1beta/models/gemini-2.5-flash:batchGenerateContent": googleOperation,
	})
	in := inputOf(chatURL, "gemini-2.5-flash", chatLines(2))
	in.Name = "nightly"
	b, err := mustVendor(t, "google").Create(t.Context(), fake, in)
	if err != nil {
		t.Fatal(err)
	}
	if h := fake.headers["POST /upload/v1beta/files"]; h.Get("X-Goog-Upload-Command") != "start" || h.Get("X-Goog-Upload-Header-Content-Length") == "" {
		t.Errorf("the upload starts with %v", h)
	}
	sent := strings.Split(strings.TrimSpace(fake.bodies["POST https://upload.example/u?id=1"]), "\n")
	want := `{"key":"a1","request":{"contents":[{"role":"user","parts":[{"text":"number 1"}]}]}}`
	if len(sent) != 2 || sent[1] != want {
		t.Errorf("the file has %q, want %s", sent, want)
	}
	var body any
	if err := json.Unmarshal([]byte(fake.bodies["POST /v1beta/models/gemini-2.5-flash:batchGenerateContent"]), &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(map[string]any{"batch": map[string]any{"displayName": "nightly [batch_own1]", "model": "models/gemini-2.5-flash",
		"inputConfig": map[string]any{"fileName": "files/in1"}}}), body); diff != "" {
		t.Error(diff)
	}
	if b.ID != "batches/b1" || b.OwnID != "batch_own1" || b.InputFileID != "files/in1" {
		t.Errorf("the batch is %+v", b)
	}
}

func TestGoogleResultsAreCompletions(t *testing.T) {
	fake := newFake(t, map[string]string{
		"GET /v1beta/batches/b1": googleOperation,
		"GET /download/v1beta/files/out1:download?alt=media": `{"key":"a0","response":{"responseId":"r","modelVersion":"gemini-2.5-flash","candidates":[{"content":{"role":"model","parts":[{"text":"Hello"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"totalTokenCount":9}}}
{"key":"a1","error":{"code":3,"message":"bad request"}}`,
	})
	v := mustVendor(t, "google")
	b, err := v.Get(t.Context(), fake, "batches/b1")
	if err != nil {
		t.Fatal(err)
	}
	if b.Status != vendorbatch.Completed || b.CompletedAt != 1752141600 || b.RequestCounts != (vendorbatch.Counts{Total: 2, Completed: 1, Failed: 1}) {
		t.Errorf("the batch is %+v", b)
	}
	_, all := mustResults(t, v, fake, b, inputOf(chatURL, "gemini-2.5-flash", chatLines(2)))
	if diff := cmp.Diff([]string{"a0 200", "a1 INVALID_ARGUMENT"}, describeAll(all)); diff != "" {
		t.Fatal(diff)
	}
	if !strings.Contains(string(all[0].Body), `"content":"Hello"`) || all[0].Usage.Input != 7 || all[0].Usage.Output != 2 {
		t.Errorf("the first result is %s with %+v", all[0].Body, all[0].Usage)
	}
}

func TestInputsOfEmbeddingsAreSentOneByOneAndJoined(t *testing.T) {
	lines := text(`{"custom_id":"e0","body":{"model":"gemini-embedding-001","input":["one","two"]}}
{"custom_id":"e1","body":{"model":"gemini-embedding-001","input":"three"}}
{"custom_id":"e2","body":{"model":"gemini-embedding-001","input":["four","five"]}}
{"custom_id":"e3","body":{"model":"gemini-embedding-001","input":["six","seven"]}}
`)
	fake := newFake(t, map[string]string{
		"POST /upload/v1beta/files":                                       "^X-Goog-Upload-Url: https://upload.example/u\n{}",
		"POST https://upload.example/u":                                   `{"file":{"name":"files/in1"}}`,
		"POST /v1beta/models/gemini-embedding-001:asyncBatchEmbedContent": googleOperation,
		"GET /download/v1beta/files/out1:download?alt=media": `{"key":"modelgateline1x1","response":{"embedding":{"values":[2]}}}
{"key":"e1","response":{"embedding":{"values":[3]}}}
{"key":"modelgateline1x0","response":{"embedding":{"values":[1]}}}
{"key":"modelgateline3x0","error":{"code":13,"message":"broken"}}
{"key":"modelgateline3x1","response":{"embedding":{"values":[5]}}}
{"key":"modelgateline4x0","response":{"embedding":{"values":[6]}}}
`,
	})
	v, in := mustVendor(t, "google"), inputOf("/v1/embeddings", "", lines)
	b, err := v.Create(t.Context(), fake, in)
	if err != nil {
		t.Fatal(err)
	}
	sent := fake.bodies["POST https://upload.example/u"]
	for _, want := range []string{`{"key":"modelgateline1x1","request":{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"two"}]}}}`, `"key":"e1"`} {
		if !strings.Contains(sent, want) {
			t.Errorf("the file %s lacks %s", sent, want)
		}
	}
	_, all := mustResults(t, v, fake, b, in)
	if diff := cmp.Diff([]string{"e1 200", "e0 200", "e2 INTERNAL", "e3 missing_result"}, describeAll(all)); diff != "" {
		t.Fatal(diff)
	}
	want := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]},{"object":"embedding","index":1,"embedding":[2]}]`
	if !strings.HasPrefix(string(all[1].Body), want) {
		t.Errorf("the joined response is %s, want %s", all[1].Body, want)
	}
}

func TestGoogleBatchesAreFound(t *testing.T) {
	fake := newFake(t, map[string]string{
		"GET /v1beta/batches?pageSize=100":              `{"operations":[{"name":"batches/b0","metadata":{"displayName":"x"}}],"nextPageToken":"p2"}`,
		"GET /v1beta/batches?pageSize=100&pageToken=p2": `{"operations":[` + googleOperation + `]}`,
	})
	if b, err := mustVendor(t, "google").Find(t.Context(), fake, &vendorbatch.Input{OwnID: "batch_own1"}); err != nil || b.ID != "batches/b1" {
		t.Errorf("Find() = %+v, %v", b, err)
	}
}
