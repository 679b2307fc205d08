package integrations_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/routetest"
)

type grants struct {
	Total      int
	Workspaces []struct {
		ID          string
		Enabled     bool
		Status      string
		UsageLimits []map[string]any `json:"usage_limits"`
		RateLimits  []map[string]any `json:"rate_limits"`
	}
	Global struct {
		Enabled     bool
		UsageLimits []map[string]any `json:"usage_limits"`
	} `json:"global_workspace_access"`
}

// three returns a caller, an integration that no workspace has, and the ids of
// two workspaces next to the default one.
func three(t *testing.T) (b *routetest.Bench, c *routetest.Caller, path, one, two string) {
	t.Helper()
	b = bench(t)
	one, two = workspace(t, b, "1one"), workspace(t, b, "2two")
	c = b.Root()
	create(t, c, `,"slug":"main","create_default_provider":false`)
	return b, c, "/integrations/main/workspaces", one, two
}

// has lists which workspaces may use the integration, as digits: 0 is the
// default one.
func has(t *testing.T, c *routetest.Caller, path string) string {
	t.Helper()
	var g grants
	c.Must("GET", path, "", &g)
	var out strings.Builder
	for _, w := range g.Workspaces {
		if w.Enabled {
			out.WriteString(w.ID[len(w.ID)-2 : len(w.ID)-1])
		}
	}
	return out.String()
}

func TestWorkspacesAreGivenAnIntegrationInBulk(t *testing.T) {
	_, c, path, one, two := three(t)
	c.Must("PUT", path, `{"default_provider_slug":"all","workspaces":[
		{"id":"`+one+`","enabled":true,"default_provider_slug":"own"},
		{"id":"2two","enabled":true,"usage_limits":[{"credit_limit":10}]},
		{"id":"default","enabled":true,"create_default_provider":false}]}`, nil)
	if got := slugs(t, c, one) + "|" + slugs(t, c, two) + "|" + slugs(t, c, "default"); got != "own|all|" {
		t.Errorf("providers %q", got)
	}
	var g grants
	c.Must("GET", path, "", &g)
	if g.Total != 3 || len(g.Workspaces) != 3 || g.Global.Enabled {
		t.Fatalf("%+v", g)
	}
	last := g.Workspaces[2]
	if last.ID != two || last.Status != "active" || last.UsageLimits[0]["credit_limit"] != 10.0 || len(last.RateLimits) != 0 {
		t.Errorf("limits %+v", last)
	}
	c.Must("PUT", path, `{"create_default_provider":false,"workspaces":[{"id":"2two","enabled":false}]}`, nil)
	if got := read(t, c, "main").Workspaces; got != 2 {
		t.Errorf("%d workspaces have it, want 2", got)
	}
	c.Must("GET", path, "", &g)
	if g.Workspaces[2].UsageLimits[0]["credit_limit"] != 10.0 {
		t.Errorf("what was not said changed: %+v", g.Workspaces[2])
	}
	c.Must("PUT", path, `{"workspaces":[{"id":"2two","enabled":true,"usage_limits":null,"rate_limits":[]}]}`, nil)
	if c.Must("GET", path, "", &g); len(g.Workspaces[2].UsageLimits)+len(g.Workspaces[2].RateLimits) != 0 {
		t.Errorf("limits are left: %+v", g.Workspaces[2])
	}
}

func TestAWordOfAWorkspaceBeatsTheOneForAll(t *testing.T) {
	_, c, path, one, two := three(t)
	c.Must("PUT", path, `{"create_default_provider":false,"workspaces":[{"id":"`+one+`","enabled":true},{"id":"`+two+`","enabled":true,"create_default_provider":true}]}`, nil)
	if got := slugs(t, c, one) + "|" + slugs(t, c, two); got != "|main" {
		t.Errorf("providers %q", got)
	}
}

func TestASecondGrantMakesNoSecondProvider(t *testing.T) {
	_, c, path, one, _ := three(t)
	for _, enabled := range []string{"true", "true", "false", "true"} {
		c.Must("PUT", path, `{"workspaces":[{"id":"`+one+`","enabled":`+enabled+`,"default_provider_slug":"p"}]}`, nil)
	}
	if got := slugs(t, c, one); got != "p" {
		t.Errorf("providers %q", got)
	}
	c.Must("DELETE", "/providers/p?workspace_id="+one, "", nil)
	c.Must("PUT", path, `{"workspaces":[{"id":"`+one+`","enabled":true}]}`, nil)
	if got := slugs(t, c, one); got != "" {
		t.Errorf("a provider that was deleted is back: %q", got)
	}
}

