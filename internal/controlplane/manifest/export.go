package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// reader converts rows to entries of a file.
type reader struct {
	how    Secrets
	box    *secret.Box
	ring   *datakey.Keyring
	render func(place string, s secret.String) string

	state      *state
	workspaces map[string]string                 // slugs of active workspaces, by id
	guardrails map[string]string                 // slugs, by id
	references map[string]string                 // slugs, by id
	folders    map[string]store.PromptCollection // active collections, by id

	integrations, people map[string]string  // slugs and e-mail addresses, by id
	provided             map[[2]string]bool // whether there is a provider, by integration id and workspace id
}

// place returns the slug of a workspace by its id, empty for the organisation. It is ok
// unless the workspace is archived.
func (r *reader) place(workspace string) (slug string, ok bool) {
	slug, ok = r.workspaces[workspace]
	return slug, ok || workspace == ""
}

// sealed seals a credential deterministically: the same credential
// at the same place always has the same text.
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
	r.integrations, r.people, r.provided = make(map[string]string), make(map[string]string), make(map[[2]string]bool)
	for _, i := range s.integrations {
		r.integrations[i.ID] = i.Slug
	}
	for _, u := range s.users {
		r.people[u.ID] = u.Email
	}
	for _, p := range s.providers {
		r.provided[[2]string{p.Integration, p.Workspace}] = true
	}
	out := &settings.Settings{Version: 1}
	for _, part := range []func(*reader, *settings.Settings) error{
		(*reader).organisation, workspaceKind.export, memberKind.export, guardrailKind.export,
		referenceKind.export, partnerKind.export, integrationKind.export,
		providerKind.export, labelKind.export, collectionKind.export, partialKind.export, promptKind.export,
		configKind.export, deploymentKind.export, keyKind.export, policyKind.export,
		identityKind.export, domainKind.export, mappingKind.export, workloadKind.export,
		toolIntegrationKind.export, toolServerKind.export, toolBundleKind.export,
		agentIntegrationKind.export, agentServerKind.export,
	} {
		if err := part(r, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// guardrailFields are the lists of guardrails in settings and defaults.
var guardrailFields = []string{"input_guardrails", "output_guardrails"}

// exclusionFields are the lists of workspaces in the organisation's settings.
var exclusionFields = []string{"input_guardrail_exclusions", "output_guardrail_exclusions"}

// renameFields returns o with the elements of its lists renamed.
func renameFields(o settings.Object, lists []string, names map[string]string) (settings.Object, error) {
	var fields map[string]json.RawMessage
	if object(o) == nil {
		return nil, nil
	}
	if err := json.Unmarshal(o, &fields); err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	changed := false
	for _, field := range lists {
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

// text encodes a struct of plain fields, which cannot fail.
func text(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// object returns nil for an empty object.
func object[T ~[]byte](raw T) settings.Object {
	switch string(bytes.TrimSpace(raw)) {
	case "", "{}", "null":
		return nil
	}
	return settings.Object(raw)
}

// usages returns budgets without their usage.
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
	out := &settings.Usage{
		Type: u.Type, CreditLimit: u.CreditLimit, AlertThreshold: u.AlertThreshold, AlertPercent: u.AlertPercent, PeriodicReset: u.PeriodicReset,
		PeriodicResetDays: u.PeriodicResetDays, TimeZone: u.TimeZone, OnBudgetEnd: u.OnBudgetEnd,
	}
	if out.AlertPercent != nil {
		out.AlertThreshold = nil // it follows
	}
	return out
}

func rates(raw json.RawMessage) ([]settings.Rate, error) {
	list, err := limits.ReadRates(raw)
	return append([]settings.Rate(nil), list...), err
}

// filled returns nil for an empty map.
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

// open opens a stored credential, unless secrets are left out.
func (r *reader) open(sealed string) (secret.String, error) {
	if sealed == "" || r.how == None {
		return secret.String{}, nil
	}
	if r.box == nil {
		return secret.String{}, errSealed
	}
	return r.ring.OpenWith(r.state.organisation.ID, r.state.organisation.DataKey, sealed)
}

var errSealed = errors.New("its credentials are sealed and no master key is configured; set MODELGATE_MASTER_KEY or --master-key-file, or leave them out with --secrets none")
