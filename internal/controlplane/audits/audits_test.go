package audits_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/audits"
	"modelgate/internal/controlplane/configs"
	"modelgate/internal/identity/access"
	"modelgate/internal/testing/routetest"
)

type auditList struct {
	Total   int
	Records []struct {
		Method, URI, Action, Timestamp, Object string
		RequestBody                            string `json:"request_body"`
		RequestHeaders                         string `json:"request_headers"`
		ResourceType                           string `json:"resource_type"`
		ResourceID                             string `json:"resource_id"`
		WorkspaceID                            string `json:"workspace_id"`
		UserType                               string `json:"user_type"`
		UserName                               string `json:"user_name"`
		Organisation                           string `json:"organisation_name"`
		Workspace                              string `json:"workspace_name"`
		Resource                               string `json:"resource_name"`
		Status                                 int    `json:"response_status_code"`
	}
}

const day = "start_time=2026-05-01T00:00:00Z&end_time=2026-05-02T00:00:00Z"

func read(t *testing.T, c *routetest.Caller, query string) auditList {
	t.Helper()
	var out auditList
	c.Must("GET", "/audit-logs?"+day+query, "", &out)
	return out
}

func TestActionsAndRefusalsAreAudited(t *testing.T) {
	b := routetest.New(t, configs.Add, audits.Add)
	root := b.Root()
	var saved struct{ Data struct{ ID string } }
	root.Must("POST", "/configs", `{"name":"a","config":{"provider":"openai","api_key":"sk-canary"}}`, &saved)
	b.Clock = b.Clock.Add(time.Minute)
	root.Call("PUT", "/configs/"+saved.Data.ID, `{"name":""}`)
	b.Clock = b.Clock.Add(time.Minute)
	reader := b.As(access.Identity{Type: access.WorkspaceUser, UserID: "u1", Scopes: []access.Scope{"configs.read"}})
	reader.Call("DELETE", "/configs/"+saved.Data.ID, "")
	root.Call("GET", "/configs", "") // reading is not kept

	all := read(t, root, "")
	if all.Total != 3 || len(all.Records) != 3 {
		t.Fatalf("%d records: %+v", all.Total, all.Records)
	}
	refused, invalid, made := all.Records[0], all.Records[1], all.Records[2]
	if refused.Method != "DELETE" || refused.Status != http.StatusForbidden || refused.UserType != "user" || refused.Action != "delete" {
		t.Errorf("the refused one: %+v", refused)
	}
	if invalid.Method != "PUT" || invalid.Status != http.StatusBadRequest || invalid.ResourceID != saved.Data.ID {
		t.Errorf("the invalid one: %+v", invalid)
	}
	if made.Status != http.StatusOK || made.ResourceType != "config" || made.ResourceID != saved.Data.ID || made.URI != "/v1/configs" ||
		made.Timestamp != "2026-05-01T12:00:00.000Z" || made.WorkspaceID == "" {
		t.Errorf("the one that was done: %+v", made)
	}
	if !strings.Contains(made.RequestBody, `"api_key":"***"`) || strings.Contains(made.RequestBody+made.RequestHeaders, "canary") {
		t.Errorf("secrets are shown: %s %s", made.RequestBody, made.RequestHeaders)
	}
}

