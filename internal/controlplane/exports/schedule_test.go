package exports_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// addServiceKey stores a key that may export, of a workspace or, if that is empty, of the
// organisation, and returns its caller.
func (d *desk) addServiceKey(id, workspace string) *routetest.Caller {
	d.t.Helper()
	kind, at := access.WorkspaceService, workspace
	if workspace == "" {
		kind, at = access.OrganisationService, "-"
	}
	d.Exec(`INSERT INTO gateway_keys (id, type, organisation_id, workspace_id, user_id, name, description, hash, mask, scopes, providers, defaults,
			usage_limits, rate_limits, alert_emails, rotation_policy, creation_mode, status, created_at, updated_at)
		VALUES ($1, $2, $3, $4, '', '', '', $5, '', '["logs.export"]', '[]', '{}', 'null', '[]', '[]', 'null', 'api', 'active', 0, 0)`,
		id, string(kind), store.DefaultOrganisation, workspace, access.HashKey(id).String())
	return d.As(access.Identity{Type: kind, KeyID: id, Workspace: at, Scopes: []access.Scope{"logs.export"}})
}

// addWorkspace stores a workspace whose id is its slug.
func (d *desk) addWorkspace(id string) {
	d.Exec(`INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings,
		usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at)
		VALUES ($1, $2, $1, $1, '', '', '{}', '{}', '{}', '[]', '[]', FALSE, 'active', '', 0, 0)`, id, store.DefaultOrganisation)
}

// schedule is the response about a schedule.
type schedule struct {
	ID, Status string
	Reason     *string
	Workspaces []string
	NextFrom   time.Time  `json:"next_from"`
	NextAt     time.Time  `json:"next_at"`
	LastRunAt  *time.Time `json:"last_run_at"`
}

func (d *desk) mustSchedule(c *routetest.Caller, members string) (s schedule) {
	d.t.Helper()
	c.Must("POST", "/logs/export-schedules", `{"name":"Daily","requested_data":["id","workspace_id","created_at"],"format":"jsonl",`+members+`}`, &s)
	return s
}

// minute does what the gateway does each minute.
func (d *desk) minute() {
	d.t.Helper()
	if err := d.API.Minute(d.t.Context(), d.Clock, false); err != nil {
		d.t.Fatal(err)
	}
}

// exportsOf returns the exports of a schedule.
func (d *desk) exportsOf(c *routetest.Caller, id string) (list []struct {
	ID        string
	Status    string
	Workspace string `json:"workspace_id"`
	Schedule  string `json:"schedule_id"`
}) {
	d.t.Helper()
	var out struct {
		Data []struct {
			ID        string
			Status    string
			Workspace string `json:"workspace_id"`
			Schedule  string `json:"schedule_id"`
		}
	}
	c.Must("GET", "/logs/exports?schedule_id="+id, "", &out)
	return append(list, out.Data...)
}

