package tuning

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// world is a gateway with a store, and providers that are scripted.
type world struct {
	t        *testing.T
	deps     *kept.Deps
	now      time.Time
	targets  map[string]*provider.Target // by workspace and slug
	respond  func(r *http.Request, body string) (status int, response string)
	unsent   bool     // requests are refused by the gateway
	broken   bool     // responses end early
	requests []string // method, provider, path and query
	bodies   []string
	log      *strings.Builder
}

func newWorld(t *testing.T, db *store.DB) *world {
	w := &world{t: t, now: time.Unix(1_800_000_000, 0), targets: map[string]*provider.Target{}, log: new(strings.Builder)}
	n := 0
	w.deps = &kept.Deps{
		DB: db, Logger: slog.New(slog.NewTextHandler(w.log, nil)), Now: func() time.Time { return w.now },
		NewID: func() string { n++; return fmt.Sprintf("%08d", n) }, Queued: func() {},
		Managed: func(workspace, slug string) (*provider.Target, string, bool) {
			target, ok := w.targets[workspace+"/"+slug]
			return target, "integration-" + slug, ok
		},
	}
	w.add("w1", "team", "openai", nil)
	w.add("w2", "team", "openai", nil)
	w.respond = openAI
	return w
}

func (w *world) add(workspace, slug, id string, options map[string]string) {
	w.t.Helper()
	spec, ok := table.Lookup(id)
	if !ok {
		w.t.Fatalf("there is no provider %s", id)
	}
	target, err := provider.NewTarget(spec, provider.Settings{Slug: slug, Options: options})
	if err != nil {
		w.t.Fatal(err)
	}
	w.targets[workspace+"/"+slug] = target
}

// openAI responds as OpenAI does for a job that runs.
func openAI(r *http.Request, _ string) (int, string) {
	switch {
	case r.Method == "POST" && r.URL.Path == "/v1/fine_tuning/jobs":
		return 200, job("queued")
	case strings.HasPrefix(r.URL.Path, "/v1/fine_tuning/jobs/ftjob-1"):
		return 200, job("running")
	}
	return 404, `{"error":{"message":"no such job"}}`
}

func job(status string) string {
	return fmt.Sprintf(`{"id":"ftjob-1","object":"fine_tuning.job","status":%q,"model":"gpt-4o-mini-2024","training_file":"file-there","created_at":5}`, status)
}

func (w *world) ask(out http.ResponseWriter, r *http.Request, service string) dataplane.CallResult {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if r.URL.RequestURI() != r.RequestURI {
		w.t.Errorf("the address is %s, and the line of the request %s", r.URL, r.RequestURI)
	}
	w.requests = append(w.requests, r.Method+" "+r.Header.Get("X-Gateway-Provider")+" "+service+r.RequestURI)
	w.bodies = append(w.bodies, string(body))
	if w.unsent {
		out.WriteHeader(503)
		io.WriteString(out, `{"error":{"message":"limit of the gateway"}}`)
		return dataplane.CallResult{Status: 503}
	}
	status, response := w.respond(r, string(body))
	out.WriteHeader(status)
	io.WriteString(out, response)
	return dataplane.CallResult{Status: status, Sent: true, Broken: w.broken}
}

// request serves a request of workspace w1, or of the workspace in the context of name.
func (w *world) request(workspace, method, path, body string, named ...string) (int, map[string]any, error) {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, "/v1"+path, strings.NewReader(body))
	out := httptest.NewRecorder()
	k := &dataplane.KeptRequest{Identity: &access.Identity{KeyID: "k", Organisation: "o", Workspace: workspace}, Path: r.URL.Path[len("/v1"):], Time: w.now}
	if len(named) > 0 {
		k.Provider = named[0]
	}
	q := &kept.Request{Deps: w.deps, From: k, HTTP: r, W: out}
	err := serve(&handler{q: q, ask: w.ask})
	var answer map[string]any
	if err == nil {
		if decoding := json.Unmarshal(out.Body.Bytes(), &answer); decoding != nil {
			w.t.Fatalf("%s %s: %q: %v", method, path, out.Body, decoding)
		}
	}
	return out.Code, answer, err
}

func (w *world) must(method, path, body string, named ...string) map[string]any {
	w.t.Helper()
	_, answer, err := w.request("w1", method, path, body, named...)
	if err != nil {
		w.t.Fatalf("%s %s: %v; requests %q", method, path, err, w.requests)
	}
	return answer
}

func (w *world) refused(what string, kind apierr.Kind, param, word string, err error) {
	w.t.Helper()
	e := apierr.From(err)
	if e == nil || e.Kind != kind || e.Param != param || !strings.Contains(e.Message, word) {
		w.t.Errorf("%s: %v, want kind %d, parameter %q and %q", what, err, kind, param, word)
	}
}

