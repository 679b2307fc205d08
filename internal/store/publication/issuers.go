package publication

import (
	"context"
	"encoding/json"

	"modelgate/internal/identity/jwt"
	"modelgate/internal/store"
)

// readIssuers reads the issuers whose tokens are accepted.
func (l *loader) readIssuers(ctx context.Context) error {
	l.state.Issuers = nil
	for _, o := range l.organisations {
		if o.Status != store.Active || o.Settings.JWT == nil {
			continue
		}
		i, err := l.issuer(ctx, o.ID, o.Settings.JWT)
		if err != nil {
			return err
		}
		if i.URL != "" || i.Set != "" {
			l.state.Issuers = append(l.state.Issuers, i)
		}
	}
	return nil
}

// issuer returns the issuer of an organisation, with the workspaces that tokens may name.
func (l *loader) issuer(ctx context.Context, organisation string, s *store.JWTSettings) (jwt.Issuer, error) {
	i := jwt.Issuer{Organisation: organisation, URL: s.URL, Name: s.Issuer, Audience: s.Audience, Scopes: s.Scopes}
	if !s.Set.IsZero() {
		set, err := json.Marshal(s.Set)
		if err != nil {
			return i, err
		}
		i.Set = string(set)
	}
	list, err := l.workspaces(ctx)
	if err != nil {
		return i, err
	}
	for n := range list {
		w := &list[n]
		if w.Organisation != organisation {
			continue
		}
		d, err := decode[store.KeyDefaults](w, w.Defaults)
		if err != nil {
			return i, err
		}
		i.Workspaces = append(i.Workspaces, jwt.Workspace{ID: w.ID, Slug: w.Slug, Metadata: d.Metadata, Logging: l.state.Logging[w.ID]})
	}
	return i, nil
}
