package manifest

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"modelgate/api"
	"modelgate/internal/controlplane/keys"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/identity/access"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

var keyKind = kind[settings.Key, store.Key]{
	section: "keys", name: "key",
	entries: func(s *settings.Settings) *[]settings.Key { return &s.Keys },
	rows:    func(s *state) []store.Key { return s.keys },
	key:     func(k *settings.Key) entryID { return entryID{name: k.SHA256} },
	rowKey:  func(_ *state, k *store.Key) entryID { return entryID{name: k.Hash.String()} },
	title:   func(k *settings.Key) string { return entryID{k.Workspace, k.Name + " " + k.SHA256[:12]}.String() },
	order: func(a, b settings.Key) int {
		return cmp.Or(entryID{a.Workspace, a.Name}.compare(entryID{b.Workspace, b.Name}), cmp.Compare(a.SHA256, b.SHA256))
	},
	read: (*reader).key, put: (*plan).key,
	drop: func(p *plan, row store.Key) step {
		row.Status, row.PreviousHash, row.UpdatedAt = store.KeyRevoked, nil, p.now
		return save(row, &row, nil, (*store.Tx).UpdateKey)
	},
}

func (p *plan) key(path string, want *settings.Key, old *store.Key, _ []string) (step, error) {
	switch {
	case old != nil && old.Status == store.KeyRevoked:
		return nil, p.file.ErrorAt(path+".sha256", errors.New("this key was revoked and cannot be restored by a file; remove it"))
	case old == nil && p.names.former[want.SHA256]:
		return nil, p.file.ErrorAt(path+".sha256", errors.New("this key was rotated since the export; export the state again"))
	}
	row := rowOr(old, store.Key{ID: newID(), Organisation: p.state.organisation.ID, Status: store.KeyActive, CreationMode: "auto", CreatedAt: p.now})
	var err error
	if row.Hash, err = access.ParseHash(want.SHA256); err != nil {
		return nil, err
	}
	if err := p.keyPlace(path, want, &row); err != nil {
		return nil, err
	}
	if err := checkMetadata(want.Metadata); err != nil {
		return nil, err
	}
	row.Name, row.Description, row.Mask, row.Providers, row.Disabled, row.UpdatedAt = want.Name, want.Description, want.Mask, want.Providers, want.Disabled, p.now
	if row.ExpiresAt = parsed(want.ExpiresAt); row.Status == store.KeyExpired && (row.ExpiresAt.IsZero() || p.now.Before(row.ExpiresAt)) {
		row.Status = store.KeyActive
	}
	row.Scopes = nil
	for _, word := range want.Scopes {
		s := access.Scope(word)
		if err := s.CheckHolder(row.Type); err != nil && s != access.ScopeInstallation {
			return nil, p.file.ErrorAt(path+".scopes", err)
		}
		row.Scopes = append(row.Scopes, s)
	}
	if row.Scopes == nil {
		row.Scopes = []access.Scope{}
	}
	row.Defaults = text(store.KeyDefaults{Metadata: want.Metadata, Config: want.Config, ConfigFixed: want.ConfigFixed, Logging: want.Logging, ResponseModel: api.ResponseModel(want.ResponseModel), AllowedAddresses: want.Addresses, Egress: want.Egress.Strict()})
	if err := p.keyLimits(want, &row); err != nil {
		return nil, err
	}
	of, err := limits.Compare(store.KeyBudget, row.ID, old, &row, keys.Limits)
	if err != nil {
		return nil, err
	}
	return saveLimited(save(row, old, (*store.Tx).CreateKey, (*store.Tx).UpdateKey), of), nil
}

// operator is the setter of limits that come from a file.
var operator = store.LimitSetter{Rank: access.RankOrganisation, By: actor}

// keyPlace sets the owner of a key.
func (p *plan) keyPlace(path string, want *settings.Key, row *store.Key) (err error) {
	if row.Type != "" && string(row.Type) != want.Type {
		return p.file.ErrorAt(path+".type", errors.New("the type of a key cannot be changed"))
	}
	row.Type = access.KeyType(want.Type)
	if (row.Type == access.OrganisationService) != (want.Workspace == "") {
		return p.file.ErrorAt(path+".workspace", errors.New("an organisation key must not have a workspace; any other key must have one"))
	}
	if (row.Type == access.WorkspaceUser) != (want.Member != "") {
		return p.file.ErrorAt(path+".member", errors.New("a key of type workspace-user must have a member; any other key must not have one"))
	}
	if row.Workspace, err = p.place(path, want.Workspace); err != nil {
		return err
	}
	if row.UserID = p.names.people[want.Member]; want.Member != "" && row.UserID == "" {
		return p.missing(path+".member", "member", want.Member)
	}
	if want.ConfigFixed && want.Config == "" {
		return p.file.ErrorAt(path+".config_fixed", errors.New("config_fixed requires config"))
	}
	if want.Config != "" {
		return p.checkConfig(path+".config", want.Workspace, want.Config)
	}
	return nil
}

