package publication

import (
	"context"
	"encoding/json"
	"slices"

	"modelgate/internal/identity/jwt"
	"modelgate/internal/storage/sqlrow"
	"modelgate/internal/store"
)

// readIssuers reads the issuers whose tokens are accepted.
func (l *loader) readIssuers(ctx context.Context) error {
	const organisations = `
		SELECT id, settings
		FROM organisations
		WHERE status = 'active'
		ORDER BY id`
	all, err := sqlrow.List(ctx, l.q.Reader, "organisations", organisations, func(r sqlrow.Scanner) (i jwt.Issuer, err error) {
		var s store.OrganisationSettings
		if err := r.Scan(&i.Organisation, sqlrow.JSON(&s)); err != nil || s.JWT == nil {
			return i, err
		}
		i.URL, i.Name, i.Audience, i.Scopes = s.JWT.URL, s.JWT.Issuer, s.JWT.Audience, s.JWT.Scopes
		if !s.JWT.Set.IsZero() {
			set, err := json.Marshal(s.JWT.Set)
			i.Set = string(set)
			return i, err
		}
		return i, nil
	})
	if err != nil {
		return err
	}
	l.state.Issuers = slices.DeleteFunc(all, func(i jwt.Issuer) bool { return i.URL == "" && i.Set == "" })
	if len(l.state.Issuers) == 0 {
		return nil
	}
	return l.addWorkspaces(ctx)
}

// addWorkspaces reads the workspaces that tokens may name.
func (l *loader) addWorkspaces(ctx context.Context) error {
	const text = `
		SELECT organisation_id, id, slug, defaults
		FROM workspaces
		WHERE status = 'active'
		ORDER BY id`
	_, err := sqlrow.List(ctx, l.q.Reader, "workspaces", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var organisation string
		var w jwt.Workspace
		var d store.KeyDefaults
		if err := r.Scan(&organisation, &w.ID, &w.Slug, sqlrow.JSON(&d)); err != nil {
			return none, err
		}
		w.Metadata, w.Logging = d.Metadata, l.state.Logging[w.ID]
		for i := range l.state.Issuers {
			if l.state.Issuers[i].Organisation == organisation {
				l.state.Issuers[i].Workspaces = append(l.state.Issuers[i].Workspaces, w)
			}
		}
		return none, nil
	})
	return err
}
