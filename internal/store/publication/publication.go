// Package publication reads the runtime state of a gateway from the store: the data
// that snapshots are built from.
//
// It guarantees that a state is of one moment and never changes afterwards, and that
// following changes is cheap: [Load] keeps the parts of an earlier state that the
// journal records no change of, and rereads single keys if only those were written.
// Objects are rows as the store reads them; keys and users have statements of their own.
// It does not open credentials or build snapshots (see server).
package publication

import (
	"context"
	"encoding/json"
	"fmt"

	"modelgate/internal/base/egress"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/jwt"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/prompt"
	"modelgate/internal/storage/journal"
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

	// Workspaces are the names of active workspaces, by id.
	Workspaces map[string]WorkspaceName

	// Egress limits where requests go, by id of the organisation or the workspace.
	Egress map[string]*egress.Policy

	// Exhausted are the workspaces, by id, that have used up their budget.
	Exhausted map[string]bool

	// Limits are the rate limits and budgets of workspaces, by id.
	Limits map[string][]*quota.Limit

	// Tools are the patterns of what workspaces may use of tool servers, by id. Those without
	// may use everything.
	Tools map[string][]string

	// Users are the users of organisations that have limits.
	Users []access.UserLimits

	// Identities are the owners of keys that are not revoked: active ones and those that
	// used up their budget, of workspaces that are not archived. They may have
	// expired by the clock.
	Identities []*access.Identity

	// Deployments are those of all organisations.
	Deployments []store.GatewayDeployment

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

	// Workloads are the workload identities that are active.
	Workloads []store.WorkloadIdentity

	// ToolServers are the tool servers that workspaces may use, sorted by workspace and slug.
	ToolServers []ToolServer
	ToolBundles []store.ToolBundle // of active workspaces

	// Grants are what users let clients do with tool servers.
	Grants []Grant

	// References are the secret references, by id.
	References map[string]store.SecretReference
}

// WorkspaceName names a workspace in metrics.
type WorkspaceName struct {
	OrganisationID string
	Organisation   string // slug
	Slug           string
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

	organisations []store.Organisation
	settings      map[string]store.OrganisationSettings // of organisations, by id
	active        []store.Workspace                     // see workspaces; nil before
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
	{
		tables: []journal.Rows{journal.Workspaces},
		keep:   func(s, before *State) { s.Exhausted, s.Limits, s.Tools = before.Exhausted, before.Limits, before.Tools },
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
		keep: func(s, before *State) {
			s.Logging, s.Egress, s.Workspaces = before.Logging, before.Egress, before.Workspaces
		},
		read: (*loader).readLogging,
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
		tables: []journal.Rows{journal.WorkloadIdentities},
		keep:   func(s, before *State) { s.Workloads = before.Workloads },
		read:   (*loader).readWorkloads,
	},
	{
		tables: []journal.Rows{journal.ToolServers, journal.ToolIntegrations, journal.ToolGrants, journal.ToolCapabilities,
			journal.ToolUserAccess, journal.Workspaces},
		keep: func(s, before *State) { s.ToolServers = before.ToolServers },
		read: (*loader).readToolServers,
	},
	{
		tables: []journal.Rows{journal.ToolBundles, journal.Workspaces},
		keep:   func(s, before *State) { s.ToolBundles = before.ToolBundles },
		read:   (*loader).readToolBundles,
	},
	{
		tables: []journal.Rows{journal.OAuthGrants, journal.Members, journal.WorkspaceMembers, journal.Workspaces, journal.Organisations},
		keep:   func(s, before *State) { s.Grants = before.Grants },
		read:   (*loader).readGrants,
	},
	{
		tables: []journal.Rows{journal.CacheInvalidations},
		keep:   func(s, before *State) { s.CacheInvalidations = before.CacheInvalidations },
		read:   (*loader).readCacheInvalidations,
	},
}

// workspaces returns the active workspaces, which are read once.
func (l *loader) workspaces(ctx context.Context) (list []store.Workspace, err error) {
	if l.active == nil {
		l.active, err = l.q.ActiveWorkspaces(ctx)
	}
	return l.active, err
}

// decode decodes a field of a workspace.
func decode[T any](w *store.Workspace, field json.RawMessage) (v T, err error) {
	if err = json.Unmarshal(field, &v); err != nil {
		err = fmt.Errorf("reading workspace %s: %w", w.ID, err)
	}
	return v, err
}

func (l *loader) readOrganisations(ctx context.Context) (err error) {
	l.state.DataKeys, l.state.SavedOnly, l.state.FailClosed = make(map[string]string), make(map[string]bool), make(map[string]bool)
	l.settings = make(map[string]store.OrganisationSettings)
	l.organisations, err = l.q.Organisations(ctx)
	for _, o := range l.organisations {
		l.settings[o.ID] = o.Settings
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

func (l *loader) readWorkloads(ctx context.Context) (err error) {
	l.state.Workloads, err = l.q.ActiveWorkloadIdentities(ctx)
	return err
}

func (l *loader) readCacheInvalidations(ctx context.Context) (err error) {
	l.state.CacheInvalidations, err = l.q.CacheInvalidations(ctx)
	return err
}

func (l *loader) readDeployments(ctx context.Context) (err error) {
	l.state.Deployments, err = l.q.AllDeployments(ctx)
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
