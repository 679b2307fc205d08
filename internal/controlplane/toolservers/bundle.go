package toolservers

import (
	"cmp"
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

type createBundleInput struct {
	Body struct {
		Name        string   `json:"name" minLength:"1" maxLength:"255"`
		Slug        string   `json:"slug,omitempty" maxLength:"50" doc:"3 to 50 lower-case letters, digits and dashes; part of the address, and never changes"`
		Description string   `json:"description,omitempty" maxLength:"500"`
		Workspace   string   `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required for callers of the organisation"`
		Tools       []string `json:"tools" nullable:"false" minItems:"1" maxItems:"500" maxLength:"512" doc:"Patterns such as github, github/tool/create_* and */prompt/*"`
		SearchAbove int      `json:"search_above,omitempty" minimum:"0" maximum:"5000" doc:"Replaces the list by tools for searching if it has more tools. 0, the default, lists all"`
	}
}

func createBundle(ctx context.Context, c *route.Caller, in *createBundleInput) (*created, error) {
	b := &in.Body
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return nil, err
	}
	if err := checkSelection(b.Tools); err != nil {
		return nil, err
	}
	row := store.ToolBundle{
		ID: c.NewID(), Organisation: c.Organisation, Workspace: w.ID, Slug: cmp.Or(b.Slug, route.NewSlug("", b.Name)), Name: b.Name,
		Description: b.Description, Selection: b.Tools, SearchAbove: b.SearchAbove, CreatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	c.SetAuditSubject(w.ID, row.ID)
	return &created{row.ID, row.Slug}, c.Change(ctx, func(tx *store.Tx) error { return insertBundle(ctx, tx, row) })
}

func checkSelection(tools []string) error {
	if _, err := toolserver.ParseSelection(tools); err != nil {
		return route.Invalid("tools", "is invalid: %v", err)
	}
	if len(tools) == 0 {
		return route.Invalid("tools", "must name at least one")
	}
	return nil
}

// insertBundle stores a new bundle.
func insertBundle(ctx context.Context, tx *store.Tx, row store.ToolBundle) error {
	if err := checkSlug(ctx, tx, row.Workspace, row.Slug, func(_, bundles int) error {
		if bundles >= maxBundles {
			return apierr.New(apierr.Invalid, "a workspace can have %d MCP bundles; delete one first", maxBundles)
		}
		return nil
	}); err != nil {
		return err
	}
	return tx.CreateToolBundle(ctx, row)
}

// Bundle is a bundle in a response.
type Bundle struct {
	ID           string     `json:"id"`
	Organisation string     `json:"organisation_id"`
	Workspace    string     `json:"workspace_id"`
	Name         string     `json:"name"`
	Slug         string     `json:"slug"`
	Description  string     `json:"description"`
	Tools        []string   `json:"tools"`
	SearchAbove  int        `json:"search_above"`
	URL          string     `json:"url" doc:"Where clients reach it through the gateway"`
	CreatedBy    string     `json:"created_by"`
	CreatedAt    route.Time `json:"created_at"`
	UpdatedAt    route.Time `json:"last_updated_at"`
	Object       string     `json:"object"`
}

func showBundle(c *route.Caller) func(store.ToolBundle) Bundle {
	return func(b store.ToolBundle) Bundle {
		return Bundle{
			ID: b.ID, Organisation: b.Organisation, Workspace: b.Workspace, Name: b.Name, Slug: b.Slug, Description: b.Description,
			Tools: b.Selection, SearchAbove: b.SearchAbove, URL: c.AbsoluteLink("/" + b.Slug + "/mcp"),
			CreatedBy: b.CreatedBy, CreatedAt: route.Time(b.CreatedAt),
			UpdatedAt: route.Time(b.UpdatedAt), Object: "mcp_bundle",
		}
	}
}

type listBundlesInput struct {
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug"`
	route.NamedPaging
}

func listBundles(ctx context.Context, c *route.Caller, in *listBundlesInput) (*route.List[Bundle], error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	rows, total, err := c.DB().ToolBundles(ctx, c.Organisation, workspace, in.Rows())
	return route.Listing(rows, total, err, showBundle(c))
}

func getBundle(ctx context.Context, c *route.Caller, in *NamedBundle) (*Bundle, error) {
	row, err := findBundle(ctx, c, *in)
	return route.ItemOf(row, err, showBundle(c))
}

type updateBundleInput struct {
	NamedBundle
	Body struct {
		Name        route.Optional[string]   `json:"name,omitempty"`
		Description route.Optional[string]   `json:"description,omitempty"`
		Tools       route.Optional[[]string] `json:"tools,omitempty" maxItems:"500" maxLength:"512" doc:"Replaces all patterns"`
		SearchAbove route.Optional[int]      `json:"search_above,omitempty" minimum:"0" maximum:"5000"`
	}
}

func updateBundle(ctx context.Context, c *route.Caller, in *updateBundleInput) (*route.Empty, error) {
	row, err := findBundle(ctx, c, in.NamedBundle)
	if err != nil {
		return nil, err
	}
	read, b := row.UpdatedAt, &in.Body
	row.Name, row.Description, row.Selection = b.Name.Or(row.Name), b.Description.Or(row.Description), b.Tools.Or(row.Selection)
	row.SearchAbove = b.SearchAbove.Or(row.SearchAbove)
	if err := cmp.Or(route.CheckLength("name", row.Name, 1, 255), route.CheckLength("description", row.Description, 0, 500),
		checkSelection(row.Selection)); err != nil {
		return nil, err
	}
	row.UpdatedAt = c.NextUpdateTime(read)
	return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolBundle(ctx, row.Organisation, row.Workspace, row.ID)
		if err := c.CheckIfMatch(read, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.UpdateToolBundle(ctx, row)
	})
}

func removeBundle(ctx context.Context, c *route.Caller, in *NamedBundle) (*route.Empty, error) {
	row, err := findBundle(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolBundle(ctx, row.Organisation, row.Workspace, row.ID)
		if err := c.CheckIfMatch(row.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.DeleteToolBundle(ctx, row.ID)
	})
}
