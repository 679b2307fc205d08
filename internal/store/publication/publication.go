// Package publication reads the runtime state of a gateway from the store: the data
// that snapshots are built from.
//
// It guarantees that a state is of one moment and never changes afterwards, and that
// following changes is cheap: [Load] keeps the parts of an earlier state that the
// journal records no change of, and rereads single keys if only those were written.
// It does not open credentials or build snapshots (see server).
package publication

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/base/egress"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/jwt"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/prompt"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
	"modelgate/internal/store"
)

// State is everything that a gateway builds its snapshot from, as of one
// revision. Credentials in it are sealed, as in the store.
type State struct {
	Revision int64
	Mark     string // of the change that made the revision

	// DataKeys are those of the organisations that have one, wrapped by the
	// master key, by id of the organisation.
	DataKeys map[string]string

	// SavedOnly are the organisations, by id, whose requests may not
	// contain an inline config.
	SavedOnly map[string]bool

	// FailClosed are the organisations, by id, in whose saved guardrails errors of checks
	// are failures.
	FailClosed map[string]bool

	// Logging is the logging level of keys that set none
	// themselves: by id of their workspace, else of their organisation.
	Logging map[string]access.Logging

	// Egress limits where requests go, by id of the organisation or the workspace.
	Egress map[string]*egress.Policy

	// Exhausted are the workspaces, by id, that have used up their budget.
	Exhausted map[string]bool

	// Limits are the rate limits and budgets of workspaces, by id.
	Limits map[string][]*quota.Limit

	// Users are the users of organisations that have limits.
	Users []access.UserLimits

	// Identities are the owners of keys that are not revoked: active ones and those that
	// used up their budget, of workspaces that are not archived. They may have
	// expired by the clock.
	Identities []*access.Identity

	// Deployments are those of all organisations.
	Deployments []Deployment

	Configs   []Config
	Providers []Provider
	Policies  []policy.Policy // that are active
	Prompts   []*prompt.Saved // that are active
	Partials  []*prompt.Saved

	// Guardrails are those that are not archived, and GuardDefaults those that apply
	// without being named.
	Guardrails    []store.Guardrail
	GuardDefaults []GuardDefaults

	// Modules are those that guardrails use.
	Modules []Module

	// GuardrailCredentials are the credentials of partners.
	GuardrailCredentials []store.GuardrailCredential

	// CacheInvalidations are those of cached responses.
	CacheInvalidations []respcache.Mark

	// Issuers are whose tokens organisations take, with the workspaces that are
	// active.
	Issuers []jwt.Issuer

	// References are the secret references, by id.
	References map[string]store.SecretReference
}

// Config is a saved config that is active, with its current text.
type Config struct {
	Organisation, Workspace, ID, Slug string
	Version                           string // id
	Text                              string // as that of a [ConfigVersion], as is Sealed
	Sealed                            string
	Versions                          []ConfigVersion // all of them, by number
}

// ConfigVersion is a version of a saved config. Versions never change.
type ConfigVersion struct {
	ID     string
	Number int64
	Text   string // as that of a [store.ConfigVersion], as is Sealed
	Sealed string
}

// Provider is a provider entry that is not archived, with what it has
// from its integration.
type Provider struct {
	Organisation, Workspace, Slug string
	Provider                      string // id of a row
	Sealed                        string // [Secrets.Text], sealed for the organisation; empty for none
	Configuration                 store.IntegrationSettings
	Mappings                      []store.SecretMapping // of fields that are filled at run time
	Integration                   string                // id
	Owner                         string                // id of the workspace whose integration it is; empty for the organisation's
	Pricing                       json.RawMessage       // of the integration: adjustments of prices
	Models                        []Model               // of the integration: entries of one share them
	AllModels                     bool                  // those that are not enabled may be used as well
	Limits                        []*quota.Limit        // of the entry and of its integration in the workspace
	Status                        string
	Withdrawn                     bool // the integration is archived, or disabled in this workspace
	ExpiresAt                     time.Time
}

// Model holds the settings of an integration for one model.
type Model struct {
	Slug       string
	Enabled    bool
	BaseModel  string          // it was derived from; empty for none
	Pricing    json.RawMessage // instead of the catalogue's price
	CustomHost string
	Sealed     string // [store.Secrets.Text] with headers alone, sealed for the organisation; empty for none
}

