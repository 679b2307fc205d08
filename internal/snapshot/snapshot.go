// Package snapshot holds everything that requests read.
//
// A [Snapshot] is immutable once built and is swapped by one atomic pointer, so that a
// request sees one state from beginning to end. Names of one workspace do not exist in
// another. The package does not read the store or files (see server) or hold what
// requests write, which survives swaps.
package snapshot

import (
	"cmp"
	"fmt"
	"strings"
	"sync/atomic"

	"modelgate/internal/base/egress"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/catalog"
	"modelgate/internal/prompt"
	"modelgate/internal/provider"
	"modelgate/internal/provider/health"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/records/redact"
)

// Input is the input of a snapshot.
type Input struct {
	Revision  int64
	Keys      []*access.Identity
	Specs     []*provider.Spec
	Providers []ManagedProvider
	Configs   []Config
	Prices    []catalog.Price // take precedence over Book
	Prompts   []*prompt.Saved
	Partials  []*prompt.Saved

	// Book has the prices of all other models. Nil is [catalog.Builtin].
	Book *catalog.PriceBook

	// Listed are the models of providers, by id, that cannot be asked for theirs. It
	// is shared.
	Listed map[string][]string

	// Health remembers what is seen of managed providers. Nil remembers nothing.
	Health *health.Registry

	// Running means that the configs that are not stored were checked when their
	// settings were loaded. One that names a provider removed since is reported in
	// [Snapshot.Dangling] instead of as an error, so that other changes apply.
	Running bool

	// SavedOnly are the ids of organisations that reject inline configs. It is shared.
	SavedOnly map[string]bool

	// Egress are the egress policies, by id of the organisation or workspace. It is
	// shared.
	Egress map[string]*egress.Policy

	// Limits are the limits of workspaces, by id. It is shared.
	Limits map[string][]*quota.Limit

	// Users are the users that have limits. It is shared.
	Users []access.UserLimits

	// Exhausted are the ids of workspaces whose budgets are exhausted. It is shared.
	Exhausted map[string]bool

	// Policies are the rate-limit and usage-limit policies. Nil has none.
	Policies *policy.Set

	// Tokens verifies credentials that look like a token and not like a gateway key.
	// Nil accepts none.
	Tokens TokenVerifier

	// Workloads are the workload identities that are active.
	Workloads []Workload

	// ToolServers and ToolBundles are those of all workspaces. They are shared.
	ToolServers []*toolserver.Server
	ToolBundles []*toolserver.Bundle

	// WorkspaceTools are the patterns of what workspaces may use of tool servers, by id. Those
	// without may use everything. It is shared.
	WorkspaceTools map[string][]string
	// Grants are what users let clients do with tool servers.
	Grants []Grant

	// Logs is the logging policy.
	Logs LogPolicy

	// Guardrails are the saved guardrails, and GuardDefaults those that apply to
	// requests without being named. They are shared.
	Guardrails    []*Guardrail
	GuardDefaults []GuardDefaults
	// Partners are the credentials of partners that checks ask.
	Partners []PartnerCredentials

	// Deployment limits what the gateway serves. Nil serves everything.
	Deployment *Deployment

	// HeaderPrefixes are additional prefixes that are read like x-gateway-, in the
	// canonical form of net/http and with their trailing dash.
	HeaderPrefixes []string
}

// LogPolicy says what is recorded of requests.
type LogPolicy struct {
	Level    access.LogLevel  // if no key, workspace or organisation sets one
	BodySize int              // limit of a body in bytes; zero is 128 KB
	Redact   *redact.Redactor // applied to what is recorded; nil changes nothing
}

// MaxBody returns the limit of a recorded body, in bytes.
func (l LogPolicy) MaxBody() int { return cmp.Or(l.BodySize, 128<<10) }

// Snapshot is a state of the gateway. It is safe for concurrent use.
type Snapshot struct {
	Revision       int64
	HeaderPrefixes []string
	Prices         *catalog.PriceBook
	Logs           LogPolicy
	Dangling       []error // configs of running settings that name a removed provider
	Policies       *policy.Set

	keys      map[access.Hash]*access.Identity
	tokens    TokenVerifier
	workloads map[string]*workload // by id
	tools     toolServers
	grants    map[string]*Grant // by id
	specs     map[string]*provider.Spec
	headers   map[string]string // options by headers outside the gateway's prefixes
	bare      map[string]*provider.Target
	managed   map[scopedName]*ManagedProvider
	configs   map[scopedName]*Config
	slugs     map[string][]string // by workspace, in their original order

	savedOnly  map[string]bool // by organisation id
	egress     map[string]*egress.Policy
	limits     map[string][]*quota.Limit         // by workspace id
	exhausted  map[string]bool                   // by workspace id
	users      map[scopedName]*access.UserLimits // by organisation, and id or e-mail address
	deployment *Deployment

	guardrails map[scopedName]*Guardrail // by workspace or organisation, and id or slug
	partners   map[partnerKey]*PartnerCredentials
	guards     map[scopedName]*defaultGuards // by organisation and workspace

	prompts, partials map[scopedName]*prompt.Saved
	made              map[*ModelRules]map[string]variant // used while building
	listed            map[string][]string                // used while building
	health            *health.Registry                   // used while building
}

