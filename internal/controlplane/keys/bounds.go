package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// bounds are the limits that a caller cannot exceed with a key that they create, change
// or rotate: the limits of the caller's key, and for a user the limits that an admin
// set on their own key in the workspace. Nil means unlimited.
type bounds struct {
	maker  *access.Identity // limits of that key, including those of its makers
	key    store.Key        // its row; empty for a token or a key of the settings
	budget *limits.Budget   // of the key, otherwise of its nearest maker; nil for none
}

// boundsOf returns the caller's bounds for k.
func boundsOf(ctx context.Context, c *route.Caller, q store.Queries, k *store.Key) (*bounds, error) {
	if c.Restores() {
		return nil, nil
	}
	if c.IsPerson() {
		return personBounds(ctx, c, q, k.Workspace)
	}
	b := &bounds{maker: c.Identity}
	if c.Type == access.Token {
		return b, nil
	}
	own, err := q.Key(ctx, c.Organisation, c.KeyID)
	if apierr.IsNotFound(err) {
		return b, nil // key of the settings or the environment
	}
	if err != nil {
		return nil, err
	}
	b.key = own
	return b, b.countBudgets(ctx, q)
}

func (b *bounds) countBudgets(ctx context.Context, q store.Queries) error {
	for _, id := range b.lineage() {
		k, err := q.Key(ctx, b.key.Organisation, id)
		if err != nil {
			return err
		}
		u, err := limits.ReadUsage(k.UsageLimits)
		if err != nil {
			return err
		}
		if b.budget == nil && u != nil && u.CreditLimit != nil {
			b.budget = u
		}
	}
	return nil
}

// lineage returns the ids of the keys that a key created within the bounds descends
// from.
func (b *bounds) lineage() []string {
	if b == nil || b.key.ID == "" {
		return nil
	}
	return append([]string{b.key.ID}, b.key.Origin.Lineage...)
}

// personBounds returns the bounds of a user: their newest key with limits set by an
// admin. If all such keys have ended, the user cannot create a key until an admin
// creates one for them.
func personBounds(ctx context.Context, c *route.Caller, q store.Queries, workspace string) (*bounds, error) {
	rank, err := c.Rank(ctx, q, workspace)
	if err != nil || rank >= access.RankOrganisation {
		return nil, err
	}
	list, err := q.KeysOfUser(ctx, c.Organisation, workspace, c.UserID)
	if err != nil {
		return nil, err
	}
	ended, given := "", false
	for _, k := range list {
		set, err := q.LimitSetters(ctx, ref(k))
		if err != nil {
			return nil, err
		}
		capped := limits.Capped(c, rank, object(k), set)
		status := k.StatusAt(c.Now)
		live := status == store.KeyActive || status == store.KeyExhausted
		switch {
		case capped && live:
			b := &bounds{maker: k.Identity(), key: k}
			return b, b.countBudgets(ctx, q)
		case capped && ended == "":
			ended = k.Name
		case live:
			given = given || k.Origin.Rank > rank
		}
	}
	if ended != "" && !given {
		return nil, forbidden("your key %.60q had limits that you cannot change and is no longer valid; ask the user who set them for another key", ended)
	}
	return nil, nil
}

func ref(k store.Key) store.BudgetRef { return store.BudgetRef{Kind: store.KeyBudget, ID: k.ID} }

func object(k store.Key) limits.Object {
	return limits.Object{BudgetRef: ref(k), Workspace: k.Workspace, User: k.UserID}
}

