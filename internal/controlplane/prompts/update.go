package prompts

import (
	"context"
	"strings"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

type updateInput struct {
	Named
	Body struct {
		Patch      bool                   `json:"patch,omitempty" doc:"Copies missing version fields from the newest version"`
		Name       route.Optional[string] `json:"name,omitempty"`
		Collection route.Optional[string] `json:"collection_id,omitempty" doc:"Id or slug"`
		Fields
	}
}

// scopeRead allows to read prompts and partials.
const scopeRead access.Scope = "prompts.read"

// updated is the new version of a prompt, if there is one, with its content for callers who
// may read it.
type updated struct {
	ID        string `json:"id,omitempty"`
	Slug      string `json:"slug,omitempty"`
	VersionID string `json:"prompt_version_id,omitempty"`
	*full
}

func update(ctx context.Context, c *route.Caller, in *updateInput) (*updated, error) {
	b := &in.Body
	if names := b.missing(); b.anySet() && !b.Patch && len(names) > 0 {
		return nil, route.Invalid(names[0], "is required for a new version, with string, parameters and model; missing: %s. Send \"patch\": true to copy missing fields from the latest version",
			strings.Join(names, ", "))
	}
	row, err := find(ctx, c, store.KindPrompt, in.Prompt, in.Workspace)
	if err != nil {
		return nil, err
	}
	out := new(updated)
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := fresh(ctx, c, tx, row)
		if err != nil {
			return err
		}
		if err := in.rename(ctx, c, tx, &now); err != nil {
			return err
		}
		if err := tx.UpdatePrompt(ctx, now); err != nil || !b.anySet() {
			return err
		}
		out.ID, out.Slug = now.ID, now.Slug
		v, err := in.add(ctx, c, tx, now)
		if out.VersionID = v.ID; err == nil && c.Allows(scopeRead) {
			out.full, err = toFull(now, v)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// rename applies the changes of fields that do not belong to a version.
func (in *updateInput) rename(ctx context.Context, c *route.Caller, tx *store.Tx, p *store.Prompt) (err error) {
	b := &in.Body
	p.Name = b.Name.Or(p.Name)
	if err := route.CheckLength("name", p.Name, 1, maxWord); err != nil {
		return err
	}
	if !b.Collection.Set {
		return nil
	}
	w, err := tx.Workspace(ctx, p.Organisation, p.Workspace)
	if err != nil {
		return err
	}
	p.Collection, err = collection(ctx, tx, c, w, b.Collection.Value)
	return err
}

// add creates the version that the request describes and returns it. The newest
// version is read in the same transaction, so that of two concurrent patches the second
// builds on the first.
func (in *updateInput) add(ctx context.Context, c *route.Caller, tx *store.Tx, p store.Prompt) (v store.PromptVersion, err error) {
	var old state
	if in.Body.Patch {
		latest, err := tx.LatestPromptVersion(ctx, p.ID)
		if err != nil {
			return v, err
		}
		if old, err = stateOf(latest); err != nil {
			return v, err
		}
	}
	next, err := in.Body.over(old)
	if err != nil {
		return v, err
	}
	v = next.version(c, p.ID)
	v.Number, err = tx.AddPromptVersion(ctx, v)
	return v, err
}
