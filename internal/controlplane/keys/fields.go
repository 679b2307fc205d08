package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// DefaultsInput are the defaults that a key adds to requests.
type DefaultsInput struct {
	Metadata      map[string]string `json:"metadata,omitempty" doc:"At most 64 entries of 128 characters each; takes precedence over the request's metadata"`
	Config        *string           `json:"config_id,omitempty" nullable:"true" maxLength:"255" doc:"Id or slug of a config of the key's workspace, optionally with a version, as in pc-x@3"`
	AllowOverride *bool             `json:"allow_config_override,omitempty" nullable:"true" doc:"If false and config_id is set, requests that name another config are rejected; defaults to true"`
	ResponseModel *string           `json:"response_model,omitempty" nullable:"true" enum:"requested,served" doc:"Name of the model in responses: the requested model or the served one; a config takes precedence"`
	Logging       *string           `json:"request_logging,omitempty" nullable:"true" enum:"full,metadata,none" doc:"Logging level; a higher level than the organisation's requires its request_logging_override"`
}

const (
	maxMetadata      = 64
	maxMetadataChars = 128
)

// defaults returns in as stored for a key of a workspace; workspace is empty for an
// organisation key.
func defaults(ctx context.Context, q store.Queries, organisation, workspace string, in *DefaultsInput) (json.RawMessage, error) {
	if in == nil {
		return nil, nil
	}
	if len(in.Metadata) > maxMetadata {
		return nil, route.Invalid("defaults.metadata", "must have at most %d entries", maxMetadata)
	}
	for name, value := range in.Metadata {
		if name == "" || len([]rune(name)) > maxMetadataChars || len([]rune(value)) > maxMetadataChars {
			return nil, route.Invalid("defaults.metadata", "must have names of 1 to %d characters and values of at most %d",
				maxMetadataChars, maxMetadataChars)
		}
	}
	d := store.KeyDefaults{Metadata: in.Metadata}
	if in.Config != nil && *in.Config != "" {
		if workspace == "" {
			return nil, route.Invalid("defaults.config_id", "is allowed only for workspace keys")
		}
		var err error
		if d.Config, err = defaultConfig(ctx, q, store.Config{Organisation: organisation, Workspace: workspace, Slug: *in.Config}); err != nil {
			return nil, err
		}
	}
	if in.ResponseModel != nil {
		d.ResponseModel = api.ResponseModel(*in.ResponseModel)
	}
	if in.Logging != nil {
		d.Logging = *in.Logging
	}
	d.ConfigFixed = in.AllowOverride != nil && !*in.AllowOverride
	if d.ConfigFixed && d.Config == "" {
		return nil, route.Invalid("defaults.allow_config_override", "must not be false without defaults.config_id, the config to fix")
	}
	return json.Marshal(d)
}

// defaultConfig returns a config that a request names by id or slug, with or without a
// version, in the form that keys store: its slug, and @ with the number of the version.
func defaultConfig(ctx context.Context, q store.Queries, named store.Config) (string, error) {
	const field = "defaults.config_id"
	name, number, err := route.SplitVersion(field, named.Slug)
	if err != nil {
		return "", err
	}
	found, err := q.Config(ctx, named.Organisation, named.Workspace, name)
	if apierr.IsNotFound(err) {
		return "", route.Missing(field, "config", name)
	}
	if err != nil || number == 0 {
		return found.Slug, err
	}
	if _, err = route.ConfigVersion(ctx, q, field, found, number); apierr.IsNotFound(err) {
		err = apierr.From(err).WithCode("AB02")
	}
	return fmt.Sprintf("%s@%d", found.Slug, number), err
}

// withEgress returns stored defaults with their egress policy replaced by p; nil
// removes it.
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

// setAddresses limits k to client addresses in the networks; an empty list allows all.
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

// userKeyRules returns the rules for user keys in a workspace: its own, otherwise the
// organisation's.
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

// expiry returns when a key expires; asked is nil if the request does not set it. Rules
// limit the lifetime and are empty for service keys.
func expiry(asked *string, rules store.UserKeyPolicy, c *route.Caller) (time.Time, error) {
	var end time.Time
	if asked != nil {
		var err error
		if end, err = c.FutureTime("expires_at", *asked); err != nil {
			return end, err
		}
	}
	if end.IsZero() && rules.TTL != nil && *rules.TTL > 0 {
		end = c.Now.Add(time.Duration(*rules.TTL) * time.Second)
	}
	if rules.MaxTTL == nil || *rules.MaxTTL <= 0 {
		return end, nil
	}
	latest := c.Now.Add(time.Duration(*rules.MaxTTL) * time.Second)
	switch {
	case asked == nil && (end.IsZero() || end.After(latest)):
		return latest, nil
	case end.After(latest):
		return end, route.Invalid("expires_at", "must be at most %d seconds from now in this workspace", *rules.MaxTTL)
	}
	return end, nil
}

// usage returns the stored form of usage_limits.
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

// checkAlertEmails returns an error for an address that could not be one of an account,
// because it looks like another's or is none.
func checkAlertEmails(list []string) error {
	for i, text := range list {
		if _, err := access.ParseEmail(text); err != nil {
			return route.Invalid(fmt.Sprintf("alert_emails[%d]", i), "%v", err)
		}
	}
	return nil
}

func emails(list []string) json.RawMessage {
	if list == nil {
		list = []string{}
	}
	b, _ := json.Marshal(list) // cannot fail for strings
	return b
}
