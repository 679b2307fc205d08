package publication

import (
	"context"
	"fmt"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Grant is what a user lets a client do with tool servers.
type Grant struct {
	Identity *access.Identity // of its access tokens, without the time when they expire
	Resource string           // slug of the tool server or bundle; empty for the address of all
	Sealed   string           // the secret that signs access tokens
}

// readGrants reads the grants of users who may use the workspace: a user who was deactivated or
// removed has none. They are read again whenever users, roles or workspaces change.
func (l *loader) readGrants(ctx context.Context) error {
	list, err := l.q.UsableOAuthGrants(ctx)
	same := interner{denied: map[string][]access.Permission{}, above: map[string]store.KeyDefaults{}}
	l.state.Grants = make([]Grant, len(list))
	for i := range list {
		g := &list[i]
		above, err := shared(same.above, g.Defaults)
		if err != nil {
			return fmt.Errorf("defaults of workspace %s: %w", g.Workspace, err)
		}
		id := &access.Identity{
			KeyID: g.ID, Type: access.WorkspaceUser, UserID: g.UserID, Name: g.ClientName, Organisation: g.Organisation,
			Workspace: g.Workspace, Scopes: g.Scopes, Metadata: above.Metadata,
		}
		id.Logging = l.state.LoggingFor(id)
		if id.Denied, err = same.deniedTo(id, keyHolder{g.Role, g.WorkspaceRole, g.Permissions}, l.settings[id.Organisation]); err != nil {
			return err
		}
		l.state.Grants[i] = Grant{id, g.Resource, g.Sealed}
	}
	return err
}
