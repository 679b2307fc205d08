package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/members"
	"modelgate/internal/controlplane/organisations"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

func (p *plan) organisation() error {
	if p.file.Organisation == nil {
		return nil
	}
	one := kind[settings.Organisation, store.Organisation]{
		section: "organisation", name: "organisation",
		entries: func(s *settings.Settings) *[]settings.Organisation { return &[]settings.Organisation{*s.Organisation} },
		rows:    func(s *state) []store.Organisation { return []store.Organisation{s.organisation} },
		key:     func(*settings.Organisation) entryID { return entryID{name: p.state.organisation.Slug} },
		rowKey:  func(_ *state, o *store.Organisation) entryID { return entryID{name: o.Slug} },
		put:     (*plan).putOrganisation,
	}
	return one.plan(p)
}

func (p *plan) putOrganisation(_ string, want *settings.Organisation, old *store.Organisation, _ []string) (step, error) {
	row := *old
	if err := p.checkNames("organisation.settings", want.Settings, guardrailFields, "guardrail", p.names.guardrails); err != nil {
		return nil, err
	}
	if err := p.checkNames("organisation.settings", want.Settings, exclusionFields, "workspace", p.names.workspaces); err != nil {
		return nil, err
	}
	stored, err := renameFields(want.Settings, guardrailFields, p.names.guardrails)
	if err == nil {
		stored, err = renameFields(stored, exclusionFields, p.names.workspaces)
	}
	if err != nil {
		return nil, err
	}
	if row.Settings, err = organisationSettings(stored); err != nil {
		return nil, p.file.ErrorAt("organisation.settings", err)
	}
	row.Name = want.Name
	return dropRow(organisations.Put, row), nil
}

func orEmpty(o settings.Object, empty string) settings.Object {
	if o == nil {
		return settings.Object(empty)
	}
	return o
}

// checkNames returns an error if a list of an object names something that is not among
// names.
func (p *plan) checkNames(path string, o settings.Object, lists []string, kind string, names map[string]string) error {
	var fields map[string]json.RawMessage
	if o == nil {
		return nil
	}
	if err := json.Unmarshal(o, &fields); err != nil {
		return err
	}
	for _, field := range lists {
		var list []string
		if raw, ok := fields[field]; ok && json.Unmarshal(raw, &list) != nil {
			return p.file.ErrorAt(path+"."+field, errors.New("must be an array of slugs"))
		}
		for i, slug := range list {
			if names[slug] == "" {
				return p.file.ErrorAt(fmt.Sprintf("%s.%s[%d]", path, field, i), fmt.Errorf("%s %.60q not found", kind, slug))
			}
		}
	}
	return nil
}

func (p *plan) planWorkspaces() error {
	if err := p.checkWorkspaces(); err != nil {
		return err
	}
	return workspaceKind.plan(p)
}

var workspaceKind = kind[settings.Workspace, store.Workspace]{
	section: "workspaces", name: "workspace",
	entries: func(s *settings.Settings) *[]settings.Workspace { return &s.Workspaces },
	rows:    func(s *state) []store.Workspace { return s.workspaces },
	key:     func(w *settings.Workspace) entryID { return entryID{name: w.Slug} },
	rowKey:  func(_ *state, w *store.Workspace) entryID { return entryID{name: w.Slug} },
	read:    (*reader).workspace, put: (*plan).workspace,
	drop: func(_ *plan, row store.Workspace) step {
		if row.IsDefault {
			return nil // it stays
		}
		return dropRow(workspaces.Archive, row)
	},
}

func (p *plan) workspace(path string, want *settings.Workspace, old *store.Workspace, _ []string) (step, error) {
	row := rowOr(old, store.Workspace{ID: p.names.workspaces[want.Slug], Organisation: p.state.organisation.ID,
		Slug: want.Slug})
	if err := p.checkNames(path+".defaults", want.Defaults, guardrailFields, "guardrail", p.names.guardrails); err != nil {
		return nil, err
	}
	row.Name, row.Icon, row.Description, row.Status = want.Name, want.Icon, want.Description, store.Active
	defaults, err := renameFields(want.Defaults, guardrailFields, p.names.guardrails)
	if err != nil {
		return nil, err
	}
	row.Defaults, row.Settings = json.RawMessage(orEmpty(defaults, "{}")), json.RawMessage(orEmpty(want.Settings, "{}"))
	row.SecuritySettings = json.RawMessage(orEmpty(want.SecuritySettings, "{}"))
	l := workspaces.Limits{Usage: inputs(want.UsageLimits), Rates: want.RateLimits, Tools: want.Tools}
	return func(ctx context.Context, c *route.Caller) error { return workspaces.Put(ctx, c, old, row, l) }, nil
}

// inputs returns budgets in the form of a request.
func inputs(list []settings.Usage) []limits.BudgetInput {
	out := make([]limits.BudgetInput, len(list))
	for i := range list {
		out[i] = *input(&list[i])
	}
	return out
}

// input returns a budget in the form of a request, nil for none.
func input(u *settings.Usage) *limits.BudgetInput {
	if u == nil {
		return nil
	}
	return &limits.BudgetInput{
		Type: u.Type, CreditLimit: u.CreditLimit, AlertThreshold: u.AlertThreshold, AlertPercent: u.AlertPercent,
		TimeZone: u.TimeZone, OnBudgetEnd: u.OnBudgetEnd,
		PeriodicReset: optional(u.PeriodicReset), PeriodicResetDays: optional(u.PeriodicResetDays),
	}
}

