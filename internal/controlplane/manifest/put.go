package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// actor is who is named as the maker of what a file makes.
const actor = "file"

func (p *plan) organisation() error {
	if p.file.Organisation == nil {
		return nil
	}
	return compare(p, family[settings.Organisation]{
		section: "organisation", kind: "organisation", spared: true,
		want: []settings.Organisation{*p.file.Organisation}, have: []settings.Organisation{*p.have.Organisation},
		name: func(*settings.Organisation) string { return p.state.organisation.Slug },
		put: func(_ string, want *settings.Organisation, _ []string) (step, error) {
			row := p.state.organisation
			if err := p.guardrailsOf("organisation.settings", want.Settings); err != nil {
				return nil, err
			}
			stored, err := renameGuardrails(want.Settings, p.names.guardrails)
			if err != nil {
				return nil, err
			}
			if row.Settings, err = organisationSettings(stored); err != nil {
				return nil, p.file.ErrorAt("organisation.settings", err)
			}
			row.Name, row.UpdatedAt = want.Name, p.now
			return func(ctx context.Context, tx *store.Tx) error { return tx.UpdateOrganisation(ctx, row) }, nil
		},
	})
}

func orEmpty(o settings.Object, empty string) settings.Object {
	if o == nil {
		return settings.Object(empty)
	}
	return o
}

// guardrailsOf checks that the guardrails exist that an object names.
func (p *plan) guardrailsOf(path string, o settings.Object) error {
	var fields map[string]json.RawMessage
	if o == nil {
		return nil
	}
	if err := json.Unmarshal(o, &fields); err != nil {
		return err
	}
	for _, field := range guardrailFields {
		var list []string
		if raw, ok := fields[field]; ok && json.Unmarshal(raw, &list) != nil {
			return p.file.ErrorAt(path+"."+field, errors.New("this is a list of slugs"))
		}
		if len(list) > 0 {
			return p.file.ErrorAt(path+"."+field, errors.New("guardrails can't be enforced by this version; leave them out"))
		}
	}
	return nil
}

func (p *plan) workspaces() error {
	rows := make(map[string]store.Workspace)
	for _, w := range p.state.workspaces {
		rows[w.Slug] = w
	}
	if err := p.checkWorkspaces(); err != nil {
		return err
	}
	return compare(p, family[settings.Workspace]{
		section: "workspaces", kind: "workspace", want: p.file.Workspaces, have: p.have.Workspaces, spared: p.keepsUnlisted(p.file.Workspaces != nil),
		name: func(w *settings.Workspace) string { return w.Slug },
		put: func(path string, want *settings.Workspace, _ []string) (step, error) {
			return p.workspace(path, want, rows[want.Slug])
		},
		drop: func(have *settings.Workspace) step {
			row := rows[have.Slug]
			return func(ctx context.Context, tx *store.Tx) error {
				if row.IsDefault {
					return errors.New("the default workspace is not archived; keep it in the file")
				}
				row.Status, row.UpdatedAt = store.Archived, p.now
				if err := tx.ArchiveWorkspaceIntegrations(ctx, row.ID, p.now); err != nil {
					return err
				}
				return tx.UpdateWorkspace(ctx, row)
			}
		},
	})
}

func (p *plan) workspace(path string, want *settings.Workspace, row store.Workspace) (step, error) {
	known := row.ID != ""
	if !known {
		row = store.Workspace{ID: p.names.workspaces[want.Slug], Organisation: p.state.organisation.ID, Slug: want.Slug, CreatedBy: actor, CreatedAt: p.now}
	}
	if err := p.guardrailsOf(path+".defaults", want.Defaults); err != nil {
		return nil, err
	}
	before := row
	row.Name, row.Icon, row.Description, row.Status, row.UpdatedAt = want.Name, want.Icon, want.Description, store.Active, p.now
	row.Defaults, row.Settings = json.RawMessage(orEmpty(want.Defaults, "{}")), json.RawMessage(orEmpty(want.Settings, "{}"))
	row.SecuritySettings = json.RawMessage(orEmpty(want.SecuritySettings, "{}"))
	var err error
	if row.UsageLimits, err = p.budgets(want.UsageLimits, row.UsageLimits); err != nil {
		return nil, err
	}
	if row.RateLimits, err = limit(want.RateLimits); err != nil {
		return nil, err
	}
	of, err := limitsOf(store.WorkspaceBudget, row.ID, &before, &row, workspaces.Limits)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx *store.Tx) error {
		put := tx.CreateWorkspace
		if known {
			put = tx.UpdateWorkspace
		}
		if err := put(ctx, row); err != nil {
			return err
		}
		if err := limits.Note(ctx, tx, of, operator); err != nil {
			return err
		}
		return budgets.Refresh(ctx, tx, store.WorkspaceBudget, row.ID)
	}, nil
}

// budgets returns what is stored of budgets instead of old.
func (p *plan) budgets(want []settings.Usage, old json.RawMessage) (json.RawMessage, error) {
	before, err := limits.ReadUsages(old)
	if err != nil {
		return nil, err
	}
	list := make([]limits.BudgetInput, len(want))
	for i, u := range want {
		list[i] = input(u)
	}
	out, err := limits.ApplyAll("usage_limits", list, before, p.now)
	return out.JSON(), err
}

