package keys

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/egress"
	"modelgate/internal/store"
)

// DefaultsInput is what a key brings to requests that lack it.
type DefaultsInput struct {
	Metadata      map[string]string `json:"metadata,omitempty" doc:"64 entries at most, of 128 characters each; wins over the request's"`
	Config        *string           `json:"config_id,omitempty" nullable:"true" maxLength:"255" doc:"Id or slug of a config of the key's workspace"`
	AllowOverride *bool             `json:"allow_config_override,omitempty" nullable:"true" doc:"False, with a config_id, refuses requests that bring another config; true unless said"`
	Logging       *string           `json:"request_logging,omitempty" nullable:"true" enum:"full,metadata,none" doc:"How much is kept of exchanges; more than the organisation says only where its request_logging_override is true"`
}

const (
	maxMetadata      = 64
	maxMetadataChars = 128
)

// defaults returns what is stored of in for a key in a workspace, which is empty
// for an organisation's key.
func defaults(ctx context.Context, q store.Queries, organisation, workspace string, in *DefaultsInput) (json.RawMessage, error) {
	if in == nil {
		return nil, nil
	}
	if len(in.Metadata) > maxMetadata {
		return nil, route.Invalid("defaults.metadata", "has %d entries at most", maxMetadata)
	}
	for name, value := range in.Metadata {
		if name == "" || len([]rune(name)) > maxMetadataChars || len([]rune(value)) > maxMetadataChars {
			return nil, route.Invalid("defaults.metadata", "has names of 1 to %d characters and values of %d at most", maxMetadataChars, maxMetadataChars)
		}
	}
	d := store.KeyDefaults{Metadata: in.Metadata}
	if in.Config != nil && *in.Config != "" {
		if workspace == "" {
			return nil, route.Invalid("defaults.config_id", "is for keys of a workspace")
		}
		found, err := q.Config(ctx, organisation, workspace, *in.Config)
		if apierr.IsNotFound(err) {
			return nil, route.Missing("defaults.config_id", "config", *in.Config)
		}
		if err != nil {
			return nil, err
		}
		d.Config = found.Slug
	}
	if in.Logging != nil {
		d.Logging = *in.Logging
	}
	d.ConfigFixed = in.AllowOverride != nil && !*in.AllowOverride
	if d.ConfigFixed && d.Config == "" {
		return nil, route.Invalid("defaults.allow_config_override", "is false only with a defaults.config_id, the config that is fixed")
	}
	return json.Marshal(d)
}

// withEgress returns the stored defaults of a key with an egress policy, nil for
// none, instead of the one they have.
func withEgress(raw json.RawMessage, p *egress.Policy) (json.RawMessage, error) {
	next, err := limits.Egress("egress_policy", p)
	if err != nil {
		return nil, err
	}
	d, err := readDefaults(raw)
	if err != nil {
		return nil, err
	}
	if d.Egress.String() == next.String() {
		return raw, nil
	}
	d.Egress = next
	return json.Marshal(d)
}

// setAddresses limits k to clients of the networks; none allows all.
func setAddresses(k *store.Key, list []string) error {
	d, err := readDefaults(k.Defaults)
	if err != nil || len(list)+len(d.AllowedAddresses) == 0 {
		return err
	}
	if _, err := access.ParseAddresses(list); err != nil {
		return route.Invalid("allowed_addresses", "%v", err)
	}
	d.AllowedAddresses = list
	k.Defaults, err = json.Marshal(d)
	return err
}

// userKeyRules returns what applies in a workspace: its own words win.
func userKeyRules(ctx context.Context, q store.Queries, organisation, workspace string) (store.UserKeyPolicy, error) {
	o, err := q.Organisation(ctx, organisation)
	if err != nil {
		return store.UserKeyPolicy{}, err
	}
	rules := o.Settings.UserKeyPolicy
	w, err := q.Workspace(ctx, organisation, workspace)
	if err == nil {
		err = json.Unmarshal(w.Settings, &rules)
	}
	return rules, err
}

// expiry returns when a key ends, as a request says it: nil says nothing. It
// lasts no longer than rules let it, which are empty for keys of nobody.
func expiry(asked *string, rules store.UserKeyPolicy, now time.Time) (time.Time, error) {
	var end time.Time
	if asked != nil {
		at, err := time.Parse(time.RFC3339, *asked)
		if err != nil || !at.After(now) || at.Year() > 9999 {
			return end, route.Invalid("expires_at", "must be a future time in ISO 8601 format")
		}
		end = at.UTC().Truncate(time.Millisecond)
	}
	if end.IsZero() && rules.TTL != nil && *rules.TTL > 0 {
		end = now.Add(time.Duration(*rules.TTL) * time.Second)
	}
	if rules.MaxTTL == nil || *rules.MaxTTL <= 0 {
		return end, nil
	}
	latest := now.Add(time.Duration(*rules.MaxTTL) * time.Second)
	switch {
	case asked == nil && (end.IsZero() || end.After(latest)):
		return latest, nil
	case end.After(latest):
		return end, route.Invalid("expires_at", "must be at most %d seconds from now in this workspace", *rules.MaxTTL)
	}
	return end, nil
}

// usage returns what is stored of usage_limits.
func usage(in *limits.BudgetInput, old json.RawMessage, now time.Time) (json.RawMessage, error) {
	if in == nil {
		return nil, nil
	}
	before, err := limits.ReadUsage(old)
	if err != nil {
		return nil, err
	}
	u, err := in.Apply("usage_limits", before, now)
	if err != nil {
		return nil, err
	}
	return u.JSON(), nil
}

func emails(list []string) json.RawMessage {
	if list == nil {
		list = []string{}
	}
	b, _ := json.Marshal(list) // strings are always written
	return b
}
