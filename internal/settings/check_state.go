package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"modelgate/config"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
)

// checkState checks the sections with control-plane objects.
func (s *Settings) checkState() *fault {
	for _, section := range s.slugged() {
		known := slugs{}
		for i := range section.count {
			place, slug := section.at(i)
			if err := known.add(place, slug); err != nil {
				return at(err, "%s[%d].slug", section.name, i)
			}
		}
	}
	people := make(map[string]bool, len(s.Members))
	for i, m := range s.Members {
		email, err := access.ParseEmail(m.Email)
		if err != nil {
			return at(err, "members[%d].email", i)
		}
		if people[email] {
			return at(errors.New("this user is duplicated"), "members[%d].email", i)
		}
		people[email] = true
	}
	return s.checkTimes()
}

// section is a list of objects with slugs.
type section struct {
	name  string
	count int
	at    func(i int) (place, slug string)
}

// slugged returns the sections whose slugs are checked here. Slugs of integrations and
// guardrails are unique in the organisation, regardless of the workspace.
func (s *Settings) slugged() []section {
	return []section{
		{"workspaces", len(s.Workspaces), func(i int) (string, string) { return "", s.Workspaces[i].Slug }},
		{"guardrails", len(s.Guardrails), func(i int) (string, string) { return "", s.Guardrails[i].Slug }},
		{"secret_references", len(s.SecretReferences), func(i int) (string, string) { return "", s.SecretReferences[i].Slug }},
		{"integrations", len(s.Integrations), func(i int) (string, string) { return "", s.Integrations[i].Slug }},
		{"prompt_collections", len(s.PromptCollections), func(i int) (string, string) {
			return s.PromptCollections[i].Workspace, s.PromptCollections[i].Slug
		}},
		{"prompt_partials", len(s.PromptPartials), func(i int) (string, string) {
			return s.PromptPartials[i].Workspace, s.PromptPartials[i].Slug
		}},
		{"prompts", len(s.Prompts), func(i int) (string, string) { return s.Prompts[i].Workspace, s.Prompts[i].Slug }},
		{"deployments", len(s.Deployments), func(i int) (string, string) { return "", s.Deployments[i].Slug }},
		{"identity_providers", len(s.IdentityProviders), func(i int) (string, string) { return "", s.IdentityProviders[i].Slug }},
		{"workload_identities", len(s.WorkloadIdentities), func(i int) (string, string) { return "", s.WorkloadIdentities[i].Slug }},
	}
}

func (s *Settings) checkTimes() *fault {
	wrong := errors.New("a time must have the form 2026-01-31T12:00:00Z")
	for i := range s.Providers {
		if !isTime(s.Providers[i].ExpiresAt) {
			return at(wrong, "providers[%d].expires_at", i)
		}
	}
	for i := range s.Keys {
		k := &s.Keys[i]
		if !isTime(k.ExpiresAt) {
			return at(wrong, "keys[%d].expires_at", i)
		}
		if k.RotationPolicy != nil && !isTime(k.RotationPolicy.NextAt) {
			return at(wrong, "keys[%d].rotation_policy.next_rotation_at", i)
		}
	}
	return nil
}

func isTime(text string) bool {
	at, err := time.Parse(time.RFC3339, text)
	return text == "" || err == nil && at.Year() <= 9999 && at.Year() > 0
}

// HasState reports whether the file has a section or field that only `modelgate apply` reads.
func (s *Settings) HasState() bool {
	f := s.checkRun()
	return f != nil && errors.Is(f.err, errElsewhere)
}

// errElsewhere is the error for a section or field that only `modelgate apply` reads.
var errElsewhere = errors.New("this section is not read from modelgate.yaml; load it into the database with `modelgate apply`")

// stateSection is a section that only `modelgate apply` reads.
type stateSection struct {
	name  string
	given bool
}

func (s *Settings) stateSections() []stateSection {
	return []stateSection{
		{"organisation", s.Organisation != nil}, {"workspaces", s.Workspaces != nil}, {"members", s.Members != nil},
		{"guardrails", s.Guardrails != nil}, {"secret_references", s.SecretReferences != nil},
		{"guardrail_credentials", s.GuardrailCredentials != nil},
		{"integrations", s.Integrations != nil}, {"prompt_labels", s.PromptLabels != nil},
		{"prompt_collections", s.PromptCollections != nil}, {"prompt_partials", s.PromptPartials != nil}, {"prompts", s.Prompts != nil},
		{"deployments", s.Deployments != nil}, {"policies", s.Policies != nil},
		{"identity_providers", s.IdentityProviders != nil}, {"domains", s.Domains != nil},
		{"directory_mappings", s.DirectoryMappings != nil}, {"workload_identities", s.WorkloadIdentities != nil},
		{"mcp_integrations", s.MCPIntegrations != nil}, {"mcp_servers", s.MCPServers != nil}, {"mcp_bundles", s.MCPBundles != nil},
		{"agent_integrations", s.AgentIntegrations != nil}, {"agent_servers", s.AgentServers != nil},
	}
}