// An id in an address may be another organisation's, whose names nobody here may learn.
func TestAuditEventsHaveNamesOfTheirOrganisation(t *testing.T) {
	b := routetest.New(t, configs.Add, audits.Add)
	root := b.Root()
	var ours, theirs struct{ Data struct{ ID string } }
	root.Must("POST", "/configs", `{"name":"first name","config":{"retry":{"attempts":1}}}`, &ours)
	root.Must("POST", "/configs", `{"name":"canary","config":{"retry":{"attempts":1}}}`, &theirs)
	root.Must("PUT", "/configs/"+ours.Data.ID, `{"name":"name"}`, nil)
	b.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ('another', 'another', 'Another', '', '{}', '', 'active', 0, 0)`)
	b.Exec(`UPDATE configs SET organisation_id = 'another' WHERE id = '` + theirs.Data.ID + `'`)
	root.Call("DELETE", "/configs/"+theirs.Data.ID, "")
	b.Exec(`UPDATE audit_logs SET user_type = 'user', user_id = 'u1' WHERE method = 'PUT'`)
	b.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at)
		VALUES ('u1', 'amina@example.com', '', '', '', 'active', 0, 0)`)
	b.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at)
		VALUES ('another', 'u1', 'owner', 0, 0)`)
	seen := func() (names []string) {
		for _, r := range read(t, root, "").Records {
			names = append(names, r.Method+" "+r.Resource+" "+r.Workspace+" "+r.Organisation+" "+r.UserName)
		}
		return names
	}
	want := []string{"DELETE  Default Default ", "PUT name Default Default ", "POST  Default Default ", "POST name Default Default "}
	got := seen()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	b.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at)
		VALUES ('00000000-0000-7000-8000-000000000001', 'u1', 'member', 0, 0)`)
	if got := seen(); !slices.Contains(got, "PUT name Default Default amina@example.com") {
		t.Errorf("names of a member: %q", got)
	}
}

func TestEachFilterOfTheAuditLogFilters(t *testing.T) {
	b := routetest.New(t, configs.Add, audits.Add)
	root := b.Root()
	root.Must("POST", "/configs", `{"name":"a","config":{"retry":{"attempts":1}}}`, nil)
	b.Clock = b.Clock.Add(time.Hour)
	root.Call("POST", "/configs", `{}`)
	for query, want := range map[string]int{
		"":                                       2,
		"&method=POST":                           2,
		"&method=DELETE":                         0,
		"&response_status_code=400":              1,
		"&resource_type=config":                  2,
		"&resource_type=session":                 0,
		"&action=create":                         2,
		"&action=update":                         0,
		"&user_type=api_key":                     2,
		"&user_type=user":                        0,
		"&uri=" + url.QueryEscape("/v1/configs"): 2,
		"&uri=/v1":                               0,
		"&client_ip=192.0.2.1":                   2,
		"&client_ip=192.0.2.2":                   0,
		"&request_id=none":                       0,
		"&workspace_id=default":                  2,
		"&organisation_id=default":               2,
		"&page_size=1":                           2,
	} {
		if got := read(t, root, query); got.Total != want {
			t.Errorf("%s: %d records, want %d", query, got.Total, want)
		}
	}
	if page := read(t, root, "&page_size=1&current_page=1"); len(page.Records) != 1 || page.Records[0].Status != http.StatusOK {
		t.Errorf("the second page: %+v", page.Records)
	}
	var early auditList
	root.Must("GET", "/audit-logs?start_time=2026-05-01T12:00:00Z&end_time=2026-05-01T13:00:00Z", "", &early)
	if early.Total != 1 {
		t.Errorf("%d records in the first hour, want the one that begins it", early.Total)
	}
}

func TestTheAuditLogIsForItsOrganisationAlone(t *testing.T) {
	b := routetest.New(t, configs.Add, audits.Add)
	b.Root().Must("POST", "/configs", `{"name":"a","config":{"retry":{"attempts":1}}}`, nil)
	scopes := access.Scopes(access.OrganisationService)
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "another", Workspace: "-", Scopes: scopes})
	if got := read(t, foreign, ""); got.Total != 0 {
		t.Errorf("another organisation sees %d records", got.Total)
	}
	ours := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: scopes})
	if a := ours.Call("GET", "/audit-logs?"+day+"&organisation_id=another", ""); a.Status != http.StatusNotFound {
		t.Errorf("naming another organisation: %d %s", a.Status, a.Body)
	}
	workspace := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)})
	if a := workspace.Call("GET", "/audit-logs?"+day, ""); a.Status != http.StatusForbidden {
		t.Errorf("a key of a workspace: %d %s", a.Status, a.Body)
	}
	for _, query := range []string{"", "start_time=x&end_time=y", "start_time=2026-05-02T00:00:00Z&end_time=2026-05-01T00:00:00Z", day + "&page_size=101", day + "&method=GET", day + "&nonsense=1"} {
		if a := ours.Call("GET", "/audit-logs?"+query, ""); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "AB01") {
			t.Errorf("%q: %d %s", query, a.Status, a.Body)
		}
	}
}