func TestTheGlobalSettingIsForAllWorkspacesAndThoseToCome(t *testing.T) {
	b, c, path, one, two := three(t)
	c.Must("PUT", path, `{"workspaces":[{"id":"`+one+`","enabled":false}]}`, nil)
	c.Must("PUT", path, `{"global_workspace_access":{"enabled":true,"usage_limits":[{"credit_limit":7}]}}`, nil)
	if got := has(t, c, path); got != "02" {
		t.Errorf("with the global setting %q have it", got)
	}
	if got := slugs(t, c, one) + "|" + slugs(t, c, two) + "|" + slugs(t, c, "default"); got != "|main|main" {
		t.Errorf("providers %q", got)
	}
	c.Must("PUT", path, `{"workspaces":[],"override_existing_workspace_access":true}`, nil)
	if got := has(t, c, path); got != "012" || slugs(t, c, one) != "main" {
		t.Errorf("after a reset %q have it, providers %q", got, slugs(t, c, one))
	}
	later := workspace(t, b, "3three")
	if got := read(t, c, "main").Workspaces; got != 4 {
		t.Errorf("%d workspaces have it, want 4", got)
	}
	c.Must("POST", "/welcome/"+later, "", nil)
	c.Must("POST", "/welcome/"+later, "", nil)
	var g grants
	if c.Must("GET", path, "", &g); slugs(t, c, later) != "main" || g.Workspaces[3].UsageLimits[0]["credit_limit"] != 7.0 {
		t.Errorf("a new workspace has %q, %+v", slugs(t, c, later), g.Workspaces[3])
	}
	c.Must("PUT", path, `{"global_workspace_access":{"enabled":false},"override_existing_workspace_access":true,"workspaces":[{"id":"2two","enabled":true}]}`, nil)
	if got := has(t, c, path); got != "2" {
		t.Errorf("after taking it from all %q have it", got)
	}
}

func TestABulkThatIsWrongInOnePlaceChangesNothing(t *testing.T) {
	b, c, path, one, two := three(t)
	c.Must("POST", "/providers", `{"name":"x","integration_id":"`+create(t, c, `,"slug":"second"`).ID+`","slug":"taken"}`, nil)
	changes := b.Changes()
	good := `{"id":"` + one + `","enabled":true}`
	for body, want := range map[string]struct {
		status int
		code   string
	}{
		`{}`:                {400, "AB01"},
		`{"workspaces":[]}`: {400, "AB01"},
		`{"workspaces":[],"global_workspace_access":{"enabled":true}}`:                                          {400, "AB01"},
		`{"workspaces":[` + good + `,` + good + `]}`:                                                            {400, "AB01"},
		`{"workspaces":[` + good + `,{"id":"1one","enabled":false}]}`:                                           {400, "AB01"},
		`{"workspaces":[` + good + `,{"id":"nowhere","enabled":true}]}`:                                         {404, "AB02"},
		`{"workspaces":[` + good + `,{"id":"` + two + `"}]}`:                                                    {400, "AB01"},
		`{"workspaces":[` + good + `,{"id":"` + two + `","enabled":"yes"}]}`:                                    {400, "AB01"},
		`{"workspaces":[` + good + `,{"id":"` + two + `","enabled":true,"usage_limits":[{"credit_limit":0}]}]}`: {400, "AB01"},
		`{"workspaces":[` + good + `,{"id":"` + two + `","enabled":true,"usage_limits":[{"credit_limit":1},{"credit_limit":2,"type":"cost","periodic_reset":"weekly"}]}]}`: {400, "AB01"},
		`{"workspaces":[` + good + `,{"id":"` + two + `","enabled":true,"rate_limits":[{"type":"requests","unit":"rps","value":1}]}]}`:                                     {400, "AB01"},
		`{"workspaces":[` + good + `,{"id":"` + two + `","enabled":true,"default_provider_slug":"a b"}]}`:                                                                  {400, "AB01"},
		`{"workspaces":[` + good + `,{"id":"default","enabled":true,"default_provider_slug":"taken"}]}`:                                                                    {400, "AB01"},
		`{"default_provider_slug":"taken","workspaces":[` + good + `,{"id":"default","enabled":true}]}`:                                                                    {400, "AB01"},
		`{"workspaces":[` + good + `,{"id":"` + two + `","enabled":true,"extra":1}]}`:                                                                                      {400, "AB01"},
	} {
		wantRefused(t, body, c.Call("PUT", path, body), want.status, want.code)
	}
	if b.Changes() != changes || has(t, c, path) != "" || slugs(t, c, one) != "" {
		t.Errorf("%d changes more; %q have it; providers %q", b.Changes()-changes, has(t, c, path), slugs(t, c, one))
	}
	b.Exec(`UPDATE workspaces SET status = 'archived' WHERE id = $1`, two)
	wantRefused(t, "an archived workspace", c.Call("PUT", path, `{"workspaces":[{"id":"`+two+`","enabled":true}]}`), 404, "AB02")
	own := create(t, c, `,"slug":"own","workspace_id":"`+one+`"`)
	wantRefused(t, "all workspaces for one's", c.Call("PUT", "/integrations/own/workspaces", `{"global_workspace_access":{"enabled":true}}`), 400, "AB01")
	wantRefused(t, "another workspace for one's", c.Call("PUT", "/integrations/"+own.ID+"/workspaces", `{"workspaces":[{"id":"`+two+`","enabled":true}]}`), 404, "AB02")
}

