package exports_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/exports"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
	"modelgate/internal/testing/routetest"
)

// desk is a bench with a log, and a runner that makes exports when it is told to.
type desk struct {
	*routetest.Bench
	t      *testing.T
	logs   *logstore.Store
	files  blob.Folder
	runner *node
	writer *node // of the routes
	root   *routetest.Caller
}

// node makes exports and serves them.
type node struct {
	*exports.Runner
	jobs *jobs.Runner
}

// Next makes one export, and reports whether there was one.
func (n *node) Next(ctx context.Context) bool { return n.jobs.RunDue(ctx) > 0 }

// options are those of a node.
type options struct {
	exports.Options
	Hold, Poll time.Duration // between renewals of leases, and between looks for exports
}

// Link implements exports.Files.
func (d *desk) Link(ctx context.Context, e store.Export) (string, error) {
	return d.writer.Link(ctx, e)
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	logs, err := logstore.Open(t.Context(), logstore.Options{Path: filepath.Join(t.TempDir(), "logs.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logs.Close(context.Background()) })
	d := &desk{t: t, logs: logs, files: blob.Folder(filepath.Join(t.TempDir(), "files"))}
	d.Bench = routetest.New(t, func(a *route.API) {
		exports.Routes{Files: d, Started: func() { d.writer.jobs.Notify() }, GroupEntries: logs.Groups}.Add(a)
	})
	d.runner = d.node(func(*options) {})
	d.writer = d.runner
	d.root = d.Root()
	return d
}

// node returns a node as one of several would be, changed by f.
func (d *desk) node(f func(*options)) *node {
	o := options{Hold: time.Millisecond, Options: exports.Options{
		DB: d.DB, Files: d.files, Node: fmt.Sprintf("node-%p", &f), List: d.logs.List, Bodies: d.logs.ReadBodies, Flush: d.logs.Flush,
		Now: func() time.Time { return d.Clock },
	}}
	f(&o)
	r := exports.New(o.Options)
	k := r.Kind()
	k.Renew = o.Hold
	return &node{r, jobs.New(jobs.Options{DB: o.DB, Node: o.Node, Kinds: []jobs.Kind{k}, Poll: o.Poll, Now: o.Now})}
}

// record writes entries to the log, of the bench's own workspace and time unless
// they say otherwise.
func (d *desk) record(entries ...*reqlog.Entry) {
	d.t.Helper()
	for i, e := range entries {
		if e.Time.IsZero() {
			e.Time = d.Clock.Add(time.Duration(i-len(entries)) * time.Minute)
		}
		if e.ID == (reqlog.ID{}) {
			e.ID = reqlog.NewID(e.Time)
		}
		if e.Organisation == "" {
			e.Organisation, e.Workspace = store.DefaultOrganisation, store.DefaultWorkspace
		}
		d.logs.Record(d.t.Context(), e)
	}
	if err := d.logs.Flush(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

const lastDay = `"time_of_generation_min":"2026-04-30T12:00:00Z","time_of_generation_max":"2026-05-02T12:00:00Z"`

// createDraft returns the id of a draft of all fields in a format, with further
// filters.
func createDraft(c *routetest.Caller, format, filters string) string {
	names, _ := json.Marshal(exports.Fields())
	var out struct{ ID string }
	c.Must("POST", "/logs/exports", `{"workspace_id":"default","format":"`+format+`","requested_data":`+string(names)+`,"filters":{`+lastDay+filters+`}}`, &out)
	return out.ID
}

// item is the response about an export.
type item struct {
	Status, Format, Error   string
	Requested               []string `json:"requested_data"`
	Fields                  []string
	Total                   *int64
	Rows, Bytes             int64
	StartedAt, EndedAt      *time.Time
	ExpiresAt               *time.Time `json:"expires_at"`
	LastUpdatedAt, CreateBy string
}

func (d *desk) item(id string) (out item) {
	d.t.Helper()
	d.root.Must("GET", "/logs/exports/"+id, "", &out)
	return out
}

// download starts a draft, makes it and returns its file.
func (d *desk) download(c *routetest.Caller, id string) string {
	d.t.Helper()
	c.Must("POST", "/logs/exports/"+id+"/start", "", nil)
	if !d.runner.Next(d.t.Context()) {
		d.t.Fatal("there was nothing to make")
	}
	if got := d.item(id); got.Status != store.ExportDone {
		d.t.Fatalf("%+v", got)
	}
	return d.file(c, id)
}

// file reads the file of an export by a fresh link.
func (d *desk) file(c *routetest.Caller, id string) string {
	d.t.Helper()
	var link struct {
		URL string `json:"signed_url"`
	}
	c.Must("GET", "/logs/exports/"+id+"/download", "", &link)
	w := d.fetch("GET", link.URL)
	if w.Code != http.StatusOK {
		d.t.Fatalf("%s: %d %s", link.URL, w.Code, w.Body)
	}
	return w.Body.String()
}

func (d *desk) fetch(method, link string) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequest(method, link, nil)
	if !exports.IsFile(r.URL.Path) {
		d.t.Fatalf("%s is not the path of a file", link)
	}
	w := httptest.NewRecorder()
	d.runner.ServeHTTP(w, r)
	return w
}

func TestAnExportGoesFromDraftToFile(t *testing.T) {
	d := newDesk(t)
	d.record(&reqlog.Entry{Result: reqlog.Result{Status: 200}, Sender: reqlog.Sender{KeyID: "k"}}, &reqlog.Entry{Result: reqlog.Result{Status: 500}, Sender: reqlog.Sender{KeyID: "k"}})
	var out struct {
		ID     string
		Total  *int64
		Object string
	}
	d.root.Must("POST", "/logs/exports", `{"requested_data":["response_status_code","id","id"],"filters":{`+lastDay+`}}`, &out)
	if out.Total == nil || *out.Total != 2 || out.Object != "export" {
		t.Errorf("created: %+v", out)
	}
	got := d.item(out.ID)
	if got.Status != store.ExportDraft || got.Format != "jsonl" || !slices.Equal(got.Requested, []string{"id", "response_status_code"}) || got.StartedAt != nil {
		t.Errorf("draft: %+v", got)
	}
	d.root.Must("PUT", "/logs/exports/"+out.ID, `{"format":"csv","requested_data":["response_status_code"],"filters":{`+lastDay+`,"status_code":"500"}}`, &out)
	if out.Total == nil || *out.Total != 1 {
		t.Errorf("changed: %+v", out)
	}
	if d.runner.Next(t.Context()) {
		t.Error("a draft was made")
	}
	text := d.download(d.root, out.ID)
	if text != "response_status_code\r\n500\r\n" {
		t.Errorf("file: %q", text)
	}
	got = d.item(out.ID)
	if got.Rows != 1 || got.Bytes != int64(len(text)) || !slices.Equal(got.Fields, got.Requested) || got.ExpiresAt == nil || !got.ExpiresAt.Equal(d.Clock.AddDate(0, 0, 7)) {
		t.Errorf("made: %+v", got)
	}
	var list struct {
		Total int
		Data  []struct{ ID string }
	}
	d.root.Must("GET", "/logs/exports", "", &list)
	if list.Total != 1 || list.Data[0].ID != out.ID {
		t.Errorf("list: %+v", list)
	}
}

func TestActionsOfAnotherStateAreRefused(t *testing.T) {
	d := newDesk(t)
	states := map[string]string{store.ExportDraft: createDraft(d.root, "jsonl", "")}
	for _, s := range []string{store.ExportRunning, store.ExportDone, store.ExportFailed, store.ExportStopped, store.ExportExpired} {
		states[s] = createDraft(d.root, "jsonl", "")
		d.Exec(`UPDATE exports SET status = $1 WHERE id = $2`, s, states[s])
	}
	for _, tt := range []struct{ method, path, body, allowed string }{
		{"PUT", "", `{"format":"csv"}`, store.ExportDraft},
		{"POST", "/start", "", store.ExportDraft},
		{"POST", "/cancel", "", store.ExportRunning},
		{"GET", "/download", "", store.ExportDone},
	} {
		for state, id := range states {
			if state == tt.allowed {
				continue
			}
			a := d.root.Call(tt.method, "/logs/exports/"+id+tt.path, tt.body)
			if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "in the state "+state) {
				t.Errorf("%s %s of one in %s: %d %s", tt.method, tt.path, state, a.Status, a.Body)
			}
		}
	}
}

func TestMeaninglessFiltersAreNamed(t *testing.T) {
	d := newDesk(t)
	const ids = `"requested_data":["id"]`
	for _, tt := range []struct{ body, field string }{
		{`{` + ids + `}`, "filters"},
		{`{"filters":{` + lastDay + `}}`, "requested_data"},
		{`{"requested_data":[],"filters":{` + lastDay + `}}`, "requested_data"},
		{`{"requested_data":["password"],"filters":{` + lastDay + `}}`, "requested_data[0]"},
		{`{` + ids + `,"format":"xml","filters":{` + lastDay + `}}`, "format"},
		{`{` + ids + `,"filters":{"time_of_generation_max":"2026-05-01T00:00:00Z"}}`, "filters.time_of_generation_min"},
		{`{` + ids + `,"filters":{"time_of_generation_min":"yesterday","time_of_generation_max":"2026-05-01T00:00:00Z"}}`, "filters.time_of_generation_min"},
		{`{` + ids + `,"filters":{"time_of_generation_min":"2026-05-01T00:00:00Z","time_of_generation_max":"2026-05-01T00:00:00Z"}}`, "filters.time_of_generation_max"},
		{`{` + ids + `,"filters":{"time_of_generation_min":"2024-05-01T00:00:00Z","time_of_generation_max":"2026-05-01T00:00:00Z"}}`, "filters.time_of_generation_min"},
		{`{` + ids + `,"filters":{"time_of_generation_min":"0001-05-01T00:00:00Z","time_of_generation_max":"0001-05-02T00:00:00Z"}}`, "filters.time_of_generation_min"},
		{`{` + ids + `,"filters":{` + lastDay + `,"page_size":50001}}`, "filters.page_size"},
		{`{` + ids + `,"filters":{` + lastDay + `,"current_page":-1}}`, "filters.current_page"},
		{`{` + ids + `,"filters":{` + lastDay + `,"cost_min":-1}}`, "filters.cost_min"},
		{`{` + ids + `,"filters":{` + lastDay + `,"cost_max":"0.12345678"}}`, "filters.cost_max"},
		{`{` + ids + `,"filters":{` + lastDay + `,"cost_min":2,"cost_max":1}}`, "filters.cost_max"},
		{`{` + ids + `,"filters":{` + lastDay + `,"total_units_min":"many"}}`, "filters.total_units_min"},
		{`{` + ids + `,"filters":{` + lastDay + `,"prompt_token_min":2,"prompt_token_max":1}}`, "filters.prompt_token_max"},
		{`{` + ids + `,"filters":{` + lastDay + `,"status_code":"fine"}}`, "filters.status_code"},
		{`{` + ids + `,"filters":{` + lastDay + `,"status_code":[true]}}`, "filters.status_code"},
		{`{` + ids + `,"filters":{` + lastDay + `,"configs":","}}`, "filters.configs"},
		{`{` + ids + `,"filters":{` + lastDay + `,"api_key_ids":"` + strings.Repeat("a,", 101) + `"}}`, "filters.api_key_ids"},
		{`{` + ids + `,"filters":{` + lastDay + `,"ai_org_model":"gpt"}}`, "filters.ai_org_model"},
		{`{` + ids + `,"filters":{` + lastDay + `,"metadata":{"a":1}}}`, "filters.metadata"},
		{`{` + ids + `,"filters":{` + lastDay + `,"metadata":"[]"}}`, "filters.metadata"},
		{`{` + ids + `,"filters":{` + lastDay + `,"color":"red"}}`, "filters.color"},
		{`{` + ids + `,"filters":{` + lastDay + `,"weighted_feedback_min":11}}`, "filters.weighted_feedback_min"},
		{`{` + ids + `,"filters":{` + lastDay + `,"weighted_feedback_min":2,"weighted_feedback_max":1}}`, "filters.weighted_feedback_max"},
		{`{` + ids + `,"filters":{` + lastDay + `},"workspace_id":"default","more":1}`, "more"},
		{`{` + ids + `,"filters":{` + lastDay + `},"workspace_id":"nowhere"}`, "workspace_id"},
	} {
		a := d.root.Call("POST", "/logs/exports", tt.body)
		var said struct {
			Error struct{ Param, Code string }
		}
		if err := json.Unmarshal([]byte(a.Body), &said); err != nil || a.Status != 400 && a.Status != 404 || said.Error.Param != tt.field {
			t.Errorf("%s: %d, %q; want 400 naming %s: %s", tt.body, a.Status, said.Error.Param, tt.field, a.Body)
		}
	}
}

func TestFiltersChooseRows(t *testing.T) {
	d := newDesk(t)
	used := func(in, out int64) llm.Usage { return llm.Usage{Known: true, Input: in, Output: out} }
	d.record(
		&reqlog.Entry{Sender: reqlog.Sender{UserAgent: "a", KeyID: "k1"}, Result: reqlog.Result{Status: 200, Usage: used(10, 5)}, Origin: reqlog.Origin{Provider: "openai", Slug: "main"}, Input: reqlog.Input{Model: "gpt", Config: "c1", Metadata: map[string]string{"env": "dev"}}, Trace: reqlog.Trace{TraceID: "t1", SpanID: "s1"}, Charge: reqlog.Charge{Priced: true, Cost: 10_000_000}},
		&reqlog.Entry{Sender: reqlog.Sender{UserAgent: "b", KeyID: "k2"}, Result: reqlog.Result{Status: 429, Usage: used(20, 50)}, Origin: reqlog.Origin{Provider: "openai", Slug: "spare"}, Input: reqlog.Input{Model: "gpt", Config: "c2", Metadata: map[string]string{"env": "dev", "user": "1"}}, Trace: reqlog.Trace{TraceID: "t2"}, Charge: reqlog.Charge{Priced: true, Cost: 25_000_001}},
		&reqlog.Entry{Sender: reqlog.Sender{UserAgent: "c", KeyID: "k1"}, Result: reqlog.Result{Status: 503}, Origin: reqlog.Origin{Provider: "groq"}, Input: reqlog.Input{Model: "llama", Prompt: reqlog.Prompt{ID: "p", Slug: "greet", Version: 1}}},
		&reqlog.Entry{Sender: reqlog.Sender{UserAgent: "else", Organisation: store.DefaultOrganisation, Workspace: "another"}},
		&reqlog.Entry{Sender: reqlog.Sender{UserAgent: "else", Organisation: "other", Workspace: store.DefaultWorkspace}},
		&reqlog.Entry{Sender: reqlog.Sender{UserAgent: "old"}, Time: d.Clock.AddDate(0, 0, -5)},
	)
	for trace, value := range map[string]int{"t1": 5, "t2": -3} {
		f := logstore.Feedback{ID: reqlog.NewID(d.Clock), Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, TraceID: trace, Value: float64(value), Weight: 1, Created: d.Clock, Updated: d.Clock}
		if err := d.logs.AddFeedback(t.Context(), []logstore.Feedback{f}); err != nil {
			t.Fatal(err)
		}
	}
	names := make(map[string]string)
	page, err := d.logs.List(t.Context(), logstore.Query{From: d.Clock.AddDate(-1, 0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		names[e.ID.String()] = e.UserAgent
	}
	for _, tt := range []struct{ filters, want string }{
		{"", "cba"},
		{`"status_code":"200,503"`, "ca"},
		{`"status_code":[429]`, "b"},
		{`"status_code":429`, "b"},
		{`"virtual_keys":"@main, spare"`, "ba"},
		{`"configs":["c2"]`, "b"},
		{`"api_key_ids":"k1"`, "ca"},
		{`"api_key_ids":["k1","k2"]`, "cba"},
		{`"ai_org_model":"openai__gpt"`, "ba"},
		{`"ai_org_model":"openai__llama"`, ""},
		{`"prompt_slug":"greet"`, "c"},
		{`"metadata":{"env":"dev","user":"1"}`, "b"},
		{`"metadata":"{\"env\":\"dev\"}"`, "ba"},
		{`"trace_id":"t1"`, "a"},
		{`"span_id":"s1"`, "a"},
		{`"total_units_min":15,"total_units_max":15`, "a"},
		{`"prompt_token_min":11`, "b"},
		{`"completion_token_max":5`, "a"},
		{`"cost_min":1,"cost_max":"1.0"`, "a"},
		{`"cost_min":2.5000001`, "b"},
		{`"cost_min":"2.5000002"`, ""},
		{`"weighted_feedback_min":0`, "a"},
		{`"weighted_feedback_max":5`, "ba"},
		{`"page_size":2`, "cb"},
		{`"page_size":2,"current_page":1`, "a"},
		{`"page_size":1,"current_page":1,"virtual_keys":"main,spare"`, "a"},
		{`"page_size":2,"current_page":2`, ""},
		{`"workspace_slug":"default"`, "cba"},
	} {
		t.Run(tt.filters, func(t *testing.T) {
			filters := ""
			if tt.filters != "" {
				filters = "," + tt.filters
			}
			id, got := createDraft(d.root, "jsonl", filters), ""
			for line := range strings.Lines(d.download(d.root, id)) {
				var row struct{ ID string }
				if err := json.Unmarshal([]byte(line), &row); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				got += names[row.ID]
			}
			if total := d.item(id).Total; got != tt.want || total == nil || int(*total) != len(tt.want) {
				t.Errorf("rows %q, want %q; %v were expected", got, tt.want, total)
			}
		})
	}
}

func TestFieldsThatAreDeniedAreLeftOut(t *testing.T) {
	d := newDesk(t)
	d.record(&reqlog.Entry{Result: reqlog.Result{Status: 200}, Input: reqlog.Input{Metadata: map[string]string{"canary": "x"}}, Trace: reqlog.Trace{TraceID: "canary"}})
	before := createDraft(d.root, "jsonl", "")
	d.download(d.root, before)
	o, err := d.DB.Organisation(t.Context(), store.DefaultOrganisation)
	if err != nil {
		t.Fatal(err)
	}
	waiting := createDraft(d.root, "jsonl", "")
	o.Settings.DeniedFields = []string{"metadata", "trace_id", "unknown"}
	if err := d.DB.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.UpdateOrganisation(t.Context(), o) }); err != nil {
		t.Fatal(err)
	}
	if text := d.download(d.root, waiting); strings.Contains(text, "canary") || strings.Contains(text, "metadata") || !strings.Contains(text, `"id"`) {
		t.Errorf("file: %s", text)
	}
	if got := d.item(waiting); slices.Contains(got.Fields, "metadata") || !slices.Contains(got.Requested, "metadata") {
		t.Errorf("%+v", got)
	}
	if a := d.root.Call("GET", "/logs/exports/"+before+"/download", ""); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "metadata") {
		t.Errorf("a file that has what is denied since: %d %s", a.Status, a.Body)
	}
	if a := d.root.Call("POST", "/logs/exports", `{"requested_data":["metadata"],"filters":{`+lastDay+`}}`); a.Status != 400 || !strings.Contains(a.Body, `"requested_data"`) {
		t.Errorf("a draft of nothing: %d %s", a.Status, a.Body)
	}
	var said struct {
		Denied []string `json:"denied_fields"`
	}
	d.root.Must("GET", "/logs/exports/field-restrictions", "", &said)
	if !slices.Equal(said.Denied, o.Settings.DeniedFields) {
		t.Errorf("restrictions: %v", said.Denied)
	}
}

func TestEnumsOfTheRoutesAreTheFields(t *testing.T) {
	d := newDesk(t)
	doc, err := d.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	enum, _ := json.Marshal(exports.Fields())
	if n := strings.Count(string(doc), string(enum)); n != 3 {
		t.Errorf("the fields %s stand %d times in the description, want three times", enum, n)
	}
}

var _ exports.Files = (*exports.Runner)(nil)