// TestSchedulesExportEachPeriodOnce runs a daily schedule of an organisation with two workspaces:
// each has a file of each day, whichever node is faster, and also of days on which none ran.
func TestSchedulesExportEachPeriodOnce(t *testing.T) {
	d := newDesk(t)
	d.addWorkspace("second")
	c := d.addServiceKey("org-key", "")
	s := d.mustSchedule(c, `"every":"day","timezone":"Europe/Berlin","filters":{"status":"2xx"}`)
	day := time.Date(2026, 4, 30, 22, 0, 0, 0, time.UTC) // midnight in Berlin; the bench begins at noon
	if !s.NextFrom.Equal(day) || !s.NextAt.Equal(day.Add(24*time.Hour+15*time.Minute)) || s.Status != "active" || s.Workspaces != nil || s.LastRunAt != nil {
		t.Fatalf("a new schedule is %+v", s)
	}
	entry := func(at time.Time, workspace string, status int) {
		d.record(&reqlog.Entry{Time: at, Sender: reqlog.Sender{Organisation: store.DefaultOrganisation, Workspace: workspace}, Result: reqlog.Result{Status: status}})
	}
	entry(day.Add(-time.Millisecond), store.DefaultWorkspace, 200) // the day before
	entry(day, store.DefaultWorkspace, 200)
	entry(day.Add(24*time.Hour-time.Millisecond), store.DefaultWorkspace, 200)
	entry(day.Add(time.Hour), store.DefaultWorkspace, 500)
	entry(day.Add(24*time.Hour), store.DefaultWorkspace, 200) // the day after
	entry(day.Add(time.Hour), "second", 200)
	d.Clock = s.NextAt.Add(-time.Second)
	if d.minute(); len(d.exportsOf(c, s.ID)) != 0 {
		t.Fatal("an export starts before its period has ended")
	}
	d.Clock = s.NextAt
	var nodes sync.WaitGroup
	for range 4 {
		nodes.Go(func() { d.API.Minute(t.Context(), d.Clock, false) })
	}
	nodes.Wait()
	d.minute()
	list := d.exportsOf(c, s.ID)
	if len(list) != 2 || list[0].Workspace == list[1].Workspace || list[0].Schedule != s.ID {
		t.Fatalf("exports are %+v, want one of each workspace", list)
	}
	for d.runner.Next(t.Context()) { // each export
	}
	for _, e := range list {
		rows, want := d.file(c, e.ID), map[string]int{store.DefaultWorkspace: 2, "second": 1}[e.Workspace]
		if strings.Count(rows, "\n") != want || strings.Count(rows, `"workspace_id":"`+e.Workspace+`"`) != want {
			t.Errorf("the file of %s is %s, want %d rows", e.Workspace, rows, want)
		}
	}
	d.Clock = day.Add(3*24*time.Hour + time.Hour)
	for range 4 {
		d.minute()
	}
	if list := d.exportsOf(c, s.ID); len(list) != 6 {
		t.Errorf("%d exports after two days without a run, want two for each of three days", len(list))
	}
	c.Must("GET", "/logs/export-schedules/"+s.ID, "", &s)
	if !s.NextFrom.Equal(day.Add(3*24*time.Hour)) || s.LastRunAt == nil {
		t.Errorf("the schedule is %+v after three days", s)
	}
	if got := d.Query(`SELECT action FROM audit_logs WHERE resource_type = 'export_schedule' AND user_type = 'system'`); fmt.Sprint(got) != "[start start start]" {
		t.Errorf("audit events are %v, want one of each run", got)
	}
	c.Must("POST", "/logs/export-schedules/"+s.ID+"/pause", "", &s)
	d.Clock = d.Clock.Add(10 * 24 * time.Hour)
	d.minute()
	c.Must("POST", "/logs/export-schedules/"+s.ID+"/resume", "", &s)
	if d.minute(); len(d.exportsOf(c, s.ID)) != 6 || s.Status != "active" || !s.NextAt.After(d.Clock) {
		t.Errorf("%d exports after a pause, next at %s, want none of the time of the pause", len(d.exportsOf(c, s.ID)), s.NextAt)
	}
	if a := c.Call("DELETE", "/logs/export-schedules/"+s.ID, ""); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := c.Call("GET", "/logs/export-schedules/"+s.ID, ""); a.Status != 404 {
		t.Errorf("a deleted schedule: %d %s", a.Status, a.Body)
	}
}

