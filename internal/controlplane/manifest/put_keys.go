package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"modelgate/internal/access"
	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/keys"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

func (p *plan) keys() error {
	rows, former := make(map[string]*store.Key, len(p.state.keys)), make(map[string]bool)
	for i := range p.state.keys {
		k := &p.state.keys[i]
		rows[k.Hash.String()] = k
		if k.PreviousHash != nil {
			former[k.PreviousHash.String()] = true
		}
	}
	return compare(p, family[settings.Key]{
		section: "keys", kind: "key", want: p.file.Keys, have: p.have.Keys, spared: p.keepsUnlisted(p.file.Keys != nil),
		name: func(k *settings.Key) string {
			return strings.TrimPrefix(k.Workspace+"/", "/") + k.Name + " " + k.SHA256[:12]
		},
		id: func(k *settings.Key) string { return k.SHA256 },
		put: func(path string, want *settings.Key, changed []string) (step, error) {
			row := rows[want.SHA256]
			switch {
			case row != nil && row.Status == store.KeyRevoked:
				return nil, p.file.ErrorAt(path+".sha256", errors.New("this key was revoked, and a file does not bring it back; take it out"))
			case row == nil && former[want.SHA256]:
				return nil, p.file.ErrorAt(path+".sha256", errors.New("this key got another secret since; export the state again"))
			}
			return p.key(path, want, row)
		},
		drop: func(have *settings.Key) step {
			row := *rows[have.SHA256]
			row.Status, row.PreviousHash, row.UpdatedAt = store.KeyRevoked, nil, p.now
			return func(ctx context.Context, tx *store.Tx) error { return tx.UpdateKey(ctx, row) }
		},
	})
}

func (p *plan) key(path string, want *settings.Key, old *store.Key) (step, error) {
	row := store.Key{ID: newID(), Organisation: p.state.organisation.ID, Status: store.KeyActive, CreationMode: "auto", CreatedAt: p.now}
	if old != nil {
		row = *old
	}
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
	row.Name, row.Description, row.Mask, row.Providers, row.UpdatedAt = want.Name, want.Description, want.Mask, want.Providers, p.now
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
	row.Defaults = text(store.KeyDefaults{Metadata: want.Metadata, Config: want.Config, ConfigFixed: want.ConfigFixed, Logging: want.Logging, AllowedAddresses: want.Addresses, Egress: want.Egress.Strict()})
	if err := p.keyLimits(want, &row); err != nil {
		return nil, err
	}
	of, err := limitsOf(store.KeyBudget, row.ID, old, &row, keys.Limits)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx *store.Tx) error {
		put := tx.CreateKey
		if old != nil {
			put = tx.UpdateKey
		}
		if err := put(ctx, row); err != nil {
			return err
		}
		if err := limits.Note(ctx, tx, of, operator); err != nil {
			return err
		}
		return budgets.Refresh(ctx, tx, store.KeyBudget, row.ID)
	}, nil
}

// operator is who sets the limits of a file.
var operator = store.LimitSetter{Rank: access.RankOrganisation, By: actor}

// limitsOf returns what a file changes of limits; before is nil for what is new.
func limitsOf[T any](kind, id string, before, after *T, read func(*T) (limits.Fields, error)) (limits.Object, error) {
	of := limits.Object{BudgetRef: store.BudgetRef{Kind: kind, ID: id}}
	var err error
	if before != nil {
		if of.Before, err = read(before); err != nil {
			return of, err
		}
	}
	of.After, err = read(after)
	return of, err
}

// keyPlace says whose a key is.
func (p *plan) keyPlace(path string, want *settings.Key, row *store.Key) (err error) {
	if row.Type != "" && string(row.Type) != want.Type {
		return p.file.ErrorAt(path+".type", errors.New("a key does not change its type"))
	}
	row.Type = access.KeyType(want.Type)
	if (row.Type == access.OrganisationService) != (want.Workspace == "") {
		return p.file.ErrorAt(path+".workspace", errors.New("a key of the organisation has no workspace, and any other has one"))
	}
	if (row.Type == access.WorkspaceUser) != (want.Member != "") {
		return p.file.ErrorAt(path+".member", errors.New("a key of type workspace-user has a member, and any other has none"))
	}
	if row.Workspace, err = p.place(path, want.Workspace); err != nil {
		return err
	}
	if row.UserID = p.names.people[want.Member]; want.Member != "" && row.UserID == "" {
		return p.missing(path+".member", "member", want.Member)
	}
	if want.ConfigFixed && want.Config == "" {
		return p.file.ErrorAt(path+".config_fixed", errors.New("a config is fixed only with config, which names it"))
	}
	if want.Config != "" && !p.names.configs[[2]string{want.Workspace, want.Config}] {
		return p.missing(path+".config", "config", want.Config)
	}
	return nil
}

func (p *plan) keyLimits(want *settings.Key, row *store.Key) (err error) {
	before, err := limits.ReadUsage(row.UsageLimits)
	if err != nil {
		return err
	}
	if row.UsageLimits, err = p.budget(want.UsageLimits, row.UsageLimits); err != nil {
		return err
	}
	after, err := limits.ReadUsage(row.UsageLimits)
	if err != nil {
		return err
	}
	if row.Status == store.KeyExhausted && after.Relieves(before) {
		row.Status = store.KeyActive
	}
	list := listed(want.RateLimits)
	if err := list.CheckKey("rate_limits"); err != nil {
		return err
	}
	row.RateLimits, row.AlertEmails = list.JSON(), text(append([]string{}, want.AlertEmails...))
	if row.RotationPolicy, err = p.policy(want.RotationPolicy, row.RotationPolicy); err != nil {
		return err
	}
	return keys.Due(row)
}

// policy returns what is stored of a rotation policy. One that is as before goes
// on; one for a single moment may be of the past.
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
