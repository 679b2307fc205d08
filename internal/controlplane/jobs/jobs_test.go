package jobs_test

import (
	"strings"
	"testing"

	"modelgate/internal/controlplane/jobs"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// newBench returns a bench with three jobs of the first workspace and one of another
// organisation. queued counts the calls of Routes.Queued.
func newBench(t *testing.T) (b *routetest.Bench, queued *int) {
	t.Helper()
	queued = new(int)
	b = routetest.New(t, func(a *route.API) { jobs.Routes{Queued: func() { *queued++ }}.Add(a) })
	for _, j := range []store.Job{
		{ID: "1", Kind: "export", Workspace: store.DefaultWorkspace, State: store.JobQueued},
		{ID: "2", Kind: "export", Workspace: store.DefaultWorkspace, State: store.JobRunning, Node: "a", Token: 1, Tries: 1},
		{ID: "3", Kind: "other", State: store.JobDead, Tries: 5, Failure: "it failed"},
		{ID: "4", Kind: "export", State: store.JobQueued, Organisation: "another"},
	} {
		if j.Organisation == "" {
			j.Organisation = store.DefaultOrganisation
		}
		b.Exec(`INSERT INTO jobs (id, kind, subject_id, organisation_id, workspace_id, state, node, token, renewals, tries, failure, progress, next_at, created_at)
			VALUES ($1, $2, $1, $3, $4, $5, $6, $7, 0, $8, $9, 0, 0, 0)`, j.ID, j.Kind, j.Organisation, j.Workspace, j.State, j.Node, j.Token, j.Tries, j.Failure)
	}
	return b, queued
}

func ids(c *routetest.Caller, query string) string {
	var list struct{ Data []struct{ ID string } }
	c.Must("GET", "/admin/jobs"+query, "", &list)
	var all []string
	for _, j := range list.Data {
		all = append(all, j.ID)
	}
	return strings.Join(all, " ")
}

func TestJobsAreListedByKindStateAndWorkspace(t *testing.T) {
	b, _ := newBench(t)
	root := b.Root()
	for query, want := range map[string]string{
		"": "3 2 1", "?kind=export": "2 1", "?state=dead": "3", "?kind=export&state=queued": "1", "?workspace_id=default": "2 1",
		"?page_size=1&current_page=1": "2", "?kind=none": "",
	} {
		if got := ids(root, query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	own := b.As(access.Identity{KeyID: "k", Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService), Workspace: store.DefaultWorkspace})
	if got := ids(own, ""); got != "2 1" {
		t.Errorf("a key of the workspace sees %q", got)
	}
	for _, id := range []string{"3", "4", "none"} {
		if a := own.Call("GET", "/admin/jobs/"+id, ""); a.Status != 404 {
			t.Errorf("a key of the workspace reads %s: %d %s", id, a.Status, a.Body)
		}
	}
	var j struct {
		State     string
		Tries     int
		Error     string  `json:"last_error"`
		Workspace *string `json:"workspace_id"`
		Object    string
	}
	root.Must("GET", "/admin/jobs/3", "", &j)
	if j.State != store.JobDead || j.Tries != 5 || j.Error != "it failed" || j.Workspace != nil || j.Object != "job" {
		t.Errorf("%+v", j)
	}
}

func TestJobsAreCancelledAndRetried(t *testing.T) {
	b, queued := newBench(t)
	root := b.Root()
	for _, tt := range []struct {
		path   string
		status int
		state  string // afterwards
	}{
		{"1/cancel", 200, store.JobCancelled},
		{"1/cancel", 409, store.JobCancelled},
		{"1/retry", 409, store.JobCancelled},
		{"2/retry", 409, store.JobRunning},
		{"2/cancel", 200, store.JobCancelled},
		{"3/cancel", 409, store.JobDead},
		{"3/retry", 200, store.JobQueued},
		{"4/cancel", 404, ""},
	} {
		a := root.Call("POST", "/admin/jobs/"+tt.path, "")
		if a.Status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.path, a.Status, a.Body, tt.status)
		}
		id, _, _ := strings.Cut(tt.path, "/")
		if j, err := b.DB.Job(t.Context(), id); err != nil || tt.state != "" && j.State != tt.state {
			t.Errorf("%s: then %+v, %v", tt.path, j, err)
		}
	}
	if j, err := b.DB.Job(t.Context(), "3"); err != nil || j.Tries != 0 || *queued != 1 {
		t.Errorf("after the retry: %+v, %v; %d notifications", j, err, *queued)
	}
	if j, err := b.DB.Job(t.Context(), "4"); err != nil || j.State != store.JobQueued {
		t.Errorf("another organisation's job: %+v, %v", j, err)
	}
}