// TestSchedulesEndWithTheRightsOfTheirMaker takes a right away from the maker of a schedule: the
// next run stops it with a reason and exports nothing.
func TestSchedulesEndWithTheRightsOfTheirMaker(t *testing.T) {
	const all = `"every":"day"`
	one := func(workspace string) string { return all + `,"workspaces":["` + workspace + `"]` }
	for name, tt := range map[string]struct {
		maker   func(d *desk) *routetest.Caller
		members string
		take    func(d *desk)
		reason  string
	}{
		"a revoked key": {func(d *desk) *routetest.Caller { return d.addServiceKey("k", "") }, all,
			func(d *desk) { d.Exec(`UPDATE gateway_keys SET status = 'revoked' WHERE id = 'k'`) }, "key k is revoked"},
		"a disabled key": {func(d *desk) *routetest.Caller { return d.addServiceKey("k", "") }, all,
			func(d *desk) { d.Exec(`UPDATE gateway_keys SET disabled = TRUE WHERE id = 'k'`) }, "key k is disabled"},
		"an expired key": {func(d *desk) *routetest.Caller { return d.addServiceKey("k", store.DefaultWorkspace) }, one("default"),
			func(d *desk) { d.Exec(`UPDATE gateway_keys SET expires_at = 1 WHERE id = 'k'`) }, "key k is expired"},
		"a deleted key": {func(d *desk) *routetest.Caller { return d.addServiceKey("k", "") }, all,
			func(d *desk) { d.Exec(`DELETE FROM gateway_keys WHERE id = 'k'`) }, "key k does not exist any more"},
		"a key without the scope": {func(d *desk) *routetest.Caller { return d.addServiceKey("k", "") }, all,
			func(d *desk) { d.Exec(`UPDATE gateway_keys SET scopes = '["logs.list"]' WHERE id = 'k'`) }, "key k lacks the scope logs.export"},
		"a key of another workspace": {func(d *desk) *routetest.Caller { return d.addServiceKey("k", store.DefaultWorkspace) }, one("default"),
			func(d *desk) { d.Exec(`UPDATE gateway_keys SET workspace_id = 'second' WHERE id = 'k'`) }, "key k belongs to another workspace"},
		"an archived workspace": {func(d *desk) *routetest.Caller { return d.addServiceKey("k", "") }, one("second"),
			func(d *desk) { d.Exec(`UPDATE workspaces SET status = 'archived' WHERE id = 'second'`) }, "workspace second is archived or deleted"},
		"a removed member": {func(d *desk) *routetest.Caller { return d.join("mia", "member", "member") }, one("default"),
			func(d *desk) { d.Exec(`DELETE FROM workspace_members WHERE user_id = 'mia'`) }, "user mia is not in workspace"},
		"a person who left": {func(d *desk) *routetest.Caller { return d.join("bo", "owner", "") }, all,
			func(d *desk) { d.Exec(`DELETE FROM organisation_members WHERE user_id = 'bo'`) }, "user bo does not administer"},
		"a former admin": {func(d *desk) *routetest.Caller { return d.join("bo", "admin", "member") }, all,
			func(d *desk) { d.Exec(`UPDATE organisation_members SET role = 'member' WHERE user_id = 'bo'`) }, "user bo does not administer"},
		"a role without the log": {func(d *desk) *routetest.Caller { return d.join("mia", "member", "member") }, one("default"),
			func(d *desk) { d.grant(access.RolePermissions{"membersViewLogs": false}) }, "ViewLogs"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.addWorkspace("second")
			boss := d.join("boss", "owner", "")
			s := d.mustSchedule(tt.maker(d), tt.members)
			d.Clock = s.NextAt
			tt.take(d)
			d.minute()
			boss.Must("GET", "/logs/export-schedules/"+s.ID, "", &s)
			if s.Status != "stopped" || s.Reason == nil || !strings.Contains(*s.Reason, tt.reason) {
				t.Errorf("the schedule is %s, want it stopped because %s: %v", s.Status, tt.reason, s.Reason)
			}
			if n := d.Query(`SELECT id FROM exports`); len(n) != 0 {
				t.Errorf("%d exports of a schedule that was stopped", len(n))
			}
			if got := d.Query(`SELECT action FROM audit_logs WHERE resource_type = 'export_schedule' AND user_type = 'system'`); fmt.Sprint(got) != "[stop]" {
				t.Errorf("audit events are %v, want a stop", got)
			}
			d.Clock = d.Clock.Add(48 * time.Hour)
			if d.minute(); len(d.Query(`SELECT id FROM exports`)) != 0 {
				t.Error("a stopped schedule runs")
			}
		})
	}
}

// TestSchedulesSkipWhatEndedTooLongAgo runs an hourly schedule after a hundred hours without a run:
// it makes up for the last 48, and the audit log says what it left out.
func TestSchedulesSkipWhatEndedTooLongAgo(t *testing.T) {
	d := newDesk(t)
	c := d.addServiceKey("k", store.DefaultWorkspace)
	s := d.mustSchedule(c, `"every":"hour"`)
	missed := s.NextFrom.Add(100 * time.Hour)
	d.Clock = missed.Add(20 * time.Minute)
	for range 60 {
		d.minute()
	}
	n := d.Query(`SELECT COUNT(*) FROM exports`)
	got := d.Query(`SELECT action FROM audit_logs WHERE resource_type = 'export_schedule' AND user_type = 'system' ORDER BY action`)
	if n[0] != "48" || len(got) != 49 || got[0] != "skip" || got[1] != "start" {
		t.Errorf("%s exports, audit events %v, want one skip and 48 exports", n[0], got)
	}
	if c.Must("GET", "/logs/export-schedules/"+s.ID, "", &s); !s.NextFrom.Equal(missed) {
		t.Errorf("the next period begins at %s, want %s", s.NextFrom, missed)
	}
}

