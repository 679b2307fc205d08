package prompts

import (
	"context"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Put stores p, which a file describes, instead of before; nil is a new prompt or partial.
// Without a collection it is in the default one. Versions are those to add, which have no
// number yet, and those to give the label that they have. A new prompt has at least one.
func Put(ctx context.Context, c *route.Caller, before *store.Prompt, p store.Prompt, versions []store.PromptVersion) error {
	p.UpdatedBy, p.UpdatedAt = c.Actor(), c.NextUpdateTime(p.UpdatedAt)
	return c.Change(ctx, func(tx *store.Tx) (err error) {
		w := store.Workspace{ID: p.Workspace, Organisation: p.Organisation}
		if p.Collection, err = collection(ctx, tx, c, w, p.Collection); err != nil {
			return err
		}
		for i, v := range versions {
			label, stored := v.Label, v.Number > 0
			v.Label, v.CreatedBy, v.CreatedAt = "", c.Actor(), c.Now // the label may be on another version still
			switch {
			case stored:
			case before == nil && i == 0:
				p.OwnerID, p.CreatedAt = c.Actor(), c.Now
				err = tx.CreatePrompt(ctx, p, v)
			default:
				_, err = tx.AddPromptVersion(ctx, v)
			}
			if err == nil && (stored || label != "") {
				err = tx.LabelPromptVersion(ctx, p.ID, v.ID, label)
			}
			if err != nil {
				return err
			}
		}
		return tx.UpdatePrompt(ctx, p)
	})
}
