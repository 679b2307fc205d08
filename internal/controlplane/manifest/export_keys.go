package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// moment writes a time as answers do; zero is empty.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func (r *reader) listKeys(out *settings.Settings) error {
	out.Keys = []settings.Key{}
	people := make(map[string]string, len(r.state.users))
	for _, u := range r.state.users {
		people[u.ID] = u.Email
	}
	for i := range r.state.keys {
		k := &r.state.keys[i]
		slug, placed := r.workspaces[k.Workspace]
		if k.Status == store.KeyRevoked || k.Workspace != "" && !placed {
			continue
		}
		v, err := key(k)
		if err != nil {
			return fmt.Errorf("key %s: %w", k.ID, err)
		}
		v.Workspace, v.Member = slug, people[k.UserID]
		out.Keys = append(out.Keys, v)
	}
	slices.SortFunc(out.Keys, func(a, b settings.Key) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.SHA256, b.SHA256))
	})
	return nil
}

// key returns a key as a file has it, but for its place and its person.
func key(k *store.Key) (v settings.Key, err error) {
	v = settings.Key{
		Name: k.Name, SHA256: k.Hash.String(), Scopes: words(k.Scopes), Providers: k.Providers, Type: string(k.Type),
		Description: k.Description, Mask: k.Mask, ExpiresAt: moment(k.ExpiresAt),
	}
	var d store.KeyDefaults
	if err := json.Unmarshal(k.Defaults, &d); err != nil {
		return v, err
	}
	v.Egress = d.Egress
	v.Config, v.ConfigFixed, v.Logging, v.Metadata, v.Addresses = d.Config, d.ConfigFixed, d.Logging, filled(d.Metadata), d.AllowedAddresses
	u, err := limits.ReadUsage(k.UsageLimits)
	if err != nil {
		return v, err
	}
	v.UsageLimits = usage(u)
	if v.RateLimits, err = rates(k.RateLimits); err != nil {
		return v, err
	}
	if err := json.Unmarshal(k.AlertEmails, &v.AlertEmails); err != nil {
		return v, err
	}
	if len(v.AlertEmails) == 0 {
		v.AlertEmails = nil
	}
	if len(v.Providers) == 0 {
		v.Providers = nil
	}
	return v, rotation(k.RotationPolicy, &v)
}

func words(scopes []access.Scope) []string {
	list := make([]string, len(scopes))
	for i, s := range scopes {
		list[i] = string(s)
	}
	return list
}

// rotation reads a policy. When it is due next follows from its period.
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

// canonical returns a time as moment writes it.
func canonical(at string) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	return moment(t.Truncate(time.Millisecond))
}
