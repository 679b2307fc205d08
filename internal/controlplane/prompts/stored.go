package prompts

import (
	"context"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Put stores p, a prompt or partial, instead of before, nil for a new one. Its collection is an
// id or slug, empty for the default collection. Versions are those to add, which have no number
// yet, and those to give the label that they have. A new prompt has at least one.
func Put(ctx context.Context, c *route.Caller, before *store.Prompt, p store.Prompt, versions []store.PromptVersion) error {
	if p.UpdatedBy, p.UpdatedAt = c.Actor(), c.NextUpdateTime(p.UpdatedAt); before == nil {
		p.OwnerID, p.CreatedAt = c.Actor(), c.Now
	}
	return c.Change(ctx, func(tx *store.Tx) (err error) {
		w := store.Workspace{ID: p.Workspace, Organisation: p.Organisation}
		if p.Collection, err = collection(ctx, tx, c, w, p.Collection); err != nil {
			return err
		}
		if before == nil {
			if err := tx.CreatePrompt(ctx, p, toAdd(c, versions[0])); err != nil {
				return err
			}
		}
		for i, v := range versions {
			if v.Number == 0 && (before != nil || i > 0) {
				_, err = tx.AddPromptVersion(ctx, toAdd(c, v))
			}
			if err == nil && (v.Number > 0 || v.Label != "") {
				err = tx.LabelPromptVersion(ctx, p.ID, v.ID, v.Label)
			}
			if err != nil {
				return err
			}
		}
		if before == nil && p.Published == 1 {
			return nil
		}
		return tx.UpdatePrompt(ctx, p)
	})
}

// toAdd returns v as it is added: without its label, which another version may have until it
// is moved.
func toAdd(c *route.Caller, v store.PromptVersion) store.PromptVersion {
	v.Label, v.CreatedBy, v.CreatedAt = "", c.Actor(), c.Now
	return v
}
