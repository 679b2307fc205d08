package toolservers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
	"modelgate/internal/testing/waittest"
)

// TestServersAreReadByThemselves creates a server, changes what it offers and what it is, breaks it
// and deletes it, while time passes.
func TestServersAreReadByThemselves(t *testing.T) {
	w := newWorld(t)
	asked, now := 0, time.Now()
	sync := &toolservers.Sync{DB: w.DB, Logger: w.Logger, Now: func() time.Time { return now },
		Probe: func(context.Context, *toolserver.Server) (*toolserver.Found, error) {
			asked++
			return w.found()
		}}
	runner := jobs.New(jobs.Options{DB: w.DB, Node: "n", Kinds: []jobs.Kind{sync.Kind()}, Now: sync.Now})
	pass := func(d time.Duration, want int) {
		t.Helper()
		now, asked = now.Add(d), 0
		if runner.RunDue(t.Context()); asked != want {
			t.Errorf("the server is asked %d times, want %d", asked, want)
		}
	}
	w.integration("tracker", "")
	id := w.server("issues", "tracker")
	state := func(name string) string { return w.capabilities("/mcp-servers/" + id)[name].State }

	w.offers(map[string]string{"search": `{"name":"search"}`})
	pass(time.Second, 1)
	if got := state("search"); got != "unchanged" {
		t.Errorf("the first reading: %q, want unchanged", got)
	}
	w.offers(map[string]string{"search": `{"name":"search","description":"other"}`})
	pass(time.Hour, 0)
	pass(24*time.Hour, 1)
	if got := state("search"); got != "changed" {
		t.Errorf("a day later: %q, want changed", got)
	}

	w.root.Must("PUT", "/mcp-integrations/tracker", `{"url":"https://other.example.com/mcp"}`, nil)
	pass(time.Minute, 1)
	w.found = func() (*toolserver.Found, error) { return nil, errors.New("it is down") }
	w.root.Must("PUT", "/mcp-servers/"+id, `{"name":"Issues"}`, nil)
	pass(time.Minute, 1)
	var m struct {
		Status string `json:"sync_status"`
		Error  string `json:"sync_error"`
	}
	if w.root.Must("GET", "/mcp-servers/"+id+"/metadata", "", &m); m.Status != "failed" || !strings.Contains(m.Error, "it is down") || state("search") != "changed" {
		t.Errorf("a failed reading: %+v, search is %q", m, state("search"))
	}
	pass(10*time.Minute, 1) // tries again soon

	w.root.Must("PUT", "/mcp-servers/"+id, `{"status":"disabled"}`, nil)
	pass(24*time.Hour, 0)
	w.root.Must("PUT", "/mcp-servers/"+id, `{"status":"active"}`, nil)
	pass(time.Minute, 1)
	w.root.Must("PUT", "/mcp-integrations/tracker/workspaces", `{"global_workspace_access":{"enabled":false}}`, nil)
	pass(24*time.Hour, 0)
	w.root.Must("DELETE", "/mcp-servers/"+id, "", nil)
	pass(48*time.Hour, 0)
	if n := runner.RunDue(t.Context()); n != 0 {
		t.Errorf("%d jobs of a server that is gone", n)
	}
}

// TestSlowServersDelayOnlyTheirOrganisation has an organisation with more slow servers than a node
// reads at a time, and another one with a server that is due after all of them.
func TestSlowServersDelayOnlyTheirOrganisation(t *testing.T) {
	const slow, atOnce = 40, 4
	w := newWorld(t)
	w.integration("tracker", "")
	w.offers(map[string]string{"search": `{"name":"search"}`})
	first, err := w.DB.ToolServerByID(t.Context(), w.server("issues", "tracker"))
	if err != nil {
		t.Fatal(err)
	}
	integration, err := w.DB.ToolIntegration(t.Context(), first.Organisation, first.Integration)
	if err != nil {
		t.Fatal(err)
	}
	add := func(n int, organisation, workspace, integration string) {
		t.Helper()
		s := first
		s.ID, s.Slug = fmt.Sprintf("server-%02d", n), fmt.Sprintf("server-%02d", n)
		s.Organisation, s.Workspace, s.Integration = organisation, workspace, integration
		if err := w.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
			at := first.CreatedAt.Add(time.Duration(n))
			return errors.Join(tx.CreateToolServer(t.Context(), s), tx.AddJob(t.Context(), store.Job{ID: s.ID, Kind: store.JobToolSync,
				Subject: s.ID, Organisation: organisation, Workspace: s.Workspace, NextAt: at, CreatedAt: at}))
		}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range slow - 1 { // and the first one
		add(n, first.Organisation, first.Workspace, integration.ID)
	}
	other := integration
	other.ID, other.Organisation = "of-the-other", "other"
	if err := w.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		at := first.CreatedAt
		return errors.Join(tx.CreateOrganisation(t.Context(), store.Organisation{ID: "other", Slug: "other", Name: "Other", Status: store.Active, CreatedAt: at, UpdatedAt: at},
			store.Workspace{ID: "home", Slug: "home", Name: "Home", Status: store.Active, CreatedAt: at, UpdatedAt: at},
			store.PromptCollection{ID: "folder", Slug: "home-default", CreatedAt: at}), tx.CreateToolIntegration(t.Context(), other))
	}); err != nil {
		t.Fatal(err)
	}
	add(slow, other.Organisation, "home", other.ID)

	asked, goOn := make(chan string, slow+1), make(chan bool)
	var running, most atomic.Int32
	sync := &toolservers.Sync{DB: w.DB, Logger: w.Logger, Now: time.Now, Probe: func(ctx context.Context, s *toolserver.Server) (*toolserver.Found, error) {
		if s.Organisation == other.Organisation {
			asked <- s.ID
			return w.found()
		}
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		asked <- s.ID
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return w.found()
	}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	runner := jobs.New(jobs.Options{DB: w.DB, Node: "n", Kinds: []jobs.Kind{sync.Kind()}})
	ended := make(chan bool)
	go func() { runner.Run(ctx); close(ended) }()
	seen := map[string]bool{}
	for range atOnce + 1 {
		seen[waittest.Receive(t, asked, "a server is asked while the slow ones do not answer")] = true
	}
	if !seen[fmt.Sprintf("server-%02d", slow)] || len(seen) != atOnce+1 {
		t.Errorf("asked at first: %v, want %d of the slow ones and that of the other organisation", seen, atOnce)
	}
	close(goOn)
	for range slow - atOnce {
		seen[waittest.Receive(t, asked, "the slow ones are asked in turn")] = true
	}
	if len(seen) != slow+1 || most.Load() != atOnce {
		t.Errorf("%d servers were asked, %d at a time; want %d, %d at a time", len(seen), most.Load(), slow+1, atOnce)
	}
	stop()
	waittest.Receive(t, ended, "the runner ends")
}
