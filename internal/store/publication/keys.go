package publication

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"

	"modelgate/internal/identity/access"
	"modelgate/internal/limits/quota"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
	"modelgate/internal/store"
)

// readIdentities reads the identities of the keys that were written to, or of
// all keys.
func (l *loader) readIdentities(ctx context.Context) error {
	changed, ok := l.changes.IDs(journal.Keys)
	if !ok || l.changes.Wrote(journal.Workspaces, journal.Organisations) {
		return l.addIdentities(ctx, "")
	}
	l.state.Identities = l.before.Identities
	roles := l.changes.Wrote(journal.Members, journal.WorkspaceMembers) // which limit the keys of users
	if len(changed) == 0 && !roles {
		return nil
	}
	l.state.Identities = make([]*access.Identity, 0, len(l.before.Identities)+len(changed))
	for _, id := range l.before.Identities {
		if _, ok := changed[id.KeyID]; !ok && !(roles && id.IsPerson()) {
			l.state.Identities = append(l.state.Identities, id)
		}
	}
	for id := range changed {
		if err := l.addIdentities(ctx, " AND k.id = $1", id); err != nil {
			return err
		}
	}
	if !roles {
		return nil
	}
	where, args := " AND k.user_id <> '' AND k.type = $1", []any{string(access.WorkspaceUser)}
	for id := range changed { // they are there
		args = append(args, id)
		where += fmt.Sprintf(" AND k.id <> $%d", len(args))
	}
	return l.addIdentities(ctx, where, args...)
}

// addIdentities adds the identities of keys. where is a condition that begins with AND;
// empty is for all keys.
//
// It reads few columns and keeps what keys have in common once: 20,000 complete rows
// need 40 % more memory, and a fifth more time before anything is joined to them.
func (l *loader) addIdentities(ctx context.Context, where string, args ...any) error {
	text := `
		SELECT k.id, k.type, k.organisation_id, k.workspace_id, k.user_id, k.name, k.hash, k.scopes, k.providers, k.defaults,
			k.previous_hash, k.transition_ends_at, k.status, k.disabled, k.expires_at, k.origin, COALESCE(w.defaults, '{}'),
			k.rate_limits, k.usage_limits, COALESCE(s.cost, 0), COALESCE(s.tokens, 0),
			COALESCE(o.role, ''), COALESCE(m.role, ''), COALESCE(w.security_settings, '{}'), k.tools
		FROM gateway_keys k
		LEFT JOIN spending s ON s.kind = 'key' AND s.id = k.id
		LEFT JOIN workspaces w ON w.id = k.workspace_id
		LEFT JOIN users u ON u.id = k.user_id
		LEFT JOIN organisation_members o ON o.organisation_id = k.organisation_id AND o.user_id = k.user_id
		LEFT JOIN workspace_members m ON m.workspace_id = k.workspace_id AND m.user_id = k.user_id
		WHERE k.status IN ('active', 'exhausted', 'expired') AND (w.status IS NULL OR w.status <> 'archived') AND (u.status IS NULL OR u.status = 'active')
			AND (o.status IS NULL OR o.status = 'active')`
	same := interner{denied: map[string][]access.Permission{}, scopes: map[string][]access.Scope{}, words: map[string][]string{},
		texts: map[string]string{}, origins: map[string]store.KeyOrigin{}, above: map[string]store.KeyDefaults{}}
	_, err := sqlrow.List(ctx, l.q.Reader, "API keys", text+where, func(r sqlrow.Scanner) (none struct{}, err error) {
		var holder keyHolder
		k, limits, err := same.key(r, &holder)
		if err == nil {
			for _, id := range k.Identities() {
				id.Limits, id.Logging = limits, l.state.LoggingFor(id)
				if id.IsPerson() {
					if id.Denied, err = same.deniedTo(id, holder, l.settings[id.Organisation]); err != nil {
						return none, err
					}
				}
				l.state.Identities = append(l.state.Identities, id)
			}
		}
		return none, err
	}, args...)
	return err
}

// keyHolder is what limits the key of a user: the user's roles, and the permissions of roles
// that the workspace sets, as JSON.
type keyHolder struct{ organisation, workspace, permissions string }

