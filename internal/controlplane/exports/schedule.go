package exports

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
)

// maxSchedules is the limit of the schedules of an organisation.
const maxSchedules = 200

func (f Routes) addSchedules(a *route.API) {
	r := route.Family{
		Path: "/logs/export-schedules", Tag: "Log exports", Scopes: []string{"logs"}, Resource: "export_schedule", Versioned: true,
	}
	route.Add(a, r.Route(http.MethodPost, "", "create-export-schedule", "export", "Export the log at intervals"), f.createSchedule)
	route.Add(a, r.Route(http.MethodGet, "", "list-export-schedules", "export", "List the schedules of exports"), listSchedules)
	route.Add(a, r.Route(http.MethodGet, "/{export_schedule}", "get-export-schedule", "export", "Read a schedule of exports"), getSchedule)
	route.Add(a, r.Route(http.MethodPost, "/{export_schedule}/pause", "pause-export-schedule", "export", "Pause a schedule of exports"), pause)
	route.Add(a, r.Route(http.MethodPost, "/{export_schedule}/resume", "resume-export-schedule", "export",
		"Resume a schedule of exports that is paused or stopped"), resume)
	route.Add(a, r.Route(http.MethodDelete, "/{export_schedule}", "delete-export-schedule", "export",
		"Delete a schedule of exports, but not its exports"), deleteSchedule)
	a.EachMinute(f.runSchedules(a))
}

type scheduleInput struct {
	Body struct {
		Name       string          `json:"name" minLength:"1" maxLength:"255"`
		Workspaces []string        `json:"workspaces,omitempty" maxItems:"100" doc:"Ids or slugs; without any all of the organisation, if you administer it, otherwise the workspace of the key"`
		Every      string          `json:"every" enum:"hour,day,week,month" doc:"A file of each complete hour, day, week from Monday, or month"`
		Zone       string          `json:"timezone,omitempty" maxLength:"64" default:"UTC" doc:"IANA name of the time zone in which days begin"`
		Filters    scheduleFilters `json:"filters,omitempty" doc:"As of an export, without times, workspace and pages"`
		Requested  []string        `json:"requested_data" nullable:"false" minItems:"1" maxItems:"50" enum:"id,trace_id,created_at,request,response,is_success,ai_org,ai_model,req_units,res_units,total_units,request_url,cost,cost_currency,response_time,response_status_code,mode,config,prompt_slug,metadata,outcome,provider_slug,upstream_model,response_model,target,target_name,error_code,cost_nano_usd,first_token_ms,config_version,prompt_version,api_key_id,operation,workspace_id"`
		Format     string          `json:"format,omitempty" enum:"jsonl,csv,parquet" default:"jsonl"`
	}
}

// scheduleFilters are the filters of a schedule: those of an export whose values do not belong to
// one workspace or time.
type scheduleFilters struct {
	Statuses  StringList `json:"status_code,omitzero"`
	Outcomes  StringList `json:"outcome,omitzero"`
	Codes     StringList `json:"error_code,omitzero"`
	Caches    StringList `json:"cache_status,omitzero"`
	Models    StringList `json:"ai_org_model,omitzero"`
	Requested StringList `json:"model,omitzero"`
	Upstream  StringList `json:"upstream_model,omitzero"`
	Response  StringList `json:"response_model,omitzero"`
	Targets   StringList `json:"target,omitzero"`
	Metadata  Metadata   `json:"metadata,omitzero"`
}

// scheduledRows is the limit of the rows of an export that a schedule makes: its file is limited
// by exports.max_size, which fails the export and is noticed, whereas missing rows are not.
const scheduledRows = 100_000_000

// filters returns the filters of an export of a period.
func (f *scheduleFilters) filters(from, to time.Time) Filters {
	return Filters{
		From: from, To: to, Size: scheduledRows, Statuses: f.Statuses, Outcomes: f.Outcomes, Codes: f.Codes, Caches: f.Caches, Models: f.Models,
		Requested: f.Requested, Upstream: f.Upstream, Response: f.Response, Targets: f.Targets, Metadata: f.Metadata,
	}
}

