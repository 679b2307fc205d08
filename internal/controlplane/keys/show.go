package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// Item is a key in a response.
type Item struct {
	ID           string                 `json:"id"`
	Key          string                 `json:"key" doc:"The mask: first and last two characters; empty for a key without a secret"`
	Name         string                 `json:"name"`
	Description  string                 `json:"description"`
	Type         access.KeyType         `json:"type"`
	Organisation string                 `json:"organisation_id"`
	Workspace    *string                `json:"workspace_id"`
	User         *string                `json:"user_id"`
	Status       string                 `json:"status" doc:"active, exhausted or expired"`
	CreationMode string                 `json:"creation_mode" doc:"ui, api or auto"`
	CreatedBy    *string                `json:"created_by" doc:"Id of the user or key that created it; null for the operator"`
	MadeBy       []string               `json:"made_by_keys" doc:"Ids of the keys it descends from, nearest first; it shares their limits, has at most their scopes and is revoked with them"`
	CreatedAt    route.Time             `json:"created_at"`
	UpdatedAt    route.Time             `json:"last_updated_at"`
	RateLimits   limits.Rates           `json:"rate_limits"`
	UsageLimits  *limits.BudgetResponse `json:"usage_limits"`
	ResetUsage   int                    `json:"reset_usage" doc:"Always 0"`
	Scopes       []access.Scope         `json:"scopes"`
	Defaults     Defaults               `json:"defaults"`
	AlertEmails  []string               `json:"alert_emails"`
	Addresses    []string               `json:"allowed_addresses" doc:"Client addresses and CIDRs that may use the key; empty allows all"`
	Tools        []string               `json:"tools" nullable:"true" doc:"What the key may use of MCP servers, as patterns; null for all, empty for nothing"`
	ExpiresAt    route.Time             `json:"expires_at"`
	Rotation     *Rotation              `json:"rotation_policy"`
	TransitionAt route.Time             `json:"key_transition_expires_at" doc:"Until then the secret before the last rotation is valid too"`
	Egress       *egress.Policy         `json:"egress_policy" doc:"Destinations that its requests may use; null if only the policies above the key apply"`
	ManagedBy    string                 `json:"managed_by" doc:"api, or file if it is declared in the settings file"`
	Object       string                 `json:"object"`
}

// Defaults are the defaults that a key adds to requests.
type Defaults struct {
	Metadata      map[string]string `json:"metadata"`
	Config        *string           `json:"config_id" doc:"Slug, and @ with the number of a version if the key uses that"`
	AllowOverride bool              `json:"allow_config_override"`
	Logging       *string           `json:"request_logging"`
	ResponseModel *string           `json:"response_model" doc:"requested or served; null for the default of the client's dialect"`
}

// Rotation is the state of a key's rotation.
type Rotation struct {
	Period       *string    `json:"rotation_period"`
	PeriodDays   *int       `json:"rotation_period_days"`
	NextAt       route.Time `json:"next_rotation_at"`
	Due          bool       `json:"is_due" doc:"Whether the key is due for rotation"`
	TransitionMS int64      `json:"key_transition_period_ms"`
}

// spending returns the total spend of keys that have a budget, by key id.
func spending(ctx context.Context, c *route.Caller, keys ...store.Key) (map[string]reqlog.Spend, error) {
	var ids []string
	for _, k := range keys {
		if string(k.UsageLimits) != "null" {
			ids = append(ids, k.ID)
		}
	}
	return c.DB().Spending(ctx, store.KeyBudget, ids...)
}

// toResponse returns k at the time now with the given spend.
func toResponse(k store.Key, spent reqlog.Spend, now time.Time) (Item, error) {
	out := Item{
		ID: k.ID, Key: k.Mask, Name: k.Name, Description: k.Description, Type: k.Type, Organisation: k.Organisation,
		Workspace: route.OrNull(k.Workspace), User: route.OrNull(k.UserID), Status: k.StatusAt(now), CreationMode: k.CreationMode,
		CreatedAt: route.Time(k.CreatedAt), UpdatedAt: route.Time(k.UpdatedAt), Scopes: k.Scopes, ExpiresAt: route.Time(k.ExpiresAt),
		ManagedBy: route.ManagedBy(k.ID), CreatedBy: route.OrNull(k.Origin.By), MadeBy: append([]string{}, k.Origin.Lineage...),
		Object: "api-key", Tools: k.Tools,
	}
	if out.Scopes == nil {
		out.Scopes = []access.Scope{}
	}
	if k.PreviousHash != nil && now.Before(k.TransitionEndsAt) {
		out.TransitionAt = route.Time(k.TransitionEndsAt)
	}
	u, err := limits.ReadUsage(k.UsageLimits)
	if err != nil {
		return out, err
	}
	out.UsageLimits = u.Response(spent, out.Status)
	if out.RateLimits, err = limits.ReadRates(k.RateLimits); err != nil {
		return out, err
	}
	if err := json.Unmarshal(k.AlertEmails, &out.AlertEmails); err != nil {
		return out, fmt.Errorf("reading alert emails: %w", err)
	}
	p, err := readPolicy(k.RotationPolicy)
	if err != nil {
		return out, err
	}
	out.Rotation = p.toResponse(now)
	d, err := readDefaults(k.Defaults)
	if err != nil {
		return out, err
	}
	out.Egress = d.Egress
	out.Addresses = append([]string{}, d.AllowedAddresses...)
	out.Defaults, err = shownDefaults(k.Defaults)
	return out, err
}

