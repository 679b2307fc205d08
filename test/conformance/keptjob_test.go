package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// trainer is a provider that runs one fine-tuning job. Its job has every field that the
// specification names, in each state, so that what has to be null is the gateway's work.
type trainer struct {
	mu    sync.Mutex
	state string // guarded by mu
	asked string // query of the last request for checkpoints; guarded by mu
	jobs  int    // that were created; guarded by mu
}

func (p *trainer) set(state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state
}

func (p *trainer) query() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *trainer) say(w http.ResponseWriter, r *http.Request, in received) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/checkpoints") { // the gateway itself asks for jobs
		p.asked = r.URL.RawQuery
	}
	id := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/fine_tuning/jobs"), "/")
	if len(id) == 1 { // a new one
		p.jobs++
		id = []string{"", fmt.Sprint("ftjob-", p.jobs)}
	}
	body := `{"object":"fine_tuning.job","id":"` + id[1] + `","created_at":1700000001,"error":{"code":"invalid_file","message":"no examples","param":"training_file"},` +
		`"fine_tuned_model":"ft:m-1","finished_at":1700000009,"hyperparameters":{"n_epochs":"auto"},"model":"m-1","organization_id":"org-1","result_files":["file-4"],"status":"` + p.state + `",` +
		`"trained_tokens":11,"training_file":"file-1","validation_file":"file-2","seed":7,"integrations":[{"type":"wandb","wandb":{"project":"p","name":"n","entity":"e","tags":["t"]}}],"estimated_finish":1700000010}`
	switch {
	case strings.HasSuffix(r.URL.Path, "/files"):
		name := "file-1"
		if strings.Contains(string(in.body), "second") {
			name = "file-2"
		}
		body = `{"object":"file","id":"` + name + `","bytes":1,"created_at":1700000001,"filename":"a.jsonl","purpose":"fine-tune","status":"processed"}`
	case strings.HasSuffix(r.URL.Path, "/cancel"):
		p.state = "cancelled"
	case strings.HasSuffix(r.URL.Path, "/checkpoints"):
		body = checkpoints
	}
	says(http.StatusOK, "application/json", body)(w, r, in)
}