// TestErrorCodesOfOthersStayHidden looks for error codes that only entries of others have: schedules
// and exports answer as for codes that nothing has.
func TestErrorCodesOfOthersStayHidden(t *testing.T) {
	d := newDesk(t)
	d.addWorkspace("second")
	d.record(&reqlog.Entry{Time: d.Clock.Add(-time.Hour), Sender: reqlog.Sender{Organisation: store.DefaultOrganisation, Workspace: "second"},
		Result: reqlog.Result{Status: 500, ErrorCode: "rare_code"}})
	d.record(&reqlog.Entry{Sender: reqlog.Sender{Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, KeyID: "x"},
		Result: reqlog.Result{Status: 500, ErrorCode: "own_code"}})
	key, owner := d.addServiceKey("k", store.DefaultWorkspace), d.join("bo", "owner", "")
	post := func(c *routetest.Caller, code, more string) routetest.Response {
		return c.Call("POST", "/logs/export-schedules", `{"name":"n","every":"day","requested_data":["id"],"filters":{"error_code":"`+code+`"}`+more+`}`)
	}
	for _, code := range []string{"rare_code", "zzz"} {
		if a := post(key, code, ""); a.Status != 400 || !strings.Contains(a.Body, "must be an error code") || strings.Contains(strings.ReplaceAll(a.Body, code, ""), "rare") {
			t.Errorf("%s: %d %s, want 400 without the codes of others", code, a.Status, a.Body)
		}
		if a := post(owner, code, `,"workspaces":["default","second"]`); a.Status != 400 {
			t.Errorf("%s in two workspaces: %d %s, want 400", code, a.Status, a.Body)
		}
	}
	member := d.join("mia", "member", "member")
	for _, sees := range []bool{true, false} {
		d.grant(access.RolePermissions{"membersViewAllData": sees})
		want := map[bool]int{true: 200, false: 400}[sees]
		if a := post(member, "own_code", `,"workspaces":["default"]`); a.Status != want {
			t.Errorf("a member who sees all entries, %v: %d %s, want %d", sees, a.Status, a.Body, want)
		}
	}
	for _, more := range []string{"", `,"workspaces":["second"]`} {
		if a := post(owner, "rare_code", more); a.Status != 200 {
			t.Errorf("a code of the log: %d %s", a.Status, a.Body)
		}
	}
}

// TestSchedulesExportWhatTheirMakerMaySee runs a schedule of a member who sees only entries of
// their own keys.
func TestSchedulesExportWhatTheirMakerMaySee(t *testing.T) {
	d := newDesk(t)
	member := d.join("mia", "member", "member")
	d.addKey("mia", "m")
	d.grant(access.RolePermissions{"membersViewAllData": false})
	s := d.mustSchedule(member, `"every":"day","workspaces":["default"]`)
	d.recorded("x", "m")
	d.Clock = s.NextAt
	d.minute()
	for d.runner.Next(t.Context()) { // each export
	}
	list := d.exportsOf(member, s.ID)
	if len(list) != 1 || strings.Count(d.file(member, list[0].ID), "\n") != 1 {
		t.Errorf("exports are %+v, want one with the entry of the member's own key", list)
	}
}

