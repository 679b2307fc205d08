package keys

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

func forbidden(format string, args ...any) error {
	return apierr.New(apierr.Forbidden, format, args...).WithCode("AB03")
}

// person is the human being behind a request. One that is nobody's, such as of
// a service key, may do what its scopes say.
type person struct {
	user string // empty for nobody
	store.Membership
	switches map[string]access.RolePermissions // by id of the workspaces that they are members of
}

// personOf finds who sends a request. Keys of people hold no rights over keys,
// so sessions alone have one.
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

// checkPermission reports why the person's role keeps them from doing verb with keys of a
// workspace. Organisation keys have none: they are for its owner and admins.
func (p *person) checkPermission(verb, workspace string) error {
	role := p.role(workspace)
	if p.switches[workspace].Allows(role, scope(access.WorkspaceUser, verb).Permission()) {
		return nil
	}
	return forbidden("your workspace role (%s) does not allow you to %s API keys", cmp.Or(role, "none"), verb)
}

// role is what the person is in a workspace; who is nobody is admin.
func (p *person) role(workspace string) string {
	if p.user == "" {
		return access.Admin
	}
	return p.RoleIn(workspace)
}

// sees reports whether k is there for the person: admins and managers see all
// keys of their workspaces, members their own.
func (p *person) sees(k store.Key) bool {
	switch p.role(k.Workspace) {
	case access.Admin, access.Manager:
		return true
	case access.Member:
		return k.Type == access.WorkspaceUser && k.UserID == p.user
	}
	return false
}

// narrow limits a list to the keys of a workspace, or of all when it is empty, that
// the person sees and may do verb with.
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

// canGrant reports whether the person may give a scope to a key: one of their own
// is bound by their role, and every other one must not do what that keeps them
// from.
func (p *person) canGrant(k *store.Key, s access.Scope) bool {
	right, role, switches := s.Permission(), p.role(k.Workspace), p.switches[k.Workspace]
	if right == "" || k.Type == access.WorkspaceUser && k.UserID == p.user {
		return true
	}
	switch right {
	case access.ViewLogs, access.ViewLogMetadata, access.ViewAnalytics: // of everybody
		return switches.Allows(role, right) && switches.Allows(role, access.ViewAllData)
	}
	return switches.Allows(role, right)
}

// granted reads scopes of a request for k and reports those that the caller
// can't give. Scopes that k has already may stay.
func granted(ctx context.Context, c *route.Caller, q store.Queries, k *store.Key, words []string) ([]access.Scope, error) {
	p, err := personOf(ctx, c, q)
	if err != nil {
		return nil, err
	}
	var list, added []access.Scope
	for i, word := range words {
		field := fmt.Sprintf("scopes[%d]", i)
		s, err := access.ParseScope(word)
		if err == nil && s == access.ScopeAll && !slices.Contains(k.Scopes, s) {
			err = fmt.Errorf("%q is not given by the API", word)
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
			return nil, apierr.New(apierr.Forbidden, "you cannot grant the scope %q because you do not have it", string(s)).WithParam(field).WithCode("AB03")
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

// checkMakers refuses scopes that would have no effect, because a key that made k
// lacks them: see [access.Identity.Under].
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
				return apierr.New(apierr.Forbidden, "the scope %q has no effect: this key was made by the key %.60q, which lacks it; give it to that key first", string(s), maker.Name).
					WithParam("scopes").WithCode("AB03")
			}
		}
	}
	return nil
}

// checkRotation reports why a caller may not get the next secret of a key: because
// it can do what they can't.
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

// changes reports whether a scope changes objects of the control plane, which is
// where the rank of a key counts.
func changes(s access.Scope) bool {
	_, verb, _ := strings.Cut(string(s), ".")
	return s == access.ScopeAll || slices.Contains([]string{"create", "update", "delete", "rotate"}, verb)
}

// checkRank refuses the secret of a key, or scopes for it, by which the caller could
// change limits that only higher ranks may. Nobody is refused their own key.
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
		err = forbidden("this key has the rank %q and yours is %q, so its next secret is not yours to get, nor scopes that change things yours to give; ask who made it, or delete it", has, rank)
	}
	return err
}