// budget is budgets for what has one at most.
func (p *plan) budget(want *settings.Usage, old json.RawMessage) (json.RawMessage, error) {
	before, err := limits.ReadUsage(old)
	if err != nil || want == nil {
		return nil, err
	}
	in := input(*want)
	out, err := in.Apply("usage_limits", before, p.now)
	return out.JSON(), err
}

func input(u settings.Usage) limits.BudgetInput {
	in := limits.BudgetInput{Type: u.Type, CreditLimit: u.CreditLimit, AlertThreshold: u.AlertThreshold}
	if u.PeriodicReset != "" {
		in.PeriodicReset = &u.PeriodicReset
	}
	if u.PeriodicResetDays != 0 {
		in.PeriodicResetDays = &u.PeriodicResetDays
	}
	return in
}

func listed(want []settings.Rate) limits.Rates {
	out := make(limits.Rates, len(want))
	for i, r := range want {
		out[i] = limits.Rate{Type: r.Type, Unit: r.Unit, Value: r.Value}
	}
	return out
}

// limit returns what is stored of the rate limits of what is no key.
func limit(want []settings.Rate) (json.RawMessage, error) {
	list := listed(want)
	return list.JSON(), list.Check("rate_limits")
}

func (p *plan) members() error {
	rows := make(map[string]store.User)
	for _, u := range p.state.users {
		rows[u.Email] = u
	}
	return compare(p, family[settings.Member]{
		section: "members", kind: "member", want: p.file.Members, have: p.have.Members, spared: p.keepsUnlisted(p.file.Members != nil),
		name: func(m *settings.Member) string { return m.Email },
		keep: func(want, have *settings.Member) {
			if p.prune || want.Workspaces == nil {
				return
			}
			all := maps.Clone(have.Workspaces)
			if all == nil {
				all = make(map[string]string)
			}
			maps.Copy(all, want.Workspaces)
			want.Workspaces = all
		},
		put: func(path string, want *settings.Member, changed []string) (step, error) {
			return p.member(path, want, rows[want.Email], changed)
		},
		drop: func(have *settings.Member) step {
			row := rows[have.Email]
			return func(ctx context.Context, tx *store.Tx) error {
				if row.ID == p.state.organisation.OwnerID {
					return errors.New("the owner of the organisation is not removed; keep them in the file")
				}
				return tx.RemoveUser(ctx, p.state.organisation.ID, row.ID, p.now)
			}
		},
	})
}

// workspaceRoles are what people may be in a workspace.
var workspaceRoles = []string{"admin", "manager", "member"}

func (p *plan) member(path string, want *settings.Member, row store.User, changed []string) (step, error) {
	known := row.ID != ""
	if known && row.ID == p.state.organisation.OwnerID && want.Role != row.Role {
		return nil, p.file.ErrorAt(path+".role", errors.New("the owner of the organisation stays its owner"))
	}
	places, err := p.places(path, want)
	if err != nil {
		return nil, err
	}
	had := p.state.roles[row.ID]
	if !known {
		row = store.User{ID: p.names.people[want.Email], Email: want.Email, CreatedAt: p.now}
	}
	row.FirstName, row.LastName, row.Role, row.Status, row.UpdatedAt = want.FirstName, want.LastName, want.Role, store.Active, p.now
	if want.Disabled {
		row.Status = "disabled"
	}
	leaves := p.prune && want.Workspaces != nil
	return func(ctx context.Context, tx *store.Tx) error {
		if err := p.addPerson(ctx, tx, row, known); err != nil {
			return err
		}
		if err := p.setWorkspaceRoles(ctx, tx, row.ID, had, places, leaves); err != nil {
			return err
		}
		if has(changed, "role") { // behind the workspaces: who is in none loses their keys there
			if err := tx.SetUserRole(ctx, p.state.organisation.ID, row.ID, row.Role, p.now); err != nil {
				return err
			}
		}
		return tx.UpdateUser(ctx, row)
	}, nil
}

// places returns a person's roles by the ids of workspaces.
func (p *plan) places(path string, want *settings.Member) (map[string]string, error) {
	places := make(map[string]string, len(want.Workspaces))
	for _, slug := range slices.Sorted(maps.Keys(want.Workspaces)) {
		at, role := path+".workspaces."+slug, want.Workspaces[slug]
		id, err := p.workspaceID(at, slug)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(workspaceRoles, role) {
			return nil, p.file.ErrorAt(at, fmt.Errorf("a role is one of %v", workspaceRoles))
		}
		places[id] = role
	}
	return places, nil
}

// addPerson makes a person one of the organisation who is not yet.
func (p *plan) addPerson(ctx context.Context, tx *store.Tx, row store.User, known bool) error {
	switch organisation := p.state.organisation.ID; {
	case known:
		return nil
	case p.state.strangers[row.Email] != "":
		return tx.JoinOrganisation(ctx, organisation, row)
	default:
		return tx.CreateUser(ctx, organisation, row)
	}
}

// setWorkspaceRoles gives a person their roles in workspaces. Those that are not among them
// are left when leaves says so.
func (p *plan) setWorkspaceRoles(ctx context.Context, tx *store.Tx, user string, had, places map[string]string, leaves bool) error {
	for id, role := range places {
		if had[id] == role {
			continue
		}
		if err := tx.SetWorkspaceMember(ctx, id, user, role, p.now); err != nil {
			return err
		}
	}
	for id := range had {
		if places[id] != "" || !leaves {
			continue
		}
		if err := tx.RemoveWorkspaceMember(ctx, id, user, p.now); err != nil {
			return err
		}
	}
	return nil
}
