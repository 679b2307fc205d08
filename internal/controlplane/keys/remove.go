package keys

import (
	"context"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

type removeMadeInput struct {
	CreatedBy string `query:"created_by" required:"true" minLength:"1" maxLength:"255" doc:"Id of the user or key that created the keys"`
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Only keys of this workspace"`
}

// removedKeys are the keys that a request revoked.
type removedKeys struct {
	Deleted []string `json:"deleted" doc:"Ids of the keys; keys that they created are revoked with them"`
	Object  string   `json:"object"`
}

// removedAtOnce is the number of keys read at a time.
const removedAtOnce = 500

// removeCreated revokes every key that a user or key created and the caller may delete:
// all of them, or none if one is refused.
func removeCreated(ctx context.Context, c *route.Caller, in *removeMadeInput) (*removedKeys, error) {
	f := store.KeyFilter{Organisation: c.Organisation, CreatedBy: in.CreatedBy}
	if _, err := visible(ctx, c, &f, in.Workspace, "delete"); err != nil {
		return nil, err
	}
	c.SetAuditSubject("", in.CreatedBy)
	out := &removedKeys{Deleted: []string{}, Object: "list"}
	err := c.Change(ctx, func(tx *store.Tx) error {
		for {
			list, _, err := tx.KeysOf(ctx, f, store.Page{Size: removedAtOnce})
			if err != nil || len(list) == 0 {
				return err
			}
			for _, k := range list {
				if err := checkProtected(c, &k); err != nil {
					return err
				}
				revoke(&k)
				k.UpdatedAt = c.NextUpdateTime(k.UpdatedAt)
				if err := tx.UpdateKey(ctx, k); err != nil {
					return err
				}
				out.Deleted = append(out.Deleted, k.ID)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// revoke revokes k and both of its secrets.
func revoke(k *store.Key) { k.Status, k.PreviousHash = store.KeyRevoked, nil }
