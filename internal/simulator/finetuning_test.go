package simulator_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// tuningJob is a job of fine-tuning, as client libraries decode it.
type tuningJob struct {
	ID, Object, Model, Status string
	Model2                    *string  `json:"fine_tuned_model"`
	Created                   int64    `json:"created_at"`
	Finished                  *int64   `json:"finished_at"`
	Tokens                    *int     `json:"trained_tokens"`
	TrainingFile              string   `json:"training_file"`
	Results                   []string `json:"result_files"`
	Seed                      int
	Hyperparameters           map[string]any
	Method                    struct{ Type string }
	Error                     *struct{ Code, Message, Param string }
}

func (h *fixture) mustTrainingFile(t *testing.T, purpose, content string) string {
	t.Helper()
	var got struct{ ID string }
	body, kind := form(t, []byte(content), "purpose", purpose)
	h.mustSend("POST", "/v1/files", body, "Content-Type", kind).mustDecodeInto(t, &got)
	return got.ID
}

func examples(n int) string {
	return strings.Repeat(`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`+"\n", n)
}

func (h *fixture) mustTune(t *testing.T, model, file, more string) (j tuningJob) {
	t.Helper()
	a := h.mustPost("/v1/fine_tuning/jobs", fmt.Sprintf(`{"model":%q,"training_file":%q%s}`, model, file, more))
	if a.mustDecodeInto(t, &j); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return j
}

func (h *fixture) tuning(t *testing.T, method, path string) (j tuningJob) {
	t.Helper()
	h.mustSend(method, "/v1/fine_tuning/jobs/"+path, "").mustDecodeInto(t, &j)
	return j
}

func TestTuningJobsMoveOnWhenTheyAreRead(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	file := h.mustTrainingFile(t, "fine-tune", examples(10))
	j := h.mustTune(t, "base", file, `,"suffix":"mine","seed":7,"method":{"type":"supervised","supervised":{"hyperparameters":{"n_epochs":2}}}`)
	if j.Object != "fine_tuning.job" || j.Status != "validating_files" || j.Model != "base" || j.Seed != 7 || j.Method.Type != "supervised" || j.Hyperparameters["n_epochs"] != 2.0 || j.Hyperparameters["batch_size"] != "auto" || j.Model2 != nil || j.Finished != nil {
		t.Errorf("created %+v", j)
	}
	for _, want := range []string{"queued", "running"} {
		if j = h.tuning(t, "GET", j.ID); j.Status != want {
			t.Errorf("status %s, want %s", j.Status, want)
		}
	}
	if j = h.tuning(t, "POST", j.ID+"/pause"); j.Status != "paused" || h.tuning(t, "GET", j.ID).Status != "paused" {
		t.Errorf("paused: %s", j.Status)
	}
	if j = h.tuning(t, "POST", j.ID+"/resume"); j.Status != "running" {
		t.Errorf("resumed: %s", j.Status)
	}
	h.tuning(t, "GET", j.ID)
	if j = h.tuning(t, "GET", j.ID); j.Status != "succeeded" || deref(j.Model2) != "ft:base:simulator:mine:2" || j.Finished == nil || j.Tokens == nil || *j.Tokens != 2*((len(examples(10))+3)/4) || len(j.Results) != 1 {
		t.Errorf("succeeded %+v", j)
	}
	if a := h.mustSend("GET", "/v1/files/"+j.Results[0]+"/content", ""); !strings.HasPrefix(a.body, "step,") {
		t.Errorf("results %s", a.body)
	}
	if a := h.mustPost("/v1/chat/completions", plain(*j.Model2)); a.StatusCode != 200 {
		t.Errorf("the new model: %d %s", a.StatusCode, a.body)
	}
	for _, operation := range []string{"cancel", "pause", "resume"} {
		if a := h.mustPost("/v1/fine_tuning/jobs/"+j.ID+"/"+operation, ""); a.StatusCode != 400 || a.mustDecode(t).Error == nil {
			t.Errorf("%s of an ended job: %d %s", operation, a.StatusCode, a.body)
		}
	}
	var page struct {
		Data []struct {
			ID, Object, Message, Level, Type string
			Model                            string `json:"fine_tuned_model_checkpoint"`
			Step                             int    `json:"step_number"`
		}
		More bool `json:"has_more"`
	}
	h.mustSend("GET", "/v1/fine_tuning/jobs/"+j.ID+"/events?limit=3", "").mustDecodeInto(t, &page)
	if len(page.Data) != 3 || !page.More || page.Data[0].Message != "The job has successfully completed" || page.Data[2].Type != "metrics" || page.Data[0].Object != "fine_tuning.job.event" {
		t.Errorf("events %+v", page)
	}
	h.mustSend("GET", "/v1/fine_tuning/jobs/"+j.ID+"/events?after="+page.Data[2].ID, "").mustDecodeInto(t, &page)
	if len(page.Data) != 5 || page.More {
		t.Errorf("later events %+v", page)
	}
	h.mustSend("GET", "/v1/fine_tuning/jobs/"+j.ID+"/checkpoints", "").mustDecodeInto(t, &page)
	if len(page.Data) != 3 || page.Data[0].Step != 3 || page.Data[0].Model != *j.Model2 || page.Data[0].Object != "fine_tuning.job.checkpoint" {
		t.Errorf("checkpoints %+v", page)
	}
}

