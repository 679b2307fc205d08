package vendorbatch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorbatch"
)

const vertexName = "projects/123/locations/europe-west4/batchPredictionJobs/456"

const vertexJob = `{"name":"` + vertexName + `","displayName":"modelgate [batch_own1]","model":"publishers/google/models/gemini-2.5-flash","state":"JOB_STATE_PARTIALLY_SUCCEEDED",
"createTime":"2025-01-02T03:04:05.5Z","startTime":"2025-01-02T03:05:05Z","endTime":"2025-01-02T04:04:05Z","inputConfig":{"instancesFormat":"jsonl","gcsSource":{"uris":["gs://bkt/modelgate/batch_own1/input.jsonl"]}},
"outputInfo":{"gcsOutputDirectory":"gs://bkt/modelgate/batch_own1/output/prediction-model-2025"},"completionStats":{"successfulCount":"1","failedCount":"1","incompleteCount":"-1"}}`

func vertexInput(n int) *vendorbatch.Input {
	in := inputOf(chatURL, "gemini-2.5-flash", chatLines(n))
	in.Options = map[string]string{"project_id": "p1", "region": "europe-west4", "storage_bucket_name": "bkt"}
	return in
}

func TestVertexReadsAndWritesABucket(t *testing.T) {
	const object = "POST gcs:/upload/storage/v1/b/bkt/o?name=modelgate%2Fbatch_own1%2Finput.jsonl&uploadType=media"
	const jobs = "/v1/projects/p1/locations/europe-west4/batchPredictionJobs"
	fake := newFake(t, map[string]string{object: "", "POST " + jobs: vertexJob,
		"GET " + jobs + "?filter=labels.modelgate_record%3D%22batch_own1%22": `{"batchPredictionJobs":[` + vertexJob + `]}`})
	v, in := mustVendor(t, "vertex-ai"), vertexInput(2)
	b, err := v.Create(t.Context(), fake, in)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"request":{"contents":[{"role":"user","parts":[{"text":"number 1"}]}],"labels":{"modelgate_line":"modelgateline2"}}}`
	if sent := strings.Split(fake.bodies[object], "\n"); len(sent) != 3 || sent[1] != want {
		t.Errorf("the object is %q, want %s", sent, want)
	}
	var body any
	if err := json.Unmarshal([]byte(fake.bodies["POST "+jobs]), &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(map[string]any{
		"displayName": "modelgate [batch_own1]", "model": "publishers/google/models/gemini-2.5-flash",
		"inputConfig":  map[string]any{"instancesFormat": "jsonl", "gcsSource": map[string]any{"uris": []any{"gs://bkt/modelgate/batch_own1/input.jsonl"}}},
		"outputConfig": map[string]any{"predictionsFormat": "jsonl", "gcsDestination": map[string]any{"outputUriPrefix": "gs://bkt/modelgate/batch_own1/output"}},
		"labels":       map[string]any{"modelgate_record": "batch_own1"},
	}), body); diff != "" {
		t.Error(diff)
	}
	if b.ID != vertexName || b.Model != "gemini-2.5-flash" {
		t.Errorf("the batch is %+v", b)
	}
	if b, err = v.Find(t.Context(), fake, in); err != nil || b.ID != vertexName {
		t.Errorf("Find() = %+v, %v", b, err)
	}
	for _, name := range []string{"project_id", "region", "storage_bucket_name"} {
		in := vertexInput(1)
		delete(in.Options, name)
		if _, err := v.Create(t.Context(), newFake(t, nil), in); err == nil || apierr.From(err).Param != name {
			t.Errorf("Create(without %s) = %v", name, err)
		}
	}
	in.Model = "meta/llama-4"
	if _, err := v.Create(t.Context(), newFake(t, nil), in); err == nil || apierr.From(err).Param != "model" {
		t.Errorf("Create(a model without batches) = %v", err)
	}
}

// Lines of Vertex AI have no key of their own: that of the label counts, whatever the
// order, and lost and doubled lines are reported.
func TestVertexResultsAreFoundByTheirLabel(t *testing.T) {
	rowOf := func(label, rest string) string {
		return `{"request":{"contents":[],"labels":{"modelgate_line":"` + label + `"}},"processed_time":"x",` + rest + "}\n"
	}
	ok := `"status":"","response":{"modelVersion":"gemini-2.5-flash","candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"totalTokenCount":9}}`
	folder := "modelgate/batch_own1/output/prediction-model-2025"
	fake := newFake(t, map[string]string{
		"GET /v1/" + vertexName: vertexJob,
		"GET gcs:/storage/v1/b/bkt/o?prefix=" + strings.ReplaceAll(folder, "/", "%2F") + "%2F": `{"items":[{"name":"` + folder + `/predictions.jsonl"},{"name":"` + folder + `/stats.json"}]}`,
		"GET gcs:/storage/v1/b/bkt/o/" + strings.ReplaceAll(folder, "/", "%2F") + "%2Fpredictions.jsonl?alt=media": rowOf("modelgateline3", ok) + rowOf("modelgateline1", `"status":"Bad Request: {\"error\": {\"code\": 400}}","response":{}`) +
			rowOf("modelgateline3", ok) + `{"status":"","request":{},"response":{"candidates":[]}}` + "\n",
	})
	v := mustVendor(t, "vertex-ai")
	b, err := v.Get(t.Context(), fake, vertexName)
	if err != nil {
		t.Fatal(err)
	}
	if b.Status != completed || b.RequestCounts != (vendorbatch.Counts{Total: 2, Completed: 1, Failed: 1}) || b.CompletedAt != 1735790645 {
		t.Errorf("the batch is %+v", b)
	}
	_, all := mustResults(t, v, fake, b, vertexInput(3))
	want := []string{"a2 200", "a0 provider_error", "a2 duplicate_result", " invalid_result", "a1 missing_result"}
	if diff := cmp.Diff(want, describeAll(all)); diff != "" {
		t.Fatal(diff)
	}
	if u := all[0].Usage; !u.Known || u.Input != 7 || u.Output != 2 {
		t.Errorf("the usage is %+v", u)
	}
	if all[2].Usage.Known {
		t.Error("the usage of a doubled line is reported twice")
	}
}

func TestClaudeOnVertexHasMessages(t *testing.T) {
	const object = "POST gcs:/upload/storage/v1/b/bkt/o?name=modelgate%2Fbatch_own1%2Finput.jsonl&uploadType=media"
	const jobs = "POST /v1/projects/p1/locations/europe-west4/batchPredictionJobs"
	fake := newFake(t, map[string]string{object: "", jobs: vertexJob})
	in := vertexInput(1)
	in.Model = "claude-sonnet-4-5"
	if _, err := mustVendor(t, "vertex-ai").Create(t.Context(), fake, in); err != nil {
		t.Fatal(err)
	}
	if sent := fake.bodies[object]; !strings.HasPrefix(sent, `{"custom_id":"modelgateline1","request":{"anthropic_version":"vertex-2023-10-16"`) {
		t.Errorf("the object is %s", sent)
	}
	if !strings.Contains(fake.bodies[jobs], "publishers/anthropic/models/claude-sonnet-4-5") {
		t.Errorf("the job is %s", fake.bodies[jobs])
	}
}

const (
	bedrockARN = "arn:aws:bedrock:us-east-1:123:model-invocation-job/job1"
	bedrockAt  = "bedrock:/model-invocation-job/arn:aws:bedrock:us-east-1:123:model-invocation-job%2Fjob1"
	bedrockJob = `{"jobArn":"` + bedrockARN + `","jobName":"modelgate-batch-own1","modelId":"amazon.nova-lite-v1:0","roleArn":"arn:aws:iam::1:role/r","status":"PartiallyCompleted",
"submitTime":"2025-01-02T03:04:05.000Z","lastModifiedTime":"2025-01-02T03:50:05Z","endTime":"2025-01-02T04:04:05Z","jobExpirationTime":"2025-01-05T03:04:05Z",
"inputDataConfig":{"s3InputDataConfig":{"s3Uri":"s3://bkt/modelgate/batch_own1/input.jsonl"}},"outputDataConfig":{"s3OutputDataConfig":{"s3Uri":"s3://bkt/modelgate/batch_own1/output/"}}}`
)

func bedrockInput(n int) *vendorbatch.Input {
	in := inputOf(chatURL, "amazon.nova-lite-v1:0", chatLines(n))
	in.Options = map[string]string{"s3_bucket": "bkt", "role_arn": "arn:aws:iam::1:role/r", "kms_key_id": "k1"}
	return in
}

func TestBedrockGetsConverseRecords(t *testing.T) {
	const object = "PUT s3:/bkt/modelgate/batch_own1/input.jsonl"
	const create = "POST bedrock:/model-invocation-job"
	fake := newFake(t, map[string]string{object: "", create: `{"jobArn":"` + bedrockARN + `"}`})
	v, in := mustVendor(t, "bedrock"), bedrockInput(100)
	b, err := v.Create(t.Context(), fake, in)
	if err != nil {
		t.Fatal(err)
	}
	if sent := strings.Split(fake.bodies[object], "\n"); len(sent) != 101 || sent[1] != `{"recordId":"a1","modelInput":{"messages":[{"role":"user","content":[{"text":"number 1"}]}]}}` {
		t.Errorf("the object begins with %q", sent[:2])
	}
	if fake.headers[object].Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != "k1" {
		t.Errorf("the headers of the object are %v", fake.headers[object])
	}
	var body any
	if err := json.Unmarshal([]byte(fake.bodies[create]), &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(map[string]any{
		"jobName": "modelgate-batch-own1", "clientRequestToken": "modelgate-batch-own1", "modelId": "amazon.nova-lite-v1:0",
		"roleArn": "arn:aws:iam::1:role/r", "modelInvocationType": "Converse",
		"inputDataConfig":  map[string]any{"s3InputDataConfig": map[string]any{"s3InputFormat": "JSONL", "s3Uri": "s3://bkt/modelgate/batch_own1/input.jsonl"}},
		"outputDataConfig": map[string]any{"s3OutputDataConfig": map[string]any{"s3Uri": "s3://bkt/modelgate/batch_own1/output/", "s3EncryptionKeyId": "k1"}},
	}), body); diff != "" {
		t.Error(diff)
	}
	if b.ID != bedrockARN || b.Status != validating || b.RequestCounts.Total != 100 {
		t.Errorf("the batch is %+v", b)
	}
	if e := mustRefuse(t, "bedrock", bedrockInput(99)).Data[0]; e.Code != "too_few_lines" {
		t.Errorf("99 lines: %+v", e)
	}
	for _, name := range []string{"s3_bucket", "role_arn"} {
		in := bedrockInput(100)
		delete(in.Options, name)
		if _, err := v.Create(t.Context(), newFake(t, nil), in); err == nil || apierr.From(err).Param != name {
			t.Errorf("Create(without %s) = %v", name, err)
		}
	}
}

func TestBedrockResultsAreInAFolderOfTheJob(t *testing.T) {
	const folder = "s3:/bkt/modelgate/batch_own1/output/job1/"
	fake := newFake(t, map[string]string{
		"GET " + bedrockAt:                    bedrockJob,
		"GET " + folder + "manifest.json.out": `{"totalRecordCount":2,"processedRecordCount":2,"successRecordCount":1,"errorRecordCount":1,"inputTokenCount":5,"outputTokenCount":3}`,
		"GET " + folder + "input.jsonl.out": `{"recordId":"a1","modelInput":{},"error":{"errorCode":400,"errorMessage":"bad request","expired":false,"retryable":false}}
{"recordId":"a0","modelInput":{},"modelOutput":{"output":{"message":{"role":"assistant","content":[{"text":"Hi"}]}},"stopReason":"end_turn","usage":{"inputTokens":5,"outputTokens":3,"totalTokens":8}}}
`,
		"POST " + bedrockAt + "/stop":                                          `{}`,
		"GET bedrock:/model-invocation-jobs?nameContains=modelgate-batch-own1": `{"invocationJobSummaries":[` + bedrockJob + `]}`,
	})
	v := mustVendor(t, "bedrock")
	b, err := v.Get(t.Context(), fake, bedrockARN)
	if err != nil {
		t.Fatal(err)
	}
	if b.Status != completed || b.CompletedAt != 1735790645 || b.Usage.TotalTokens != 8 || b.RequestCounts != (vendorbatch.Counts{Total: 2, Completed: 1, Failed: 1}) {
		t.Errorf("the batch is %+v", b)
	}
	_, all := mustResults(t, v, fake, b, bedrockInput(2))
	if diff := cmp.Diff([]string{"a1 400", "a0 200"}, describeAll(all)); diff != "" {
		t.Fatal(diff)
	}
	if all[0].Error == nil || all[0].Error.Message != "bad request" || !strings.Contains(string(all[1].Body), `"content":"Hi"`) || all[1].Usage.Input != 5 {
		t.Errorf("the results are %+v", all)
	}
	if b, err := v.Find(t.Context(), fake, bedrockInput(2)); err != nil || b.ID != bedrockARN {
		t.Errorf("Find() = %+v, %v", b, err)
	}
	if b, err := v.Cancel(t.Context(), fake, bedrockARN); err != nil || b.Status != completed {
		t.Errorf("Cancel(ended) = %+v, %v", b, err)
	}
	fake.routes["GET "+folder+"manifest.json.out"] = "!404 none"
	fake.routes["GET "+folder+"input.jsonl.out"] = "!404 none"
	fake.routes["GET "+bedrockAt] = strings.Replace(bedrockJob, "PartiallyCompleted", "Expired", 1)
	if b, err = v.Get(t.Context(), fake, bedrockARN); err != nil || b.Status != expired {
		t.Fatalf("Get(expired) = %+v, %v", b, err)
	}
	if _, all := mustResults(t, v, fake, b, bedrockInput(2)); !cmp.Equal(describeAll(all), []string{"a0 batch_expired", "a1 batch_expired"}) {
		t.Errorf("the results of a job without output are %v", describeAll(all))
	}
}

// Inputs are deleted where they were uploaded to, and an input that is gone is as good as deleted.
func TestInputsAreDeletedAtTheVendor(t *testing.T) {
	for id, tt := range map[string]struct{ input, route string }{
		"openai":       {"file-1", "DELETE /files/file-1"},
		"mistral-ai":   {"file-1", "DELETE /files/file-1"},
		"x-ai":         {"file-1", "DELETE /files/file-1"},
		"google":       {"files/in1", "DELETE /v1beta/files/in1"},
		"vertex-ai":    {"gs://bkt/a/../b c.jsonl", "DELETE gcs:/storage/v1/b/bkt/o/a%2F..%2Fb%20c.jsonl"},
		"bedrock":      {"s3://bkt/dir/input.jsonl", "DELETE s3:/bkt/dir/input.jsonl"},
		"fireworks-ai": {"accounts/a/datasets/d", "DELETE host:/v1/accounts/a/datasets/d"},
		"cohere":       {"d1", "DELETE /v1/datasets/d1"},
	} {
		for _, reply := range []string{"{}", "!404 gone"} {
			fake := newFake(t, map[string]string{tt.route: reply})
			if err := mustVendor(t, id).DeleteInput(t.Context(), fake, &vendorbatch.Batch{InputFileID: tt.input}); err != nil || len(fake.calls) != 1 {
				t.Errorf("%s: DeleteInput() = %v after %v", id, err, fake.calls)
			}
		}
		fake := newFake(t, map[string]string{tt.route: "!500 broken"})
		if err := mustVendor(t, id).DeleteInput(t.Context(), fake, &vendorbatch.Batch{InputFileID: tt.input}); err == nil {
			t.Errorf("%s: DeleteInput(broken) = nil", id)
		}
	}
	if err := mustVendor(t, "anthropic").DeleteInput(t.Context(), newFake(t, nil), &vendorbatch.Batch{ID: "b"}); err != nil {
		t.Errorf("DeleteInput(inline) = %v", err)
	}
}

func TestInputsThatCannotBeReadAreErrors(t *testing.T) {
	broken := errors.New("disk broken")
	in := bedrockInput(2)
	in.Line = func(int64) (vendorbatch.Line, error) { return vendorbatch.Line{}, broken }
	fake := newFake(t, map[string]string{"GET s3:/bkt/out/in.jsonl.out": `{"recordId":"a0","modelOutput":{"output":{}}}`})
	b := &vendorbatch.Batch{ID: "b", Status: completed, InputFileID: "s3://bkt/in.jsonl", Output: "s3://bkt/out/"}
	n := 0
	for _, err := range mustVendor(t, "bedrock").Results(t.Context(), fake, b, in) {
		if n++; !errors.Is(err, broken) {
			t.Errorf("Results() has the error %v, want that of the input", err)
		}
	}
	if n != 1 {
		t.Errorf("%d results, want an error only", n)
	}
}

// Embeddings at Bedrock have no Converse format: their records are those of the model.
func TestBedrockEmbeddingsAreInvoked(t *testing.T) {
	var lines text
	for i := range 50 {
		lines += text(fmt.Sprintf(`{"custom_id":"e%d","body":{"model":"x","input":["one %d","two"]}}`+"\n", i, i))
	}
	in := inputOf(embedURL, "amazon.titan-embed-text-v2:0", lines)
	in.Options = bedrockInput(1).Options
	const object = "PUT s3:/bkt/modelgate/batch_own1/input.jsonl"
	fake := newFake(t, map[string]string{object: "", "POST bedrock:/model-invocation-job": `{"jobArn":"` + bedrockARN + `"}`,
		"GET s3:/bkt/out/in.jsonl.out": `{"recordId":"modelgateline1x0","modelOutput":{"embedding":[1],"inputTextTokenCount":3}}
{"recordId":"modelgateline1x1","modelOutput":{"embedding":[2],"inputTextTokenCount":4}}
`})
	v := mustVendor(t, "bedrock")
	if _, err := v.Create(t.Context(), fake, in); err != nil {
		t.Fatal(err)
	}
	if sent := fake.bodies[object]; strings.Count(sent, "\n") != 100 || !strings.HasPrefix(sent, `{"recordId":"modelgateline1x0","modelInput":{"inputText":"one 0"`) {
		t.Errorf("the object begins with %.200s", sent)
	}
	if body := fake.bodies["POST bedrock:/model-invocation-job"]; !strings.Contains(body, `"modelInvocationType":"InvokeModel"`) {
		t.Errorf("the job is %s", body)
	}
	b := &vendorbatch.Batch{ID: "b", InputFileID: "s3://bkt/in.jsonl", Output: "s3://bkt/out/"}
	_, all := mustResults(t, v, fake, b, in)
	if len(all) != 1 || !strings.Contains(string(all[0].Body), `"index":1,"embedding":[2]`) || all[0].Usage.Prompt() != 7 {
		t.Errorf("the results are %+v", describeAll(all))
	}
}
