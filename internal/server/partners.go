package server

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/guardrail"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
)

// partnerCredentials returns the stored credentials of a check for the tenant of r; see
// checks.Services.
func (s *Server) partnerCredentials(r *guardrail.Request, check string, shared bool) (map[string]secret.String, error) {
	snap := s.holder.Load()
	if snap == nil {
		return nil, nil
	}
	workspace := r.Workspace
	if shared {
		workspace = ""
	}
	return snap.Partner(r.Organisation, workspace, check)
}

// openPartners opens the credentials of partners. Those that cannot be opened are errors
// of the checks that use them, so that everything else is still published.
func (s *Server) openPartners(m secretValues, list []store.GuardrailCredential) []snapshot.PartnerCredentials {
	if s.Off[route.Guardrails] {
		return nil
	}
	out := make([]snapshot.PartnerCredentials, len(list))
	for i := range list {
		c := &list[i]
		out[i] = snapshot.PartnerCredentials{Organisation: c.Organisation, Workspace: c.Workspace, Partner: c.Partner}
		out[i].Values, out[i].Err = m.partner(s.guardrails.OfPartner(c.Partner), c)
	}
	return out
}

// maxPartnerValue is the maximum length in bytes of a credential from a secret reference.
const maxPartnerValue = 16 << 10

// partner opens the credentials of c and fills those that are mapped.
func (m secretValues) partner(checks []*guardrail.Definition, c *store.GuardrailCredential) (map[string]secret.String, error) {
	opened, err := m.secrets(c.Organisation, c.Sealed)
	if err != nil {
		return nil, errors.New("they cannot be opened; set them again")
	}
	values := opened.Options
	if values == nil {
		values = make(map[string]secret.String)
	}
	for _, mapping := range c.Mappings {
		v, err := m.partnerValue(checks, c, mapping, opened.Options)
		if err != nil {
			return nil, err
		}
		values[mapping.Target] = v
	}
	return values, nil
}

// partnerValue returns the value of one mapped credential. own are those stored, which
// decide the address.
func (m secretValues) partnerValue(checks []*guardrail.Definition, c *store.GuardrailCredential,
	mapping store.SecretMapping, own map[string]secret.String) (secret.String, error) {
	s, ok := m.references[mapping.Reference]
	if !ok || !credentials.MayFillPartner(s, c) {
		return secret.String{}, fmt.Errorf("the secret reference of %s no longer exists", mapping.Target)
	}
	use := secretUse{reference: s.ID, integration: c.ID, field: mapping.Target}
	if len(checks) > 0 {
		if at, _, err := checks[0].Partner.Destination(own); err == nil {
			use.host = at.Host
		}
	}
	v, err := m.checkedValue(s, checks, mapping, own)
	m.uses.note(s, secretUser{c.Partner, c.Workspace}, use, v, err)
	if err != nil {
		return secret.String{}, fmt.Errorf("the secret reference of %s has no value that may be used", mapping.Target)
	}
	return v, nil
}

func (m secretValues) checkedValue(s store.SecretReference, checks []*guardrail.Definition,
	mapping store.SecretMapping, own map[string]secret.String) (secret.String, error) {
	if err := credentials.CheckPartnerReference(s, checks, own); err != nil {
		return secret.String{}, err
	}
	ref, err := m.reference(s)
	if err != nil {
		return secret.String{}, err
	}
	ref.Key, ref.Format = cmp.Or(mapping.Key, ref.Key), mapping.Format
	v, err := m.values.Value(ref)
	if err != nil {
		return secret.String{}, err
	}
	text := strings.TrimSpace(v.Reveal())
	if text == "" || len(text) > maxPartnerValue || strings.ContainsFunc(text, unicode.IsControl) {
		return secret.String{}, errors.New("the value is empty, too long or has a control character")
	}
	return secret.New(text), nil
}
