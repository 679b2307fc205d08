package toolservers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store/jobs"
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
