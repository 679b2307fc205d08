package exports

import (
	"cmp"
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Item is an export in a response.
type Item struct {
	ID           string     `json:"id"`
	Organisation string     `json:"organisation_id"`
	Workspace    string     `json:"workspace_id"`
	Status       string     `json:"status" enum:"draft,in_progress,success,failed,stopped,expired"`
	Format       string     `json:"format" enum:"jsonl,csv,parquet"`
	Filters      route.JSON `json:"filters"`
	Schedule     *string    `json:"schedule_id" doc:"Schedule that started it; null for none"`
	Requested    []string   `json:"requested_data"`
	Fields       []string   `json:"fields" doc:"Fields of the file: those requested and not denied; empty until there is a file"`
	Total        *int64     `json:"total" doc:"Approximate number of rows; null if they were not counted"`
	Rows         int64      `json:"rows" doc:"Written so far"`
	Bytes        int64      `json:"bytes" doc:"Written so far"`
	Error        *string    `json:"error" doc:"Why it failed"`
	CreatedBy    string     `json:"created_by"`
	CreatedAt    route.Time `json:"created_at"`
	UpdatedAt    route.Time `json:"last_updated_at"`
	StartedAt    route.Time `json:"started_at"`
	EndedAt      route.Time `json:"ended_at"`
	ExpiresAt    route.Time `json:"expires_at" doc:"When the file is deleted"`
	Object       string     `json:"object"`
}

func toResponse(e store.Export) Item {
	return Item{
		ID: e.ID, Organisation: e.Organisation, Workspace: e.Workspace, Status: e.Status, Format: e.Format,
		Filters: route.JSON(e.Filters), Schedule: nullIfEmpty(e.Schedule),
		Requested: e.Requested, Fields: append([]string{}, e.Fields...), Total: e.Expected,
		Error: route.OrNull(e.Failure), Rows: e.Rows, Bytes: e.Bytes, CreatedBy: e.CreatedBy,
		CreatedAt: route.Time(e.CreatedAt), UpdatedAt: route.Time(e.UpdatedAt), StartedAt: route.Time(e.StartedAt),
		EndedAt: route.Time(e.EndedAt), ExpiresAt: route.Time(e.ExpiresAt), Object: "export",
	}
}

type listInput struct {
	Workspace string `query:"workspace_id" maxLength:"255"`
	Schedule  string `query:"schedule_id" maxLength:"64" doc:"Only exports that this schedule started"`
	route.Paging
}

func list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[Item], error) {
	isAdmin, err := administers(ctx, c)
	if err != nil {
		return nil, err
	}
	q := store.ExportQuery{Organisation: c.Organisation, Archived: isAdmin}
	if isAdmin && in.Workspace != "" {
		w, err := place(ctx, c, in.Workspace)
		if err != nil {
			return nil, err
		}
		q.Workspace = w.ID
	} else if q.Workspace, err = c.VisibleWorkspace(ctx, in.Workspace); err != nil {
		return nil, err
	}
	if err := c.CheckOwnWorkspace(ctx, "workspace_id", in.Workspace); err != nil {
		return nil, err
	}
	if q.Schedule = in.Schedule; q.Schedule != "" {
		if _, err := findSchedule(ctx, c, q.Schedule); err != nil {
			return nil, err
		}
	}
	if c.IsPerson() {
		q.UserID = c.UserID
	}
	found, total, err := c.DB().Exports(ctx, q, in.Rows())
	return route.Listing(found, total, err, toResponse)
}

func get(ctx context.Context, c *route.Caller, in *Named) (*Item, error) {
	row, _, err := find(ctx, c, *in)
	return route.ItemOf(row, err, toResponse)
}

// find returns the export that a request names and its workspace, if the caller may see
// it: users see only exports that they created.
func find(ctx context.Context, c *route.Caller, in Named) (row store.Export, w store.Workspace, err error) {
	none := route.NotFound("export", "export", in.Export)
	row, err = c.DB().Export(ctx, in.Export)
	if err != nil && !apierr.IsNotFound(err) {
		return row, w, err
	}
	if err != nil || row.Organisation != c.Organisation || c.IsPerson() && row.UserID != c.UserID {
		return row, w, none
	}
	if w, err = c.DB().Workspace(ctx, row.Organisation, row.Workspace); err != nil {
		return row, w, err
	}
	there, err := reaches(ctx, c, &w, in.Workspace)
	if err != nil {
		return row, w, err
	}
	if !there {
		return row, w, none
	}
	c.SetAuditSubject(w.ID, row.ID)
	return row, w, c.CheckRoutePermission(ctx, w.ID)
}

// reaches reports whether the caller may use workspace w. Named is the workspace in the
// request, empty for none.
func reaches(ctx context.Context, c *route.Caller, w *store.Workspace, named string) (bool, error) {
	isAdmin, err := administers(ctx, c)
	if err != nil {
		return false, err
	}
	own := c.Workspace != "" && !c.Allows(access.ScopeAll)
	switch {
	case own && c.Workspace != w.ID,
		named != "" && named != w.ID && named != w.Slug,
		!isAdmin && w.Status != store.Active:
		return false, nil
	case !c.IsPerson():
		return true, nil
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	return m.RoleIn(w.ID) != "", err
}

// place returns the workspace named in a request. Archived workspaces are visible only
// to administrators of the organisation.
func place(ctx context.Context, c *route.Caller, named string) (store.Workspace, error) {
	isAdmin, err := administers(ctx, c)
	if err != nil {
		return store.Workspace{}, err
	}
	ref := cmp.Or(named, c.Workspace)
	if !isAdmin || ref == "" {
		return c.InWorkspace(ctx, named)
	}
	w, err := c.DB().Workspace(ctx, c.Organisation, ref)
	if apierr.IsNotFound(err) {
		err = route.Missing("workspace_id", "workspace", ref)
	}
	return w, err
}

// administers reports whether the caller also sees archived workspaces: the
// organisation's owner and admins do, and installation keys.
func administers(ctx context.Context, c *route.Caller) (bool, error) {
	if !c.IsPerson() {
		return c.Allows(access.ScopeAll), nil
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	return c.Workspace == "" && (m.Role == "owner" || m.Role == "admin"), err
}