// limitFields returns the limits of k for [limits.Change].
func limitFields(k *store.Key) (limits.Fields, error) {
	d, err := readDefaults(k.Defaults)
	if err != nil {
		return nil, err
	}
	u, err := limits.Field(k.UsageLimits)
	f := limits.Fields{
		"usage_limits": u, "rate_limits": limits.RateField(k.RateLimits),
		"defaults.config_id": d.Config, "defaults.request_logging": d.Logging, "egress_policy": d.Egress.String(),
	}
	if !k.ExpiresAt.IsZero() {
		f["expires_at"] = k.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	if d.ConfigFixed {
		f["defaults.allow_config_override"] = "false"
		f["defaults.config_id"] = d.Config + " fixed"
	}
	if len(d.Metadata) > 0 {
		f["defaults.metadata"] = fmt.Sprint(d.Metadata) // sorted by name
	}
	if len(d.AllowedAddresses) > 0 {
		f["allowed_addresses"] = fmt.Sprint(d.AllowedAddresses)
	}
	if k.Tools != nil {
		f["tools"] = limits.ToolsField(k.Tools)
	}
	if len(k.Providers) > 0 {
		f["providers"] = fmt.Sprint(k.Providers)
	}
	return f, err
}

func readDefaults(raw json.RawMessage) (d store.KeyDefaults, err error) {
	if len(raw) == 0 {
		return d, nil
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, fmt.Errorf("reading defaults: %w", err)
	}
	return d, nil
}

// inherit gives a new key the limits that its request does not set.
func (b *bounds) inherit(k *store.Key, in *createInput) error {
	if b == nil {
		return nil
	}
	if end := b.maker.ExpiresAt; in.Body.ExpiresAt == nil && !end.IsZero() && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(end)) {
		k.ExpiresAt = end
	}
	if len(in.Body.RateLimits) == 0 && len(b.key.RateLimits) > 0 {
		k.RateLimits = b.key.RateLimits
	}
	if in.Body.Tools == nil && len(b.maker.Tools) > 0 {
		k.Tools = b.maker.Tools[0]
	}
	own, err := readDefaults(b.key.Defaults)
	if err != nil {
		return err
	}
	if len(in.Body.AllowedAddresses) == 0 {
		if err := setAddresses(k, own.AllowedAddresses); err != nil {
			return err
		}
	}
	if k.Workspace == "" {
		return nil // keys of the organisation have no config, and log nothing
	}
	d, err := readDefaults(k.Defaults)
	if err != nil {
		return err
	}
	if b.maker.ConfigFixed && d.Config == "" && (in.Body.Defaults == nil || in.Body.Defaults.AllowOverride == nil) {
		d.Config, d.ConfigFixed = b.maker.Config, true
	}
	if d.Logging == "" {
		d.Logging = own.Logging
	}
	if d.Egress == nil && len(b.maker.Egress) > 0 {
		d.Egress = b.maker.Egress[0]
	}
	if d.Metadata == nil {
		d.Metadata = make(map[string]string, len(own.Metadata))
	}
	for name, value := range own.Metadata {
		if _, given := d.Metadata[name]; !given {
			d.Metadata[name] = value
		}
	}
	k.Defaults, err = json.Marshal(d)
	return err
}

// check returns an error if k exceeds the bounds in one of fields; nil checks all.
func (b *bounds) check(k *store.Key, fields limits.Fields) error {
	if b == nil {
		return nil
	}
	for _, rule := range rules {
		if _, asked := fields[rule.field]; fields != nil && !asked {
			continue
		}
		more, err := rule.exceeds(b, k)
		if err != nil {
			return err
		}
		if more != "" {
			return limits.NotAllowed(rule.field, "exceeds the key that limits you: %s", more)
		}
	}
	return nil
}