// addFile adds the record of a file at a provider, or of one that the gateway keeps.
func (w *world) addFile(workspace, id, there, at, label string) {
	w.t.Helper()
	o := store.Object{ID: id, Kind: store.ObjectFile, Organisation: "o", Workspace: workspace, ProviderID: there, Provider: at, Label: label,
		CreatedAt: w.now, UpdatedAt: w.now}
	if err := w.deps.DB.Transact(w.t.Context(), func(tx *store.Tx) error { return tx.AddObject(w.t.Context(), o) }); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) objects(workspace, kind string) []store.Object {
	w.t.Helper()
	list, _, err := w.deps.DB.Objects(w.t.Context(), store.ObjectQuery{Workspace: workspace, Kind: kind, Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// withFiles runs a test on both databases, with a file for fine-tuning in each workspace.
func withFiles(t *testing.T, f func(t *testing.T, w *world)) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := newWorld(t, open())
		w.addFile("w1", "gw_file_1", "file-there", "@team", "fine-tune")
		w.addFile("w2", "gw_file_2", "file-other", "@team", "fine-tune")
		f(t, w)
	})
}

const input = `{"model":"gpt-4o-mini","training_file":"gw_file_1","suffix":"mine","method":{"type":"supervised"},"metadata":{"a":"b"}}`

func TestJobsLiveWithTheGatewayKeyOnly(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		made := w.must("POST", root, input)
		if made["id"] != "ftjob-1" || made["status"] != "queued" || made["training_file"] != "gw_file_1" || made["model"] != "gpt-4o-mini" {
			t.Errorf("created %v", made)
		}
		own := w.objects("w1", store.ObjectTuningJob)[0].ID
		if !strings.Contains(w.bodies[0], `"training_file":"file-there"`) || !strings.Contains(w.bodies[0], own) {
			t.Errorf("the provider got %s, want its own id of the file and the id of the record %s", w.bodies[0], own)
		}
		for _, id := range []string{"ftjob-1", own} {
			got := w.must("GET", root+"/"+id, "")
			if got["status"] != "running" || got["id"] != "ftjob-1" || got["training_file"] != "gw_file_1" || got["metadata"].(map[string]any)["a"] != "b" {
				t.Errorf("GET %s = %v", id, got)
			}
		}
		if got := w.must("POST", root+"/ftjob-1/pause", ""); got["status"] != "running" {
			t.Errorf("pause = %v", got)
		}
		w.respond = func(r *http.Request, _ string) (int, string) {
			if strings.HasSuffix(r.URL.Path, "/cancel") {
				w.respond = func(*http.Request, string) (int, string) { return 200, job("cancelled") }
			}
			return 200, job("running")
		}
		if got := w.must("POST", root+"/ftjob-1/cancel", ""); got["status"] != "cancelled" || got["finished_at"] != nil {
			t.Errorf("cancel = %v", got)
		}
		_, _, err := w.request("w1", "POST", root+"/ftjob-1/cancel", "")
		w.refused("cancel of an ended job", apierr.Invalid, "", "ended", err)
		if o := w.objects("w1", store.ObjectTuningJob)[0]; o.State != "cancelled" || !o.EndedAt.Equal(w.now) || o.Label != "gpt-4o-mini" || o.Integration != "integration-team" {
			t.Errorf("the record is %+v", o)
		}
	})
}

// The body is the same for a job of another workspace and for one that does not exist.
func TestJobsOfOtherWorkspacesDoNotExist(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.must("POST", root, input)
		own := w.objects("w1", store.ObjectTuningJob)[0].ID
		sent := len(w.requests)
		var bodies []string
		for _, id := range []string{"ftjob-1", own, "ftjob-unknown"} {
			for _, action := range []string{"GET ", "POST /cancel", "POST /pause", "POST /resume", "GET /events", "GET /checkpoints"} {
				method, path, _ := strings.Cut(action, " ")
				_, _, err := w.request("w2", method, root+"/"+id+path, "")
				if e := apierr.From(err); e == nil || e.Kind != apierr.NotFound {
					t.Errorf("%s %s: %v, want not found", action, id, err)
				} else {
					bodies = append(bodies, string(e.Body()))
				}
			}
		}
		for _, body := range bodies {
			if body != bodies[0] {
				t.Errorf("bodies differ: %s and %s", body, bodies[0])
			}
		}
		_, list, err := w.request("w2", "GET", root, "")
		if err != nil || len(list["data"].([]any)) != 0 || len(w.requests) != sent || len(bodies) != 18 {
			t.Errorf("list = %v, %v; requests %q", list, err, w.requests[sent:])
		}
		_, _, err = w.request("w2", "POST", root, input)
		w.refused("a file of another workspace", apierr.NotFound, "training_file", "file", err)
		if len(w.requests) != sent || len(w.objects("w2", store.ObjectTuningJob)) != 0 {
			t.Errorf("requests %q", w.requests[sent:])
		}
	})
}

