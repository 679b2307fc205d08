package credentials

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/guardrail"
	"modelgate/internal/store"
)

// PartnerMapping fills a credential of a partner with the value of a secret reference.
type PartnerMapping struct {
	Target    string `json:"target_field" pattern:"^[A-Za-z0-9_]{1,64}$" maxLength:"64" doc:"Name of a credential"`
	Reference string `json:"secret_reference_id" minLength:"1" maxLength:"255" doc:"Id or slug"`
	Key       string `json:"secret_key,omitempty" maxLength:"255" doc:"Key of a secret with several values; defaults to the key of the reference"`
	Format    string `json:"value_format,omitempty" enum:"string,json" doc:"json uses the value as JSON, unquoted"`
}

// PartnerInput changes the credentials of a partner.
type PartnerInput struct {
	Path   string             // prefixes the names of credentials in errors
	Values map[string]*string // by name; nil removes a credential, a mask keeps it, and others stay
	// Mappings replace those that are stored, with the ids of their references. Nil
	// keeps them.
	Mappings []store.SecretMapping
}

// ApplyPartner changes c, whose partner must be set, as requested by in. It must not be called
// in a transaction. The transaction that stores c calls check, which returns an error if a
// mapped reference was removed concurrently or may not be sent to the partner.
func (k *Manager) ApplyPartner(ctx context.Context, c *store.GuardrailCredential,
	in PartnerInput) (check func(context.Context, store.Queries) error, err error) {
	if k.checks == nil {
		return nil, apierr.New(apierr.Unavailable, "guardrails are disabled on this gateway")
	}
	checks := k.checks.OfPartner(c.Partner)
	if len(checks) == 0 {
		return nil, route.Invalid("partner", "must be a partner or one of its checks; GET /guardrails/checks lists the checks with credentials")
	}
	before, err := k.open(ctx, c.Organisation, c.Sealed)
	if err != nil {
		return nil, err
	}
	next, kept, err := mergePartner(checks, c.Masks, before.Options, in)
	if err != nil {
		return nil, err
	}
	mappings := c.Mappings
	if in.Mappings != nil {
		mappings = in.Mappings
	}
	if err := checkComplete(checks, next, mappings, in.Path); err != nil {
		return nil, err
	}
	if err := k.checkPartnerAddress(checks, before.Options, next, kept, in.Path); err != nil {
		return nil, err
	}
	sealed, err := k.seal(ctx, c.Organisation, store.Secrets{Options: next})
	if err != nil {
		return nil, err
	}
	c.Sealed, c.Masks, c.Mappings = sealed, masked(next), mappings
	return func(ctx context.Context, q store.Queries) error { return k.checkPartnerMappings(ctx, q, c, next) }, nil
}

// mergePartner returns the credentials after the change, and the names of those that
// stay as they were stored.
func mergePartner(checks []*guardrail.Definition, masks map[string]string, before map[string]secret.String,
	in PartnerInput) (next map[string]secret.String, kept []string, err error) {
	known := credentialNames(checks)
	next = maps.Clone(before)
	if next == nil {
		next = make(map[string]secret.String)
	}
	renewed := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(in.Values)) {
		at := in.Path + clipped(name)
		if !slices.Contains(known, name) {
			return nil, nil, route.Invalid(at, "is not a credential of the partner; it has %s", strings.Join(known, ", "))
		}
		v := in.Values[name]
		if v == nil {
			delete(next, name)
			continue
		}
		text := strings.TrimSpace(*v)
		stored, err := store.KeepsSecret(text, masks[name])
		switch {
		case err != nil:
			return nil, nil, route.Invalid(at, "%v", err)
		case stored:
			continue
		case text == "" || len(text) > maxKey || strings.ContainsFunc(text, unicode.IsControl):
			return nil, nil, route.Invalid(at, "must be 1 to %d bytes long, without control characters", maxKey)
		}
		next[name], renewed[name] = secret.New(text), true
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		if !renewed[name] {
			kept = append(kept, name)
		}
	}
	return next, kept, nil
}

func clipped(name string) string { return name[:min(len(name), 64)] }