func shownDefaults(raw json.RawMessage) (Defaults, error) {
	var d store.KeyDefaults
	if err := json.Unmarshal(raw, &d); err != nil {
		return Defaults{}, fmt.Errorf("reading defaults: %w", err)
	}
	if d.Metadata == nil {
		d.Metadata = map[string]string{}
	}
	return Defaults{d.Metadata, route.OrNull(d.Config), !d.ConfigFixed, route.OrNull(d.Logging), route.OrNull(string(d.ResponseModel))}, nil
}

func (p *policy) toResponse(now time.Time) *Rotation {
	if p == nil {
		return nil
	}
	out := &Rotation{Period: route.OrNull(p.Period), NextAt: route.Time(p.NextAt), Due: !p.NextAt.IsZero() &&
		!now.Before(p.NextAt), TransitionMS: p.TransitionMS}
	if p.PeriodDays != 0 {
		out.PeriodDays = &p.PeriodDays
	}
	return out
}

// ownerNames names an organisation or workspace.
type ownerNames struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
}

type selfResponse struct {
	Item
	OrganisationDetails ownerNames  `json:"organisation_details"`
	WorkspaceDetails    *ownerNames `json:"workspace_details"`

	// Exclusions says whether the workspace is excluded from guardrails that the
	// organisation applies to every request.
	Exclusions exclusions `json:"guardrail_exclusions"`

	Token *token `json:"token" doc:"Further claims of a JSON Web Token; null for keys and sessions"`
}

type exclusions struct {
	Input  bool `json:"input_guardrails" doc:"Whether the workspace is excluded from the organisation's guardrails for requests"`
	Output bool `json:"output_guardrails" doc:"The same for responses"`
}

// token holds the claims of a JSON Web Token that keys do not have.
type token struct {
	User        *string      `json:"user" doc:"The issuer's name for the user"`
	IssuedAt    route.Time   `json:"issued_at"`
	UsageLimits route.JSON   `json:"usage_limits" doc:"Null: tokens with budgets are rejected"`
	RateLimits  limits.Rates `json:"rate_limits" doc:"Shared by all tokens of the user; null for none"`
}

// tokenRates returns the rate limits of a token as its claims have them.
func tokenRates(list []*quota.Limit) (rates limits.Rates) {
	for _, l := range list {
		rates = append(rates, quota.Rate{Type: l.Measure.String(), Unit: l.Unit(), Value: l.Max})
	}
	return rates
}

type selfInput struct{}

func self(ctx context.Context, c *route.Caller, _ *selfInput) (*selfResponse, error) {
	k, err := callerKey(ctx, c)
	if err != nil {
		return nil, err
	}
	spent, err := spending(ctx, c, k)
	if err != nil {
		return nil, err
	}
	item, err := toResponse(k, spent[k.ID], c.Now)
	if err != nil {
		return nil, err
	}
	out := &selfResponse{Item: item}
	if t := c.Claims; t != nil {
		out.Token = &token{route.OrNull(t.User), route.Time(t.IssuedAt), nil, tokenRates(c.Limits)}
	}
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err != nil {
		return nil, err
	}
	out.OrganisationDetails = ownerNames{o.ID, o.Slug, o.Name}
	if k.Workspace == "" {
		return out, nil
	}
	out.Exclusions = exclusions{slices.Contains(o.Settings.InputExclusions, k.Workspace),
		slices.Contains(o.Settings.OutputExclusions, k.Workspace)}
	w, err := c.DB().Workspace(ctx, c.Organisation, k.Workspace)
	out.WorkspaceDetails = &ownerNames{w.ID, w.Slug, w.Name}
	return out, err
}

// callerKey returns the caller's key, or a synthetic key for callers without a row.
func callerKey(ctx context.Context, c *route.Caller) (store.Key, error) {
	if c.Type == access.Session || c.Type == access.Token {
		return syntheticKey(c.Identity), nil
	}
	k, err := c.DB().Key(ctx, c.Organisation, c.KeyID)
	if apierr.IsNotFound(err) { // key of the settings or the environment
		return syntheticKey(c.Identity), nil
	}
	if c.Workload != "" { // short-lived, and maybe with fewer scopes
		k.ExpiresAt, k.Scopes = c.ExpiresAt, c.Scopes
	}
	return k, err
}

// syntheticKey returns a key for an identity without a row.
func syntheticKey(id *access.Identity) store.Key {
	defaults := store.KeyDefaults{Config: id.Config, ConfigFixed: id.ConfigFixed, Metadata: id.Metadata,
		Logging: id.Logging.Key.String(), ResponseModel: id.ResponseModel, AllowedAddresses: addresses(id)}
	if len(id.Egress) > 0 {
		defaults.Egress = id.Egress[0]
	}
	d, _ := json.Marshal(defaults) // cannot fail for plain fields
	return store.Key{
		ID: id.KeyID, Type: id.Type, Name: id.Name, Mask: "***", Organisation: id.Organisation, Workspace: id.Workspace, UserID: id.UserID,
		Scopes: id.Scopes, Status: store.KeyActive, CreationMode: "auto", ExpiresAt: id.ExpiresAt, Defaults: d, AlertEmails: emails(nil),
	}
}

// addresses returns the allowed networks of an identity as strings.
func addresses(id *access.Identity) []string {
	var out []string
	for _, p := range id.AllowedAddresses {
		out = append(out, p.String())
	}
	return out
}

// Readable returns the key with an id if the caller may read it, and for an empty id
// the key of the caller, which every caller may read.
func Readable(ctx context.Context, c *route.Caller, id string) (store.Key, error) {
	if id == "" || id == "self" {
		return callerKey(ctx, c)
	}
	return find(ctx, c, c.DB(), Named{Key: id}, "read")
}
