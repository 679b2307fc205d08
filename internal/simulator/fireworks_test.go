package simulator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// fireworksResource is a dataset or a job, as client libraries decode it.
type fireworksResource struct {
	Name, State, ExampleCount, OutputDatasetID, OutputModel string

	Status      struct{ Code, Message string }
	JobProgress struct{ TotalInputRequests, SuccessfullyProcessedRequests, FailedRequests, OutputTokens int }
}

const fireworksAccount = "/v1/accounts/a"

// mustDataset makes a dataset that is ready.
func (h *fixture) mustDataset(t *testing.T, id, content string) {
	t.Helper()
	if a := h.mustPost(fireworksAccount+"/datasets", `{"datasetId":"`+id+`","dataset":{"userUploaded":{},"format":"CHAT"}}`); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	body, kind := form(t, []byte(content))
	if a := h.mustSend("POST", fireworksAccount+"/datasets/"+id+":upload", body, "Content-Type", kind); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
}

func (h *fixture) fireworks(t *testing.T, name string) (r fireworksResource) {
	t.Helper()
	a := h.mustSend("GET", "/v1/"+name, "")
	if a.mustDecodeInto(t, &r); a.StatusCode != 200 {
		t.Fatalf("%s: %d %s", name, a.StatusCode, a.body)
	}
	return r
}