func TestSchedulesAreRefused(t *testing.T) {
	d := newDesk(t)
	d.addWorkspace("second")
	member, key := d.join("mia", "member", "member"), d.addServiceKey("k", store.DefaultWorkspace)
	owner := d.join("bo", "owner", "")
	const fields = `"name":"n","requested_data":["id"],`
	for name, tt := range map[string]struct {
		c      *routetest.Caller
		body   string
		status int
		says   string
	}{
		"another workspace of a member":  {member, `"every":"day","workspaces":["second"]`, 404, "second"},
		"all workspaces of a member":     {member, `"every":"day"`, 400, "workspace_id"},
		"another workspace of a key":     {key, `"every":"day","workspaces":["second"]`, 404, "second"},
		"a workspace that is not there":  {owner, `"every":"day","workspaces":["none"]`, 404, "none"},
		"another interval":               {owner, `"every":"minute"`, 400, "every"},
		"a zone that does not exist":     {owner, `"every":"day","timezone":"Europe/Atlantis"`, 400, "timezone"},
		"the zone of the host":           {owner, `"every":"day","timezone":"Local"`, 400, "timezone"},
		"a time":                         {owner, `"every":"day","filters":{"from":"7d"}`, 400, "from"},
		"an error code that nothing has": {owner, `"every":"day","filters":{"error_code":"tiemout"}`, 400, "did you mean timeout?"},
		"a status that does not exist":   {owner, `"every":"day","filters":{"status":"7"}`, 400, "status"},
		"the bootstrap key":              {d.As(access.Identity{KeyID: "bootstrap", Scopes: []access.Scope{access.ScopeAll}}), `"every":"day"`, 403, "bootstrap key"},
		"a token":                        {d.As(access.Identity{Type: access.Token, Scopes: []access.Scope{"logs.export"}}), `"every":"day"`, 403, "tokens"},
	} {
		if a := tt.c.Call("POST", "/logs/export-schedules", "{"+fields+tt.body+"}"); a.Status != tt.status || !strings.Contains(a.Body, tt.says) {
			t.Errorf("%s: %d %s, want %d with %s", name, a.Status, a.Body, tt.status, tt.says)
		}
	}
	d.grant(access.RolePermissions{"membersViewLogs": false})
	if a := member.Call("POST", "/logs/export-schedules", "{"+fields+`"every":"day","workspaces":["default"]}`); a.Status != 403 {
		t.Errorf("a member who may not read the log: %d %s, want 403", a.Status, a.Body)
	}
	d.grant(access.RolePermissions{"membersViewLogs": true})
	s := d.mustSchedule(owner, `"every":"week"`)
	own := d.mustSchedule(key, `"every":"month"`)
	if len(own.Workspaces) != 1 || own.Workspaces[0] != store.DefaultWorkspace {
		t.Errorf("the schedule of a workspace key is of %v", own.Workspaces)
	}
	for _, c := range []*routetest.Caller{member, key} {
		for _, call := range [][2]string{{"GET", ""}, {"POST", "/pause"}, {"POST", "/resume"}, {"DELETE", ""}} {
			if a := c.Call(call[0], "/logs/export-schedules/"+s.ID+call[1], ""); a.Status != 404 {
				t.Errorf("%s%s of somebody else's schedule: %d %s, want 404", call[0], call[1], a.Status, a.Body)
			}
		}
		if a := c.Call("GET", "/logs/exports?schedule_id="+s.ID, ""); a.Status != 404 {
			t.Errorf("exports of somebody else's schedule: %d %s, want 404", a.Status, a.Body)
		}
	}
	var list struct{ Total int }
	owner.Must("GET", "/logs/export-schedules", "", &list)
	if list.Total != 2 {
		t.Errorf("the owner sees %d schedules, want 2", list.Total)
	}
	if member.Must("GET", "/logs/export-schedules", "", &list); list.Total != 0 {
		t.Errorf("a member sees %d schedules of others", list.Total)
	}
	for i := range 198 {
		d.Exec(`INSERT INTO export_schedules SELECT $1, organisation_id, name, workspaces, every, zone, format, filters, requested, status, reason, key_id,
			user_id, period_from, next_at, last_run_at, created_at, updated_at FROM export_schedules WHERE id = $2`, fmt.Sprint("copy", i), s.ID)
	}
	if a := owner.Call("POST", "/logs/export-schedules", "{"+fields+`"every":"day"}`); a.Status != 409 || !strings.Contains(a.Body, "200") {
		t.Errorf("one schedule too many: %d %s, want 409", a.Status, a.Body)
	}
	d.API.Off = route.DisabledFeatures{route.DataExports: true}
	d.Clock = d.Clock.AddDate(0, 2, 0)
	if d.minute(); len(d.Query(`SELECT id FROM exports`)) != 0 {
		t.Error("schedules run while exports are disabled")
	}
}

// TestSchedulesLeaveNoRowOut exports a period with more rows than an export that somebody drafts
// may have.
func TestSchedulesLeaveNoRowOut(t *testing.T) {
	d := newDesk(t)
	c := d.addServiceKey("key", store.DefaultWorkspace)
	s := d.mustSchedule(c, `"every":"hour"`)
	const rows = 50_010
	entries := make([]*reqlog.Entry, rows)
	for i := range entries {
		entries[i] = &reqlog.Entry{
			Time:   s.NextFrom.Add(time.Duration(i) * 50 * time.Millisecond),
			Sender: reqlog.Sender{Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace}, Result: reqlog.Result{Status: 200},
		}
	}
	d.record(entries...)
	d.Clock = s.NextAt
	d.minute()
	for d.runner.Next(t.Context()) { // the export
	}
	list := d.exportsOf(c, s.ID)
	if len(list) != 1 {
		t.Fatalf("exports are %+v", list)
	}
	if n := strings.Count(d.file(c, list[0].ID), "\n"); n != rows {
		t.Errorf("the file has %d rows, want %d", n, rows)
	}
}
