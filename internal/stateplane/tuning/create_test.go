package tuning

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

func TestRefusedJobsLeaveNoRecord(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.respond = func(*http.Request, string) (int, string) {
			if n := len(w.objects("w1", store.ObjectTuningJob)); n != 1 {
				t.Errorf("%d records while the provider is asked, want 1", n)
			}
			return 400, `{"error":{"message":"bad file","param":"training_file"}}`
		}
		_, _, err := w.request("w1", "POST", root, input)
		w.refused("the provider", apierr.Invalid, "training_file", "bad file", err)
		w.unsent = true
		_, _, err = w.request("w1", "POST", root, input)
		w.refused("the gateway", apierr.Unavailable, "", "limit of the gateway", err)
		if list := w.objects("w1", store.ObjectTuningJob); len(list) > 0 {
			t.Errorf("records %+v are left", list)
		}
	})
}

// A create that the provider may have accepted has a record, which finds the job later.
func TestUnansweredJobsAreFoundLater(t *testing.T) {
	for name, fail := range map[string]func(w *world) func(*http.Request, string) (int, string){
		"failure": func(*world) func(*http.Request, string) (int, string) {
			return func(*http.Request, string) (int, string) { return 500, `{"error":{"message":"oops"}}` }
		},
		"broken off": func(w *world) func(*http.Request, string) (int, string) {
			w.broken = true
			return func(*http.Request, string) (int, string) { return 200, `{"id":` }
		},
		"unreadable": func(*world) func(*http.Request, string) (int, string) {
			return func(*http.Request, string) (int, string) { return 200, `<html>` }
		},
	} {
		t.Run(name, func(t *testing.T) {
			withFiles(t, func(t *testing.T, w *world) {
				w.respond = fail(w)
				_, _, err := w.request("w1", "POST", root, input)
				list := w.objects("w1", store.ObjectTuningJob)
				if len(list) != 1 || list[0].State != kept.StateUnknown {
					t.Fatalf("records %+v, want one that is unknown", list)
				}
				own := list[0].ID
				w.refused("create", apierr.UpstreamFailed, "", own, err)
				if !strings.Contains(w.log.String(), own) {
					t.Errorf("the log has no warning: %s", w.log)
				}
				if shown := w.must("GET", root, ""); len(shown["data"].([]any)) != 0 {
					t.Errorf("list = %v, want without the unknown job", shown)
				}
				w.broken = false
				w.respond = func(r *http.Request, _ string) (int, string) {
					if r.URL.Path == "/v1/fine_tuning/jobs" {
						return 200, fmt.Sprintf(`{"data":[{"id":"ftjob-1","status":"running","metadata":{"gateway_job_id":%q}}]}`, own)
					}
					return 200, job("running")
				}
				got := w.must("GET", root+"/"+own, "")
				if got["id"] != "ftjob-1" || got["status"] != "running" || got["training_file"] != "gw_file_1" {
					t.Errorf("GET = %v", got)
				}
				if got := w.must("GET", root+"/ftjob-1", ""); got["id"] != "ftjob-1" {
					t.Errorf("GET by the provider's id = %v", got)
				}
			})
		})
	}
}

func TestJobsThatWereNeverCreatedVanish(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.respond = func(r *http.Request, _ string) (int, string) {
			if r.Method == "POST" {
				return 503, `{}`
			}
			return 200, `{"data":[]}`
		}
		if _, _, err := w.request("w1", "POST", root, input); err == nil {
			t.Fatal("the job was created")
		}
		own := w.objects("w1", store.ObjectTuningJob)[0].ID
		_, _, err := w.request("w1", "GET", root+"/"+own, "")
		w.refused("at once", apierr.Conflict, "", "again", err)
		w.now = w.now.Add(settleTime + time.Second)
		_, _, err = w.request("w1", "GET", root+"/"+own, "")
		w.refused("later", apierr.NotFound, "id", "", err)
		if list := w.objects("w1", store.ObjectTuningJob); len(list) > 0 {
			t.Errorf("records %+v are left", list)
		}
	})
}

