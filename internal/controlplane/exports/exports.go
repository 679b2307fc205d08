// Package exports implements exports of the request log: a caller requests a part of
// it, a node writes it to a file in the background, and the caller downloads the file.
//
// It guarantees that an export contains only what its creator may see when it is
// started, that it is written once however many nodes there are and whichever of them
// fails, and that writing it uses bounded memory and leaves capacity for model
// requests. It does not read the log (see logstore), keep files (see blob) or share
// the work among nodes (see jobs).
package exports

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

const scope access.Scope = "logs.export"

// Routes are the routes of exports.
type Routes struct {
	// Files links to the files of exports. If nil, other nodes write and serve them.
	Files Files

	// Started is called when an export was started. If nil, nodes find it by looking.
	Started func()

	// GroupEntries groups entries of the request log. If nil, drafts are not counted.
	GroupEntries func(context.Context, logstore.GroupQuery) ([]logstore.Group, error)
}

// Files has the files of exports.
type Files interface {
	// Link returns a temporary address of an export's file for anyone who has the link.
	// An address that begins with a slash is a path of the gateway.
	Link(ctx context.Context, e store.Export) (string, error)
}

// Add adds the routes.
func (f Routes) Add(a *route.API) {
	r := route.Family{Path: "/logs/exports", Tag: "Log exports", Scopes: []string{"logs"}, Resource: "export", Versioned: true}
	route.Add(a, r.Route(http.MethodPost, "", "create-export", "export", "Draft an export"), f.create)
	route.Add(a, r.Route(http.MethodGet, "", "list-exports", "export", "List exports"), list)
	route.Add(a, r.Route(http.MethodGet, "/field-restrictions", "list-export-restrictions", "export",
		"List the fields that exports leave out"), restrictions)
	route.Add(a, r.Route(http.MethodGet, "/{export}", "get-export", "export", "Read an export and its progress"), get)
	route.Add(a, r.Route(http.MethodPut, "/{export}", "update-export", "export", "Change an export before it is started"), f.update)
	route.Add(a, r.Route(http.MethodPost, "/{export}/start", "start-export", "export", "Start an export"), f.start)
	route.Add(a, r.Route(http.MethodPost, "/{export}/cancel", "cancel-export", "export", "Stop an export in progress"), cancel)
	route.Add(a, r.Route(http.MethodGet, "/{export}/download", "download-export", "export", "Get a link to the file of an export"), f.download)
	f.addSchedules(a)
}

type createInput struct {
	Body struct {
		Workspace string   `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required for organisation keys"`
		Filters   Filters  `json:"filters"`
		Requested []string `json:"requested_data" nullable:"false" minItems:"1" maxItems:"50" enum:"id,trace_id,created_at,request,response,is_success,ai_org,ai_model,req_units,res_units,total_units,request_url,cost,cost_currency,response_time,response_status_code,mode,config,prompt_slug,metadata,outcome,provider_slug,upstream_model,response_model,target,target_name,error_code,cost_nano_usd,first_token_ms,config_version,prompt_version,api_key_id,operation,workspace_id" doc:"Fields of a row; the file has them in the order of this list"`
		Format    string   `json:"format,omitempty" enum:"jsonl,csv,parquet" default:"jsonl"`
	}
}

type created struct {
	ID     string `json:"id"`
	Total  *int64 `json:"total" doc:"Approximate number of rows; null if counting takes too long"`
	Object string `json:"object"`
}