// credentialNames returns the names of the credentials that checks can have.
func credentialNames(checks []*guardrail.Definition) []string {
	var list []string
	for _, d := range checks {
		list = append(list, d.Credentials...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// checkComplete returns an error unless one of the checks has all credentials that it
// needs, and each mapping fills a credential that is not stored and decides no address.
func checkComplete(checks []*guardrail.Definition, next map[string]secret.String, mappings []store.SecretMapping, path string) error {
	filled := make(map[string]bool)
	known := credentialNames(checks)
	for i, m := range mappings {
		at := fmt.Sprintf("secret_mappings[%d].target_field", i)
		_, given := next[m.Target]
		switch {
		case !slices.Contains(known, m.Target):
			return route.Invalid(at, "is not a credential of the partner; it has %s", strings.Join(known, ", "))
		case filled[m.Target] || given:
			return route.Invalid(at, "names %s, which is given more than once", m.Target)
		case slices.ContainsFunc(checks, func(d *guardrail.Definition) bool { return slices.Contains(d.Partner.Address, m.Target) }):
			return route.Invalid(at, "names a credential that decides the address; give its value")
		}
		filled[m.Target] = true
	}
	missing := ""
	for _, d := range checks {
		i := slices.IndexFunc(d.Partner.Needs, func(name string) bool { return next[name].Empty() && !filled[name] })
		if i < 0 {
			return nil
		}
		missing = d.Partner.Needs[i]
	}
	return route.Invalid(path+missing, "is required")
}

// checkPartnerAddress returns an error if the address of a check is refused, or if a
// credential that stays would be sent to an address that it was not sent to before. A
// user who may change credentials must not obtain them by redirecting them.
func (k *Manager) checkPartnerAddress(checks []*guardrail.Definition, before, next map[string]secret.String,
	kept []string, path string) error {
	for _, d := range checks {
		to, own, err := d.Partner.Destination(next)
		if err != nil {
			if e, ok := err.(*guardrail.ParamError); ok {
				return route.Invalid(path+e.Path, "%s", e.Message)
			}
			return err
		}
		if own {
			continue
		}
		if _, err := k.checkHost(to.String()); err != nil {
			return route.Invalid(strings.TrimSuffix(path, "."), "lead to an address that is not allowed: %v", err)
		}
		if i := slices.IndexFunc(kept, func(name string) bool { return !slices.Contains(d.Partner.Address, name) }); i >= 0 {
			if from, _, err := d.Partner.Destination(before); err != nil || *from != *to {
				return route.Invalid(path+kept[i], "must be set again together with every other credential; stored credentials are not sent to a new address")
			}
		}
	}
	return nil
}

// ResolvePartnerMappings returns mappings with the ids of their references, which must
// exist and be available: to the workspace, or to all workspaces for credentials of the
// organisation.
func ResolvePartnerMappings(ctx context.Context, q store.Queries, c *store.GuardrailCredential,
	list []PartnerMapping) ([]store.SecretMapping, error) {
	out := make([]store.SecretMapping, 0, len(list))
	for _, m := range list {
		s, err := q.SecretReference(ctx, c.Organisation, m.Reference)
		if apierr.IsNotFound(err) || err == nil && !MayFillPartner(s, c) {
			return nil, route.Missing("secret_mappings", "secret reference", m.Reference)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, store.SecretMapping{Target: m.Target, Reference: s.ID, Key: m.Key, Format: m.Format})
	}
	return out, nil
}

// MayFillPartner reports whether a reference is available where c is used.
func MayFillPartner(s store.SecretReference, c *store.GuardrailCredential) bool {
	return s.Organisation == c.Organisation && (s.AllWorkspaces || c.Workspace != "" && s.Allows(c.Workspace))
}

// CheckPartnerReference returns an error if the secret of s may not be sent to the
// checks of a partner with these credentials: the reference lists providers only, or its
// hosts do not include an address that is not the partner's own. It is called when a
// mapping is saved and each time its value is used.
func CheckPartnerReference(s store.SecretReference, checks []*guardrail.Definition, own map[string]secret.String) error {
	if len(s.Providers) > 0 {
		return apierr.New(apierr.Forbidden, "the secret reference %.60q may be sent only to the providers in its allowed_providers", s.Slug).
			WithParam("secret_mappings").WithCode(codeProvider)
	}
	for _, d := range checks {
		to, theirs, err := d.Partner.Destination(own)
		if err != nil {
			return err
		}
		if !theirs && !egress.Hosts(s.Hosts).Allow(to) {
			return newHostError(s, to)
		}
	}
	return nil
}

func newHostError(s store.SecretReference, to *url.URL) error {
	return apierr.New(apierr.Forbidden,
		"the secret reference %.60q may not be sent to %s://%s; a caller with the scope secret_references.update can list the host in allowed_hosts", s.Slug, to.Scheme, to.Host).
		WithParam("secret_mappings").WithCode(codeHost)
}

// checkPartnerMappings returns an error for a mapping of c that may not be used, see
// [Manager.ApplyPartner]; own are the stored credentials.
func (k *Manager) checkPartnerMappings(ctx context.Context, q store.Queries, c *store.GuardrailCredential,
	own map[string]secret.String) error {
	for i, m := range c.Mappings {
		s, err := q.SecretReference(ctx, c.Organisation, m.Reference)
		if apierr.IsNotFound(err) || err == nil && !MayFillPartner(s, c) {
			err = route.Missing("secret_mappings", "secret reference", m.Reference)
		} else if err == nil {
			err = CheckPartnerReference(s, k.checks.OfPartner(c.Partner), own)
		}
		if err != nil {
			return &MappingError{i, err}
		}
	}
	return nil
}