// checkRun rejects what a gateway reads only from its database, and checks that what it
// reads only from the file is complete.
func (s *Settings) checkRun() *fault {
	for _, section := range s.stateSections() {
		if section.given {
			return at(errElsewhere, "%s", section.name)
		}
	}
	for i, p := range s.Providers {
		switch {
		case p.Integration != "":
			return at(errElsewhere, "providers[%d].integration", i)
		case p.Workspace != "":
			return at(errElsewhere, "providers[%d].workspace", i)
		case p.Name+p.Note+p.ExpiresAt != "" || p.UsageLimits != nil || p.RateLimits != nil || p.Tags != nil || p.MadeByGrant:
			return at(errElsewhere, "providers[%d]", i)
		}
	}
	for i, c := range s.Configs {
		switch {
		case c.Workspace != "":
			return at(errElsewhere, "configs[%d].workspace", i)
		case c.Name != "" || c.Default:
			return at(errElsewhere, "configs[%d]", i)
		}
		_, err := config.ReplaceCredentials(c.Config, func(found config.Credential) (string, error) {
			if found.Declared && found.Value.Reveal() == KeptCredential {
				return "", fmt.Errorf("%s: the credential is missing; use ${NAME} for an environment variable or the output of `modelgate seal`",
					found.Path)
			}
			return "", nil
		})
		if err != nil {
			return at(err, "configs[%d].config", i)
		}
	}
	return s.checkRunningKeys()
}

func (s *Settings) checkRunningKeys() *fault {
	for i, k := range s.Keys {
		switch {
		case k.Workspace != "":
			return at(errElsewhere, "keys[%d].workspace", i)
		case k.Type+k.Member+k.Description+k.Mask+k.ExpiresAt != "" || k.ConfigFixed || k.Disabled || k.WithoutSecret ||
			k.Metadata != nil || k.UsageLimits != nil ||
			k.RateLimits != nil || k.AlertEmails != nil || k.RotationPolicy != nil:
			return at(errElsewhere, "keys[%d]", i)
		case !isSelection(k.Tools):
			return at(errors.New("must be patterns such as github and github/tool/create_*"), "keys[%d].tools", i)
		case strings.Contains(k.Config, "@"):
			return at(errors.New("must not name a version, as in pc-x@3: configs of the settings file have none"), "keys[%d].config", i)
		case k.Config != "" && !s.hasConfig(k.Config):
			return at(fmt.Errorf("config %q not found", k.Config), "keys[%d].config", i)
		}
	}
	return nil
}

func isSelection(patterns []string) bool {
	_, err := toolserver.ParseSelection(patterns)
	return err == nil
}

func (s *Settings) hasConfig(slug string) bool {
	for _, c := range s.Configs {
		if c.Slug == slug {
			return true
		}
	}
	return false
}

// FileOnlySections returns the sections that only apply to a gateway running with this
// file, not to modelgate apply.
func (s *Settings) FileOnlySections() (names []string) {
	for _, name := range s.sections {
		if name != "upstream" && !slices.Contains(stateSections, name) { // of which apply reads trusted hosts
			names = append(names, name)
		}
	}
	return names
}