func (f Routes) create(ctx context.Context, c *route.Caller, in *createInput) (*created, error) {
	b := &in.Body
	w, err := place(ctx, c, cmp.Or(b.Workspace, b.Filters.Workspace))
	if err == nil {
		err = c.CheckOwnWorkspace(ctx, "workspace_id", b.Workspace)
	}
	if err != nil {
		return nil, err
	}
	row := store.Export{
		ID: c.NewID(), Organisation: w.Organisation, Workspace: w.ID, Format: cmp.Or(b.Format, formatJSONL), Status: store.ExportDraft,
		CreatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if c.IsPerson() {
		row.UserID = c.UserID
	}
	row.Requested = b.Requested
	if err := f.ask(ctx, c, w, &row, &b.Filters); err != nil {
		return nil, err
	}
	c.SetAuditSubject(w.ID, row.ID)
	if err := c.Change(ctx, func(tx *store.Tx) error { return tx.CreateExport(ctx, row) }); err != nil {
		return nil, err
	}
	return &created{row.ID, row.Expected, "export"}, nil
}

// ask checks a request and writes it to the draft row.
func (f Routes) ask(ctx context.Context, c *route.Caller, w store.Workspace, row *store.Export, filters *Filters) error {
	if err := c.CheckOwnWorkspace(ctx, "filters.workspace_slug", filters.Workspace); err != nil {
		return err
	}
	if named := filters.Workspace; named != "" && named != w.ID && named != w.Slug {
		return route.Invalid("filters.workspace_slug", "names another workspace than workspace_id")
	}
	var err error
	if row.Keys, err = visibleKeys(ctx, c.DB(), row); err != nil {
		return err
	}
	names := route.LogNames{DB: c.DB(), Caller: c.Identity, Files: c.Files(), Sum: f.GroupEntries,
		Scope: logstore.Scope{Organisation: w.Organisation, Workspace: w.ID, Keys: row.Keys}}
	if err := filters.resolve(ctx, names); err != nil {
		return err
	}
	want, err := filters.compile()
	if err != nil {
		return err
	}
	denied, err := denied(ctx, c.DB(), row.Organisation)
	if err != nil {
		return err
	}
	row.Requested = orderedFields(row.Requested)
	if len(allowedFields(row.Requested, denied)) == 0 {
		return route.Invalid("requested_data", "names only fields that exports of this organisation leave out: %v", denied)
	}
	if row.Filters, err = json.Marshal(filters); err != nil {
		return err
	}
	row.Expected, err = f.expect(ctx, row, want)
	return err
}

// counting is the time limit for counting the rows of a draft.
const counting = 3 * time.Second

// expect returns the approximate number of rows of an export, nil if counting takes too
// long.
func (f Routes) expect(ctx context.Context, row *store.Export, want *rowFilter) (*int64, error) {
	if f.GroupEntries == nil {
		return nil, nil
	}
	short, cancel := context.WithTimeout(ctx, counting)
	defer cancel()
	n, err := want.count(short, row, f.GroupEntries)
	if err != nil && ctx.Err() == nil { // too many rows or too slow: create the draft without a count
		return nil, nil
	}
	return &n, err
}

// denied returns the fields that an organisation excludes from exports.
func denied(ctx context.Context, q store.Queries, organisation string) ([]string, error) {
	o, err := q.Organisation(ctx, organisation)
	return o.Settings.DeniedFields, err
}

// checkFields returns an error if the file of an export has a field that its organisation
// has excluded since.
func checkFields(ctx context.Context, q store.Queries, row *store.Export) error {
	denied, err := denied(ctx, q, row.Organisation)
	if err == nil && len(allowedFields(row.Fields, denied)) < len(row.Fields) {
		err = apierr.New(apierr.Forbidden, "the file contains fields that this organisation now restricts: %v; create a new export", denied).WithCode("AB03")
	}
	return err
}

// sameFields are fields with the value of another one, which denies them too.
var sameFields = map[string]string{"cost_nano_usd": "cost", "cost": "cost_nano_usd"}

// allowedFields returns fields without the denied ones.
func allowedFields(fields, denied []string) []string {
	return slices.DeleteFunc(slices.Clone(fields), func(name string) bool {
		return slices.Contains(denied, name) || sameFields[name] != "" && slices.Contains(denied, sameFields[name])
	})
}

// Named identifies an export in a request. It is exported because the OpenAPI generator
// does not see embedded unexported fields.
type Named struct {
	Export    string `path:"export" maxLength:"64"`
	Workspace string `query:"workspace_id" maxLength:"255"`
}

type updateInput struct {
	Named
	Body struct {
		Filters   route.Optional[Filters] `json:"filters,omitempty" doc:"Replaces all filters"`
		Requested []string                `json:"requested_data,omitempty" minItems:"1" maxItems:"50" enum:"id,trace_id,created_at,request,response,is_success,ai_org,ai_model,req_units,res_units,total_units,request_url,cost,cost_currency,response_time,response_status_code,mode,config,prompt_slug,metadata,outcome,provider_slug,upstream_model,response_model,target,target_name,error_code,cost_nano_usd,first_token_ms,config_version,prompt_version,api_key_id,operation,workspace_id"`
		Format    string                  `json:"format,omitempty" enum:"jsonl,csv,parquet"`
	}
}

func (f Routes) update(ctx context.Context, c *route.Caller, in *updateInput) (*created, error) {
	row, w, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	if row.Status != store.ExportDraft {
		return nil, wrongState(&row, "only a draft can be changed")
	}
	b := &in.Body
	if b.Filters.Null {
		return nil, route.Invalid("filters", "can't be cleared")
	}
	filters := b.Filters.Value
	if !b.Filters.Set {
		if err := json.Unmarshal(row.Filters, &filters); err != nil {
			return nil, err
		}
	}
	if b.Requested != nil {
		row.Requested = b.Requested
	}
	row.Format = cmp.Or(b.Format, row.Format)
	if err := f.ask(ctx, c, w, &row, &filters); err != nil {
		return nil, err
	}
	return &created{row.ID, row.Expected, "export"}, change(ctx, c, row, store.ExportDraft, nil)
}

// change stores the changed export and runs then, nil for nothing, in the same
// transaction. It returns a conflict if the state of the export was changed after the
// request read it.
func change(ctx context.Context, c *route.Caller, row store.Export, was string, then func(*store.Tx) error) error {
	read := row.UpdatedAt
	row.UpdatedAt = c.NextUpdateTime(read)
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.Export(ctx, row.ID)
		if err = c.CheckIfMatch(read, now.UpdatedAt, err); err == nil {
			err = tx.UpdateExport(ctx, row, was)
		}
		if apierr.IsNotFound(err) {
			return apierr.New(apierr.Conflict, "the state of the export has just changed; read it again")
		}
		if err != nil || then == nil {
			return err
		}
		return then(tx)
	})
}

