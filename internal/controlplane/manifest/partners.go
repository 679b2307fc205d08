package manifest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

var partnerKind = kind[settings.GuardrailCredential, store.GuardrailCredential]{
	section: "guardrail_credentials", name: "guardrail_credential",
	entries: func(s *settings.Settings) *[]settings.GuardrailCredential { return &s.GuardrailCredentials },
	rows:    func(s *state) []store.GuardrailCredential { return s.partners },
	key:     func(c *settings.GuardrailCredential) entryID { return entryID{c.Workspace, c.Partner} },
	rowKey:  func(s *state, c *store.GuardrailCredential) entryID { return entryID{s.slug(c.Workspace), c.Partner} },
	read:    (*reader).partner, put: (*plan).partner,
	keep: func(_ *plan, want, have *settings.GuardrailCredential) {
		mapped := func(name string) bool {
			return slices.ContainsFunc(want.SecretMappings, func(m settings.PartnerMapping) bool { return m.Target == name })
		}
		held := maps.Clone(have.Credentials)
		maps.DeleteFunc(held, func(name, _ string) bool { return mapped(name) })
		want.Credentials = withStoredSecrets(want.Credentials, held, slices.Collect(maps.Keys(held)))
	},
	drop: func(_ *plan, row store.GuardrailCredential) step { return dropRow(guardrails.RemoveCredential, row) },
}

func (p *plan) partner(path string, want *settings.GuardrailCredential, old *store.GuardrailCredential, _ []string) (step, error) {
	workspace, err := p.place(path, want.Workspace)
	if err != nil {
		return nil, err
	}
	row := rowOr(old, store.GuardrailCredential{
		ID: newID(), Organisation: p.state.organisation.ID, Workspace: workspace, Partner: want.Partner,
	})
	in := credentials.PartnerInput{Path: "credentials.", Values: make(map[string]*string), Mappings: []store.SecretMapping{}}
	for name, v := range want.Credentials {
		opened, err := p.opened(path+".credentials."+name, v, true)
		if err != nil {
			return nil, err
		}
		in.Values[name] = &opened
	}
	for i, m := range want.SecretMappings {
		at := fmt.Sprintf("%s.secret_mappings[%d]", path, i)
		id, ok := p.names.references[m.Reference]
		if !ok {
			return nil, p.missing(at+".secret_reference", "secret reference", m.Reference)
		}
		m.Reference = id
		in.Mappings = append(in.Mappings, store.SecretMapping(m))
		if _, given := in.Values[m.Target]; !given {
			in.Values[m.Target] = nil // removes a stored value
		}
	}
	check, err := p.keeper.ApplyPartner(p.ctx, &row, in)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c *route.Caller) error {
		for i, m := range row.Mappings { // the route does not say whether such a reference exists
			if s, err := c.DB().SecretReference(ctx, row.Organisation, m.Reference); err == nil && !credentials.MayFillPartner(s, &row) {
				return p.file.ErrorAt(fmt.Sprintf("%s.secret_mappings[%d].secret_reference", path, i), errNotThere)
			}
		}
		return guardrails.PutCredential(ctx, c, old, row, check)
	}, nil
}

var errNotThere = errors.New("the secret reference is not available there: list the workspace in its allowed_workspaces, or all for credentials of the organisation")

func (r *reader) partner(c *store.GuardrailCredential) (v settings.GuardrailCredential, ok bool, err error) {
	slug, placed := r.place(c.Workspace)
	if !placed {
		return v, false, nil
	}
	held, err := r.secrets(c.Sealed)
	if err != nil {
		return v, false, err
	}
	v = settings.GuardrailCredential{Partner: c.Partner, Workspace: slug}
	v.Credentials = r.rendered(settings.PartnerPlace(slug, c.Partner)+" credentials", nil, held.Options)
	for _, m := range c.Mappings {
		m.Reference = r.references[m.Reference]
		v.SecretMappings = append(v.SecretMappings, settings.PartnerMapping(m))
	}
	return v, true, nil
}