// Schedule is a schedule of exports in responses.
type Schedule struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Workspaces []string   `json:"workspaces" doc:"Ids; null for all of the organisation"`
	Every      string     `json:"every"`
	Zone       string     `json:"timezone"`
	Format     string     `json:"format"`
	Filters    route.JSON `json:"filters"`
	Requested  []string   `json:"requested_data"`
	Status     string     `json:"status" doc:"active, paused or stopped"`
	Reason     *string    `json:"reason" doc:"Why it was stopped; null unless it was"`
	CreatedBy  string     `json:"created_by"`
	From       route.Time `json:"next_from" doc:"Beginning of the period of the next export"`
	NextAt     route.Time `json:"next_at" doc:"When the next export starts"`
	LastRunAt  route.Time `json:"last_run_at"`
	CreatedAt  route.Time `json:"created_at"`
	UpdatedAt  route.Time `json:"last_updated_at"`
	Object     string     `json:"object"`
}

func showSchedule(s store.ExportSchedule) Schedule {
	return Schedule{
		s.ID, s.Name, s.Workspaces, s.Every, s.Zone, s.Format, route.JSON(s.Filters), s.Requested, s.Status, nullIfEmpty(s.Reason),
		cmp.Or(s.UserID, s.KeyID), route.Time(s.From), route.Time(s.NextAt), route.Time(s.LastRunAt), route.Time(s.CreatedAt),
		route.Time(s.UpdatedAt), "export-schedule",
	}
}

func nullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (f Routes) createSchedule(ctx context.Context, c *route.Caller, in *scheduleInput) (*Schedule, error) {
	b := &in.Body
	if c.KeyID == bootstrapKey || c.Type == access.Token {
		return nil, apierr.New(apierr.Forbidden, "the bootstrap key and tokens cannot make schedules, whose runs could not check that they are still valid; use "+
			"another key or a session").WithCode("AB03")
	}
	zone, err := time.LoadLocation(cmp.Or(b.Zone, "UTC"))
	if err != nil || b.Zone == "Local" {
		return nil, route.Invalid("timezone", "must be an IANA name such as Europe/Berlin, not %.64q", b.Zone)
	}
	s := store.ExportSchedule{
		ID: c.NewID(), Organisation: c.Organisation, Name: b.Name, Every: b.Every, Zone: zone.String(), Format: cmp.Or(b.Format, formatJSONL),
		Requested: orderedFields(b.Requested), Status: store.ScheduleActive, From: periodOf(b.Every, c.Now.In(zone)),
		CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if c.IsPerson() {
		s.UserID = c.UserID
	}
	if c.Type != access.Session {
		s.KeyID = c.KeyID
	}
	s.NextAt = periodAfter(s.Every, s.From).Add(lateEntries)
	if s.Filters, err = json.Marshal(b.Filters); err != nil {
		return nil, err
	}
	names := route.LogNames{DB: c.DB(), Caller: c.Identity, Sum: f.GroupEntries}
	if s.Workspaces, names.Scope, err = scheduledWorkspaces(ctx, c, b.Workspaces); err != nil {
		return nil, err
	}
	filters := b.Filters.filters(s.From, periodAfter(s.Every, s.From))
	if err := filters.resolve(ctx, names); err != nil {
		return nil, err
	}
	if _, err := filters.compile(); err != nil {
		return nil, err
	}
	c.SetAuditSubject("", s.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		if _, n, err := tx.ExportSchedules(ctx, s.Organisation, "", "", store.Page{Size: 1}); err != nil || n >= maxSchedules {
			if err == nil {
				err = apierr.New(apierr.Conflict, "the organisation has %d schedules of exports, which is the limit; delete one first", n)
			}
			return err
		}
		return tx.CreateExportSchedule(ctx, s)
	})
	return route.ItemOf(s, err, showSchedule)
}