func TestFilesMustBeAtTheProviderOfTheJob(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "file:"+t.TempDir()+"/db"))
	w.add("w1", "other", "openai", nil)
	w.add("w1", "own", "cohere", nil)
	w.addFile("w1", "gw_file_1", "file-there", "@team", "fine-tune")
	w.addFile("w1", "gw_file_2", "", "", "fine-tune")
	w.addFile("w1", "gw_file_3", "file-batch", "@team", "batch")
	w.addFile("w1", "gw_file_4", "file-other", "@other", "fine-tune")
	for _, tt := range []struct{ name, body, at, param, word string }{
		{"another provider", `"training_file":"gw_file_1"`, "@other", "training_file", "@team"},
		{"two providers", `"training_file":"gw_file_1","validation_file":"gw_file_4"`, "", "validation_file", "@other"},
		{"of the gateway", `"training_file":"gw_file_2"`, "", "training_file", "x-gateway-provider"},
		{"not copied", `"training_file":"gw_file_2"`, "@own", "training_file", "@own"},
		{"purpose", `"training_file":"gw_file_3"`, "@team", "training_file", "fine-tune"},
		{"two names", `"model":"@other/m","training_file":"gw_file_1"`, "@team", "model", "@other"},
	} {
		body := `{"model":"m",` + tt.body + `}`
		if strings.Contains(tt.body, `"model"`) {
			body = `{` + tt.body + `}`
		}
		_, _, err := w.request("w1", "POST", root, body, tt.at)
		w.refused(tt.name, apierr.Invalid, tt.param, tt.word, err)
	}
	_, _, err := w.request("w1", "POST", root, `{"model":"m","training_file":"unknown"}`, "@team")
	w.refused("unknown", apierr.NotFound, "training_file", "no file", err)
	if len(w.requests) > 0 || len(w.objects("w1", store.ObjectTuningJob)) > 0 {
		t.Errorf("requests %q were sent", w.requests)
	}

	w.deps.Limits.Unrecorded = true
	w.must("POST", root, `{"model":"@other/m","training_file":"unknown"}`)
	if w.requests[0] != "POST @other /v1/fine_tuning/jobs" || !strings.Contains(w.bodies[0], `"model":"m","training_file":"unknown"`) {
		t.Errorf("request %q with %s", w.requests[0], w.bodies[0])
	}
	_, _, err = w.request("w1", "POST", root, `{"model":"m","training_file":"unknown"}`)
	w.refused("no provider", apierr.Invalid, "x-gateway-provider", "@slug/model", err)
}

func TestProvidersWithoutJobsAreRefusedByName(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "file:"+t.TempDir()+"/db"))
	w.deps.Limits.Unrecorded = true
	w.add("w1", "fast", "groq", nil)
	body := `{"model":"m","training_file":"f"}`
	_, _, err := w.request("w1", "POST", root, body, "@fast")
	w.refused("groq", apierr.Unsupported, "", "openai, together-ai, vertex-ai", err)
	_, _, err = w.request("w1", "POST", root, body, "@gone")
	w.refused("removed", apierr.Conflict, "", "removed", err)
	w.add("w1", "mist", "mistral-ai", nil)
	_, _, err = w.request("w1", "POST", root, `{"model":"m","training_file":"f","seed":1}`, "@mist")
	w.refused("mistral", apierr.Invalid, "seed", "mistral-ai", err)
	if len(w.requests) > 0 || len(w.objects("w1", store.ObjectTuningJob)) > 0 {
		t.Errorf("requests %q, records %v", w.requests, w.objects("w1", store.ObjectTuningJob))
	}
}

func TestRemovedProvidersConflict(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.must("POST", root, input)
		delete(w.targets, "w1/team")
		for _, path := range []string{"", "/events", "/checkpoints"} {
			_, _, err := w.request("w1", "GET", root+"/ftjob-1"+path, "")
			w.refused(path, apierr.Conflict, "", "@team", err)
		}
		if list := w.must("GET", root, ""); len(list["data"].([]any)) != 1 {
			t.Errorf("list = %v", list)
		}
	})
}

func TestBadPagesAreRefused(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		w.must("POST", root, input)
		sent := len(w.requests)
		for _, path := range []string{"", "/ftjob-1/events", "/ftjob-1/checkpoints"} {
			for _, limit := range []string{"x", "0", "101", "1.5", "", "-1"} {
				_, _, err := w.request("w1", "GET", root+path+"?limit="+limit, "")
				w.refused(path+" with limit "+limit, apierr.Invalid, "limit", "limit", err)
			}
		}
		_, _, err := w.request("w1", "GET", root+"?metadata[a]=b", "")
		w.refused("filter", apierr.Invalid, "metadata", "metadata", err)
		_, _, err = w.request("w1", "GET", root+"?after=unknown", "")
		w.refused("cursor", apierr.NotFound, "after", "", err)
		if len(w.requests) != sent {
			t.Errorf("requests %q were sent", w.requests[sent:])
		}
	})
}

func TestUnknownRoutesAreNotFound(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "file:"+t.TempDir()+"/db"))
	for _, route := range []string{"DELETE " + root, "DELETE " + root + "/x", "GET " + root + "/x/cancel", "POST " + root + "/x/events", "GET " + root + "/x/y/z", "POST " + root + "/x"} {
		method, path, _ := strings.Cut(route, " ")
		_, _, err := w.request("w1", method, path, "")
		w.refused(route, apierr.NotFound, "", "is not a route", err)
	}
}
