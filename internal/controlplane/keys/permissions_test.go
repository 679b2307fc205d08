package keys_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/keys"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

const other = "00000000-0000-7000-8000-000000000009" // a second workspace

// newBench is a bench with two workspaces and people in them.
func newBench(t *testing.T) *routetest.Bench {
	t.Helper()
	b := routetest.New(t, keys.Add)
	b.Exec(`INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings, usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at)
		VALUES ($1, $2, 'second', 'Second', '', '', '{}', '{}', '{}', '[]', '[]', FALSE, 'active', '', 0, 0)`, other, store.DefaultOrganisation)
	b.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at) VALUES ('elsewhere', 'elsewhere', '', '', '{}', '', 'active', 0, 0)`)
	for user, roles := range map[string][2]string{
		"owner": {"owner", ""}, "admin": {"member", "admin"}, "manager": {"member", "manager"}, "member": {"member", "member"},
		"mate": {"member", "member"}, "outsider": {"member", ""},
	} {
		b.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at) VALUES ($1, $1, '', '', '', 'active', 0, 0)`, user)
		b.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ($1, $2, $3, 0, 0)`, store.DefaultOrganisation, user, roles[0])
		if roles[1] != "" {
			b.Exec(`INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at) VALUES ($1, $2, $3, 0, 0)`, store.DefaultWorkspace, user, roles[1])
		}
	}
	return b
}

// session returns a person who signed in, with every scope that a key could
// hold: the role alone decides.
func session(b *routetest.Bench, user string) *routetest.Caller {
	return b.As(access.Identity{Type: access.Session, UserID: user, Workspace: "-", Scopes: access.Scopes(access.Session)})
}

func service(b *routetest.Bench, workspace string) *routetest.Caller {
	return b.As(access.Identity{Type: access.WorkspaceService, Workspace: workspace, Scopes: access.Scopes(access.WorkspaceService)})
}

const plain = `{"name":"x","scopes":["models.list"],"workspace_id":"default"`

func TestManagersMakeKeysForOthersAndMembersForThemselves(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct {
		user, path, more string
		status           int
		code             string
	}{
		{"owner", "workspace/user", `,"user_id":"member"`, 200, ""},
		{"admin", "workspace/user", `,"user_id":"member"`, 200, ""},
		{"manager", "workspace/user", `,"user_id":"member"`, 200, ""},
		{"manager", "workspace/user", `,"user_id":"owner"`, 200, ""},
		{"member", "workspace/user", `,"user_id":"member"`, 200, ""},
		{"member", "workspace/user", ``, 200, ""},
		{"member", "workspace/user", `,"user_id":"mate"`, 403, "AB03"},
		{"outsider", "workspace/user", ``, 404, "AB02"},
		{"manager", "workspace/user", `,"user_id":"outsider"`, 404, "AB02"},
		{"manager", "workspace/user", `,"user_id":"nobody"`, 404, "AB02"},
		{"manager", "workspace/service", ``, 200, ""},
		{"member", "workspace/service", ``, 403, "AB03"},
		{"outsider", "workspace/service", ``, 404, "AB02"},
	} {
		a := session(b, tt.user).Call("POST", "/api-keys/"+tt.path, plain+tt.more+`}`)
		if a.Status != tt.status || !strings.Contains(a.Body, tt.code) {
			t.Errorf("%s makes %s%s: %d %s", tt.user, tt.path, tt.more, a.Status, a.Body)
		}
	}
	for user, want := range map[string]int{"owner": 200, "admin": 403, "manager": 403, "member": 403} {
		a := session(b, user).Call("POST", "/api-keys/organisation/service", `{"name":"x","scopes":["audit_logs.list"]}`)
		if a.Status != want {
			t.Errorf("%s makes an organisation's key: %d %s", user, a.Status, a.Body)
		}
	}
	var mine created
	session(b, "member").Must("POST", "/api-keys/workspace/user", plain+`}`, &mine)
	if got := mustGet(b.Root(), mine.ID); got.UserID != "member" || got.Type != "workspace-user" || got.Mode != "ui" {
		t.Errorf("a member's key is %+v", got)
	}
}

func TestPeopleSeeAndChangeTheKeysOfTheirRole(t *testing.T) {
	b := newBench(t)
	root := b.Root()
	ids := map[string]string{
		"organisation": mustMake(t, root, "organisation/service", `{"name":"organisation","scopes":["audit_logs.list"]}`).ID,
		"service":      mustMake(t, root, "workspace/service", `{"name":"service","scopes":["models.list"]}`).ID,
		"own":          mustMake(t, root, "workspace/user", `{"name":"own","scopes":["models.list"],"user_id":"member"}`).ID,
		"mate's":       mustMake(t, root, "workspace/user", `{"name":"mate's","scopes":["models.list"],"user_id":"mate"}`).ID,
	}
	sees := map[string][]string{
		"owner": {"organisation", "service", "own", "mate's"}, "manager": {"service", "own", "mate's"}, "admin": {"service", "own", "mate's"},
		"member": {"own"}, "outsider": {}, "nobody": {},
	}
	for user, want := range sees {
		c := session(b, user)
		for name, id := range ids {
			status := http.StatusNotFound
			calls := [][3]string{{"GET", "", ""}, {"PUT", "", `{"description":"d"}`}}
			if slices.Contains(want, name) {
				status = http.StatusOK
			} else {
				calls = append(calls, [3]string{"DELETE", "", ""}, [3]string{"POST", "/rotate", ""})
			}
			for _, call := range calls {
				if a := c.Call(call[0], "/api-keys/"+id+call[1], call[2]); a.Status != status {
					t.Errorf("%s: %s%s %s: %d %s", user, call[0], call[1], name, a.Status, a.Body)
				}
			}
		}
	}
	for user, want := range sees {
		var list struct {
			Total int
			Data  []item
		}
		a := session(b, user).Call("GET", "/api-keys?workspace_id=default", "")
		if len(want) == 0 {
			wantRefused(t, user+" lists the workspace", a, http.StatusNotFound, "AB02", "workspace_id")
		}
		session(b, user).Must("GET", "/api-keys", "", &list)
		got := []string{}
		for _, k := range list.Data {
			got = append(got, k.Name)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || list.Total != len(want) {
			t.Errorf("%s lists %d keys: %q, want %q", user, list.Total, got, want)
		}
	}
}

func TestPeopleListTheirWorkspacesTogetherOrOne(t *testing.T) {
	b := newBench(t)
	b.Exec(`INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at) VALUES ($1, 'manager', 'member', 0, 0)`, other)
	root := b.Root()
	mustMake(t, root, "workspace/service", `{"name":"first's","scopes":["models.list"]}`)
	mustMake(t, root, "workspace/service", `{"name":"second's","scopes":["models.list"],"workspace_id":"second"}`)
	mustMake(t, root, "workspace/user", `{"name":"own","scopes":["models.list"],"workspace_id":"second","user_id":"manager"}`)
	listed := func(query string) string {
		var list struct{ Data []item }
		session(b, "manager").Must("GET", "/api-keys"+query, "", &list)
		names := []string{}
		for _, k := range list.Data {
			names = append(names, k.Name)
		}
		slices.Sort(names) // of one millisecond, they come in any order
		return strings.Join(names, " ")
	}
	for query, want := range map[string]string{"": "first's own", "?workspace_id=default": "first's", "?workspace_id=second": "own"} {
		if got := listed(query); got != want {
			t.Errorf("list%s: %q, want %q", query, got, want)
		}
	}
	b.Exec(`UPDATE organisations SET settings = '{"overridable_sections":["api_keys"]}'`)
	b.Exec(`UPDATE workspaces SET security_settings = '{"membersViewApiKeys":false}' WHERE id = $1`, other)
	if got := listed(""); got != "first's" {
		t.Errorf("with one closed: %q", got)
	}
}

func TestMembersOfAnArchivedWorkspaceSeeItsKeysNoMore(t *testing.T) {
	b := newBench(t)
	k := mustMake(t, b.Root(), "workspace/user", plain+`,"user_id":"member"}`)
	b.Exec(`UPDATE workspaces SET status = 'archived' WHERE id = $1`, store.DefaultWorkspace)
	for user, want := range map[string]int{"member": 404, "manager": 404, "admin": 404, "owner": 200} {
		if a := session(b, user).Call("GET", "/api-keys/"+k.ID, ""); a.Status != want {
			t.Errorf("%s reads it: %d %s", user, a.Status, a.Body)
		}
	}
	wantRefused(t, "a key in it", session(b, "owner").Call("POST", "/api-keys/workspace/user", plain+`,"user_id":"member"}`), http.StatusNotFound, "AB02", "workspace_id")
}

func TestSwitchesOfRolesCloseKeysToThem(t *testing.T) {
	b := newBench(t)
	k := mustMake(t, b.Root(), "workspace/user", `{"name":"own","scopes":["models.list"],"user_id":"member"}`)
	for _, tt := range []struct {
		organisation, workspace, user string
		read, write                   int
	}{
		{`{}`, `{}`, "member", 200, 200},
		{`{"membersViewApiKeys":false}`, `{}`, "member", 403, 200},
		{`{"membersWriteApiKeys":false}`, `{}`, "member", 200, 403},
		{`{"membersWriteApiKeys":false}`, `{"membersWriteApiKeys":true}`, "member", 200, 200},
		{`{}`, `{"membersWriteApiKeys":false}`, "member", 200, 403},
		{`{"membersWriteApiKeys":false,"membersViewApiKeys":false}`, `{}`, "manager", 200, 200},
		{`{"managersWriteApiKeys":false,"managersViewApiKeys":false}`, `{}`, "manager", 403, 403},
		{`{"managersWriteApiKeys":false,"managersViewApiKeys":false,"membersViewApiKeys":false}`, `{}`, "admin", 200, 200},
		{`{"managersWriteApiKeys":false,"managersViewApiKeys":false}`, `{"managersWriteApiKeys":false}`, "owner", 200, 200},
	} {
		left := `,"overridable_sections":["prompts","api_keys"]}`
		b.Exec(`UPDATE organisations SET settings = $1 WHERE id = $2`, `{"security_settings":`+tt.organisation+left, store.DefaultOrganisation)
		b.Exec(`UPDATE workspaces SET security_settings = $1 WHERE id = $2`, tt.workspace, store.DefaultWorkspace)
		c := session(b, tt.user)
		what := fmt.Sprint(tt.user, " with ", tt.organisation, tt.workspace)
		for _, path := range []string{"/api-keys?workspace_id=default", "/api-keys/" + k.ID} {
			if a := c.Call("GET", path, ""); a.Status != tt.read {
				t.Errorf("%s: GET %s: %d %s", what, path, a.Status, a.Body)
			}
		}
		if a := c.Call("PUT", "/api-keys/"+k.ID, `{"name":"y"}`); a.Status != tt.write {
			t.Errorf("%s: PUT: %d %s", what, a.Status, a.Body)
		}
		if a := c.Call("POST", "/api-keys/workspace/user", plain+`}`); a.Status != tt.write {
			t.Errorf("%s: POST: %d %s", what, a.Status, a.Body)
		}
	}
}

func TestAnotherWorkspacesOrOrganisationsKeyIsNotThere(t *testing.T) {
	b := newBench(t)
	root := b.Root()
	here := mustMake(t, root, "workspace/service", `{"name":"x","scopes":["models.list"]}`)
	wide := mustMake(t, root, "organisation/service", `{"name":"x","scopes":["audit_logs.list"]}`)
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "elsewhere", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	for name, c := range map[string]*routetest.Caller{"another workspace": service(b, other), "another organisation": foreign} {
		for _, id := range []string{here.ID, wide.ID, "none"} {
			for _, call := range [][3]string{{"GET", "", ""}, {"PUT", "", `{"name":"x"}`}, {"DELETE", "", ""}, {"POST", "/rotate", ""}} {
				a := c.Call(call[0], "/api-keys/"+id+call[1], call[2])
				wantRefused(t, name+" "+call[0]+call[1], a, http.StatusNotFound, "AB08", "id")
				if want := c.Call(call[0], "/api-keys/absent"+call[1], call[2]); strings.ReplaceAll(a.Body, id, "absent") != want.Body {
					t.Errorf("%s: %s tells what is there:\n%s%s", name, call[0], a.Body, want.Body)
				}
			}
		}
		var list struct{ Total int }
		if c.Must("GET", "/api-keys", "", &list); list.Total != 0 {
			t.Errorf("%s lists %d keys", name, list.Total)
		}
	}
	wantRefused(t, "another workspace by name", foreign.Call("GET", "/api-keys?workspace_id=default", ""), http.StatusNotFound, "AB02", "workspace_id")
	wantRefused(t, "a key there", foreign.Call("POST", "/api-keys/workspace/service", `{"name":"x","scopes":["models.list"],"workspace_id":"default"}`), http.StatusNotFound, "AB02", "workspace_id")
	wantRefused(t, "a workspace's key of its organisation", service(b, "").Call("GET", "/api-keys/"+wide.ID, ""), http.StatusNotFound, "AB08", "id")
	wantRefused(t, "a key of a workspace's key for another", service(b, other).Call("POST", "/api-keys/workspace/service", plain+`}`), http.StatusNotFound, "AB02", "workspace_id")
	wantRefused(t, "a workspace's key that lists another", service(b, other).Call("GET", "/api-keys?workspace_id=default", ""), http.StatusNotFound, "AB02", "workspace_id")
}

func TestNobodyGivesWhatTheyDoNotHave(t *testing.T) {
	b := newBench(t)
	maker := b.As(access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{
		"models.list", "workspace_service_api_keys.create", "workspace_service_api_keys.update", "workspace_service_api_keys.rotate", "workspace_service_api_keys.delete",
	}})
	body := func(scopes string) string { return `{"name":"x","scopes":[` + scopes + `]}` }
	k := mustMake(t, maker, "workspace/service", body(`"models.list"`))
	for _, scopes := range []string{`"completions.write"`, `"models.list","workspace_service_api_keys.read"`} {
		wantRefused(t, "POST "+scopes, maker.Call("POST", "/api-keys/workspace/service", body(scopes)), http.StatusForbidden, "AB03", "")
		wantRefused(t, "PUT "+scopes, maker.Call("PUT", "/api-keys/"+k.ID, body(scopes)), http.StatusForbidden, "AB03", "")
	}
	strong := mustMake(t, b.Root(), "workspace/service", body(`"models.list","completions.write","logs.view"`))
	wantRefused(t, "rotating a stronger key", maker.Call("POST", "/api-keys/"+strong.ID+"/rotate", ""), http.StatusForbidden, "AB03", "")
	maker.Must("PUT", "/api-keys/"+strong.ID, body(`"completions.write"`), nil) // what it has may stay
	wantRefused(t, "returning", maker.Call("PUT", "/api-keys/"+strong.ID, body(`"logs.view"`)), http.StatusForbidden, "AB03", "scopes[0]")

	boundless := store.Key{ID: "00000000-0000-7000-8000-0000000000ff", Name: "first", Hash: access.HashKey("first"), Scopes: []access.Scope{access.ScopeAll}, CreatedAt: b.Clock}
	if err := b.DB.CreateKey(t.Context(), boundless); err != nil {
		t.Fatal(err)
	}
	for _, call := range [][3]string{{"PUT", "", `{"name":"x"}`}, {"DELETE", "", ""}, {"POST", "/rotate", ""}} {
		wantRefused(t, call[0]+call[1]+" of the installation's", maker.Call(call[0], "/api-keys/"+boundless.ID+call[1], call[2]), http.StatusForbidden, "AB03", "")
	}
	b.Root().Must("PUT", "/api-keys/"+boundless.ID, `{"name":"y"}`, nil)

	lent := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService), Providers: []string{"openai"}})
	child := mustMake(t, lent, "workspace/service", body(`"models.list"`))
	if row, err := b.DB.Key(t.Context(), store.DefaultOrganisation, child.ID); err != nil || fmt.Sprint(row.Providers) != "[openai]" {
		t.Errorf("a key of a lent key may use %v, %v", row.Providers, err)
	}
	lent.Must("POST", "/api-keys/"+child.ID+"/rotate", "", nil)
	b.Exec(`UPDATE gateway_keys SET providers = '["groq"]' WHERE id = $1`, child.ID)
	b.Clock = b.Clock.Add(time.Hour) // past the transition
	wantRefused(t, "rotating a key that may use others", lent.Call("POST", "/api-keys/"+child.ID+"/rotate", ""), http.StatusForbidden, "AB03", "")
	wantRefused(t, "rotating a key that may use more", lent.Call("POST", "/api-keys/"+k.ID+"/rotate", ""), http.StatusForbidden, "AB03", "")
}

func TestAnOrganisationsKeyMakesKeysThatCallModels(t *testing.T) {
	b := newBench(t)
	org := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: []access.Scope{"workspace_service_api_keys.create", "workspace_service_api_keys.list"}})
	wantRefused(t, "without a workspace", org.Call("POST", "/api-keys/workspace/service", `{"name":"x","scopes":["completions.write"]}`), http.StatusBadRequest, "AB01", "workspace_id")
	mustMake(t, org, "workspace/service", `{"name":"x","scopes":["completions.write"],"workspace_id":"second","organisation_id":"default"}`)
	wantRefused(t, "configs.read", org.Call("POST", "/api-keys/workspace/service", `{"name":"x","scopes":["configs.read"],"workspace_id":"second"}`), http.StatusForbidden, "AB03", "scopes[0]")
	var list struct {
		Object string
		Total  int
		Data   []item
	}
	org.Must("GET", "/api-keys?workspace_id=second&page_size=1", "", &list)
	if list.Object != "list" || list.Total != 1 || len(list.Data) != 1 {
		t.Errorf("listed %+v", list)
	}
	for query, field := range map[string]string{"page_size=0": "page_size", "page_size=1001": "page_size", "current_page=-1": "current_page", "page_size=x": "page_size", "other=1": "other"} {
		wantRefused(t, query, org.Call("GET", "/api-keys?"+query, ""), http.StatusBadRequest, "AB01", field)
	}
}

func TestScopesAreOfTheTypeOfKeyThatIsAskedFor(t *testing.T) {
	b := newBench(t)
	root := b.Root()
	ids := map[string]string{
		"organisation_service_api_keys": mustMake(t, root, "organisation/service", `{"name":"x","scopes":["audit_logs.list"]}`).ID,
		"workspace_service_api_keys":    mustMake(t, root, "workspace/service", `{"name":"x","scopes":["models.list"]}`).ID,
		"workspace_user_api_keys":       mustMake(t, root, "workspace/user", `{"name":"x","scopes":["models.list"],"user_id":"member"}`).ID,
	}
	makes := map[string]string{
		"organisation_service_api_keys": "organisation/service", "workspace_service_api_keys": "workspace/service", "workspace_user_api_keys": "workspace/user",
	}
	for held := range ids {
		var list struct{ Data []item }
		b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: []access.Scope{access.Scope(held + ".list")}}).Must("GET", "/api-keys", "", &list)
		if len(list.Data) != 1 || list.Data[0].ID != ids[held] {
			t.Errorf("with %s.list: %+v", held, list.Data)
		}
		for asked, id := range ids {
			for verb, call := range map[string][3]string{"read": {"GET", "", ""}, "update": {"PUT", "", `{"name":"y"}`}, "rotate": {"POST", "/rotate", ""}, "delete": {"DELETE", "", ""}} {
				if held == asked && verb != "read" {
					continue // it would be allowed
				}
				c := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: []access.Scope{access.Scope(held + "." + verb)}})
				a := c.Call(call[0], "/api-keys/"+id+call[1], call[2])
				if held != asked && a.Status != http.StatusForbidden {
					t.Errorf("%s of %s with %s: %d %s", verb, asked, held, a.Status, a.Body)
				}
				if held == asked && verb == "read" && a.Status != http.StatusOK {
					t.Errorf("%s with its scope: %d %s", asked, a.Status, a.Body)
				}
			}
			maker := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: []access.Scope{access.Scope(held + ".create")}})
			if a := maker.Call("POST", "/api-keys/"+makes[asked], `{"name":"x","scopes":["prompts.read"]}`); held != asked && a.Status != http.StatusForbidden {
				t.Errorf("make %s with %s: %d %s", asked, held, a.Status, a.Body)
			}
		}
	}
	user := b.As(access.Identity{Type: access.WorkspaceUser, UserID: "member", Scopes: access.Scopes(access.WorkspaceUser)})
	wantRefused(t, "a user's key lists keys", user.Call("GET", "/api-keys", ""), http.StatusForbidden, "AB03", "")
	wantRefused(t, "nobody", b.Nobody().Call("GET", "/api-keys/self", ""), http.StatusUnauthorized, "AB05", "")
}

func TestKeysOfPeopleKeepToTheWorkspacesRules(t *testing.T) {
	b := newBench(t)
	b.Exec(`UPDATE organisations SET settings = '{"user_api_key_ttl":60,"user_api_key_max_ttl":100}'`)
	b.Exec(`UPDATE workspaces SET settings = '{"user_api_key_max_ttl":3600,"user_api_key_count":2}' WHERE id = $1`, store.DefaultWorkspace)
	c := b.Root()
	first := mustMake(t, c, "workspace/user", plain+`,"user_id":"member"}`)
	if got := mustGet(c, first.ID).ExpiresAt; got == nil || *got != "2026-05-01T12:01:00.000Z" {
		t.Errorf("a key that says nothing ends %v", *got)
	}
	wantRefused(t, "too long", c.Call("POST", "/api-keys/workspace/user", plain+`,"user_id":"member","expires_at":"2026-05-01T13:00:01Z"}`), http.StatusBadRequest, "AB01", "expires_at")
	wantRefused(t, "longer", c.Call("PUT", "/api-keys/"+first.ID, `{"expires_at":"2026-05-01T13:00:01Z"}`), http.StatusBadRequest, "AB01", "expires_at")
	mustMake(t, c, "workspace/user", plain+`,"user_id":"member","expires_at":"2026-05-01T13:00:00Z"}`)
	wantRefused(t, "one too many", c.Call("POST", "/api-keys/workspace/user", plain+`,"user_id":"member"}`), http.StatusForbidden, "AB03", "user_id")
	mustMake(t, c, "workspace/user", plain+`,"user_id":"mate"}`)
	mustMake(t, c, "workspace/service", plain+`,"expires_at":"2099-01-01T00:00:00Z"}`)
	c.Must("DELETE", "/api-keys/"+first.ID, "", nil)
	mustMake(t, c, "workspace/user", plain+`,"user_id":"member"}`)
	b.Exec(`UPDATE workspaces SET settings = '{"user_api_key_count":-1}' WHERE id = $1`, store.DefaultWorkspace)
	mustMake(t, c, "workspace/user", plain+`,"user_id":"member"}`)
}

func TestAKeyReadsWhatItIsItself(t *testing.T) {
	b := newBench(t)
	k := mustMake(t, b.Root(), "workspace/user", plain+`,"user_id":"member","defaults":{"metadata":{"a":"b"}}}`)
	own := b.As(access.Identity{KeyID: k.ID, Type: access.WorkspaceUser, UserID: "member", Scopes: []access.Scope{"models.list"}})
	b.Exec(`UPDATE organisations SET settings = '{"output_guardrail_exclusions":["` + store.DefaultWorkspace + `"]}'`)
	for _, path := range []string{"/api-keys/self", "/api-keys/self/details"} {
		var got struct {
			item
			Organisation struct{ Slug string } `json:"organisation_details"`
			Workspace    struct{ Slug string } `json:"workspace_details"`
			Defaults     struct{ Metadata map[string]string }
			Exclusions   map[string]bool `json:"guardrail_exclusions"`
		}
		own.Must("GET", path, "", &got)
		if got.ID != k.ID || got.UserID != "member" || got.Organisation.Slug != "default" || got.Workspace.Slug != "default" || got.Defaults.Metadata["a"] != "b" ||
			got.Exclusions["input_guardrails"] || !got.Exclusions["output_guardrails"] || fmt.Sprint(got.Scopes) != "[models.list]" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	var file item
	b.As(access.Identity{KeyID: "file:ci", Name: "ci", Type: access.WorkspaceService, Scopes: []access.Scope{"models.list"}}).Must("GET", "/api-keys/self", "", &file)
	if file.ID != "file:ci" || file.Key != "***" || file.Status != "active" {
		t.Errorf("a key of the settings: %+v", file)
	}
	var person struct {
		item
		Workspace *string `json:"workspace_id"`
		Token     any
	}
	session(b, "member").Must("GET", "/v2/api-keys/self/details", "", &person)
	if person.Type != "session" || person.UserID != "member" || person.Key != "***" || person.Workspace != nil || person.Token != nil {
		t.Errorf("a session: %+v", person)
	}
}

func TestATokenReadsWhatItSays(t *testing.T) {
	b := newBench(t)
	token := b.As(access.Identity{KeyID: "jwt:ada", Name: "ada", Type: access.Token, Scopes: []access.Scope{"models.list"}, Config: "pc", Metadata: map[string]string{"a": "b"},
		ExpiresAt: b.Clock.Add(time.Hour), Claims: &access.Claims{User: "ada"}})
	var got struct {
		item
		Workspace struct{ Slug string } `json:"workspace_details"`
		Defaults  struct {
			Config   string `json:"config_id"`
			Metadata map[string]string
		}
		Token struct {
			User        string
			UsageLimits any `json:"usage_limits"`
			RateLimits  any `json:"rate_limits"`
		}
	}
	token.Must("GET", "/v2/api-keys/self/details", "", &got)
	if got.ID != "jwt:ada" || got.Type != "token" || got.UserID != "" || got.Workspace.Slug != "default" || got.Defaults.Config != "pc" || got.Defaults.Metadata["a"] != "b" ||
		got.ExpiresAt == nil || *got.ExpiresAt != "2026-05-01T13:00:00.000Z" || got.Token.User != "ada" || got.Token.UsageLimits != nil || got.Token.RateLimits != nil {
		t.Errorf("a token: %+v", got)
	}
}
