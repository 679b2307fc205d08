// Package prompts implements the control plane's routes for saved prompts and their
// versions, partials, labels and collections.
//
// It guarantees that an invalid template is never stored, that a version never changes,
// and that only the first version is published without a request. It does not fill
// templates (see prompt) or run prompts (see dataplane).
package prompts

import (
	"context"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/prompt"
	"modelgate/internal/store"
)

// Add adds the routes of prompts.
func Add(a *route.API) {
	f := route.Family{Path: "/prompts", Tag: "Prompts", Scopes: []string{"prompts"}, Resource: "prompt", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-prompt", "create", "Save a prompt; its first version is published"), create)
	route.Add(a, f.Route(http.MethodGet, "", "list-prompts", "list", "List prompts"), list)
	route.Add(a, f.Route(http.MethodGet, "/{prompt}", "get-prompt", "read", "Read a version of a prompt"), get)
	route.Add(a, f.Route(http.MethodPut, "/{prompt}", "update-prompt", "update",
		"Change a prompt; changed version fields create a new version"), update)
	route.Add(a, f.Route(http.MethodDelete, "/{prompt}", "delete-prompt", "delete", "Archive a prompt"), archive)
	route.Add(a, f.Route(http.MethodPut, "/{prompt}/makeDefault", "publish-prompt", "publish", "Publish a version of a prompt"), publish)
	route.Add(a, f.Route(http.MethodGet, "/{prompt}/versions", "list-prompt-versions", "read",
		"List versions of a prompt, newest first"), versions)
	route.Add(a, f.Route(http.MethodGet, "/{prompt}/versions/{version}", "get-prompt-version", "read",
		"Read a version of a prompt"), getVersion)
	route.Add(a, f.Route(http.MethodPut, "/{prompt}/versions/{version}", "label-prompt-version", "update",
		"Set the label of a version of a prompt"), label)
	f.AddRestore(a, store.RestorePrompt, nil)
	addPartials(a)
	addLabels(a)
	addCollections(a)
}

type createInput struct {
	Body struct {
		Name       string `json:"name" minLength:"1" maxLength:"255"`
		Collection string `json:"collection_id,omitempty" maxLength:"255" doc:"Id or slug; defaults to the workspace's default collection"`
		Workspace  string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required for organisation keys"`
		Fields
	}
}

type created struct {
	ID        string `json:"id"`
	Slug      string `json:"slug"`
	VersionID string `json:"version_id"`
	Object    string `json:"object"`
}

func create(ctx context.Context, c *route.Caller, in *createInput) (*created, error) {
	b := &in.Body
	if !b.String.Set {
		return nil, route.Invalid("string", "is required: the messages or the text of the prompt")
	}
	first, err := b.over(state{})
	if err != nil {
		return nil, err
	}
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return nil, err
	}
	row := store.Prompt{
		ID: c.NewID(), Kind: store.KindPrompt, Organisation: w.Organisation, Workspace: w.ID, Collection: b.Collection,
		Slug: route.NewSlug("pp", b.Name), Name: b.Name, Published: 1, Status: store.Active,
	}
	v := first.version(c, row.ID)
	c.SetAuditSubject(w.ID, row.ID)
	if err := Put(ctx, c, nil, row, []store.PromptVersion{v}); err != nil {
		return nil, err
	}
	return &created{row.ID, row.Slug, v.ID, store.KindPrompt}, nil
}

// Item is a prompt in a list.
type Item struct {
	ID         string     `json:"id"`
	Slug       string     `json:"slug"`
	Name       string     `json:"name"`
	Collection string     `json:"collection_id"`
	Workspace  string     `json:"workspace_id"`
	Model      string     `json:"model"`
	Status     string     `json:"status"`
	CreatedAt  route.Time `json:"created_at"`
	UpdatedAt  route.Time `json:"last_updated_at"`
	Object     string     `json:"object"`
}

func toResponse(p store.Prompt) Item {
	return Item{p.ID, p.Slug, p.Name, p.Collection, p.Workspace, p.Model, p.Status, route.Time(p.CreatedAt), route.Time(p.UpdatedAt), p.Kind}
}

// Listing are the parameters of lists of prompts and partials.
type Listing struct {
	Workspace  string `query:"workspace_id" maxLength:"255"`
	Collection string `query:"collection_id" maxLength:"255" doc:"Id or slug"`
	Search     string `query:"search" maxLength:"255" doc:"Case-sensitive substring of the name"`
	route.Selection
}

func list(ctx context.Context, c *route.Caller, in *Listing) (*route.List[Item], error) {
	found, total, err := in.find(ctx, c, store.KindPrompt)
	return route.Listing(found, total, err, toResponse)
}