func (p *plan) keyLimits(want *settings.Key, row *store.Key) (err error) {
	relieved, err := p.budget(want.UsageLimits, &row.UsageLimits)
	if err != nil {
		return err
	}
	if row.Status == store.KeyExhausted && relieved {
		row.Status = store.KeyActive
	}
	list := limits.Rates(want.RateLimits)
	if err := list.CheckKey("rate_limits"); err != nil {
		return err
	}
	if err := keys.CheckAlertEmails(want.AlertEmails); err != nil {
		return err
	}
	row.RateLimits, row.AlertEmails = list.JSON(), text(append([]string{}, want.AlertEmails...))
	if row.RotationPolicy, err = p.policy(want.RotationPolicy, row.RotationPolicy); err != nil {
		return err
	}
	return keys.Due(row)
}

// policy returns the stored form of a rotation policy. An unchanged policy continues; a
// policy for a single time may lie in the past.
func (p *plan) policy(want *settings.Rotation, old json.RawMessage) (json.RawMessage, error) {
	if want == nil {
		return nil, nil
	}
	var before settings.Key
	if old != nil {
		if err := rotation(old, &before); err != nil {
			return nil, err
		}
	}
	if b := before.RotationPolicy; b != nil && *b == *want {
		return old, nil
	}
	if want.NextAt != "" && want.Period == "" && want.PeriodDays == 0 {
		return text(want), nil
	}
	in := &keys.RotationInput{TransitionMS: &want.TransitionMS}
	if want.Period != "" {
		in.Period = &want.Period
	}
	if want.PeriodDays != 0 {
		in.PeriodDays = &want.PeriodDays
	}
	if want.NextAt != "" {
		in.NextAt = &want.NextAt
	}
	return keys.Policy(in, p.now)
}

// moment formats a time as responses do; zero is empty.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func (r *reader) key(k *store.Key) (v settings.Key, ok bool, err error) {
	slug, placed := r.place(k.Workspace)
	if k.Status == store.KeyRevoked || !placed {
		return v, false, nil
	}
	v = settings.Key{
		Workspace: slug, Member: r.people[k.UserID],
		Name: k.Name, SHA256: k.Hash.String(), Scopes: words(k.Scopes), Providers: k.Providers, Type: string(k.Type),
		Description: k.Description, Mask: k.Mask, ExpiresAt: moment(k.ExpiresAt), Disabled: k.Disabled,
	}
	var d store.KeyDefaults
	if err := json.Unmarshal(k.Defaults, &d); err != nil {
		return v, false, err
	}
	v.Egress = d.Egress
	v.Config, v.ConfigFixed, v.Logging, v.Metadata, v.Addresses = d.Config, d.ConfigFixed, d.Logging, filled(d.Metadata), d.AllowedAddresses
	v.ResponseModel = string(d.ResponseModel)
	u, err := limits.ReadUsage(k.UsageLimits)
	if err != nil {
		return v, false, err
	}
	v.UsageLimits = usage(u)
	if v.RateLimits, err = rates(k.RateLimits); err != nil {
		return v, false, err
	}
	if err := json.Unmarshal(k.AlertEmails, &v.AlertEmails); err != nil {
		return v, false, err
	}
	if len(v.AlertEmails) == 0 {
		v.AlertEmails = nil
	}
	if len(v.Providers) == 0 {
		v.Providers = nil
	}
	return v, true, rotation(k.RotationPolicy, &v)
}

func words(scopes []access.Scope) []string {
	list := make([]string, len(scopes))
	for i, s := range scopes {
		list[i] = string(s)
	}
	return list
}

// rotation decodes a policy. The next time is left out if it follows from the period.
func rotation(raw json.RawMessage, v *settings.Key) error {
	if err := json.Unmarshal(raw, &v.RotationPolicy); err != nil || v.RotationPolicy == nil {
		return err
	}
	p := v.RotationPolicy
	if p.NextAt = canonical(p.NextAt); p.Period != "" || p.PeriodDays != 0 {
		p.NextAt = ""
	}
	return nil
}

// canonical returns a time in the format of moment.
func canonical(at string) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	return moment(t.Truncate(time.Millisecond))
}