// rules describe, for each limit, how a key exceeds the bounds; an empty string means
// it does not.
var rules = []struct {
	field   string
	exceeds func(b *bounds, k *store.Key) (string, error)
}{
	{"expires_at", func(b *bounds, k *store.Key) (string, error) {
		if end := b.maker.ExpiresAt; !end.IsZero() && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(end)) {
			return "it ends at " + end.UTC().Format(time.RFC3339), nil
		}
		return "", nil
	}},
	{"usage_limits", func(b *bounds, k *store.Key) (string, error) {
		own, err := limits.ReadUsage(b.key.UsageLimits)
		if err != nil {
			return "", err
		}
		asked, err := limits.ReadUsage(k.UsageLimits)
		if err == nil && asked.Exceeds(own) {
			return fmt.Sprintf("its credit_limit is %g", *own.CreditLimit), nil
		}
		return "", err
	}},
	{"rate_limits", func(b *bounds, k *store.Key) (string, error) {
		own, err := limits.ReadRates(b.key.RateLimits)
		if err != nil {
			return "", err
		}
		asked, err := limits.ReadRates(k.RateLimits)
		if err != nil {
			return "", err
		}
		return asked.Beyond(own), nil
	}},
	{"defaults.config_id", func(b *bounds, k *store.Key) (string, error) {
		d, err := readDefaults(k.Defaults)
		if err == nil && b.maker.ConfigFixed && k.Workspace != "" && (!d.ConfigFixed || d.Config != b.maker.Config) {
			return fmt.Sprintf("its config %q is fixed", b.maker.Config), nil
		}
		return "", err
	}},
	{"defaults.request_logging", func(b *bounds, k *store.Key) (string, error) {
		return differs(b, k, func(d store.KeyDefaults) map[string]string {
			if d.Logging == "" {
				return nil
			}
			return map[string]string{"request_logging": d.Logging}
		})
	}},
	{"egress_policy", func(b *bounds, k *store.Key) (string, error) {
		d, err := readDefaults(k.Defaults)
		// The policies of the maker's own makers apply to k as well if the maker
		// creates it.
		if err == nil && len(b.maker.Egress) > 0 && k.Workspace != "" && d.Egress.Strict().String() != b.maker.Egress[0].String() {
			return "it has its own policy, and the key must have the same", nil
		}
		return "", err
	}},
	{"defaults.metadata", func(b *bounds, k *store.Key) (string, error) {
		return differs(b, k, func(d store.KeyDefaults) map[string]string { return d.Metadata })
	}},
	{"allowed_addresses", func(b *bounds, k *store.Key) (string, error) {
		own, list := b.maker.AllowedAddresses, k.Identity().AllowedAddresses
		if len(own) > 0 && len(list) == 0 {
			return "it may not be used from every address", nil
		}
		for _, p := range list {
			within := func(o netip.Prefix) bool { return o.Bits() <= p.Bits() && o.Contains(p.Addr()) }
			if len(own) > 0 && !slices.ContainsFunc(own, within) {
				return fmt.Sprintf("it may not be used from %s", p), nil
			}
		}
		return "", nil
	}},
	{"tools", func(b *bounds, k *store.Key) (string, error) {
		// The lists of the maker's own makers apply to k as well if the maker creates it.
		if len(b.maker.Tools) > 0 && !toolserver.Selection(b.maker.Tools[0]).Covers(k.Tools) {
			return fmt.Sprintf("it may use only these tools: %.200s", limits.ToolsField(b.maker.Tools[0])), nil
		}
		return "", nil
	}},
	{"providers", func(b *bounds, k *store.Key) (string, error) {
		for _, p := range k.Providers {
			if !b.maker.AllowsProvider(p) {
				return fmt.Sprintf("it may not use the provider %.60q", p), nil
			}
		}
		if len(b.maker.Providers) > 0 && len(k.Providers) == 0 {
			return "it may not use every provider", nil
		}
		return "", nil
	}},
}

// differs describes the first default of the bounds that k does not have, empty if it
// has all.
func differs(b *bounds, k *store.Key, of func(store.KeyDefaults) map[string]string) (string, error) {
	if k.Workspace == "" {
		return "", nil
	}
	own, err := readDefaults(b.key.Defaults)
	if err != nil {
		return "", err
	}
	d, err := readDefaults(k.Defaults)
	if err != nil {
		return "", err
	}
	has, want := of(d), of(own)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if has[name] != want[name] {
			return fmt.Sprintf("its %.60q is %.60q", name, want[name]), nil
		}
	}
	return "", nil
}

// commands reports whether the caller may read the secret of k or relax its budget
// regardless of the bounds: k is the user's own key, the caller's key, or a key created
// by the caller's key.
func (b *bounds) commands(c *route.Caller, k *store.Key) bool {
	own := c.IsPerson() && k.UserID == c.UserID
	return own || k.ID == c.KeyID || b.key.ID != "" && slices.Contains(k.Origin.Lineage, b.key.ID)
}

// checkSecret returns an error if the caller may not read the secret of k because k is
// outside the bounds.
func (b *bounds) checkSecret(c *route.Caller, k *store.Key) error {
	if b == nil || b.commands(c, k) {
		return nil
	}
	if len(b.maker.Egress) > 1 {
		return forbidden("a caller with several egress policies gets only the secrets of keys that it created")
	}
	if len(b.maker.Tools) > 1 {
		return forbidden("a caller with several limits of tools gets only the secrets of keys that it created")
	}
	if b.budget != nil {
		return forbidden("a caller with a budget (its credit_limit is %g) gets only the secrets of keys that count against it", *b.budget.CreditLimit)
	}
	return b.check(k, nil)
}

// checkChange returns an error if a change of limits exceeds the bounds. Before is the
// key before the change.
func (b *bounds) checkChange(c *route.Caller, before, k *store.Key, changed limits.Fields) error {
	if b == nil || len(changed) == 0 {
		return nil
	}
	if _, ok := changed["usage_limits"]; ok && b.budget != nil && !b.commands(c, before) {
		return limits.NotAllowed("usage_limits", "cannot be changed by a caller with a budget (its credit_limit is %g), except of keys that count against it", *b.budget.CreditLimit)
	}
	return b.check(k, changed)
}