func TestTuningJobsFailAndAreCancelled(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	file := h.mustTrainingFile(t, "fine-tune", examples(10))
	j := h.mustTune(t, "base", file, "")
	if j = h.tuning(t, "POST", j.ID+"/cancel"); j.Status != "cancelled" || j.Finished == nil || j.Tokens != nil {
		t.Errorf("cancelled %+v", j)
	}
	for _, tt := range []struct{ model, content, code string }{
		{"base+job=fail", examples(10), "server_error"}, {"base", examples(9), "invalid_n_examples"}, {"base", examples(9) + "[]", "invalid_training_file"},
	} {
		j := h.mustTune(t, tt.model, h.mustTrainingFile(t, "fine-tune", tt.content), "")
		h.tuning(t, "GET", j.ID)
		if j = h.tuning(t, "GET", j.ID); j.Status != "failed" || j.Error == nil || j.Error.Code != tt.code {
			t.Errorf("%s: %+v", tt.code, j)
		}
	}
	j = h.mustTune(t, "base+job=hang+takes=0s", file, "")
	for range 3 {
		if got := h.tuning(t, "GET", j.ID); got.Status != "running" {
			t.Errorf("status %s of a job that hangs", got.Status)
		}
	}
}

func TestTuningRequestsAreChecked(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	file := h.mustTrainingFile(t, "fine-tune", examples(10))
	other := h.mustTrainingFile(t, "batch", "x")
	body := `{"model":"m","training_file":"` + file + `"}`
	for _, tt := range []struct{ name, from, to, param string }{
		{"no model", `"model":"m",`, ``, "model"},
		{"no file", `,"training_file":"` + file + `"`, ``, "training_file"},
		{"an unknown file", file, "file-none", "training_file"},
		{"a file for another purpose", file, other, "training_file"},
		{"an unknown validation file", `{`, `{"validation_file":"file-none",`, "validation_file"},
		{"an unknown member", `{`, `{"x":1,`, "x"},
		{"a suffix that is a number", `{`, `{"suffix":1,`, "suffix"},
		{"an unknown method", `{`, `{"method":{"type":"magic"},`, "method.type"},
		{"a parameter of another method", `{`, `{"method":{"type":"supervised","supervised":{"hyperparameters":{"beta":1}}},`, "method.supervised.hyperparameters.beta"},
		{"reinforcement without a grader", `{`, `{"method":{"type":"reinforcement","reinforcement":{}},`, "method.reinforcement.grader"},
		{"a negative parameter", `{`, `{"hyperparameters":{"n_epochs":-1},`, "hyperparameters.n_epochs"},
		{"an unknown integration", `{`, `{"integrations":[{"type":"x","wandb":{"project":"p"}}],`, "integrations.0.type"},
		{"six integrations", `{`, `{"integrations":[{},{},{},{},{},{}],`, "integrations"},
	} {
		a := h.mustPost("/v1/fine_tuning/jobs", strings.Replace(body, tt.from, tt.to, 1))
		if e := a.mustDecode(t).Error; a.StatusCode != 400 || e == nil || deref(e.Param) != tt.param {
			t.Errorf("%s: %d %s", tt.name, a.StatusCode, a.body)
		}
	}
	for _, path := range []string{"none", "none/events", "none/checkpoints"} {
		if a := h.mustSend("GET", "/v1/fine_tuning/jobs/"+path, ""); a.StatusCode != 404 || a.mustDecode(t).Error == nil {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	one := h.mustTune(t, "m", file, `,"metadata":{"a":"1"}`)
	h.mustTune(t, "m", file, "")
	for query, want := range map[string]int{"": 2, "?limit=1": 1, "?metadata[a]=1": 1, "?metadata=null": 1, "?after=" + one.ID: 0} {
		var got struct{ Data []tuningJob }
		if h.mustSend("GET", "/v1/fine_tuning/jobs"+query, "").mustDecodeInto(t, &got); len(got.Data) != want {
			t.Errorf("%s: %+v", query, got)
		}
	}
	if a := h.mustSend("GET", "/v1/fine_tuning/jobs?colour=red", ""); a.StatusCode != 400 {
		t.Errorf("an unknown parameter: %d", a.StatusCode)
	}
}
