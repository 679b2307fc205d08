package simulator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

func TestBucketsKeepObjects(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	put := h.mustSend("PUT", "/s3/b/in/a.jsonl", "0123456789", "Content-Type", "application/jsonl")
	tag := put.Header.Get("Etag")
	if put.StatusCode != 200 || tag != `"781e5e245d69b566979b86e28d23f2c7"` {
		t.Errorf("put: %d %s", put.StatusCode, tag)
	}
	got := h.mustSend("GET", "/s3/b/in/a.jsonl", "")
	if got.body != "0123456789" || got.Header.Get("Etag") != tag || got.Header.Get("Content-Type") != "application/jsonl" || got.Header.Get("Last-Modified") == "" {
		t.Errorf("get: %v %q", got.Header, got.body)
	}
	for text, want := range map[string]string{"bytes=2-4": "234", "bytes=7-": "789", "bytes=-2": "89", "bytes=8-100": "89"} {
		if a := h.mustSend("GET", "/s3/b/in/a.jsonl", "", "Range", text); a.StatusCode != 206 || a.body != want || !strings.HasSuffix(a.Header.Get("Content-Range"), "/10") {
			t.Errorf("%s: %d %q %s", text, a.StatusCode, a.body, a.Header.Get("Content-Range"))
		}
	}
	for _, text := range []string{"bytes=10-", "bytes=4-2", "bytes=x"} {
		if a := h.mustSend("GET", "/s3/b/in/a.jsonl", "", "Range", text); a.StatusCode != 416 || !strings.Contains(a.body, "<Code>InvalidRange</Code>") {
			t.Errorf("%s: %d %s", text, a.StatusCode, a.body)
		}
	}
	if a := h.mustSend("HEAD", "/s3/b/in/a.jsonl", ""); a.StatusCode != 200 || a.ContentLength != 10 {
		t.Errorf("head: %d, %d bytes", a.StatusCode, a.ContentLength)
	}
	h.mustSend("PUT", "/b/in/b.jsonl", "5;chunk-signature=x\r\nhello\r\n0;chunk-signature=y\r\n\r\n", "Authorization", "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request", "X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
	if a := h.mustSend("GET", "/s3/b/in/b.jsonl", ""); a.body != "hello" {
		t.Errorf("chunks: %q", a.body)
	}
	list := h.mustSend("GET", "/s3/b?list-type=2&prefix=in/&max-keys=1", "")
	if !strings.Contains(list.body, "<Key>in/a.jsonl</Key>") || strings.Contains(list.body, "in/b.jsonl") || !strings.Contains(list.body, "<NextContinuationToken>in/a.jsonl<") {
		t.Errorf("list %s", list.body)
	}
	if a := h.mustSend("GET", "/s3/b?list-type=2&continuation-token=in/a.jsonl", ""); !strings.Contains(a.body, "<Key>in/b.jsonl</Key>") || !strings.Contains(a.body, "<KeyCount>1<") {
		t.Errorf("second page %s", a.body)
	}
	if a := h.mustSend("DELETE", "/s3/b/in/a.jsonl", ""); a.StatusCode != 204 {
		t.Errorf("delete: %d", a.StatusCode)
	}
	if a := h.mustSend("GET", "/s3/b/in/a.jsonl", ""); a.StatusCode != 404 || !strings.Contains(a.body, "<Code>NoSuchKey</Code>") || a.Header.Get("Content-Type") != "application/xml" {
		t.Errorf("after delete: %d %s", a.StatusCode, a.body)
	}
}

func TestBucketsJoinParts(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	const path = "/s3/b/large"
	start := h.mustPost(path+"?uploads", "")
	_, id, _ := strings.Cut(start.body, "<UploadId>")
	id, _, _ = strings.Cut(id, "<")
	large := strings.Repeat("x", 5<<20)
	var tags []string
	for i, content := range []string{large, "y", "z"} {
		tags = append(tags, h.mustSend("PUT", fmt.Sprintf("%s?partNumber=%d&uploadId=%s", path, i+1, id), content).Header.Get("Etag"))
	}
	complete := func(numbers ...int) *response {
		var b strings.Builder
		for _, n := range numbers {
			fmt.Fprintf(&b, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", n, tags[(n-1)%3])
		}
		return h.mustPost(path+"?uploadId="+id, "<CompleteMultipartUpload>"+b.String()+"</CompleteMultipartUpload>")
	}
	for code, a := range map[string]*response{"InvalidPartOrder": complete(1, 1), "InvalidPart": complete(1, 4), "EntityTooSmall": complete(1, 2, 3), "MalformedXML": complete()} {
		if a.StatusCode != 400 || !strings.Contains(a.body, "<Code>"+code+"</Code>") {
			t.Errorf("%s: %d %s", code, a.StatusCode, a.body)
		}
	}
	if a := complete(1, 3); a.StatusCode != 200 || !strings.Contains(a.body, "-2&#34;</ETag>") {
		t.Errorf("complete: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("GET", path, ""); a.body != large+"z" {
		t.Errorf("content of %d bytes", len(a.body))
	}
	if a := complete(1, 3); a.StatusCode != 404 || !strings.Contains(a.body, "NoSuchUpload") {
		t.Errorf("complete twice: %d %s", a.StatusCode, a.body)
	}
}

// invocationJob is a job of Bedrock, as client libraries decode it.
type invocationJob struct {
	JobArn, JobName, Status, Message, ModelID, SubmitTime, EndTime string
}

func invocationRecords(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"recordId":"r%d","modelInput":{"anthropic_version":"bedrock-2023-05-31","max_tokens":50,"messages":[{"role":"user","content":"Line %d"}]}}`+"\n", i+1, i+1)
	}
	return b.String()
}

func invocationBody(model string) string {
	return `{"jobName":"n","roleArn":"arn:aws:iam::123456789012:role/r","modelId":"` + model + `","inputDataConfig":{"s3InputDataConfig":{"s3Uri":"s3://b/in/a.jsonl"}},"outputDataConfig":{"s3OutputDataConfig":{"s3Uri":"s3://b/out/"}}}`
}

func (h *fixture) invocation(t *testing.T, path string) (j invocationJob) {
	t.Helper()
	h.mustSend("GET", "/model-invocation-job/"+path, "").mustDecodeInto(t, &j)
	return j
}

func TestBedrockInvokesModelsForObjects(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	h.mustSend("PUT", "/s3/b/in/a.jsonl", invocationRecords(100)+`{"recordId":"bad","modelInput":{}}`)
	var j invocationJob
	h.mustPost("/model-invocation-job", invocationBody("anthropic.m")).mustDecodeInto(t, &j)
	id := j.JobArn[strings.LastIndexByte(j.JobArn, '/')+1:]
	path := strings.NewReplacer(":", "%3A", "/", "%2F").Replace(j.JobArn)
	for _, want := range []string{"InProgress", "InProgress", "Completed"} {
		if j = h.invocation(t, path); j.Status != want || j.JobName != "n" || j.ModelID != "anthropic.m" {
			t.Errorf("%+v, want %s", j, want)
		}
	}
	a := h.mustSend("GET", "/s3/b/out/"+id+"/a.jsonl.out", "")
	lines := strings.Split(strings.TrimSpace(a.body), "\n")
	var first, last struct {
		RecordID    string `json:"recordId"`
		ModelOutput struct{ Content []struct{ Text string } }
		Error       *struct{ ErrorCode int }
	}
	json.Unmarshal([]byte(lines[0]), &first)
	json.Unmarshal([]byte(lines[len(lines)-1]), &last)
	if len(lines) != 101 || first.RecordID != "bad" || first.Error == nil || first.Error.ErrorCode != 400 || last.RecordID != "r1" || !strings.HasPrefix(last.ModelOutput.Content[0].Text, "echo: Line 1") {
		t.Errorf("%d lines: %s", len(lines), lines[0])
	}
	var manifest map[string]int
	h.mustSend("GET", "/s3/b/out/"+id+"/manifest.json.out", "").mustDecodeInto(t, &manifest)
	if manifest["totalRecordCount"] != 101 || manifest["successRecordCount"] != 100 || manifest["errorRecordCount"] != 1 || manifest["inputTokenCount"] == 0 || manifest["outputTokenCount"] == 0 {
		t.Errorf("manifest %v", manifest)
	}
	if a := h.mustPost("/model-invocation-job/"+id+"/stop", ""); a.StatusCode != 409 || !strings.HasPrefix(a.Header.Get("X-Amzn-Errortype"), "ConflictException") {
		t.Errorf("late stop: %d %v", a.StatusCode, a.Header)
	}
}

func TestBedrockJobsEndEarly(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	create := func(model string) string {
		t.Helper()
		var j invocationJob
		h.mustPost("/model-invocation-job", invocationBody(model)).mustDecodeInto(t, &j)
		return j.JobArn[strings.LastIndexByte(j.JobArn, '/')+1:]
	}
	if id := create("anthropic.m"); h.invocation(t, id).Status != "Failed" || !strings.Contains(h.invocation(t, id).Message, "does not exist") {
		t.Errorf("no input: %+v", h.invocation(t, id))
	}
	h.mustSend("PUT", "/s3/b/in/a.jsonl", invocationRecords(99))
	if id := create("anthropic.m"); h.invocation(t, id).Status != "Failed" || !strings.Contains(h.invocation(t, id).Message, "minimum of 100") {
		t.Errorf("few records: %+v", h.invocation(t, id))
	}
	h.mustSend("PUT", "/s3/b/in/a.jsonl", invocationRecords(100))
	id := create("anthropic.m+job=expire")
	h.invocation(t, id)
	if j := h.invocation(t, id); j.Status != "PartiallyCompleted" {
		t.Errorf("expired: %+v", j)
	}
	if a := h.mustSend("GET", "/s3/b/out/"+id+"/a.jsonl.out", ""); strings.Count(a.body, "\n") != 50 {
		t.Errorf("%d records", strings.Count(a.body, "\n"))
	}
	id = create("anthropic.m+job=hang")
	h.invocation(t, id)
	if a := h.mustPost("/model-invocation-job/"+id+"/stop", ""); a.StatusCode != 200 || h.invocation(t, id).Status != "Stopped" {
		t.Errorf("stop: %d %+v", a.StatusCode, h.invocation(t, id))
	}
	var list struct {
		Jobs []invocationJob `json:"invocationJobSummaries"`
		Next *string         `json:"nextToken"`
	}
	if h.mustSend("GET", "/model-invocation-jobs?maxResults=1&statusEquals=Failed", "").mustDecodeInto(t, &list); len(list.Jobs) != 1 || list.Next == nil {
		t.Errorf("list %+v", list)
	}
	for name, body := range map[string]string{
		"no name": strings.Replace(invocationBody("m"), `"jobName":"n",`, ``, 1), "a role that is none": strings.Replace(invocationBody("m"), "arn:aws:iam", "x", 1),
		"an unknown member": strings.Replace(invocationBody("m"), `{`, `{"x":1,`, 1), "another scheme": strings.Replace(invocationBody("m"), "s3://b/in", "gs://b/in", 1),
		"no output": `{"jobName":"n","roleArn":"arn:aws:iam::123456789012:role/r","modelId":"m","inputDataConfig":{"s3InputDataConfig":{"s3Uri":"s3://b/x"}}}`,
	} {
		if a := h.mustPost("/model-invocation-job", body); a.StatusCode != 400 || !strings.HasPrefix(a.Header.Get("X-Amzn-Errortype"), "ValidationException") {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if a := h.mustSend("GET", "/model-invocation-job/none", ""); a.StatusCode != 404 {
		t.Errorf("an unknown job: %d", a.StatusCode)
	}
}

func TestBedrockCustomisesModels(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	h.mustSend("PUT", "/s3/b/train.jsonl", `{"prompt":"a","completion":"b"}`)
	body := `{"jobName":"n","customModelName":"c","roleArn":"arn:aws:iam::123456789012:role/r","baseModelIdentifier":"m","customizationType":"FINE_TUNING","hyperParameters":{"epochCount":"2"},"trainingDataConfig":{"s3Uri":"s3://b/train.jsonl"},"outputDataConfig":{"s3Uri":"s3://b/out"}}`
	create := func(body string) string {
		t.Helper()
		var j invocationJob
		a := h.mustPost("/model-customization-jobs", body)
		if a.mustDecodeInto(t, &j); a.StatusCode != 201 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		return "/model-customization-jobs/" + strings.ReplaceAll(j.JobArn, "/", "%2F")
	}
	var j struct{ Status, OutputModelName, OutputModelArn, FailureMessage string }
	path := create(body)
	for range 5 {
		h.mustSend("GET", path, "").mustDecodeInto(t, &j)
	}
	if j.Status != "Completed" || j.OutputModelName != "c" || j.OutputModelArn == "" {
		t.Errorf("job %+v", j)
	}
	if a := h.mustSend("GET", "/s3/b?list-type=2&prefix=out/", ""); !strings.Contains(a.body, "step_metrics.csv") {
		t.Errorf("output %s", a.body)
	}
	path = create(strings.Replace(body, "train.jsonl", "none.jsonl", 1))
	for range 2 {
		h.mustSend("GET", path, "").mustDecodeInto(t, &j)
	}
	if j.Status != "Failed" || j.FailureMessage == "" {
		t.Errorf("no input: %+v", j)
	}
	path = create(body)
	h.mustPost(path+"/stop", "")
	if h.mustSend("GET", path, "").mustDecodeInto(t, &j); j.Status != "Stopped" {
		t.Errorf("stopped: %+v", j)
	}
	if a := h.mustSend("GET", "/model-customization-jobs?maxResults=2", ""); strings.Count(a.body, "jobArn") != 2 || !strings.Contains(a.body, "nextToken") {
		t.Errorf("list %s", a.body)
	}
	for name, broken := range map[string]string{
		"numbers": strings.Replace(body, `"2"`, `2`, 1), "an unknown type": strings.Replace(body, "FINE_TUNING", "MAGIC", 1),
		"no model": strings.Replace(body, `"baseModelIdentifier":"m",`, ``, 1), "a member of the chat protocol": strings.Replace(body, `{`, `{"suffix":"x",`, 1),
	} {
		if a := h.mustPost("/model-customization-jobs", broken); a.StatusCode != 400 {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
}

const vertexParent = "projects/p/locations/us-central1"

func TestVertexPredictsForObjects(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	line := func(id, text string) string {
		return `{"requestId":"` + id + `","request":{"contents":[{"role":"user","parts":[{"text":"` + text + `"}]}]}}` + "\n"
	}
	h.mustSend("PUT", "/gcs/b/in/a.jsonl", line("a", "Line 1")+line("b", "Line 2")+`{"requestId":"bad","request":{}}`)
	body := func(model string) string {
		return `{"displayName":"d","model":"publishers/google/models/` + model + `","inputConfig":{"instancesFormat":"jsonl","gcsSource":{"uris":["gs://b/in/a.jsonl"]}},"outputConfig":{"predictionsFormat":"jsonl","gcsDestination":{"outputUriPrefix":"gs://b/out"}},"instanceConfig":{"excludedFields":["requestId"]}}`
	}
	type prediction struct {
		Name, State, CreateTime, EndTime string

		Error           *struct{ Message string }
		CompletionStats struct{ SuccessfulCount, FailedCount, IncompleteCount string }
		OutputInfo      struct{ GcsOutputDirectory string }
	}
	const path = "/v1/" + vertexParent + "/batchPredictionJobs"
	create := func(model string) (j prediction) {
		t.Helper()
		a := h.mustPost(path, body(model))
		if a.mustDecodeInto(t, &j); a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		return j
	}
	read := func(j prediction) (got prediction) {
		t.Helper()
		h.mustSend("GET", "/v1/"+j.Name, "").mustDecodeInto(t, &got)
		return got
	}
	j := create("m")
	if !strings.HasPrefix(j.Name, vertexParent+"/batchPredictionJobs/") || j.State != "JOB_STATE_PENDING" {
		t.Errorf("created %+v", j)
	}
	read(j)
	read(j)
	if j = read(j); j.State != "JOB_STATE_PARTIALLY_SUCCEEDED" || j.CompletionStats.SuccessfulCount != "2" || j.CompletionStats.FailedCount != "1" || j.EndTime == "" {
		t.Errorf("ended %+v", j)
	}
	object := strings.TrimPrefix(j.OutputInfo.GcsOutputDirectory, "gs://b/") + "/predictions.jsonl"
	a := h.mustSend("GET", "/storage/v1/b/b/o/"+strings.ReplaceAll(object, "/", "%2F")+"?alt=media", "")
	lines := strings.Split(strings.TrimSpace(a.body), "\n")
	var first, last struct {
		RequestID string `json:"requestId"`
		Status    string
		Response  struct{ Candidates []any }
	}
	json.Unmarshal([]byte(lines[0]), &first)
	json.Unmarshal([]byte(lines[len(lines)-1]), &last)
	if len(lines) != 3 || first.RequestID != "bad" || first.Status == "" || last.RequestID != "a" || last.Status != "" || len(last.Response.Candidates) != 1 {
		t.Errorf("results %s", a.body)
	}
	if j = create("m+job=expire"); read(j).State != "JOB_STATE_RUNNING" || read(j).State != "JOB_STATE_EXPIRED" {
		t.Errorf("expired %+v", read(j))
	}
	j = create("m+job=hang")
	if a := h.mustSend("DELETE", "/v1/"+j.Name, ""); a.StatusCode != 400 {
		t.Errorf("early delete: %d", a.StatusCode)
	}
	if a := h.mustPost("/v1/"+j.Name+":cancel", ""); a.StatusCode != 200 || a.body != "{}" || read(j).State != "JOB_STATE_CANCELLED" {
		t.Errorf("cancelled: %d %+v", a.StatusCode, read(j))
	}
	if a := h.mustSend("GET", path+"?pageSize=2", ""); strings.Count(a.body, `"displayName"`) != 2 || !strings.Contains(a.body, "nextPageToken") {
		t.Errorf("list %s", a.body)
	}
	if a := h.mustSend("DELETE", "/v1/"+j.Name, ""); a.StatusCode != 200 || h.mustSend("GET", "/v1/"+j.Name, "").StatusCode != 404 {
		t.Errorf("delete: %d %s", a.StatusCode, a.body)
	}
	other := strings.Replace(path, "us-central1", "europe-west1", 1)
	if a := h.mustSend("GET", other, ""); strings.Contains(a.body, "displayName") {
		t.Errorf("another location: %s", a.body)
	}
	for name, broken := range map[string]string{
		"an unknown member": strings.Replace(body("m"), `{`, `{"x":1,`, 1), "another scheme": strings.Replace(body("m"), "gs://b/in", "s3://b/in", 1),
		"no name": strings.Replace(body("m"), `"displayName":"d",`, ``, 1), "another format": strings.Replace(body("m"), `"jsonl"`, `"csv"`, 1),
		"an address instead of a list": strings.Replace(body("m"), `["gs://b/in/a.jsonl"]`, `"gs://b/in/a.jsonl"`, 1),
	} {
		if a := h.mustPost(path, broken); a.StatusCode != 400 || !strings.Contains(a.body, "INVALID_ARGUMENT") {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
}

func TestVertexTunesModels(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	if a := h.mustPost("/upload/storage/v1/b/b/o?uploadType=media&name=train.jsonl", `{"contents":[]}`); a.StatusCode != 200 || !strings.Contains(a.body, `"size":"15"`) {
		t.Errorf("upload: %d %s", a.StatusCode, a.body)
	}
	const path = "/v1/" + vertexParent + "/tuningJobs"
	body := `{"baseModel":"m","tunedModelDisplayName":"d","supervisedTuningSpec":{"training_dataset_uri":"gs://b/train.jsonl","hyperParameters":{"epochCount":"2","adapterSize":"ADAPTER_SIZE_ONE"}}}`
	var j struct {
		Name, State string

		TunedModel      struct{ Model, Endpoint string }
		TuningDataStats struct {
			SupervisedTuningDataStats struct{ TotalBillableTokenCount string }
		}
	}
	h.mustPost(path, body).mustDecodeInto(t, &j)
	for range 5 {
		h.mustSend("GET", "/v1/"+j.Name, "").mustDecodeInto(t, &j)
	}
	if j.State != "JOB_STATE_SUCCEEDED" || j.TunedModel.Endpoint == "" || j.TuningDataStats.SupervisedTuningDataStats.TotalBillableTokenCount != "8" {
		t.Errorf("ended %+v", j)
	}
	if a := h.mustPost("/v1/"+j.Name+":cancel", ""); a.StatusCode != 400 {
		t.Errorf("late cancel: %d", a.StatusCode)
	}
	if a := h.mustSend("GET", path, ""); strings.Count(a.body, `"baseModel"`) != 1 {
		t.Errorf("list %s", a.body)
	}
	for name, broken := range map[string]string{
		"a number as size": strings.Replace(body, `"ADAPTER_SIZE_ONE"`, `1`, 1), "no file": strings.Replace(body, "training_dataset_uri", "x", 1),
		"no spec": `{"baseModel":"m"}`, "no model": strings.Replace(body, `"baseModel":"m",`, ``, 1),
	} {
		if a := h.mustPost(path, broken); a.StatusCode != 400 {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if a := h.mustSend("GET", "/storage/v1/b/b/o?prefix=tr", ""); !strings.Contains(a.body, `"name":"train.jsonl"`) {
		t.Errorf("objects %s", a.body)
	}
	if a := h.mustSend("DELETE", "/storage/v1/b/b/o/train.jsonl", ""); a.StatusCode != 204 || h.mustSend("GET", "/storage/v1/b/b/o/train.jsonl", "").StatusCode != 404 {
		t.Errorf("delete: %d", a.StatusCode)
	}
}
