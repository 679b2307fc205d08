package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/datakey"
	"modelgate/internal/secret"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// reader turns rows into what a file has of them.
type reader struct {
	how    Secrets
	box    *secret.Box
	ring   *datakey.Keyring
	render func(place string, s secret.String) string

	state      *state
	workspaces map[string]string                 // slugs of the active ones, by id
	guardrails map[string]string                 // slugs, by id
	references map[string]string                 // slugs, by id
	folders    map[string]store.PromptCollection // active ones, by id
	provided   map[[2]string]bool                // whether there is a provider, by ids of integration and workspace
}

// sealed is the way of writing a credential that is the same each time.
func (r *reader) sealed(place string, s secret.String) string {
	return r.box.SealDeterministic(place, s)
}

func (r *reader) settings(s *state) (*settings.Settings, error) {
	r.state, r.workspaces = s, s.active()
	r.guardrails, r.references = make(map[string]string), make(map[string]string)
	for _, g := range s.guardrails {
		r.guardrails[g.ID] = g.Slug
	}
	for _, v := range s.references {
		r.references[v.ID] = v.Slug
	}
	r.folders = make(map[string]store.PromptCollection)
	for _, c := range s.collections {
		if c.Status == store.Active {
			r.folders[c.ID] = c
		}
	}
	out := &settings.Settings{Version: 1}
	for _, part := range []func(*settings.Settings) error{
		r.organisation, r.listWorkspaces, r.members, r.listGuardrails, r.listReferences, r.listIntegrations,
		r.listProviders, r.listLabels, r.listCollections, r.listPartials, r.listPrompts, r.listConfigs, r.listDeployments, r.listKeys,
	} {
		if err := part(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *reader) organisation(out *settings.Settings) (err error) {
	o := r.state.organisation
	out.Organisation = &settings.Organisation{Name: o.Name}
	out.Organisation.Settings, err = renameGuardrails(settings.Object(text(o.Settings)), r.guardrails)
	return err
}

// guardrailFields are lists of guardrails in settings and defaults.
var guardrailFields = []string{"input_guardrails", "output_guardrails"}

// renameGuardrails returns an object in which guardrails are called by other names.
func renameGuardrails(o settings.Object, names map[string]string) (settings.Object, error) {
	var fields map[string]json.RawMessage
	if object(o) == nil {
		return nil, nil
	}
	if err := json.Unmarshal(o, &fields); err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	changed := false
	for _, field := range guardrailFields {
		var list []string
		if json.Unmarshal(fields[field], &list) != nil {
			continue
		}
		for i, name := range list {
			if other, ok := names[name]; ok {
				list[i], changed = other, true
			}
		}
		fields[field] = text(list)
	}
	if !changed {
		return o, nil
	}
	return settings.Object(text(fields)), nil
}

// text writes what is made of plain fields alone, which never fails.
func text(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// object returns nil for an object that says nothing.
func object[T ~[]byte](raw T) settings.Object {
	switch string(bytes.TrimSpace(raw)) {
	case "", "{}", "null":
		return nil
	}
	return settings.Object(raw)
}

func (r *reader) listWorkspaces(out *settings.Settings) error {
	out.Workspaces = []settings.Workspace{}
	for _, w := range r.state.workspaces {
		if w.Status != store.Active {
			continue
		}
		defaults, err := renameGuardrails(settings.Object(w.Defaults), r.guardrails)
		if err != nil {
			return err
		}
		v := settings.Workspace{
			Slug: w.Slug, Name: w.Name, Icon: w.Icon, Description: w.Description,
			Defaults: defaults, SecuritySettings: object(w.SecuritySettings),
		}
		if v.Settings, err = r.workspaceSettings(w.Settings); err != nil {
			return err
		}
		if v.UsageLimits, err = usages(w.UsageLimits); err == nil {
			v.RateLimits, err = rates(w.RateLimits)
		}
		if err != nil {
			return fmt.Errorf("workspace %s: %w", w.Slug, err)
		}
		out.Workspaces = append(out.Workspaces, v)
	}
	slices.SortFunc(out.Workspaces, func(a, b settings.Workspace) int { return cmp.Compare(a.Slug, b.Slug) })
	return nil
}

// workspaceSettings returns settings without those that have no effect, which a
// file may not hold.
func (r *reader) workspaceSettings(stored json.RawMessage) (settings.Object, error) {
	names, err := workspaces.Overridden(stored, &r.state.organisation.Settings)
	if err != nil || len(names) == 0 {
		return object(stored), err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(stored, &fields); err != nil {
		return nil, err
	}
	for _, name := range names {
		delete(fields, name)
	}
	return object(text(fields)), nil
}

// usages returns budgets without what was used of them.
func usages(raw json.RawMessage) ([]settings.Usage, error) {
	list, err := limits.ReadUsages(raw)
	var out []settings.Usage
	for i := range list {
		out = append(out, *usage(&list[i]))
	}
	return out, err
}

func usage(u *limits.Budget) *settings.Usage {
	if u == nil {
		return nil
	}
	return &settings.Usage{
		Type: u.Type, CreditLimit: u.CreditLimit, AlertThreshold: u.AlertThreshold, PeriodicReset: u.PeriodicReset, PeriodicResetDays: u.PeriodicResetDays,
	}
}

func rates(raw json.RawMessage) ([]settings.Rate, error) {
	list, err := limits.ReadRates(raw)
	var out []settings.Rate
	for _, v := range list {
		out = append(out, settings.Rate{Type: v.Type, Unit: v.Unit, Value: v.Value})
	}
	return out, err
}

func (r *reader) members(out *settings.Settings) error {
	out.Members = []settings.Member{}
	for _, u := range r.state.users {
		m := settings.Member{Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Role: u.Role, Disabled: u.Status != store.Active}
		for id, role := range r.state.roles[u.ID] {
			if m.Workspaces == nil {
				m.Workspaces = make(map[string]string)
			}
			m.Workspaces[r.workspaces[id]] = role
		}
		out.Members = append(out.Members, m)
	}
	slices.SortFunc(out.Members, func(a, b settings.Member) int { return cmp.Compare(a.Email, b.Email) })
	return nil
}

func (r *reader) listGuardrails(out *settings.Settings) error {
	out.Guardrails = []settings.Guardrail{}
	for _, g := range r.state.guardrails {
		slug, placed := r.workspaces[g.Workspace]
		if g.Status != store.Active || g.Workspace != "" && !placed {
			continue
		}
		v := settings.Guardrail{Slug: g.Slug, Workspace: slug, Name: g.Name, Actions: object(g.Actions)}
		if err := json.Unmarshal(g.Checks, &v.Checks); err != nil {
			return fmt.Errorf("guardrail %s: %w", g.Slug, err)
		}
		out.Guardrails = append(out.Guardrails, v)
	}
	slices.SortFunc(out.Guardrails, func(a, b settings.Guardrail) int { return cmp.Compare(a.Slug, b.Slug) })
	return nil
}

func (r *reader) listReferences(out *settings.Settings) error {
	out.SecretReferences = []settings.SecretReference{}
	slices.SortFunc(r.state.references, func(a, b store.SecretReference) int { return cmp.Compare(a.Slug, b.Slug) })
	for _, s := range r.state.references {
		v := settings.SecretReference{
			Slug: s.Slug, Name: s.Name, Description: s.Description, Manager: s.Manager, Auth: filled(maps.Clone(s.Auth)),
			Path: s.Path, Key: s.Key, Tags: filled(s.Tags), Workspaces: r.slugs(s.AllWorkspaces, s.Workspaces),
			Providers: append([]string(nil), s.Providers...), Hosts: append([]string(nil), s.Hosts...),
		}
		opened, err := r.open(s.Sealed)
		held := make(map[string]string)
		if err == nil && !opened.Empty() && json.Unmarshal([]byte(opened.Reveal()), &held) != nil { // the error would quote it
			err = errors.New("what is sealed is not JSON")
		}
		if err != nil {
			return fmt.Errorf("secret reference %s: %w", s.Slug, err)
		}
		for _, name := range slices.Sorted(maps.Keys(held)) {
			v.Auth[name] = r.render("secret_reference "+s.Slug+" auth_config "+name, secret.New(held[name]))
		}
		if r.how == None {
			withoutSecrets(s.Manager, v.Auth)
		}
		out.SecretReferences = append(out.SecretReferences, v)
	}
	return nil
}

// filled returns nil for a map that holds nothing.
func filled(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// slugs returns the slugs of workspaces, nil for all.
func (r *reader) slugs(all bool, ids []string) []string {
	if all {
		return nil
	}
	list := []string{}
	for _, id := range ids {
		if slug, ok := r.workspaces[id]; ok {
			list = append(list, slug)
		}
	}
	slices.Sort(list)
	return list
}

// open opens what is stored, unless secrets are left out.
func (r *reader) open(sealed string) (secret.String, error) {
	if sealed == "" || r.how == None {
		return secret.String{}, nil
	}
	if r.box == nil {
		return secret.String{}, errors.New("its credentials are sealed and there is no master key; set MODELGATE_MASTER_KEY or --master-key-file, or leave them out with --secrets none")
	}
	return r.ring.OpenWith(r.state.organisation.ID, r.state.organisation.DataKey, sealed)
}

func (r *reader) listDeployments(out *settings.Settings) error {
	out.Deployments = []settings.Deployment{}
	for _, d := range r.state.deployments {
		out.Deployments = append(out.Deployments, settings.Deployment{
			Slug: d.Slug, Name: d.Name, Type: d.Type, Inactive: d.Status != store.Active, Config: object(d.Config),
			Workspaces: r.slugs(d.AllWorkspaces, d.Workspaces), AuthSettings: object(d.AuthSettings), ClientSHA256: d.ClientHash,
		})
	}
	slices.SortFunc(out.Deployments, func(a, b settings.Deployment) int { return cmp.Compare(a.Slug, b.Slug) })
	return nil
}

// withoutSecrets drops what identifies the gateway to a manager of secrets.
func withoutSecrets(manager string, auth map[string]string) {
	for _, name := range secrets.Hidden(manager) {
		delete(auth, name)
	}
}