// Deployment holds the workspaces that the gateways of a deployment serve.
type Deployment struct {
	Organisation, ID, Slug string
	ClientHash             string // SHA-256 of the secret that they identify themselves by
	AllWorkspaces          bool
	Workspaces             []string // ids, unless AllWorkspaces
	Status                 string   // active or inactive
}

// Load reads the state, all of it at one moment. What has not changed since before
// is taken from there; nil reads everything.
func Load(ctx context.Context, db *store.DB, before *State) (s *State, err error) {
	err = db.Read(ctx, func(q store.Queries) error {
		revision, err := q.Revision(ctx)
		if err != nil {
			return err
		}
		l := loader{q: q, before: before}
		if l.changes, err = journal.Since(ctx, q.Reader, before.version(), revision); err != nil {
			return err
		}
		l.state = State{Revision: revision, Mark: l.changes.Until.Mark}
		for _, p := range parts {
			if before != nil && p.keep != nil && !l.changes.Wrote(p.tables...) {
				p.keep(&l.state, before)
			} else if err := p.read(&l, ctx); err != nil {
				return err
			}
		}
		s = &l.state
		return nil
	})
	return s, err
}

// version names the state to the journal. Nil is none.
func (s *State) version() journal.State {
	if s == nil {
		return journal.State{}
	}
	return journal.State{Revision: s.Revision, Mark: s.Mark}
}

// loader reads a state.
type loader struct {
	q       store.Queries
	changes *journal.Changes // since before
	before  *State           // nil for none
	state   State

	organisations map[string]store.OrganisationSettings // by id
}

// part is a part of the state. It is kept while none of its tables is written to;
// without keep it is always read.
type part struct {
	tables []journal.Rows
	keep   func(s, before *State)
	read   func(*loader, context.Context) error
}

// parts are all parts of the state, in the order in which they are read: keys and
// issuers need the logging of their workspaces.
var parts = [...]part{
	{read: (*loader).readOrganisations},
	{read: (*loader).readExhausted},
	{
		tables: []journal.Rows{journal.Workspaces},
		keep:   func(s, before *State) { s.Limits = before.Limits },
		read:   (*loader).readLimits,
	},
	{
		tables: []journal.Rows{journal.Members},
		keep:   func(s, before *State) { s.Users = before.Users },
		read:   (*loader).readUsers,
	},
	{read: (*loader).readDeployments},
	{
		tables: []journal.Rows{journal.Organisations, journal.Workspaces},
		keep:   func(s, before *State) { s.Logging, s.Egress = before.Logging, before.Egress },
		read:   (*loader).readLogging,
	},
	{read: (*loader).readIdentities}, // decides by itself which of them
	{
		tables: []journal.Rows{journal.Providers, journal.Integrations, journal.IntegrationModels, journal.IntegrationWorkspaces,
			journal.Workspaces},
		keep: func(s, before *State) { s.Providers = before.Providers },
		read: (*loader).readProviders,
	},
	{
		tables: []journal.Rows{journal.SecretReferences},
		keep:   func(s, before *State) { s.References = before.References },
		read:   (*loader).readReferences,
	},
	{
		tables: []journal.Rows{journal.Configs, journal.ConfigVersions, journal.Workspaces},
		keep:   func(s, before *State) { s.Configs = before.Configs },
		read:   (*loader).readConfigs,
	},
	{
		tables: []journal.Rows{journal.Prompts, journal.PromptVersions, journal.PromptLabels, journal.Workspaces},
		keep:   func(s, before *State) { s.Prompts, s.Partials = before.Prompts, before.Partials },
		read:   (*loader).readPrompts,
	},
	{
		tables: []journal.Rows{journal.Policies, journal.PolicyResets},
		keep:   func(s, before *State) { s.Policies = before.Policies },
		read:   (*loader).readPolicies,
	},
	{
		tables: []journal.Rows{journal.Guardrails, journal.GuardrailModules, journal.Organisations, journal.Workspaces},
		keep: func(s, before *State) {
			s.Guardrails, s.GuardDefaults, s.Modules = before.Guardrails, before.GuardDefaults, before.Modules
		},
		read: (*loader).readGuardrails,
	},
	{
		tables: []journal.Rows{journal.GuardrailCredentials},
		keep:   func(s, before *State) { s.GuardrailCredentials = before.GuardrailCredentials },
		read:   (*loader).readGuardrailCredentials,
	},
	{
		tables: []journal.Rows{journal.Organisations, journal.Workspaces},
		keep:   func(s, before *State) { s.Issuers = before.Issuers },
		read:   (*loader).readIssuers,
	},
	{
		tables: []journal.Rows{journal.CacheInvalidations},
		keep:   func(s, before *State) { s.CacheInvalidations = before.CacheInvalidations },
		read:   (*loader).readCacheInvalidations,
	},
}

