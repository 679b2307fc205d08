package manifest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"modelgate/internal/controlplane/keys"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
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
		return func(ctx context.Context, c *route.Caller) error { return keys.Revoke(ctx, c, row.ID) }
	},
}

func (p *plan) key(path string, want *settings.Key, old *store.Key, changed []string) (step, error) {
	switch {
	case old != nil && old.Status == store.KeyRevoked:
		return nil, p.file.ErrorAt(path+".sha256", errors.New("this key was revoked and cannot be restored by a file; remove it"))
	case old == nil && p.names.former[want.SHA256]:
		return nil, p.file.ErrorAt(path+".sha256", errors.New("this key was rotated since the export; export the state again"))
	}
	row := rowOr(old, store.Key{Organisation: p.state.organisation.ID, Type: access.KeyType(want.Type),
		Status: store.KeyActive, CreationMode: "auto"})
	var err error
	if row.Hash, err = access.ParseHash(want.SHA256); err != nil {
		return nil, err
	}
	if err := p.keyPlace(path, want, &row); err != nil {
		return nil, err
	}
	row.Mask, row.Providers, row.Disabled = want.Mask, want.Providers, want.Disabled
	body := keyBody(want)
	// An unchanged policy continues: its next rotation is not in the file.
	body.Rotation.Set = old == nil || has(changed, "rotation_policy")
	return func(ctx context.Context, c *route.Caller) error { return keys.Put(ctx, c, old, row, body) }, nil
}

// keyBody returns a key of the file in the form of a request.
func keyBody(want *settings.Key) *keys.UpdateBody {
	override := !want.ConfigFixed
	return &keys.UpdateBody{
		Name: route.Set(want.Name), Description: route.Set(want.Description), Scopes: want.Scopes,
		RateLimits: route.Set(limits.Rates(want.RateLimits)), UsageLimits: route.SetOrNull(input(want.UsageLimits)),
		Defaults: route.Set(keys.DefaultsInput{
			Metadata: want.Metadata, Config: &want.Config, AllowOverride: &override, ResponseModel: &want.ResponseModel, Logging: &want.Logging,
		}),
		AlertEmails: route.Set(want.AlertEmails), ExpiresAt: route.SetOrNull(optional(want.ExpiresAt)),
		Rotation: route.SetOrNull(rotationInput(want.RotationPolicy)),
		Egress:   route.SetOrNull(want.Egress), AllowedAddresses: route.Set(want.Addresses), Tools: route.Set(want.Tools),
	}
}

// optional returns a value of the file in the form of a request, nil for none.
func optional[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

func rotationInput(want *settings.Rotation) *keys.RotationInput {
	if want == nil {
		return nil
	}
	return &keys.RotationInput{Period: optional(want.Period), PeriodDays: optional(want.PeriodDays),
		NextAt: optional(want.NextAt), TransitionMS: &want.TransitionMS}
}

// keyPlace sets the owner of a key.
func (p *plan) keyPlace(path string, want *settings.Key, row *store.Key) (err error) {
	if string(row.Type) != want.Type {
		return p.file.ErrorAt(path+".type", errors.New("the type of a key cannot be changed"))
	}
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
		Name: k.Name, SHA256: k.Hash.String(), Scopes: words(k.Scopes), Providers: k.Providers, Tools: k.Tools, Type: string(k.Type),
		Description: k.Description, Mask: k.Mask, WithoutSecret: k.Mask == "", ExpiresAt: moment(k.ExpiresAt), Disabled: k.Disabled,
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