func TestFireworksDatasetsAreUploadedBySignedAddress(t *testing.T) {
	h := mustServe(t, simulator.Options{Key: "k"})
	key := []string{"Authorization", "Bearer k"}
	const path = fireworksAccount + "/datasets"
	var d fireworksResource
	if h.mustPost(path, `{"datasetId":"d","dataset":{"displayName":"D","userUploaded":{}}}`, key...).mustDecodeInto(t, &d); d.Name != "accounts/a/datasets/d" || d.State != "UPLOADING" {
		t.Errorf("created %+v", d)
	}
	if a := h.mustPost(path, `{"datasetId":"d","dataset":{}}`, key...); a.StatusCode != 400 {
		t.Errorf("created twice: %d", a.StatusCode)
	}
	var urls struct {
		URLs map[string]string `json:"filenameToSignedUrls"`
	}
	content := bareLines(2)
	h.mustPost(path+"/d:getUploadEndpoint", fmt.Sprintf(`{"filenameToSize":{"a.jsonl":"%d"}}`, len(content)), key...).mustDecodeInto(t, &urls)
	address := strings.TrimPrefix(urls.URLs["a.jsonl"], h.url)
	if a := h.mustSend("PUT", address, content[1:]); a.StatusCode != 400 {
		t.Errorf("another size: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("PUT", address, content, key...); a.StatusCode != 400 {
		t.Errorf("a key at a signed address: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("PUT", address, content); a.StatusCode != 200 {
		t.Errorf("upload: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustPost(path+"/d:validateUpload", `{}`, key...); a.StatusCode != 200 {
		t.Errorf("validated: %d %s", a.StatusCode, a.body)
	}
	if h.mustSend("GET", path+"/d", "", key...).mustDecodeInto(t, &d); d.State != "READY" || d.ExampleCount != "2" {
		t.Errorf("ready %+v", d)
	}
	h.mustSend("GET", path+"/d:getDownloadEndpoint", "", key...).mustDecodeInto(t, &urls)
	if a := h.mustSend("GET", strings.TrimPrefix(urls.URLs["a.jsonl"], h.url), ""); a.body != content {
		t.Errorf("content %q", a.body)
	}
	if a := h.mustSend("GET", path+"?pageSize=1", "", key...); !strings.Contains(a.body, `"totalSize":1`) {
		t.Errorf("list %s", a.body)
	}
	if a := h.mustSend("GET", "/v1/accounts/b/datasets/d", "", key...); a.StatusCode != 404 || !strings.Contains(a.body, `"code":5`) {
		t.Errorf("another account: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("DELETE", path+"/d", "", key...); a.StatusCode != 200 || h.mustSend("GET", path+"/d", "", key...).StatusCode != 404 {
		t.Errorf("delete: %d", a.StatusCode)
	}
}

func TestFireworksBatchesContinueAfterTheyExpired(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	h.mustDataset(t, "in", bareLines(4))
	create := func(id, more string) (r fireworksResource) {
		t.Helper()
		a := h.mustPost(fireworksAccount+"/batchInferenceJobs?batchInferenceJobId="+id, `{"model":"m","inputDatasetId":"accounts/a/datasets/in","outputDatasetId":"`+id+`-out"`+more+`}`)
		if a.mustDecodeInto(t, &r); a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		return r
	}
	custom := func(dataset string) (ids []string) {
		t.Helper()
		var urls struct {
			URLs map[string]string `json:"filenameToSignedUrls"`
		}
		h.mustSend("GET", "/v1/"+dataset+":getDownloadEndpoint", "").mustDecodeInto(t, &urls)
		for line := range strings.Lines(h.mustSend("GET", strings.TrimPrefix(urls.URLs["BIJOutputSet.jsonl"], h.url), "").body) {
			var r struct {
				ID       string `json:"custom_id"`
				Response completion
			}
			if json.Unmarshal([]byte(line), &r) != nil || len(r.Response.Choices) != 1 {
				t.Errorf("line %s", line)
			}
			ids = append(ids, r.ID)
		}
		return ids
	}
	r := create("first", `,"inferenceParameters":{"maxTokens":50}`)
	if r.Name != "accounts/a/batchInferenceJobs/first" || r.State != "JOB_STATE_VALIDATING" {
		t.Errorf("created %+v", r)
	}
	for _, want := range []string{"JOB_STATE_RUNNING", "JOB_STATE_WRITING_RESULTS", "JOB_STATE_COMPLETED"} {
		if r = h.fireworks(t, r.Name); r.State != want {
			t.Errorf("state %s, want %s", r.State, want)
		}
	}
	if r.JobProgress.TotalInputRequests != 4 || r.JobProgress.SuccessfullyProcessedRequests != 4 || r.JobProgress.OutputTokens == 0 || fmt.Sprint(custom(r.OutputDatasetID)) != "[c4 c3 c2 c1]" {
		t.Errorf("completed %+v with %v", r, custom(r.OutputDatasetID))
	}
	var expired fireworksResource
	h.mustPost(fireworksAccount+"/batchInferenceJobs", `{"model":"m+job=expire","inputDatasetId":"in"}`).mustDecodeInto(t, &expired)
	h.fireworks(t, expired.Name)
	if expired = h.fireworks(t, expired.Name); expired.State != "JOB_STATE_EXPIRED" || fmt.Sprint(custom(expired.OutputDatasetID)) != "[c2 c1]" {
		t.Errorf("expired %+v", expired)
	}
	r = create("second", `,"continuedFromJobName":"`+expired.Name+`"`)
	h.fireworks(t, r.Name)
	h.fireworks(t, r.Name)
	if fmt.Sprint(custom(r.OutputDatasetID)) != "[c4 c3]" {
		t.Errorf("continued with %v", custom(r.OutputDatasetID))
	}
	h.mustDataset(t, "full", batchInput("m", 1))
	var broken fireworksResource
	h.mustPost(fireworksAccount+"/batchInferenceJobs", `{"model":"m","inputDatasetId":"full"}`).mustDecodeInto(t, &broken)
	if broken = h.fireworks(t, broken.Name); broken.State != "JOB_STATE_FAILED" || !strings.Contains(broken.Status.Message, "line 1") {
		t.Errorf("lines with method and url: %+v", broken)
	}
	for name, body := range map[string]string{
		"no model": `{"inputDatasetId":"in"}`, "an unknown dataset": `{"model":"m","inputDatasetId":"none"}`, "an unknown member": `{"model":"m","inputDatasetId":"in","x":1}`,
		"a job that completed": `{"model":"m","inputDatasetId":"in","continuedFromJobName":"accounts/a/batchInferenceJobs/first"}`, "an unknown parameter": `{"model":"m","inputDatasetId":"in","inferenceParameters":{"max_tokens":1}}`,
	} {
		if a := h.mustPost(fireworksAccount+"/batchInferenceJobs", body); a.StatusCode != 400 || !strings.Contains(a.body, `"code":3`) {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if a := h.mustSend("GET", fireworksAccount+"/batchInferenceJobs?pageSize=2", ""); strings.Count(a.body, "jobProgress") != 2 || !strings.Contains(a.body, "nextPageToken") {
		t.Errorf("list %s", a.body)
	}
}

func TestFireworksTunesModels(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	h.mustDataset(t, "train", examples(3))
	const path = fireworksAccount + "/supervisedFineTuningJobs"
	create := func(model string) (r fireworksResource) {
		t.Helper()
		a := h.mustPost(path, `{"dataset":"train","baseModel":"`+model+`","epochs":2,"outputModel":"accounts/a/models/mine"}`)
		if a.mustDecodeInto(t, &r); a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		return r
	}
	r := create("m")
	for range 4 {
		r = h.fireworks(t, r.Name)
	}
	if r.State != "JOB_STATE_COMPLETED" || r.OutputModel != "accounts/a/models/mine" {
		t.Errorf("completed %+v", r)
	}
	if a := h.mustPost("/v1/"+r.Name+":cancel", `{}`); a.StatusCode != 400 {
		t.Errorf("late cancel: %d", a.StatusCode)
	}
	r = create("m+job=hang")
	h.mustPost("/v1/"+r.Name+":cancel", `{}`)
	if got := h.fireworks(t, r.Name); got.State != "JOB_STATE_CANCELLED" {
		t.Errorf("cancelled %+v", got)
	}
	if h.mustPost("/v1/"+r.Name+":resume", `{}`).mustDecodeInto(t, &r); r.State != "JOB_STATE_VALIDATING" {
		t.Errorf("resumed %+v", r)
	}
	for name, body := range map[string]string{
		"no dataset": `{"baseModel":"m"}`, "two models": `{"dataset":"train","baseModel":"m","warmStartFrom":"n"}`, "an unknown member": `{"dataset":"train","baseModel":"m","n_epochs":1}`,
	} {
		if a := h.mustPost(path, body); a.StatusCode != 400 {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
}
