package route

import (
	"context"
	"net/http"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Restored is the response to restoring an archived object.
type Restored struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Object string `json:"object"`
}

type restoreInput struct {
	Ref string `path:"ref" maxLength:"255" doc:"Id or slug"`
}

// AddRestore adds the route by which the owner and admins of the organisation restore an
// archived object of the family, with a key for one workspace only what is in it. Check
// checks it once it is active; nil checks nothing.
func (f Family) AddRestore(a *API, kind store.Restorable, check func(ctx context.Context, c *Caller, tx *store.Tx, id string) error) {
	name := "restore" + strings.ReplaceAll(f.Path, "/", "-")
	r := f.Route(http.MethodPost, "/{ref}/restore", name, "update", "Restore an archived "+kind.Name)
	Add(a, r, func(ctx context.Context, c *Caller, in *restoreInput) (*Restored, error) {
		wide, err := c.Administers(ctx)
		if err != nil {
			return nil, err
		}
		if !wide {
			return nil, apierr.New(apierr.Forbidden, "only the owner and admins of the organisation can restore archived objects").WithCode("AB03")
		}
		within := c.Workspace
		if c.Allows(access.ScopeAll) {
			within = ""
		}
		id, workspace, err := c.DB().Archived(ctx, kind, c.Organisation, within, in.Ref)
		if err != nil {
			return nil, err
		}
		c.SetAuditSubject(workspace, id)
		err = c.Change(ctx, func(tx *store.Tx) error {
			if err := tx.Restore(ctx, kind, id, c.Now); err != nil || check == nil {
				return err
			}
			return check(ctx, c, tx, id)
		})
		if err != nil {
			return nil, err
		}
		return &Restored{ID: id, Status: store.Active, Object: kind.Name}, nil
	})
}