// training starts a gateway with a trainer as @train, and uploads two files to it.
func training(t *testing.T) (g *gateway, p *trainer, first, second string) {
	t.Helper()
	p = &trainer{state: "validating_files"}
	g = launchFor(t, "version: 1\nproviders:\n  - {slug: train, provider: openai, custom_host: \""+newProvider(t, p.say).url+"\", api_key: \"${STORED_KEY}\"}\n",
		"MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	return g, p, g.upload(t, "fine-tune", "first", "x-gateway-provider", "@train"), g.upload(t, "fine-tune", "second", "x-gateway-provider", "@train")
}

// TestFineTuningJobsHaveEveryField follows a job of a managed provider with the gateway key
// alone.
func TestFineTuningJobsHaveEveryField(t *testing.T) {
	g, p, first, second := training(t)
	made := g.do(t, "POST", "/v1/fine_tuning/jobs", `{"model":"m-1","training_file":"`+first+`","validation_file":"`+second+`","suffix":"own","seed":7,"method":{"type":"supervised"}}`, managed("@train")...)
	prove(t, "S-011 S-361 S-362 S-363 S-364 S-365 S-366 S-487", "a job is created", func(t *testing.T) { made.wantOK(t) })
	job := made.object(t)
	id, isText := job["id"].(string)
	prove(t, "S-167", "its id is a string", func(t *testing.T) {
		if !isText || id == "" {
			t.Fatalf("id = %v", job["id"])
		}
	})
	proveShapes(t, "a new job", job, has("S-168", `1700000001`, "created_at"), has("S-172", `"auto"`, "hyperparameters", "n_epochs"),
		has("S-173", `"m-1"`, "model"), has("S-174", `"fine_tuning.job"`, "object"), has("S-175", `"org-1"`, "organization_id"),
		has("S-176", `["file-4"]`, "result_files"), has("S-179", jsonText(first), "training_file"), has("S-180 S-365", jsonText(second), "validation_file"),
		has("S-181", `7`, "seed"), has("S-182", `[{"type":"wandb","wandb":{"entity":"e","name":"n","project":"p","tags":["t"]}}]`, "integrations"))
	read := func(t *testing.T, state string) map[string]any {
		t.Helper()
		p.set(state)
		return g.do(t, "GET", "/v1/fine_tuning/jobs/"+id, "", own()...).wantOK(t).object(t)
	}
	prove(t, "S-367 S-011 S-487", "a job is read", func(t *testing.T) { read(t, "running") })
	for _, tt := range []struct{ state, model, finished, tokens, estimated, problem string }{
		{"validating_files", `null`, `null`, `null`, `1700000010`, `null`},
		{"queued", `null`, `null`, `null`, `1700000010`, `null`},
		{"running", `null`, `null`, `null`, `1700000010`, `null`},
		{"succeeded", `"ft:m-1"`, `1700000009`, `11`, `null`, `null`},
		{"failed", `null`, `1700000009`, `11`, `null`, `{"code":"invalid_file","message":"no examples","param":"training_file"}`},
		{"cancelled", `null`, `1700000009`, `11`, `null`, `null`},
	} {
		proveShapes(t, "a job that is "+tt.state, read(t, tt.state), has("S-177 S-237", `"`+tt.state+`"`, "status"), has("S-170", tt.model, "fine_tuned_model"),
			has("S-171", tt.finished, "finished_at"), has("S-178", tt.tokens, "trained_tokens"), has("S-183", tt.estimated, "estimated_finish"),
			has("S-169 S-478", tt.problem, "error"))
	}
	prove(t, "S-367", "an unknown job", func(t *testing.T) {
		g.do(t, "GET", "/v1/fine_tuning/jobs/none", "", own()...).refused(t, http.StatusNotFound)
	})
	l := g.do(t, "GET", "/v1/fine_tuning/jobs/"+id+"/checkpoints?after=ftckpt-0&limit=2", "", own()...)
	prove(t, "S-011 S-370 S-487", "checkpoints are listed", func(t *testing.T) { l.wantOK(t).object(t) })
	prove(t, "S-369", "a page of checkpoints", func(t *testing.T) {
		if got := p.query(); got != "after=ftckpt-0&limit=2" {
			t.Errorf("the provider was asked for %q, want after and limit", got)
		}
		g.do(t, "GET", "/v1/fine_tuning/jobs/"+id+"/checkpoints?limit=x", "", own()...).refusedFor(t, "limit")
	})
	proveShapes(t, "a list of checkpoints", l.object(t), has("S-186 S-370", `"list"`, "object"), has("S-186", `false`, "has_more"),
		has("S-186", `"ftckpt-1"`, "first_id"), has("S-186", `"ftckpt-1"`, "last_id"), has("S-184", `"ftckpt-1"`, "data", 0, "id"),
		has("S-184", `1700000001`, "data", 0, "created_at"), has("S-184", `"ft:m-1:step-10"`, "data", 0, "fine_tuned_model_checkpoint"),
		has("S-184", `10`, "data", 0, "step_number"), has("S-184", jsonText(id), "data", 0, "fine_tuning_job_id"),
		has("S-184", `"fine_tuning.job.checkpoint"`, "data", 0, "object"),
		has("S-185", `{"full_valid_loss":0.7,"full_valid_mean_token_accuracy":0.7,"step":10,"train_loss":0.5,"train_mean_token_accuracy":0.9,"valid_loss":0.6,"valid_mean_token_accuracy":0.8}`,
			"data", 0, "metrics"))
	p.set("running")
	cancelled := g.do(t, "POST", "/v1/fine_tuning/jobs/"+id+"/cancel", "", own()...)
	prove(t, "S-011 S-238 S-368 S-487", "a job is cancelled", func(t *testing.T) {
		if j := cancelled.wantOK(t).object(t); j["status"] != "cancelled" || j["id"] != id {
			t.Errorf("%v", j)
		}
	})
}

// TestFineTuningJobsAreChecked creates jobs with one field that is wrong or at its limit.
func TestFineTuningJobsAreChecked(t *testing.T) {
	g, _, file, _ := training(t)
	const tracker = `{"type":"wandb","wandb":{"project":"p"}}`
	trackers := func(n int) string {
		return `,"integrations":[` + strings.Repeat(tracker+",", n-1) + tracker + `]`
	}
	base := `"model":"m-1","training_file":"` + file + `"`
	for _, tt := range []struct{ of, name, body, param string }{
		{"S-361", "no model", `"training_file":"` + file + `"`, "model"},
		{"S-361", "a model that is a number", `"model":1,"training_file":"` + file + `"`, "model"},
		{"S-362", "no training file", `"model":"m-1"`, "training_file"},
		{"S-362", "a training file that is a number", `"model":"m-1","training_file":1`, "training_file"},
		{"S-363", "a suffix that is a number", base + `,"suffix":1`, "suffix"},
		{"S-364", "a method that is a word", base + `,"method":"x"`, "method"},
		{"S-365", "a validation file that is a number", base + `,"validation_file":1`, "validation_file"},
		{"S-182 S-503", "six integrations", base + trackers(6), "integrations"},
		{"S-182", "an integration without its object", base + `,"integrations":[{"type":"wandb"}]`, "integrations"},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			g.do(t, "POST", "/v1/fine_tuning/jobs", "{"+tt.body+"}", managed("@train")...).refusedFor(t, tt.param)
		})
	}
	prove(t, "S-182 S-503", "five integrations", func(t *testing.T) {
		g.do(t, "POST", "/v1/fine_tuning/jobs", "{"+base+trackers(5)+"}", managed("@train")...).wantOK(t)
	})
}

// TestFineTuningJobsRunAtTheSimulator creates a job and cancels it twice.
func TestFineTuningJobsRunAtTheSimulator(t *testing.T) {
	g := keeping(t)
	prove(t, "S-011 S-238 S-368 S-369", "from creation to its end", func(t *testing.T) {
		var examples strings.Builder
		for i := range 12 {
			fmt.Fprintf(&examples, `{"messages":[{"role":"user","content":"q%d"},{"role":"assistant","content":"a"}]}`+"\n", i)
		}
		file := g.upload(t, "fine-tune", examples.String(), "x-gateway-provider", "@sim")
		j := g.do(t, "POST", "/v1/fine_tuning/jobs", `{"model":"gpt-4o-mini","training_file":"`+file+`","suffix":"own"}`, managed("@sim")...).wantOK(t).object(t)
		if j["validation_file"] != nil || j["fine_tuned_model"] != nil || j["finished_at"] != nil {
			t.Errorf("%v", j)
		}
		path := "/v1/fine_tuning/jobs/" + j["id"].(string)
		g.do(t, "GET", path+"/checkpoints?limit=2", "", own()...).wantOK(t)
		if j = g.do(t, "POST", path+"/cancel", "", own()...).wantOK(t).object(t); j["status"] != "cancelled" {
			t.Errorf("%v", j)
		}
		g.do(t, "POST", path+"/cancel", "", own()...).refused(t, http.StatusBadRequest)
	})
}