// scheduledWorkspaces returns the ids of the workspaces that a request names, nil for all of the
// organisation, and which entries show what values filters may have; none for several workspaces.
func scheduledWorkspaces(ctx context.Context, c *route.Caller, named []string) (ids []string, seen logstore.Scope, err error) {
	if len(named) == 0 {
		wide, err := c.Administers(ctx)
		if err != nil {
			return nil, seen, err
		}
		if wide && (c.Workspace == "" || c.Allows("*")) {
			return nil, logstore.Scope{Organisation: c.Organisation}, nil
		}
		named = []string{""}
	}
	for _, ref := range named {
		w, err := place(ctx, c, ref)
		if err == nil {
			err = c.CheckOwnWorkspace(ctx, "workspaces", ref)
		}
		if err != nil {
			return nil, seen, err
		}
		if w.Status != store.Active {
			return nil, seen, route.Invalid("workspaces", "must be active; %s is archived", w.Slug)
		}
		maker := store.Export{Organisation: c.Organisation, Workspace: w.ID}
		if c.IsPerson() {
			maker.UserID = c.UserID
		}
		keys, err := visibleKeys(ctx, c.DB(), &maker)
		if err != nil {
			return nil, seen, err
		}
		if len(named) == 1 {
			seen = logstore.Scope{Organisation: c.Organisation, Workspace: w.ID, Keys: keys}
		}
		ids = append(ids, w.ID)
	}
	return ids, seen, nil
}

// NamedSchedule identifies a schedule in a request.
type NamedSchedule struct {
	Schedule string `path:"export_schedule" maxLength:"64"`
}

// findSchedule returns a schedule that the caller made, or any if the caller administers the
// organisation.
func findSchedule(ctx context.Context, c *route.Caller, id string) (s store.ExportSchedule, err error) {
	none := route.NotFound("export_schedule", "export schedule", id)
	s, err = c.DB().ExportSchedule(ctx, id)
	if err != nil && !apierr.IsNotFound(err) {
		return s, err
	}
	if err != nil || s.Organisation != c.Organisation {
		return s, none
	}
	c.SetAuditSubject("", s.ID)
	key, user, err := makerFilter(ctx, c)
	if err == nil && (key != "" && s.KeyID != key || user != "" && s.UserID != user) {
		err = none
	}
	return s, err
}

// makerFilter returns the key or user whose schedules the caller sees; empty ones are any.
func makerFilter(ctx context.Context, c *route.Caller) (key, user string, err error) {
	wide, err := c.Administers(ctx)
	switch {
	case err != nil || wide && (c.Workspace == "" || c.Allows("*")):
		return "", "", err
	case c.IsPerson():
		return "", c.UserID, nil
	}
	return c.KeyID, "", nil
}

type schedulesInput struct {
	route.Paging
}

func listSchedules(ctx context.Context, c *route.Caller, in *schedulesInput) (*route.List[Schedule], error) {
	key, user, err := makerFilter(ctx, c)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().ExportSchedules(ctx, c.Organisation, key, user, in.Rows())
	return route.Listing(found, total, err, showSchedule)
}

func getSchedule(ctx context.Context, c *route.Caller, in *NamedSchedule) (*Schedule, error) {
	s, err := findSchedule(ctx, c, in.Schedule)
	return route.ItemOf(s, err, showSchedule)
}

func pause(ctx context.Context, c *route.Caller, in *NamedSchedule) (*Schedule, error) {
	return setStatus(ctx, c, in, store.SchedulePaused)
}

// resume continues with the current period: periods that ended in between are left out.
func resume(ctx context.Context, c *route.Caller, in *NamedSchedule) (*Schedule, error) {
	return setStatus(ctx, c, in, store.ScheduleActive)
}

func setStatus(ctx context.Context, c *route.Caller, in *NamedSchedule, status string) (*Schedule, error) {
	s, err := findSchedule(ctx, c, in.Schedule)
	if err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) (err error) {
		if s, err = tx.ExportSchedule(ctx, s.ID); err != nil {
			return err
		}
		if status == store.ScheduleActive && s.Status != status {
			zone, err := time.LoadLocation(s.Zone)
			if err != nil {
				return err
			}
			s.From = periodOf(s.Every, c.Now.In(zone))
			s.NextAt = periodAfter(s.Every, s.From).Add(lateEntries)
		}
		s.Status, s.Reason, s.UpdatedAt = status, "", c.NextUpdateTime(s.UpdatedAt)
		return tx.UpdateExportSchedule(ctx, s)
	})
	return route.ItemOf(s, err, showSchedule)
}

func deleteSchedule(ctx context.Context, c *route.Caller, in *NamedSchedule) (*messageResponse, error) {
	s, err := findSchedule(ctx, c, in.Schedule)
	if err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ExportSchedule(ctx, s.ID)
		if err := c.CheckIfMatch(s.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.DeleteExportSchedule(ctx, s.ID)
	})
	return &messageResponse{"the schedule is deleted; its exports remain", "export-schedule"}, err
}