// find returns the rows that a list contains.
func (in *Listing) find(ctx context.Context, c *route.Caller, kind string) ([]store.Prompt, int, error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, 0, err
	}
	q := store.PromptQuery{Organisation: c.Organisation, Kind: kind, Workspace: workspace, Search: in.Search}
	if in.Collection != "" {
		k, err := c.DB().PromptCollection(ctx, c.Organisation, workspace, in.Collection)
		if apierr.IsNotFound(err) {
			return nil, 0, route.Missing("collection_id", "collection", in.Collection)
		}
		if err != nil {
			return nil, 0, err
		}
		q.Collection = k.ID
	}
	p, err := in.Rows(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	return c.DB().Prompts(ctx, q, p)
}

// Named identifies a prompt in a request.
type Named struct {
	Prompt    string `path:"prompt" maxLength:"512" doc:"Id or slug; to read a version, followed by @latest, @ and a number, or @ and a label"`
	Workspace string `query:"workspace_id" maxLength:"255"`
}

// find returns the prompt that a request names if the caller may see it.
func find(ctx context.Context, c *route.Caller, kind, ref, named string) (store.Prompt, error) {
	workspace, err := c.VisibleWorkspace(ctx, named)
	if err != nil {
		return store.Prompt{}, err
	}
	row, err := c.DB().Prompt(ctx, kind, c.Organisation, workspace, ref)
	return row, c.CheckFound(row.Workspace, row.ID, err, route.NotFound(kind, kind, ref))
}

type getInput struct {
	Named
	Version string `query:"version" maxLength:"255" doc:"latest, default, a number or a label; takes precedence over the version in the path"`
}

func get(ctx context.Context, c *route.Caller, in *getInput) (*full, error) {
	row, v, err := findVersion(ctx, c, wantedVersion{store.KindPrompt, in.Prompt, in.Version, in.Workspace})
	if err != nil {
		return nil, err
	}
	return toFull(row, v)
}

// wantedVersion identifies a version of a prompt or partial. If version is empty it is
// the version after the @ of ref, otherwise the published one.
type wantedVersion struct{ kind, ref, version, workspace string }

// findVersion returns a prompt or partial and a version of it.
func findVersion(ctx context.Context, c *route.Caller, want wantedVersion) (row store.Prompt, v store.PromptVersion, err error) {
	name, which := prompt.Cut(want.ref)
	if want.version != "" {
		which = want.version
	}
	if row, err = find(ctx, c, want.kind, name, want.workspace); err != nil {
		return row, v, err
	}
	v, err = version(ctx, c.DB(), row, which)
	return row, v, err
}

func archive(ctx context.Context, c *route.Caller, in *Named) (*route.Empty, error) {
	row, err := find(ctx, c, store.KindPrompt, in.Prompt, in.Workspace)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, Archive(ctx, c, row)
}

// Archive archives a prompt or partial.
func Archive(ctx context.Context, c *route.Caller, row store.Prompt) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := fresh(ctx, c, tx, row)
		if err != nil {
			return err
		}
		now.Status = store.Archived
		return tx.UpdatePrompt(ctx, now)
	})
}

// fresh reads a prompt or partial again in the transaction of its change and sets who
// changes it, and when. Other requests may have changed it or archived it.
func fresh(ctx context.Context, c *route.Caller, tx *store.Tx, row store.Prompt) (store.Prompt, error) {
	now, err := tx.Prompt(ctx, row.Kind, row.Organisation, row.Workspace, row.ID)
	if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
		return now, err
	}
	now.UpdatedBy, now.UpdatedAt = c.Actor(), c.NextUpdateTime(now.UpdatedAt)
	return now, nil
}

// Publish is the body of a request to publish a version.
type Publish struct {
	Version int64 `json:"version" minimum:"1" doc:"Number of the version"`
}

type publishInput struct {
	Named
	Body Publish
}

func publish(ctx context.Context, c *route.Caller, in *publishInput) (*route.Empty, error) {
	row, err := find(ctx, c, store.KindPrompt, in.Prompt, in.Workspace)
	if err != nil {
		return nil, err
	}
	return makeDefault(ctx, c, row, in.Body.Version)
}

// makeDefault publishes a version of a prompt or partial.
func makeDefault(ctx context.Context, c *route.Caller, row store.Prompt, number int64) (*route.Empty, error) {
	err := c.Change(ctx, func(tx *store.Tx) error {
		if _, err := tx.PromptVersion(ctx, row.ID, number); apierr.IsNotFound(err) {
			return apierr.New(apierr.NotFound, "version %[3]d of the %[1]s %[2]q not found", row.Kind, row.Slug, number).WithParam("version")
		} else if err != nil {
			return err
		}
		now, err := fresh(ctx, c, tx, row)
		if err != nil {
			return err
		}
		now.Published = number
		return tx.UpdatePrompt(ctx, now)
	})
	return &route.Empty{}, err
}
