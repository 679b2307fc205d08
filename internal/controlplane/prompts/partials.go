package prompts

import (
	"context"
	"net/http"

	"modelgate/config"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

func addPartials(a *route.API) {
	f := route.Family{Path: "/prompts/partials", Tag: "Prompts", Scopes: []string{"prompts"}, Resource: "prompt_partial", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-partial", "create", "Save a partial; its first version is published"), createPartial)
	route.Add(a, f.Route(http.MethodGet, "", "list-partials", "list", "List partials"), listPartials)
	route.Add(a, f.Route(http.MethodGet, "/{partial}", "get-partial", "read", "Read a version of a partial"), getPartial)
	route.Add(a, f.Route(http.MethodPut, "/{partial}", "update-partial", "update",
		"Change a partial; a changed string creates a new version"), updatePartial)
	route.Add(a, f.Route(http.MethodDelete, "/{partial}", "delete-partial", "delete", "Archive a partial"), archivePartial)
	f.AddRestore(a, store.RestorePartial, nil)
	route.Add(a, f.Route(http.MethodGet, "/{partial}/versions", "list-partial-versions", "read",
		"List versions of a partial, newest first"), partialVersions)
	route.Add(a, f.Route(http.MethodPut, "/{partial}/makeDefault", "publish-partial", "publish", "Publish a version of a partial"),
		publishPartial)
}

type createPartialInput struct {
	Body struct {
		Name        string `json:"name" minLength:"1" maxLength:"255"`
		String      string `json:"string" maxLength:"1048576"`
		Collection  string `json:"collection_id,omitempty" maxLength:"255" doc:"Id or slug; defaults to the workspace's default collection"`
		Workspace   string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required for organisation keys"`
		Description string `json:"version_description,omitempty" maxLength:"255"`
	}
}

func createPartial(ctx context.Context, c *route.Caller, in *createPartialInput) (*created, error) {
	b := &in.Body
	if err := CheckPartial(b.String); err != nil {
		return nil, err
	}
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return nil, err
	}
	row := store.Prompt{
		ID: c.NewID(), Kind: store.KindPartial, Organisation: w.Organisation, Workspace: w.ID, Collection: b.Collection,
		Slug: route.NewSlug("ppl", b.Name), Name: b.Name, Published: 1, Status: store.Active,
	}
	v := partialVersion(c, row.ID, b.String, b.Description)
	c.SetAuditSubject(w.ID, row.ID)
	if err := Put(ctx, c, nil, row, []store.PromptVersion{v}); err != nil {
		return nil, err
	}
	return &created{row.ID, row.Slug, v.ID, store.KindPartial}, nil
}

func partialVersion(c *route.Caller, partial, text, description string) store.PromptVersion {
	return store.PromptVersion{ID: c.NewID(), Prompt: partial, Text: text, Description: description, CreatedBy: c.Actor(), CreatedAt: c.Now}
}

// PartialItem is a partial in a list.
type PartialItem struct {
	ID         string     `json:"id"`
	Slug       string     `json:"slug"`
	Name       string     `json:"name"`
	Collection string     `json:"collection_id"`
	Workspace  string     `json:"workspace_id"`
	Status     string     `json:"status"`
	CreatedAt  route.Time `json:"created_at"`
	UpdatedAt  route.Time `json:"last_updated_at"`
	Object     string     `json:"object"`
}

func toPartialItem(p store.Prompt) PartialItem {
	return PartialItem{p.ID, p.Slug, p.Name, p.Collection, p.Workspace, p.Status, route.Time(p.CreatedAt), route.Time(p.UpdatedAt), p.Kind}
}

func listPartials(ctx context.Context, c *route.Caller, in *Listing) (*route.List[PartialItem], error) {
	found, total, err := in.find(ctx, c, store.KindPartial)
	return route.Listing(found, total, err, toPartialItem)
}

// NamedPartial identifies a partial in a request.
type NamedPartial struct {
	Partial   string `path:"partial" maxLength:"512" doc:"Id or slug; to read a version, followed by @latest or @ and a number"`
	Workspace string `query:"workspace_id" maxLength:"255"`
}

type fullPartial struct {
	PartialItem
	String      string `json:"string"`
	Number      int64  `json:"version"`
	VersionID   string `json:"prompt_partial_version_id"`
	Description string `json:"version_description"`
	Published   bool   `json:"is_published" doc:"Whether this is the version used by prompts that name none"`
}

type getPartialInput struct {
	NamedPartial
	Version string `query:"version" maxLength:"255" doc:"latest, default or a number; takes precedence over the version in the path"`
}

func getPartial(ctx context.Context, c *route.Caller, in *getPartialInput) (*fullPartial, error) {
	row, v, err := findVersion(ctx, c, wantedVersion{store.KindPartial, in.Partial, in.Version, in.Workspace})
	if err != nil {
		return nil, err
	}
	return toFullPartial(row, v), nil
}

func toFullPartial(p store.Prompt, v store.PromptVersion) *fullPartial {
	return &fullPartial{toPartialItem(p), string(config.MaskExposed([]byte(v.Text))), v.Number, v.ID, v.Description, v.Number == p.Published}
}

type updatePartialInput struct {
	NamedPartial
	Body struct {
		Name        route.Optional[string] `json:"name,omitempty"`
		String      route.Optional[string] `json:"string,omitempty"`
		Description string                 `json:"description,omitempty" maxLength:"255" doc:"Description of the version that a changed string creates"`
		Status      string                 `json:"status,omitempty" enum:"active,archived"`
	}
}

// updatedPartial is the new version of a partial, if there is one, with its content for
// callers who may read it.
type updatedPartial struct {
	VersionID string `json:"prompt_partial_version_id,omitempty"`
	*fullPartial
}

func updatePartial(ctx context.Context, c *route.Caller, in *updatePartialInput) (*updatedPartial, error) {
	b := &in.Body
	if b.String.Null || len(b.String.Value) > maxString {
		return nil, route.Invalid("string", "must be at most %d bytes long and must not be null", maxString)
	}
	if err := CheckPartial(b.String.Value); err != nil {
		return nil, err
	}
	row, err := find(ctx, c, store.KindPartial, in.Partial, in.Workspace)
	if err != nil {
		return nil, err
	}
	out := new(updatedPartial)
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := fresh(ctx, c, tx, row)
		if err != nil {
			return err
		}
		now.Name = b.Name.Or(now.Name)
		if err := route.CheckLength("name", now.Name, 1, maxWord); err != nil {
			return err
		}
		if b.Status != "" {
			now.Status = b.Status
		}
		if err := tx.UpdatePrompt(ctx, now); err != nil || !b.String.Set {
			return err
		}
		v := partialVersion(c, row.ID, b.String.Value, b.Description)
		out.VersionID = v.ID
		v.Number, err = tx.AddPromptVersion(ctx, v)
		if c.Allows(scopeRead) {
			out.fullPartial = toFullPartial(now, v)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func archivePartial(ctx context.Context, c *route.Caller, in *NamedPartial) (*route.Empty, error) {
	row, err := find(ctx, c, store.KindPartial, in.Partial, in.Workspace)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, Archive(ctx, c, row)
}

// PartialVersion is a version of a partial in a list.
type PartialVersion struct {
	ID          string     `json:"prompt_partial_version_id"`
	Partial     string     `json:"prompt_partial_id"`
	String      string     `json:"string"`
	Number      int64      `json:"version"`
	Description string     `json:"description"`
	Published   bool       `json:"is_published"`
	CreatedAt   route.Time `json:"created_at"`
	Status      string     `json:"status"`
	Object      string     `json:"object"`
}

type partialVersionsInput struct {
	NamedPartial
	route.Paging
}

func partialVersions(ctx context.Context, c *route.Caller, in *partialVersionsInput) (*route.List[PartialVersion], error) {
	row, err := find(ctx, c, store.KindPartial, in.Partial, in.Workspace)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().PromptVersions(ctx, row.ID, in.Rows())
	return route.Listing(found, total, err, func(v store.PromptVersion) PartialVersion {
		return PartialVersion{v.ID, row.ID, string(config.MaskExposed([]byte(v.Text))), v.Number, v.Description, v.Number == row.Published,
			route.Time(v.CreatedAt), store.Active, "prompt_partial_version"}
	})
}

type publishPartialInput struct {
	NamedPartial
	Body Publish
}

func publishPartial(ctx context.Context, c *route.Caller, in *publishPartialInput) (*route.Empty, error) {
	row, err := find(ctx, c, store.KindPartial, in.Partial, in.Workspace)
	if err != nil {
		return nil, err
	}
	return makeDefault(ctx, c, row, in.Body.Version)
}