// scopedName is a name in a workspace.
type scopedName struct{ workspace, name string }

// bookOf returns b, or the built-in book without one.
func bookOf(b *catalog.PriceBook) *catalog.PriceBook {
	if b == nil {
		return catalog.Builtin()
	}
	return b
}

// Build checks in and returns its snapshot. The error names the invalid entry.
func Build(in Input) (*Snapshot, error) {
	s := &Snapshot{
		Revision:       in.Revision,
		HeaderPrefixes: in.HeaderPrefixes,
		Logs:           in.Logs,
		Policies:       in.Policies,
		deployment:     in.Deployment,
		Prices:         catalog.NewBook(in.Prices, bookOf(in.Book)),
		keys:           make(map[access.Hash]*access.Identity, len(in.Keys)),
		tokens:         in.Tokens,
		specs:          make(map[string]*provider.Spec, 2*len(in.Specs)),
		headers:        make(map[string]string),
		bare:           make(map[string]*provider.Target, len(in.Specs)),
		managed:        make(map[scopedName]*ManagedProvider, len(in.Providers)),
		configs:        make(map[scopedName]*Config, 2*len(in.Configs)),
		slugs:          make(map[string][]string),
		savedOnly:      in.SavedOnly,
		egress:         in.Egress,
		limits:         in.Limits,
		exhausted:      in.Exhausted,
		made:           make(map[*ModelRules]map[string]variant),
		listed:         in.Listed,
		health:         in.Health,
	}
	s.prompts, s.partials = byName(in.Prompts), byName(in.Partials)
	s.addGuardrails(in.Guardrails, in.GuardDefaults)
	s.addPartners(in.Partners)
	s.addUsers(in.Users)
	for _, id := range access.Bind(in.Keys) {
		s.keys[id.Hash] = id
	}
	s.addWorkloads(in.Workloads)
	s.tools = newToolServers(&in)
	s.addGrants(in.Grants)
	for _, spec := range in.Specs {
		s.addSpec(spec)
	}
	for _, m := range in.Providers {
		if err := s.addManaged(m); err != nil {
			return nil, err
		}
	}
	for _, c := range in.Configs {
		err := s.addConfig(c)
		if err == nil {
			continue
		}
		err = fmt.Errorf("config %q: %w", c.Slug, err)
		if !in.Running {
			return nil, err
		}
		s.Dangling = append(s.Dangling, err)
	}
	s.made = nil
	return s, nil
}

func (s *Snapshot) addSpec(spec *provider.Spec) {
	s.specs[spec.ID] = spec
	for _, alias := range spec.Aliases {
		s.specs[alias] = spec
	}
	for _, o := range spec.Options {
		for _, h := range o.ClientHeaders {
			s.headers[h] = spec.OptionPrefix + o.Name
		}
	}
	// Definitions that require an option or a custom host have no target of their own.
	if t, err := provider.NewTarget(spec, provider.Settings{}); err == nil {
		s.bare[spec.ID] = t.Prepare()
	}
}

// Identity returns the owner of key. Comparing the stored hash takes constant time.
func (s *Snapshot) Identity(key string) (*access.Identity, bool) {
	return s.identity(access.HashKey(key))
}

func (s *Snapshot) identity(h access.Hash) (*access.Identity, bool) {
	id, ok := s.keys[h]
	if !ok || !id.Hash.Equal(h) {
		return nil, false
	}
	return id, true
}

// Keys returns the number of gateway keys.
func (s *Snapshot) Keys() int { return len(s.keys) }

// Spec returns the provider definition with this id or alias.
func (s *Snapshot) Spec(id string) (*provider.Spec, bool) {
	spec, ok := s.specs[id]
	if !ok {
		spec, ok = s.specs[strings.ToLower(id)]
	}
	return spec, ok
}

// OptionOf returns the provider option that a header outside the gateway's prefixes
// sets. The header must be in canonical form.
func (s *Snapshot) OptionOf(header string) (option string, ok bool) {
	option, ok = s.headers[header]
	return option, ok
}

// TargetWithoutCredentials returns the target of a provider definition without
// credentials, and false if it requires settings.
func (s *Snapshot) TargetWithoutCredentials(spec *provider.Spec) (*provider.Target, bool) {
	t, ok := s.bare[spec.ID]
	return t, ok
}

// Holder holds the current snapshot. The zero value holds none; call Publish before
// use.
type Holder struct{ p atomic.Pointer[Snapshot] }

// Load returns the current snapshot. It costs one atomic read.
func (h *Holder) Load() *Snapshot { return h.p.Load() }

// Publish makes s the current snapshot. Requests that loaded another keep it.
func (h *Holder) Publish(s *Snapshot) { h.p.Store(s) }