func (l *loader) readOrganisations(ctx context.Context) error {
	l.state.DataKeys, l.state.SavedOnly, l.state.FailClosed = make(map[string]string), make(map[string]bool), make(map[string]bool)
	l.organisations = make(map[string]store.OrganisationSettings)
	all, err := l.q.Organisations(ctx)
	for _, o := range all {
		l.organisations[o.ID] = o.Settings
		if o.DataKey != "" {
			l.state.DataKeys[o.ID] = o.DataKey
		}
		if o.Settings.BlockInlineConfig {
			l.state.SavedOnly[o.ID] = true
		}
		if o.Settings.FailClosed {
			l.state.FailClosed[o.ID] = true
		}
	}
	return err
}

func (l *loader) readGuardrailCredentials(ctx context.Context) (err error) {
	l.state.GuardrailCredentials, err = l.q.AllGuardrailCredentials(ctx)
	return err
}

func (l *loader) readCacheInvalidations(ctx context.Context) (err error) {
	l.state.CacheInvalidations, err = l.q.CacheInvalidations(ctx)
	return err
}

func (l *loader) readExhausted(ctx context.Context) error {
	const text = `
		SELECT id
		FROM workspaces
		WHERE exhausted AND status = 'active'`
	l.state.Exhausted = make(map[string]bool)
	_, err := sqlrow.List(ctx, l.q.Reader, "workspaces", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var id string
		err = r.Scan(&id)
		l.state.Exhausted[id] = true
		return none, err
	})
	return err
}

// readLimits reads the limits of workspaces. Their totals may be older than
// those of the counters, which never go back.
func (l *loader) readLimits(ctx context.Context) error {
	const text = `
		SELECT w.id, w.name, w.rate_limits, w.usage_limits, COALESCE(s.cost, 0), COALESCE(s.tokens, 0)
		FROM workspaces w
		LEFT JOIN spending s ON s.kind = 'workspace' AND s.id = w.id
		WHERE w.status = 'active' AND (w.rate_limits <> '[]' OR w.usage_limits <> '[]')`
	l.state.Limits = make(map[string][]*quota.Limit)
	_, err := sqlrow.List(ctx, l.q.Reader, "workspaces", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		stored := storedLimits{Holder: quota.Holder{Kind: store.WorkspaceBudget}}
		err = r.Scan(&stored.ID, &stored.Name, &stored.rates, &stored.budgets, &stored.cost, &stored.tokens)
		l.state.Limits[stored.ID] = stored.parse()
		return none, err
	})
	return err
}

// storedLimits are the limits of one holder and what was spent.
type storedLimits struct {
	quota.Holder
	rates, budgets string
	cost, tokens   int64
}

// parse returns the limits. Limits that cannot be read allow nothing, so that a
// damaged row affects no other holder and lifts no limit.
func (s *storedLimits) parse() []*quota.Limit {
	list, err := quota.ParseLimits(s.Holder, []byte(s.rates), []byte(s.budgets), s.cost, s.tokens)
	if err != nil {
		return []*quota.Limit{{Counter: s.Kind + "/" + s.ID + "/unreadable", Measure: quota.Cost, Holder: s.Holder}}
	}
	return list
}

func (l *loader) readDeployments(ctx context.Context) (err error) {
	const text = `
		SELECT organisation_id, id, slug, client_hash, allow_all_workspaces, workspaces, status
		FROM deployments
		ORDER BY id`
	l.state.Deployments, err = sqlrow.List(ctx, l.q.Reader, "deployments", text, func(r sqlrow.Scanner) (d Deployment, err error) {
		err = r.Scan(&d.Organisation, &d.ID, &d.Slug, &d.ClientHash, &d.AllWorkspaces, sqlrow.JSON(&d.Workspaces), &d.Status)
		return d, err
	})
	return err
}

func (l *loader) readReferences(ctx context.Context) error {
	list, err := l.q.AllSecretReferences(ctx)
	l.state.References = make(map[string]store.SecretReference, len(list))
	for _, s := range list {
		l.state.References[s.ID] = s
	}
	return err
}