// ReplaceSecrets calls f for every credential of the file that is a reference or sealed, and
// replaces it by f's result. Place names its position in a way that does not depend on
// the order of entries. An error is a *FileError.
func (s *Settings) ReplaceSecrets(f func(place, ref string) (string, error)) error {
	for i := range s.Integrations {
		v := &s.Integrations[i]
		w := credentialWalk{s, f, fmt.Sprintf("integrations[%d]", i), "integration " + v.Slug, nil}
		w.one("api_key", &v.APIKey)
		w.some("options", v.Options)
		w.all("custom_headers", "custom_headers", v.Headers)
		for j := range v.Models {
			m := &v.Models[j]
			w.all(fmt.Sprintf("models[%d].custom_headers", j), "models "+m.Slug+" custom_headers", m.Headers)
		}
		if w.err != nil {
			return w.err
		}
	}
	for i := range s.SecretReferences {
		v := &s.SecretReferences[i]
		w := credentialWalk{s, f, fmt.Sprintf("secret_references[%d]", i), "secret_reference " + v.Slug, nil}
		if w.some("auth_config", v.Auth); w.err != nil {
			return w.err
		}
	}
	for i := range s.GuardrailCredentials {
		v := &s.GuardrailCredentials[i]
		w := credentialWalk{s, f, fmt.Sprintf("guardrail_credentials[%d]", i), PartnerPlace(v.Workspace, v.Partner), nil}
		if w.all("credentials", "credentials", v.Credentials); w.err != nil {
			return w.err
		}
	}
	for i := range s.IdentityProviders {
		v := &s.IdentityProviders[i]
		w := credentialWalk{s, f, fmt.Sprintf("identity_providers[%d]", i), "identity_provider " + v.Slug, nil}
		if w.one("client_secret", &v.Secret); w.err != nil {
			return w.err
		}
	}
	for i := range s.MCPIntegrations {
		v := &s.MCPIntegrations[i]
		w := credentialWalk{s, f, fmt.Sprintf("mcp_integrations[%d]", i), "mcp_integration " + v.Slug, nil}
		w.all("configurations.custom_headers", "custom_headers", v.Configurations.Headers)
		if w.named("configurations.client_secret", "client_secret", &v.Configurations.Secret); w.err != nil {
			return w.err
		}
	}
	for i := range s.AgentIntegrations {
		v := &s.AgentIntegrations[i]
		w := credentialWalk{s, f, fmt.Sprintf("agent_integrations[%d]", i), "agent_integration " + v.Slug, nil}
		w.all("configurations.custom_headers", "custom_headers", v.Configurations.Headers)
		if w.named("configurations.client_secret", "client_secret", &v.Configurations.Secret); w.err != nil {
			return w.err
		}
	}
	for i := range s.Providers {
		v := &s.Providers[i]
		w := credentialWalk{s, f, fmt.Sprintf("providers[%d]", i), "integration " + v.Slug, nil}
		w.one("api_key", &v.APIKey)
		if w.some("options", v.Options); w.err != nil {
			return w.err
		}
	}
	for i := range s.Configs {
		c := &s.Configs[i]
		w := credentialWalk{s, f, fmt.Sprintf("configs[%d].config", i), "", nil}
		if w.config(c); w.err != nil {
			return w.err
		}
	}
	return nil
}

// credentialWalk visits the credentials of one entry.
type credentialWalk struct {
	s           *Settings
	f           func(place, ref string) (string, error)
	path, place string
	err         error
}

func (w *credentialWalk) one(field string, ref *string) { w.named(field, field, ref) }

// named is [credentialWalk.one] for a field whose credential has another name in its place.
func (w *credentialWalk) named(field, name string, ref *string) {
	if *ref == "" || w.err != nil {
		return
	}
	v, err := w.f(w.place+" "+name, *ref)
	if err != nil {
		w.err = w.s.ErrorAt(w.path+"."+field, err)
		return
	}
	*ref = v
}

// PartnerPlace returns the place of the credentials of a partner, as in
// [Settings.ReplaceSecrets]. An empty workspace is the organisation.
func PartnerPlace(workspace, partner string) string {
	return strings.TrimSpace("guardrail_credential " + strings.TrimPrefix(workspace+"/"+partner, "/"))
}

// ConfigPlace returns the place of a credential in a config, as in [Settings.ReplaceSecrets].
func ConfigPlace(slug, path string) string {
	return "config " + slug + " " + strings.TrimPrefix(path, "$.")
}

// config visits the credentials of a config that are references or sealed.
func (w *credentialWalk) config(c *Config) {
	text, err := config.ReplaceCredentials(c.Config, func(found config.Credential) (string, error) {
		ref := found.Value.Reveal()
		if !isReference(ref) {
			return ref, nil
		}
		return w.f(ConfigPlace(c.Slug, found.Path), ref)
	})
	if err != nil {
		w.err = w.s.ErrorAt(w.path, err)
		return
	}
	c.Config = text
}

// some visits the values of a map that are references or sealed.
func (w *credentialWalk) some(field string, refs map[string]string) {
	for _, name := range sortedKeys(refs) {
		if isReference(refs[name]) {
			w.in(field, field, refs, name)
		}
	}
}

// all visits every value of a map. Called is the field's name in the place.
func (w *credentialWalk) all(field, called string, refs map[string]string) {
	for _, name := range sortedKeys(refs) {
		w.in(field, called, refs, name)
	}
}

func (w *credentialWalk) in(field, called string, refs map[string]string, name string) {
	if w.err != nil {
		return
	}
	v, inner := refs[name], credentialWalk{w.s, w.f, w.path + "." + field, w.place + " " + called, nil}
	inner.one(name, &v)
	refs[name], w.err = v, inner.err
}