func TestGrantsAtTheSameTimeMakeOneProvider(t *testing.T) {
	_, c, path, one, two := three(t)
	var wait sync.WaitGroup
	failed := make(chan string, 16)
	for range 16 {
		wait.Go(func() {
			a := c.Call("PUT", path, `{"workspaces":[{"id":"`+one+`","enabled":true},{"id":"`+two+`","enabled":true}]}`)
			if a.Status != 200 {
				failed <- fmt.Sprint(a.Status, a.Body)
			}
		})
	}
	wait.Wait()
	close(failed)
	for f := range failed {
		t.Error(f)
	}
	if got := slugs(t, c, one) + "|" + slugs(t, c, two); got != "main|main" {
		t.Errorf("providers %q", got)
	}
}

func TestAWorkspaceSeesNobodyElsesGrant(t *testing.T) {
	b, c, path, one, two := three(t)
	c.Must("PUT", path, `{"workspaces":[{"id":"`+one+`","enabled":true},{"id":"`+two+`","enabled":true}]}`, nil)
	var g grants
	member(b, one).Must("GET", path, "", &g)
	if g.Total != 1 || g.Workspaces[0].ID != one {
		t.Errorf("%+v", g)
	}
	if a := member(b, one).Call("GET", path+"?workspace_id="+two, ""); a.Status == 200 && strings.Contains(a.Body, two) {
		t.Errorf("asking for another's: %s", a.Body)
	}
}

func TestAWorkspaceThatIsExhaustedComesBack(t *testing.T) {
	b, c, path, one, _ := three(t)
	c.Must("PUT", path, `{"workspaces":[{"id":"`+one+`","enabled":true,"usage_limits":[{"credit_limit":10,"alert_threshold":5}]}]}`, nil)
	b.Exec(`INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) SELECT 'grant', integration_id || '/' || workspace_id, 1, 10000000000, 0, 0, 0 FROM integration_workspaces`)
	for body, want := range map[string]string{
		`"reset_usage":true`: "active 2026-05-01T12:00:00.000Z", `"usage_limits":[{"credit_limit":20}]`: "active <nil>", `"rate_limits":[]`: "exhausted <nil>",
	} {
		b.Exec(`UPDATE integration_workspaces SET status = 'exhausted', usage_limits = '[{"type":"cost","credit_limit":10,"base":0,"is_exhausted_alerts_sent":true}]'`)
		c.Must("PUT", path, `{"workspaces":[{"id":"`+one+`","enabled":true,`+body+`}]}`, nil)
		var g grants
		c.Must("GET", path, "", &g)
		w := g.Workspaces[0]
		if got := fmt.Sprint(w.Status, " ", w.UsageLimits[0]["last_reset_at"]); got != want || (w.UsageLimits[0]["is_exhausted_alerts_sent"] == true) != (w.Status == "exhausted") {
			t.Errorf("%s: %s, want %s: %v", body, got, want, w.UsageLimits)
		}
	}
}
