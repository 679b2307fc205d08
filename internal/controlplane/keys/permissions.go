package keys

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

func forbidden(format string, args ...any) error {
	return apierr.New(apierr.Forbidden, format, args...).WithCode("AB03")
}

// person is the user behind a request. For service keys, which have no user, scopes
// alone decide.
type person struct {
	user string // empty for service keys
	store.Membership
	switches map[string]access.RolePermissions // by workspace id, for workspaces of which they are a member
}

// personOf returns the user who sends a request. User keys have no rights over keys, so
// only sessions have a user here.
func personOf(ctx context.Context, c *route.Caller, q store.Queries) (*person, error) {
	if !c.IsPerson() {
		return &person{}, nil
	}
	m, err := q.Membership(ctx, c.Organisation, c.UserID)
	if err != nil {
		return nil, err
	}
	p := &person{user: c.UserID, Membership: m, switches: make(map[string]access.RolePermissions)}
	for id := range m.Workspaces {
		w, err := q.Workspace(ctx, c.Organisation, id)
		if err != nil {
			return nil, err
		}
		if w.Status != store.Active {
			delete(m.Workspaces, id)
			continue
		}
		if p.switches[id], err = q.RolePermissions(ctx, c.Organisation, id); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// checkPermission returns an error if the user's role does not allow verb on keys of a
// workspace. Organisation keys have no workspace: they are managed by the
// organisation's owner and admins.
func (p *person) checkPermission(verb, workspace string) error {
	role := p.role(workspace)
	if p.switches[workspace].Allows(role, scope(access.WorkspaceUser, verb).Permission()) {
		return nil
	}
	return forbidden("your workspace role (%s) does not allow you to %s API keys", cmp.Or(role, "none"), verb)
}

// role returns the user's role in a workspace; service keys count as admin.
func (p *person) role(workspace string) string {
	if p.user == "" {
		return access.Admin
	}
	return p.RoleIn(workspace)
}

// sees reports whether the user may see k: admins and managers see all keys of their
// workspaces, members see their own.
func (p *person) sees(k store.Key) bool {
	switch p.role(k.Workspace) {
	case access.Admin, access.Manager:
		return true
	case access.Member:
		return k.Type == access.WorkspaceUser && k.UserID == p.user
	}
	return false
}

// narrow restricts a list to the keys that the user may see and use verb on, in a
// workspace or, if workspace is empty, in all.
func (p *person) narrow(f *store.KeyFilter, workspace, verb string) error {
	if p.role("") == access.Admin {
		return nil
	}
	if workspace != "" {
		if err := p.checkPermission(verb, workspace); err != nil {
			return err
		}
	}
	f.Workspaces, f.Owner = []string{}, p.user
	for id, role := range p.Workspaces {
		switch {
		case workspace != "" && id != workspace, p.checkPermission(verb, id) != nil:
		case role == access.Member:
			f.OwnIn = append(f.OwnIn, id)
		default:
			f.Workspaces = append(f.Workspaces, id)
		}
	}
	return nil
}

// canGrant reports whether the user may grant a scope to k: a user key is limited by
// its user's role, and any other key must not exceed the caller's role.
func (p *person) canGrant(k *store.Key, s access.Scope) bool {
	right, role, switches := s.Permission(), p.role(k.Workspace), p.switches[k.Workspace]
	if right == "" || k.Type == access.WorkspaceUser && k.UserID == p.user {
		return true
	}
	switch right {
	case access.ViewLogs, access.ViewLogMetadata, access.ViewAnalytics: // of all users
		return switches.Allows(role, right) && switches.Allows(role, access.ViewAllData)
	}
	return switches.Allows(role, right)
}

// granted parses the scopes of a request for k and returns an error for a scope that
// the caller may not grant. Scopes that k already has may stay.
func granted(ctx context.Context, c *route.Caller, q store.Queries, k *store.Key, words []string) ([]access.Scope, error) {
	if c.Restores() {
		return restored(k, words)
	}
	p, err := personOf(ctx, c, q)
	if err != nil {
		return nil, err
	}
	var list, added []access.Scope
	for i, word := range words {
		field := fmt.Sprintf("scopes[%d]", i)
		s, err := access.ParseScope(word)
		if err == nil && s == access.ScopeAll && !slices.Contains(k.Scopes, s) {
			err = fmt.Errorf("%q cannot be granted through the API", word)
		}
		if err == nil {
			err = s.CheckHolder(k.Type)
		}
		if err != nil {
			return nil, apierr.New(apierr.Invalid, "%v", err).WithParam(field)
		}
		if !slices.Contains(k.Scopes, s) {
			added = append(added, s)
		}
		if !slices.Contains(k.Scopes, s) && !(c.CanGive(s) && p.canGrant(k, s)) {
			return nil, apierr.New(apierr.Forbidden, "you cannot grant the scope %q because you do not have it",
				string(s)).WithParam(field).WithCode("AB03")
		}
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	if err := checkMakers(ctx, q, k, added); err != nil {
		return nil, err
	}
	return list, checkRank(ctx, c, q, k, added)
}

// restored parses the scopes of a key that a file describes, which may have scopes
// that no request can grant.
func restored(k *store.Key, words []string) ([]access.Scope, error) {
	list := make([]access.Scope, len(words))
	for i, word := range words {
		list[i] = access.Scope(word)
		if err := list[i].CheckHolder(k.Type); err != nil && list[i] != access.ScopeInstallation {
			return nil, apierr.New(apierr.Invalid, "%v", err).WithParam("scopes")
		}
	}
	return list, nil
}

// checkMakers returns an error if a scope would have no effect because a key that
// created k lacks it; see [access.Identity.Under].
func checkMakers(ctx context.Context, q store.Queries, k *store.Key, scopes []access.Scope) error {
	if len(scopes) == 0 {
		return nil
	}
	for _, id := range k.Origin.Lineage {
		maker, err := q.Key(ctx, k.Organisation, id)
		if err != nil {
			return err
		}
		effective := (&access.Identity{Scopes: scopes}).Under(maker.Identity()).Scopes
		for _, s := range scopes {
			if !slices.Contains(effective, s) {
				return apierr.New(apierr.Forbidden, "the scope %q has no effect: this key was created by the key %.60q, which lacks it; grant it to that key first", string(s), maker.Name).
					WithParam("scopes").WithCode("AB03")
			}
		}
	}
	return nil
}

// checkRotation returns an error if the caller may not read the next secret of a key
// because the key has scopes that the caller lacks.
func checkRotation(ctx context.Context, c *route.Caller, q store.Queries, k store.Key) error {
	p, err := personOf(ctx, c, q)
	if err != nil {
		return err
	}
	for _, s := range k.Scopes {
		if !c.CanGive(s) || !p.canGrant(&k, s) {
			return forbidden("this key has the scope %q, which you do not have", string(s))
		}
	}
	if err := checkRank(ctx, c, q, &k, k.Scopes); err != nil {
		return err
	}
	b, err := boundsOf(ctx, c, q, &k)
	if err != nil {
		return err
	}
	return b.checkSecret(c, &k)
}

// changes reports whether a scope allows changes of control-plane objects, for which
// the rank of a key matters.
func changes(s access.Scope) bool {
	_, verb, _ := strings.Cut(string(s), ".")
	return s == access.ScopeAll || slices.Contains([]string{"create", "update", "delete", "rotate"}, verb)
}

// checkRank refuses the secret of a key, or scopes for it, with which the caller could
// change limits that require a higher rank. Callers may always use their own key.
func checkRank(ctx context.Context, c *route.Caller, q store.Queries, k *store.Key, scopes []access.Scope) error {
	own := k.ID == c.KeyID || k.UserID != "" && k.UserID == c.UserID
	if own || !slices.ContainsFunc(scopes, changes) {
		return nil
	}
	rank, err := c.Rank(ctx, q, k.Workspace)
	if err != nil {
		return err
	}
	has, err := route.Rank(ctx, q, k.Identity(), k.Workspace)
	if err == nil && has > rank {
		err = forbidden("this key has the rank %q and yours is %q, so you can neither rotate it nor grant it scopes that allow changes; ask the user who created it, or delete it", has, rank)
	}
	return err
}
