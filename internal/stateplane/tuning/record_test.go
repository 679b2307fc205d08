package tuning

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendortune"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func mustOpen(t *testing.T) *store.DB {
	t.Helper()
	return storetest.Open(t, "file:"+t.TempDir()+"/db")
}

func TestListsShowTheJobsOfTheWorkspaceByPages(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		n := 0
		w.respond = func(r *http.Request, _ string) (int, string) {
			if r.Method == "POST" {
				n++
				return 200, strings.ReplaceAll(job("queued"), "ftjob-1", fmt.Sprintf("ftjob-%d", n))
			}
			return 200, strings.ReplaceAll(job("running"), "ftjob-1", r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
		}
		for range 5 {
			w.must("POST", root, input)
		}
		sent := len(w.requests)
		var ids, states []string
		after := ""
		for range 5 {
			page := w.must("GET", root+"?limit=2"+after, "")
			for _, one := range page["data"].([]any) {
				ids, states = append(ids, one.(map[string]any)["id"].(string)), append(states, one.(map[string]any)["status"].(string))
			}
			if page["has_more"] != true {
				break
			}
			after = "&after=" + page["last_id"].(string)
		}
		if want := []string{"ftjob-5", "ftjob-4", "ftjob-3", "ftjob-2", "ftjob-1"}; !slices.Equal(ids, want) {
			t.Errorf("jobs %q, want %q", ids, want)
		}
		if len(w.requests) != sent || slices.Contains(states, "running") {
			t.Errorf("states %q, and requests %q for states that are fresh", states, w.requests[sent:])
		}
		w.now = w.now.Add(freshFor)
		page := w.must("GET", root+"?limit=2", "")
		if got := page["data"].([]any)[0].(map[string]any)["status"]; got != "running" || len(w.requests) != sent+2 {
			t.Errorf("status %v after a while, requests %q", got, w.requests[sent:])
		}
		w.now, w.unsent = w.now.Add(freshFor), true
		if page := w.must("GET", root, ""); len(page["data"].([]any)) != 5 {
			t.Errorf("list = %v, want all jobs although the provider fails", page)
		}
	})
}

func TestJobsThatEndedLongAgoAreNotReadAgain(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.must("POST", root, input)
		w.respond = func(*http.Request, string) (int, string) {
			return 200, strings.Replace(job("succeeded"), "{", `{"fine_tuned_model":"ft:m",`, 1)
		}
		w.must("GET", root+"/ftjob-1", "")
		w.respond = func(*http.Request, string) (int, string) { return 404, `{}` }
		if got := w.must("GET", root+"/ftjob-1", ""); got["status"] != "succeeded" || got["fine_tuned_model"] != "ft:m" {
			t.Errorf("GET of a job that the provider deleted = %v", got)
		}
		sent := len(w.requests)
		w.now = w.now.Add(finalAfter + time.Second)
		if got := w.must("GET", root+"/ftjob-1", ""); got["status"] != "succeeded" || len(w.requests) != sent {
			t.Errorf("GET = %v, requests %q", got, w.requests[sent:])
		}
	})
}

func TestErrorsOfProvidersAreThoseOfAReading(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.must("POST", root, input)
		for status, kind := range map[int]apierr.Kind{404: apierr.NotFound, 401: apierr.UpstreamFailed, 429: apierr.RateLimited, 500: apierr.UpstreamFailed} {
			w.respond = func(*http.Request, string) (int, string) { return status, `{"error":{"message":"why"}}` }
			_, _, err := w.request("w1", "GET", root+"/ftjob-1", "")
			w.refused(fmt.Sprint(status), kind, "", "why", err)
		}
	})
}

// Files with results belong to the workspace of the job.
func TestResultFilesHaveRecords(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.must("POST", root, input)
		w.respond = func(*http.Request, string) (int, string) {
			return 200, strings.Replace(job("succeeded"), "{", `{"result_files":["file-r1","file-r2"],`, 1)
		}
		for range 2 {
			if got := w.must("GET", root+"/ftjob-1", ""); fmt.Sprint(got["result_files"]) != "[file-r1 file-r2]" {
				t.Errorf("result_files = %v", got["result_files"])
			}
		}
		found := 0
		for _, o := range w.objects("w1", store.ObjectFile) {
			if strings.HasPrefix(o.ProviderID, "file-r") && o.Provider == "@team" && o.Label == "fine-tune-results" && o.KeyID == "k" {
				found++
			}
		}
		if found != 2 {
			t.Errorf("%d records of files, want 2: %+v", found, w.objects("w1", store.ObjectFile))
		}
	})
}

func TestUnknownStatesAreLogged(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.must("POST", root, input)
		w.respond = func(*http.Request, string) (int, string) { return 200, job("hibernating") }
		if got := w.must("GET", root+"/ftjob-1", ""); got["status"] != "running" || got["provider_status"] != "hibernating" || !strings.Contains(w.log.String(), "hibernating") {
			t.Errorf("GET = %v, log %s", got, w.log)
		}
	})
}

// Two readers may store the state of a job at the same moment.
func TestStatesAreStoredWhenOthersStoreThemToo(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.must("POST", root, input)
		inner := false
		w.respond = func(*http.Request, string) (int, string) {
			if !inner {
				inner = true
				w.must("GET", root+"/ftjob-1", "")
			}
			return 200, job("running")
		}
		if got := w.must("GET", root+"/ftjob-1", ""); got["status"] != "running" {
			t.Errorf("GET = %v", got)
		}
		if o := w.objects("w1", store.ObjectTuningJob)[0]; o.State != string(vendortune.Running) || o.Version != 3 {
			t.Errorf("state %s in version %d, want running in version 3", o.State, o.Version)
		}
	})
}

// An ARN has slashes, so it is not an id in a path.
func TestIDsWithSlashesAreNotShown(t *testing.T) {
	o := &store.Object{ID: "gw_ftjob_1", ProviderID: "arn:aws:bedrock:us-east-1:1:model-customization-job/m/abc"}
	if got := o.ShownID(); got != "gw_ftjob_1" {
		t.Errorf("ShownID() = %s", got)
	}
	o.ProviderID = "ftjob-1"
	if got := o.ShownID(); got != "ftjob-1" {
		t.Errorf("ShownID() = %s", got)
	}
}

func TestEventsAndCheckpointsAreThoseOfTheProvider(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.must("POST", root, input)
		w.respond = func(r *http.Request, _ string) (int, string) {
			return 200, `{"object":"list","data":[{"id":"x1","fine_tuning_job_id":"ftjob-1","level":"info","message":"m","metrics":{}}],"has_more":true}`
		}
		for _, list := range []string{"events", "checkpoints"} {
			got := w.must("GET", root+"/ftjob-1/"+list+"?after=x0&limit=1", "")
			if got["has_more"] != true || got["first_id"] != "x1" || got["last_id"] != "x1" || len(got["data"].([]any)) != 1 {
				t.Errorf("%s = %v", list, got)
			}
			if last := w.requests[len(w.requests)-1]; last != "GET @team /v1/fine_tuning/jobs/ftjob-1/"+list+"?after=x0&limit=1" {
				t.Errorf("request %q", last)
			}
		}
	})
}