func TestUnansweredJobsOfVendorsThatCannotBeAskedStayUnknown(t *testing.T) {
	w := newWorld(t, mustOpen(t))
	w.deps.Limits.Unrecorded = true
	w.add("w1", "tog", "together-ai", nil)
	w.respond = func(*http.Request, string) (int, string) { return 500, `{}` }
	if _, _, err := w.request("w1", "POST", root, `{"model":"m","training_file":"f"}`, "@tog"); err == nil {
		t.Fatal("the job was created")
	}
	o := w.objects("w1", store.ObjectTuningJob)[0]
	for range 2 {
		_, _, err := w.request("w1", "POST", root+"/"+o.ID+"/cancel", "")
		w.refused("cancel", apierr.Conflict, "", "console", err)
		w.now = w.now.Add(time.Hour)
	}
}

// The record must not hold what the client gave to the provider only.
func TestKeysOfServicesAreNotStored(t *testing.T) {
	w := newWorld(t, mustOpen(t))
	w.deps.Limits.Unrecorded = true
	w.add("w1", "tog", "together-ai", nil)
	w.respond = func(*http.Request, string) (int, string) { return 200, `{"id":"ft-1","status":"pending"}` }
	got := w.must("POST", root, `{"model":"m","training_file":"f","integrations":[{"type":"wandb","wandb":{"project":"p","api_key":"wandb-key"}}]}`, "@tog")
	o := w.objects("w1", store.ObjectTuningJob)[0]
	if !strings.Contains(w.bodies[0], "wandb-key") || strings.Contains(string(o.Data), "wandb-key") || strings.Contains(fmt.Sprint(got), "wandb-key") {
		t.Errorf("sent %s, stored %s, shown %v", w.bodies[0], o.Data, got)
	}
	if !strings.Contains(string(o.Data), `"project":"p"`) {
		t.Errorf("stored %s", o.Data)
	}
}

// Cohere and Vertex AI have other paths and options, which come from the provider.
func TestRequestsGoToThePathsOfTheProvider(t *testing.T) {
	w := newWorld(t, mustOpen(t))
	w.deps.Limits.Unrecorded = true
	w.add("w1", "coh", "cohere", nil)
	w.add("w1", "ver", "vertex-ai", map[string]string{"region": "europe-west4", "project_id": "p1"})
	w.respond = func(r *http.Request, _ string) (int, string) {
		if strings.Contains(r.URL.Path, "tuningJobs") {
			return 200, `{"name":"projects/1/locations/l/tuningJobs/7","state":"JOB_STATE_RUNNING"}`
		}
		return 200, `{"finetuned_model":{"id":"m1","status":"STATUS_QUEUED"}}`
	}
	w.must("POST", root, `{"model":"@coh/command-r","training_file":"ds"}`)
	w.must("POST", root, `{"model":"gemini","training_file":"gs://b/k"}`, "@ver")
	w.add("w1", "fire", "fireworks-ai", map[string]string{"account_id": "acme"})
	w.respond = func(*http.Request, string) (int, string) {
		return 200, `{"name":"accounts/acme/supervisedFineTuningJobs/x"}`
	}
	w.must("POST", root, `{"model":"m","training_file":"ds"}`, "@fire")
	own := strings.ReplaceAll(w.objects("w1", store.ObjectTuningJob)[0].ID, "_", "-")
	want := []string{"POST @coh /v1/v1/finetuning/finetuned-models", "POST @ver /v1/v1/projects/p1/locations/europe-west4/tuningJobs",
		"POST @fire host/v1/v1/accounts/acme/supervisedFineTuningJobs?supervisedFineTuningJobId=" + own}
	if fmt.Sprint(w.requests) != fmt.Sprint(want) {
		t.Errorf("requests %q, want %q", w.requests, want)
	}
}

// A copy has a record before the provider is asked, like everything that it keeps.
func TestCopiesThatFailLeaveARecordOnlyIfTheyMayExist(t *testing.T) {
	w := newWorld(t, mustOpen(t))
	w.addFile("w1", "gw_file_1", "", "", "fine-tune")
	for status, left := range map[int]int{400: 0, 500: 1} {
		before := len(w.objects("w1", store.ObjectFile))
		w.respond = func(*http.Request, string) (int, string) { return status, `{"error":{"message":"why"}}` }
		if _, _, err := w.request("w1", "POST", root, `{"model":"@team/m","training_file":"gw_file_1"}`); err == nil {
			t.Errorf("%d: the job was created", status)
		}
		if n := len(w.objects("w1", store.ObjectFile)) - before; n != left {
			t.Errorf("%d: %d records are left, want %d", status, n, left)
		}
		if n := len(w.objects("w1", store.ObjectTuningJob)); n != 0 {
			t.Errorf("%d: %d jobs", status, n)
		}
	}
}