type messageResponse struct {
	Message string `json:"message"`
	Object  string `json:"object"`
}

func (f Routes) start(ctx context.Context, c *route.Caller, in *Named) (*messageResponse, error) {
	row, _, err := find(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	if row.Status != store.ExportDraft {
		return nil, wrongState(&row, "only a draft can be started")
	}
	if row.Keys, err = visibleKeys(ctx, c.DB(), &row); err != nil {
		return nil, err
	}
	row.Status, row.StartedAt = store.ExportRunning, c.Now
	job := store.Job{
		ID: c.NewID(), Kind: store.JobExport, Subject: row.ID, Organisation: row.Organisation, Workspace: row.Workspace,
		Total: row.Expected, NextAt: c.Now, CreatedAt: c.Now,
	}
	if err := change(ctx, c, row, store.ExportDraft, func(tx *store.Tx) error { return tx.AddJob(ctx, job) }); err != nil {
		return nil, err
	}
	if f.Started != nil {
		f.Started()
	}
	return &messageResponse{"the export has started", "export"}, nil
}

// visibleKeys returns the keys whose entries the creator of an export may see now, nil
// for all of its workspace. It returns an error if a user may no longer read the log.
func visibleKeys(ctx context.Context, q store.Queries, row *store.Export) ([]string, error) {
	if row.UserID == "" {
		return nil, nil
	}
	maker := &access.Identity{Organisation: row.Organisation, Workspace: row.Workspace, UserID: row.UserID, Type: access.Session}
	if err := route.CheckPermission(ctx, q, maker, row.Workspace, scope.Permission()); err != nil {
		return nil, err
	}
	return route.Visible(ctx, q, maker, row.Workspace)
}

func cancel(ctx context.Context, c *route.Caller, in *Named) (*messageResponse, error) {
	row, _, err := find(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	if row.Status != store.ExportRunning {
		return nil, wrongState(&row, "only an export in progress can be stopped")
	}
	row.Status, row.EndedAt = store.ExportStopped, c.Now
	return &messageResponse{"the export is stopped", "export"},
		change(ctx, c, row, store.ExportRunning, func(tx *store.Tx) error { return cancelJob(ctx, tx, &row) })
}

// cancelJob cancels the job that writes an export.
func cancelJob(ctx context.Context, tx *store.Tx, row *store.Export) error {
	err := jobs.Change(ctx, tx,
		func() (store.Job, error) { return tx.JobOf(ctx, store.JobExport, row.ID) },
		func(j store.Job) (store.Job, error) { return jobs.Cancel(j, row.EndedAt) })
	if apierr.IsNotFound(err) { // a node of an earlier version has started it
		return nil
	}
	return err
}

func wrongState(row *store.Export, rule string) error {
	return apierr.New(apierr.Invalid, "the export is in the state %s; %s", row.Status, rule).WithParam("export")
}

type link struct {
	URL string `json:"signed_url" doc:"Anyone with the link can read the file for 15 minutes"`
}

func (f Routes) download(ctx context.Context, c *route.Caller, in *Named) (*link, error) {
	row, _, err := find(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	switch {
	case row.Status == store.ExportExpired:
		return nil, wrongState(&row, "its file has expired; create another export")
	case row.Status != store.ExportDone:
		return nil, wrongState(&row, "only a successful export has a file")
	case f.Files == nil:
		return nil, apierr.New(apierr.Unavailable, "this gateway does not serve export files")
	}
	if err := checkFields(ctx, c.DB(), &row); err != nil {
		return nil, err
	}
	address, err := f.Files.Link(ctx, row)
	if err != nil {
		return nil, err
	}
	if address[0] == '/' { // a path of this gateway
		address = c.AbsoluteLink(address)
	}
	return &link{address}, nil
}

type restrictionsInput struct {
	Workspace string `query:"workspace_id" maxLength:"255"`
}

type restricted struct {
	Denied []string `json:"denied_fields"`
	Object string   `json:"object"`
}

func restrictions(ctx context.Context, c *route.Caller, in *restrictionsInput) (*restricted, error) {
	if _, err := c.WorkspaceFilter(ctx, in.Workspace); err != nil {
		return nil, err
	}
	fields, err := denied(ctx, c.DB(), c.Organisation)
	return &restricted{append([]string{}, fields...), "field-restrictions"}, err
}
