// Package tuning_test runs fine-tuning jobs through a complete gateway.
//
// The provider keeps jobs as OpenAI does. Formats of other vendors are tested in
// internal/stateplane/vendortune.
package tuning_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// openAI keeps jobs and files in memory.
type openAI struct {
	t    *testing.T
	mu   sync.Mutex
	jobs map[string]map[string]any // guarded by mu
	keys map[string]bool           // credentials that were seen; guarded by mu

	uploads []string // contents of files; guarded by mu
}

func (o *openAI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys[r.Header.Get("Authorization")] = true
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch {
	case r.Method == "POST" && parts[0] == "files":
		f, _, err := r.FormFile("file")
		if err != nil || r.FormValue("purpose") != "fine-tune" {
			reply(w, 400, map[string]any{"error": map[string]any{"message": "no file"}})
			return
		}
		content, err := io.ReadAll(f)
		if err != nil {
			o.t.Error(err)
		}
		o.uploads = append(o.uploads, string(content))
		reply(w, 200, map[string]any{"id": "file-1", "object": "file", "purpose": "fine-tune", "filename": "a.jsonl", "bytes": 3, "created_at": 1, "status": "processed"})
	case r.Method == "POST" && len(parts) == 2:
		var in map[string]any
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in["training_file"] != "file-1" {
			reply(w, 400, map[string]any{"error": map[string]any{"message": "no such file", "param": "training_file"}})
			return
		}
		id := fmt.Sprintf("ftjob-%d", len(o.jobs)+1)
		in["id"], in["object"], in["status"], in["created_at"] = id, "fine_tuning.job", "validating_files", 1
		o.jobs[id] = in
		reply(w, 200, in)
	default:
		job, ok := o.jobs[parts[2]]
		if !ok || len(parts) > 3 && r.Method != "POST" {
			reply(w, 404, map[string]any{"error": map[string]any{"message": "no such job"}})
			return
		}
		if len(parts) > 3 {
			job["status"] = map[string]string{"cancel": "cancelled", "pause": "paused", "resume": "running"}[parts[3]]
		}
		reply(w, 200, job)
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func newGateway(t *testing.T) (*gatewaytest.Gateway, *openAI) {
	t.Helper()
	t.Setenv("STORED_KEY", "provider-key")
	provider := &openAI{t: t, jobs: map[string]map[string]any{}, keys: map[string]bool{}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: provider, Settings: `
providers:
  - {slug: team, provider: openai, custom_host: SIMULATOR, api_key: "${STORED_KEY}"}
  - {slug: fast, provider: groq, custom_host: SIMULATOR, api_key: "${STORED_KEY}"}
upstream: {trusted_hosts: [127.0.0.1]}
`})
	return g, provider
}

// none removes the header that names the provider.
var none = []string{"x-gateway-provider", ""}

// upload stores a file at a provider, or in the gateway if the name is empty.
func upload(t *testing.T, g *gatewaytest.Gateway, at string) string {
	t.Helper()
	const form = "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{}\n\r\n--b--\r\n"
	res := g.Do(g.Request("POST", "/files", form, "x-gateway-provider", at, "Content-Type", "multipart/form-data; boundary=b"))
	if res.Status != 200 {
		t.Fatalf("upload: %d %s", res.Status, res.Body)
	}
	return res.JSON(t)["id"].(string)
}

func TestJobsAreRunByProvidersAndFoundByTheGatewayKey(t *testing.T) {
	g, provider := newGateway(t)
	file := upload(t, g, "@team")
	res := g.Post("/fine_tuning/jobs", `{"model":"gpt-4o-mini","training_file":"`+file+`","method":{"type":"supervised"},"metadata":{"a":"b"}}`, none...)
	if res.Status != 200 {
		t.Fatalf("create: %d %s", res.Status, res.Body)
	}
	job := res.JSON(t)
	id := job["id"].(string)
	if job["status"] != "validating_files" || job["object"] != "fine_tuning.job" || fmt.Sprint(job["metadata"]) != "map[a:b]" {
		t.Errorf("created %v", job)
	}
	for _, step := range []struct{ method, action, status, vendor string }{
		{"GET", "", "validating_files", "validating_files"},
		{"POST", "/pause", "running", "paused"},
		{"POST", "/resume", "running", "running"},
		{"POST", "/cancel", "cancelled", "cancelled"},
		{"GET", "", "cancelled", "cancelled"},
	} {
		res := g.Do(g.Request(step.method, "/fine_tuning/jobs/"+id+step.action, "", none...))
		if got := res.JSON(t); res.Status != 200 || got["status"] != step.status || got["provider_status"] != step.vendor || got["id"] != id {
			t.Errorf("%s %s: %d %s", step.method, step.action, res.Status, res.Body)
		}
	}
	if res := g.Do(g.Request("POST", "/fine_tuning/jobs/"+id+"/cancel", "", none...)); res.Status != 400 {
		t.Errorf("cancel of an ended job: %d %s", res.Status, res.Body)
	}
	list := g.Get("/fine_tuning/jobs?limit=1", none...).JSON(t)
	if list["object"] != "list" || len(list["data"].([]any)) != 1 || list["first_id"] != id {
		t.Errorf("list %v", list)
	}
	if len(provider.keys) != 1 || !provider.keys["Bearer provider-key"] {
		t.Errorf("the provider saw the credentials %v", provider.keys)
	}
}

func TestBadRequestsNameWhatIsWrong(t *testing.T) {
	g, provider := newGateway(t)
	file := upload(t, g, "@team")
	for _, tt := range []struct {
		name, body, provider string
		status               int
		param                any
	}{
		{"model", `{"training_file":"` + file + `"}`, "", 400, "model"},
		{"suffix", `{"model":"m","training_file":"` + file + `","suffix":1}`, "", 400, "suffix"},
		{"file", `{"model":"m","training_file":"file-unknown"}`, "@team", 404, "training_file"},
		{"provider", `{"model":"m","training_file":"` + file + `"}`, "@fast", 400, "training_file"},
	} {
		res := g.Post("/fine_tuning/jobs", tt.body, "x-gateway-provider", tt.provider)
		e, _ := res.JSON(t)["error"].(map[string]any)
		if res.Status != tt.status || e["param"] != tt.param {
			t.Errorf("%s: %d %s, want %d and the parameter %v", tt.name, res.Status, res.Body, tt.status, tt.param)
		}
	}
	if res := g.Get("/fine_tuning/jobs/ftjob-1", none...); res.Status != 404 {
		t.Errorf("unknown job: %d %s", res.Status, res.Body)
	}
	if res := g.Get("/fine_tuning/jobs?limit=x", none...); res.Status != 400 {
		t.Errorf("limit: %d %s", res.Status, res.Body)
	}
	if len(provider.jobs) > 0 {
		t.Errorf("jobs %v were created", provider.jobs)
	}
}

// The administration of Bedrock and of Fireworks is at another address than their models.
func TestServicesAreReached(t *testing.T) {
	t.Setenv("STORED_KEY", "provider-key")
	var mu sync.Mutex
	var paths []string // guarded by mu
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, r.URL.Path)
		reply(w, 200, map[string]any{"name": "accounts/acme/supervisedFineTuningJobs/j", "state": "JOB_STATE_RUNNING"})
	}), Settings: `
providers:
  - {slug: fire, provider: fireworks-ai, custom_host: SIMULATOR/inference/v1, api_key: "${STORED_KEY}", options: {account_id: acme}}
  - {slug: rock, provider: bedrock, custom_host: SIMULATOR, api_key: "${STORED_KEY}"}
files: {unrecorded: pass}
upstream: {trusted_hosts: [127.0.0.1]}
`})
	res := g.Post("/fine_tuning/jobs", `{"model":"m","training_file":"data"}`, "x-gateway-provider", "@fire")
	if got := res.JSON(t); res.Status != 200 || got["status"] != "running" {
		t.Errorf("fireworks: %d %s", res.Status, res.Body)
	}
	if len(paths) != 1 || paths[0] != "/v1/accounts/acme/supervisedFineTuningJobs" {
		t.Errorf("paths %q", paths)
	}
	res = g.Post("/fine_tuning/jobs", `{"model":"m","training_file":"s3://b/k","role_arn":"r"}`, "x-gateway-provider", "@rock")
	if res.Status != 501 || !strings.Contains(string(res.Body), "custom host") || len(paths) != 1 {
		t.Errorf("bedrock behind a custom host: %d %s, paths %q", res.Status, res.Body, paths)
	}
}

// A file of the gateway is copied to the provider of the job, once.
func TestFilesOfTheGatewayAreCopiedToTheProvider(t *testing.T) {
	g, provider := newGateway(t)
	file := upload(t, g, "")
	for range 2 {
		res := g.Post("/fine_tuning/jobs", `{"model":"@team/gpt-4o-mini","training_file":"`+file+`"}`, none...)
		if got := res.JSON(t); res.Status != 200 || got["training_file"] != file || got["model"] != "@team/gpt-4o-mini" {
			t.Fatalf("create: %d %s", res.Status, res.Body)
		}
	}
	if len(provider.uploads) != 1 || provider.uploads[0] != "{}\n" {
		t.Errorf("the provider got the files %q, want one", provider.uploads)
	}
	res := g.Post("/fine_tuning/jobs", `{"model":"m","training_file":"`+file+`"}`, none...)
	if e, _ := res.JSON(t)["error"].(map[string]any); res.Status != 400 || e["param"] != "training_file" {
		t.Errorf("without a provider: %d %s", res.Status, res.Body)
	}
}