// deniedTo returns the permissions that the user of a key lacks in its workspace.
func (s *interner) deniedTo(id *access.Identity, of keyHolder, above store.OrganisationSettings) ([]access.Permission, error) {
	role := store.Membership{Role: of.organisation, Workspaces: map[string]string{id.Workspace: of.workspace}}.RoleIn(id.Workspace)
	key := id.Organisation + " " + id.Workspace + " " + role
	denied, ok := s.denied[key]
	if ok {
		return denied, nil
	}
	var own access.RolePermissions
	if err := json.Unmarshal([]byte(of.permissions), &own); err != nil {
		return nil, fmt.Errorf("permissions of workspace %s: %w", id.Workspace, err)
	}
	denied = above.Security.WithOverrides(own, above.Overridable).Denied(role)
	s.denied[key] = denied
	return denied, nil
}

// interner keeps what many keys have in common once.
type interner struct {
	denied  map[string][]access.Permission // by organisation, workspace and role
	scopes  map[string][]access.Scope
	words   map[string][]string
	texts   map[string]string
	origins map[string]store.KeyOrigin
	above   map[string]store.KeyDefaults // of workspaces; only their metadata is read
}

func (s *interner) text(t string) string {
	if kept, ok := s.texts[t]; ok {
		return kept
	}
	s.texts[t] = t
	return t
}

// key reads the part of a key that requests ask for, with the metadata that its
// workspace adds, and its limits.
func (s *interner) key(r sqlrow.Scanner, holder *keyHolder) (k store.Key, limits []*quota.Limit, err error) {
	stored := storedLimits{Holder: quota.Holder{Kind: store.KeyBudget}}
	var hash, scopes, providers, defaults, origin, workspaceDefaults, tools string
	var previous sql.NullString
	err = r.Scan(&k.ID, &k.Type, &k.Organisation, &k.Workspace, &k.UserID, &k.Name, &hash, &scopes, &providers, &defaults,
		&previous, sqlrow.Time(&k.TransitionEndsAt), &k.Status, &k.Disabled, sqlrow.Time(&k.ExpiresAt), &origin, &workspaceDefaults,
		&stored.rates, &stored.budgets, &stored.cost, &stored.tokens, &holder.organisation, &holder.workspace, &holder.permissions,
		&tools)
	if err != nil {
		return k, nil, err
	}
	stored.ID, stored.Name = k.ID, k.Name
	limits = stored.parse()
	if k.Hash, err = access.ParseHash(hash); err != nil {
		return k, nil, fmt.Errorf("key %s: %w", k.ID, err)
	}
	if previous.Valid {
		h, err := access.ParseHash(previous.String)
		if err != nil {
			return k, nil, fmt.Errorf("key %s: %w", k.ID, err)
		}
		k.PreviousHash = &h
	}
	k.Type, k.Status = access.KeyType(s.text(string(k.Type))), s.text(k.Status)
	k.Organisation, k.Workspace, k.UserID = s.text(k.Organisation), s.text(k.Workspace), s.text(k.UserID)
	if k.Scopes, err = shared(s.scopes, scopes); err != nil {
		return k, nil, fmt.Errorf("scopes of key %s: %w", k.ID, err)
	}
	if k.Providers, err = shared(s.words, providers); err != nil {
		return k, nil, fmt.Errorf("providers of key %s: %w", k.ID, err)
	}
	if k.Tools, err = shared(s.words, tools); err != nil {
		return k, nil, fmt.Errorf("tools of key %s: %w", k.ID, err)
	}
	if k.Origin, err = shared(s.origins, origin); err != nil {
		return k, nil, fmt.Errorf("origin of key %s: %w", k.ID, err)
	}
	k.Defaults, err = s.defaults(defaults, workspaceDefaults)
	return k, limits, err
}

// defaults returns a key's defaults with the metadata of its workspace, which
// wins. Nil stands for none.
func (s *interner) defaults(own, workspace string) (json.RawMessage, error) {
	var d store.KeyDefaults
	above, err := shared(s.above, workspace)
	if err != nil || len(above.Metadata) == 0 {
		if own == "{}" {
			return nil, err
		}
		return json.RawMessage(own), err
	}
	if err := json.Unmarshal([]byte(own), &d); err != nil {
		return nil, err
	}
	if d.Metadata == nil {
		d.Metadata = make(map[string]string, len(above.Metadata))
	}
	maps.Copy(d.Metadata, above.Metadata)
	return json.Marshal(d)
}

// shared returns the value of a JSON text, which is read once.
func shared[T any](known map[string]T, text string) (v T, err error) {
	v, ok := known[text]
	if ok {
		return v, nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, err
	}
	known[text] = v
	return v, nil
}