var memberKind = kind[settings.Member, store.User]{
	section: "members", name: "member",
	entries: func(s *settings.Settings) *[]settings.Member { return &s.Members },
	rows:    func(s *state) []store.User { return s.users },
	key:     func(m *settings.Member) entryID { return entryID{name: m.Email} },
	rowKey:  func(_ *state, u *store.User) entryID { return entryID{name: u.Email} },
	read:    (*reader).member, put: (*plan).member,
	keep: func(p *plan, want, have *settings.Member) {
		if p.prune || want.Workspaces == nil {
			return
		}
		all := make(map[string]string)
		maps.Copy(all, have.Workspaces)
		maps.Copy(all, want.Workspaces)
		want.Workspaces = all
	},
	drop: func(p *plan, row store.User) step {
		return func(ctx context.Context, c *route.Caller) error {
			if row.ID == p.state.organisation.OwnerID {
				return errors.New("the owner of the organisation cannot be removed; keep them in the file")
			}
			return members.Remove(ctx, c, row)
		}
	},
}

// workspaceRoles are the roles of users in a workspace.
var workspaceRoles = []string{"admin", "manager", "member"}

func (p *plan) member(path string, want *settings.Member, old *store.User, _ []string) (step, error) {
	row := rowOr(old, store.User{ID: p.names.people[want.Email], Email: want.Email})
	if old != nil && row.ID == p.state.organisation.OwnerID && want.Role != row.Role {
		return nil, p.file.ErrorAt(path+".role", errors.New("the role of the organisation's owner cannot be changed"))
	}
	places, err := p.places(path, want)
	if err != nil {
		return nil, err
	}
	had := p.state.roles[row.ID]
	maps.DeleteFunc(places, func(id, role string) bool { return had[id] == role })
	for id := range had {
		if slug := p.state.slugs[id]; p.prune && want.Workspaces != nil && want.Workspaces[slug] == "" {
			places[id] = ""
		}
	}
	row.FirstName, row.LastName, row.Role, row.Status = want.FirstName, want.LastName, want.Role, store.Active
	if want.Disabled {
		row.Status = "disabled"
	}
	e := &members.Entry{User: row, HasAccount: p.state.userIDs[want.Email] != "", Roles: places,
		UsageLimits: input(want.UsageLimits), RateLimits: want.RateLimits, Tools: want.Tools}
	return func(ctx context.Context, c *route.Caller) error { return members.Put(ctx, c, old, e) }, nil
}

// places returns a user's roles by workspace id.
func (p *plan) places(path string, want *settings.Member) (map[string]string, error) {
	places := make(map[string]string, len(want.Workspaces))
	for _, slug := range slices.Sorted(maps.Keys(want.Workspaces)) {
		at, role := path+".workspaces."+slug, want.Workspaces[slug]
		id, err := p.workspaceID(at, slug)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(workspaceRoles, role) {
			return nil, p.file.ErrorAt(at, fmt.Errorf("the role must be one of %v", workspaceRoles))
		}
		places[id] = role
	}
	return places, nil
}

func (r *reader) organisation(out *settings.Settings) (err error) {
	o := r.state.organisation
	out.Organisation = &settings.Organisation{Name: o.Name}
	o.Settings.InputExclusions, o.Settings.OutputExclusions = r.activeIDs(o.Settings.InputExclusions), r.activeIDs(o.Settings.OutputExclusions)
	out.Organisation.Settings, err = renameFields(settings.Object(text(o.Settings)), guardrailFields, r.guardrails)
	if err == nil {
		out.Organisation.Settings, err = renameFields(out.Organisation.Settings, exclusionFields, r.workspaces)
	}
	return err
}

// activeIDs returns the ids of active workspaces in a list, in its order.
func (r *reader) activeIDs(list []string) (active []string) {
	for _, id := range list {
		if _, ok := r.workspaces[id]; ok {
			active = append(active, id)
		}
	}
	return active
}

func (r *reader) workspace(w *store.Workspace) (v settings.Workspace, ok bool, err error) {
	v = settings.Workspace{Tools: w.Tools, Slug: w.Slug, Name: w.Name, Icon: w.Icon, Description: w.Description,
		SecuritySettings: object(w.SecuritySettings)}
	if w.Status != store.Active {
		return v, false, nil
	}
	if v.Defaults, err = renameFields(settings.Object(w.Defaults), guardrailFields, r.guardrails); err != nil {
		return v, false, err
	}
	if v.Settings, err = r.workspaceSettings(w.Settings); err != nil {
		return v, false, err
	}
	if v.UsageLimits, err = usages(w.UsageLimits); err == nil {
		v.RateLimits, err = rates(w.RateLimits)
	}
	return v, true, err
}

// workspaceSettings returns settings without those that have no effect, which a file
// may not contain.
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

func (r *reader) member(row *store.User) (settings.Member, bool, error) {
	m := settings.Member{Tools: row.Tools, Email: row.Email, FirstName: row.FirstName, LastName: row.LastName, Role: row.Role,
		Disabled: row.Status != store.Active}
	for id, role := range r.state.roles[row.ID] {
		if m.Workspaces == nil {
			m.Workspaces = make(map[string]string)
		}
		m.Workspaces[r.workspaces[id]] = role
	}
	u, err := limits.ReadUsage(row.UsageLimits)
	if err != nil {
		return m, false, err
	}
	m.UsageLimits = usage(u)
	m.RateLimits, err = rates(row.RateLimits)
	return m, true, err
}
