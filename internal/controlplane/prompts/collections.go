package prompts

import (
	"context"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

func addCollections(a *route.API) {
	f := route.Family{Path: "/collections", Tag: "Prompts", Scopes: []string{"prompts"}, Resource: "prompt_collection", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-collection", "create", "Create a collection of prompts"), createCollection)
	route.Add(a, f.Route(http.MethodGet, "", "list-collections", "list", "List collections"), listCollections)
	route.Add(a, f.Route(http.MethodGet, "/{collection}", "get-collection", "read", "Read a collection"), getCollection)
	route.Add(a, f.Route(http.MethodPut, "/{collection}", "update-collection", "update", "Rename a collection"), updateCollection)
	route.Add(a, f.Route(http.MethodDelete, "/{collection}", "delete-collection", "delete", "Archive an empty collection"), archiveCollection)
	f.AddRestore(a, store.RestoreCollection, nil)
}

// collection returns the id of the collection that ref names by id or slug in a
// prompt's workspace. Without ref it is the default collection, which is created if
// necessary.
func collection(ctx context.Context, tx *store.Tx, c *route.Caller, w store.Workspace, ref string) (string, error) {
	if ref != "" {
		k, err := tx.PromptCollection(ctx, w.Organisation, w.ID, ref)
		if apierr.IsNotFound(err) {
			return "", route.Missing("collection_id", "collection", ref)
		}
		return k.ID, err
	}
	k, err := tx.DefaultPromptCollection(ctx, w.ID)
	if apierr.IsNotFound(err) {
		k = store.PromptCollection{ID: c.NewID(), Slug: route.NewSlug("co", "default"), CreatedAt: c.Now}
		err = tx.CreateDefaultPromptCollection(ctx, w, k)
	}
	return k.ID, err
}

type createCollectionInput struct {
	Body struct {
		Name      string `json:"name" minLength:"1" maxLength:"255"`
		Workspace string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required for organisation keys"`
		Parent    string `json:"parent_collection_id,omitempty" maxLength:"255" doc:"Id or slug"`
	}
}

type createdCollection struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
}

func createCollection(ctx context.Context, c *route.Caller, in *createCollectionInput) (*createdCollection, error) {
	b := &in.Body
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return nil, err
	}
	k := store.PromptCollection{ID: c.NewID(), Organisation: w.Organisation, Workspace: w.ID, Slug: route.NewSlug("co", b.Name), Name: b.Name,
		Status: store.Active, CreatedAt: c.Now, UpdatedAt: c.Now}
	c.SetAuditSubject(w.ID, k.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		if b.Parent != "" {
			above, err := tx.PromptCollection(ctx, w.Organisation, w.ID, b.Parent)
			if apierr.IsNotFound(err) {
				return route.Missing("parent_collection_id", "collection", b.Parent)
			}
			if err != nil {
				return err
			}
			k.Parent = above.ID
		}
		return tx.CreatePromptCollection(ctx, k)
	})
	if err != nil {
		return nil, err
	}
	return &createdCollection{k.ID, k.Slug}, nil
}

// Details counts the contents of a collection.
type Details struct {
	Children int64 `json:"child_collections_count"`
	Prompts  int64 `json:"prompts_count"`
}

// Collection is a collection in a response.
type Collection struct {
	ID        string     `json:"id"`
	Slug      string     `json:"slug"`
	Name      string     `json:"name"`
	Workspace string     `json:"workspace_id"`
	Parent    *string    `json:"parent_collection_id"`
	IsDefault bool       `json:"is_default"`
	Details   Details    `json:"collection_details"`
	Status    string     `json:"status"`
	CreatedAt route.Time `json:"created_at"`
	UpdatedAt route.Time `json:"last_updated_at"`
	Object    string     `json:"object"`
}

func toCollection(k store.PromptCollection) Collection {
	return Collection{k.ID, k.Slug, k.Name, k.Workspace, route.OrNull(k.Parent), k.IsDefault, Details{k.Children, k.Prompts}, k.Status,
		route.Time(k.CreatedAt), route.Time(k.UpdatedAt), "collection"}
}

type listCollectionsInput struct {
	Workspace string `query:"workspace_id" maxLength:"255"`
	Search    string `query:"search" maxLength:"255" doc:"Another name of name"`
	route.Selection
}

func listCollections(ctx context.Context, c *route.Caller, in *listCollectionsInput) (*route.List[Collection], error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	p, err := in.Rows(ctx, c)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().PromptCollections(ctx, c.Organisation, workspace, in.Search, p)
	return route.Listing(found, total, err, toCollection)
}

// NamedCollection identifies a collection in a request.
type NamedCollection struct {
	Collection string `path:"collection" maxLength:"255" doc:"Id or slug"`
	Workspace  string `query:"workspace_id" maxLength:"255"`
}

func (in *NamedCollection) find(ctx context.Context, c *route.Caller) (store.PromptCollection, error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return store.PromptCollection{}, err
	}
	k, err := c.DB().PromptCollection(ctx, c.Organisation, workspace, in.Collection)
	return k, c.CheckFound(k.Workspace, k.ID, err, noCollection(in.Collection))
}

func noCollection(ref string) error {
	return route.NotFound("collection", "collection", ref)
}

func getCollection(ctx context.Context, c *route.Caller, in *NamedCollection) (*Collection, error) {
	k, err := in.find(ctx, c)
	return route.ItemOf(k, err, toCollection)
}

type updateCollectionInput struct {
	NamedCollection
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"255"`
	}
}

func updateCollection(ctx context.Context, c *route.Caller, in *updateCollectionInput) (*route.Empty, error) {
	k, err := in.find(ctx, c)
	if err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.PromptCollection(ctx, k.Organisation, k.Workspace, k.ID) // another request may have archived it
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		now.Name, now.UpdatedAt = in.Body.Name, c.NextUpdateTime(now.UpdatedAt)
		return tx.UpdatePromptCollection(ctx, now)
	})
	return &route.Empty{}, err
}

// archiveCollection archives an empty collection. The default collection cannot be
// archived and is not found.
func archiveCollection(ctx context.Context, c *route.Caller, in *NamedCollection) (*route.Empty, error) {
	k, err := in.find(ctx, c)
	if err != nil {
		return nil, err
	}
	if k.IsDefault {
		return nil, noCollection(in.Collection)
	}
	return &route.Empty{}, ArchiveCollection(ctx, c, k)
}

// ArchiveCollection archives a collection, which must be empty.
func ArchiveCollection(ctx context.Context, c *route.Caller, k store.PromptCollection) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.PromptCollection(ctx, k.Organisation, k.Workspace, k.ID)
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		if now.Children+now.Prompts > 0 {
			return apierr.New(apierr.Conflict, "the collection %q still contains %d prompts and %d collections", now.Slug, now.Prompts, now.Children)
		}
		now.Status, now.UpdatedAt = store.Archived, c.NextUpdateTime(now.UpdatedAt)
		return tx.UpdatePromptCollection(ctx, now)
	})
}

// PutCollection stores k, which a file describes, instead of before; nil is a new collection.
func PutCollection(ctx context.Context, c *route.Caller, before *store.PromptCollection, k store.PromptCollection) error {
	write := (*store.Tx).UpdatePromptCollection
	if k.UpdatedAt = c.NextUpdateTime(k.UpdatedAt); before == nil {
		write, k.CreatedAt = (*store.Tx).CreatePromptCollection, c.Now
	}
	return c.Change(ctx, func(tx *store.Tx) error { return write(tx, ctx, k) })
}
