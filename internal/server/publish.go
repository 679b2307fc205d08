package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/records/redact"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/settings"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// state is the input of the current snapshot.
type state struct {
	settings   *settings.Settings
	stored     *publication.State
	guardrails []*guardrailVersion // of stored
}

// publish builds a snapshot from the settings and the stored state and makes it
// current. A nil argument keeps the current one. On an error the previous snapshot
// stays.
func (s *Server) publish(set *settings.Settings, stored *publication.State) error {
	next := state{settings: set, stored: stored}
	var used []secretref.Reference
	if stored != nil { // waits, so without the lock
		used = s.referred(stored)
		s.use(used)
		next.guardrails = s.compileGuardrails(stored)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	running := set == nil
	if running {
		next.settings = s.state.settings
	}
	fresh := stored != nil
	if !fresh {
		next.stored, next.guardrails = s.state.stored, s.state.guardrails
	}
	in, err := s.input(next)
	if err != nil {
		return err
	}
	// A provider missing in the database must not keep the rest of its state, such as a
	// revoked key, from being published.
	in.Running = running
	snap, err := snapshot.Build(in)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Config, err)
	}
	s.warnDangling(snap)
	if set != nil {
		s.reportHosts(set)
	}
	s.publishCache(next.stored.CacheInvalidations, next.stored.DataKeys)
	s.holder.Publish(snap)
	s.providers.Retain(snap.UsesHealth)
	s.prices.Use(snap.ProviderIDs())
	s.setLogLevel(next.settings.Log.Level)
	s.proxies.Store(next.settings.Listener.Policy())
	s.lifetimes.Store(&sessions.Lifetimes{Idle: next.settings.Sessions.Idle.Or(0), Absolute: next.settings.Sessions.Absolute.Or(0)})
	s.removeModules(s.state.stored, next.stored)
	s.state = next
	if fresh {
		s.secrets.Retain(used)
		s.compiler.retain(next.guardrails)
	}
	s.metrics.published(snap, next.stored.Workspaces)
	return nil
}

// current returns the input of the current snapshot.
func (s *Server) current() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// input returns the complete input of a snapshot.
func (s *Server) input(from state) (snapshot.Input, error) {
	in := input(from.settings)
	for _, m := range s.ManagedProviders {
		if m.Workspace == "" {
			m.Workspace = store.DefaultWorkspace
		}
		in.Providers = append(in.Providers, m)
	}
	in.Specs = append(in.Specs, s.Specs...)
	own, err := s.identities(from.settings)
	if err != nil {
		return in, err
	}
	s.addStored(&in, from.stored)
	s.addGuardrails(&in, from)
	s.addPrices(&in)
	in.Health = &s.providers
	for _, id := range own {
		id.Logging = from.stored.LoggingFor(id)
	}
	in.Keys = append(in.Keys, own...)
	return in, nil
}

// setLogLevel sets the log level of the settings, which have checked it.
func (s *Server) setLogLevel(name string) {
	if s.LogLevel == nil {
		return
	}
	var level slog.Level // info
	if name != "" && level.UnmarshalText([]byte(name)) != nil {
		return
	}
	s.LogLevel.Set(level)
}

// input returns the part of a snapshot's input that comes from the settings.
func input(set *settings.Settings) snapshot.Input {
	in := snapshot.Input{
		Specs:          table.All(),
		Providers:      managed(set),
		HeaderPrefixes: headerPrefixes(set),
	}
	rules, _ := redact.New(set.Logs.Redact.Rules()) // checked by settings
	in.Logs = snapshot.LogPolicy{Level: access.ParseLogLevel(set.Logs.Level), BodySize: int(set.Logs.BodySize), Redact: rules}
	for _, c := range set.Configs {
		in.Configs = append(in.Configs, snapshot.Config{Workspace: store.DefaultWorkspace, Slug: c.Slug, Text: c.Text()})
	}
	for i := range set.Prices {
		row, _ := set.Prices[i].Row() // checked by settings
		in.Prices = append(in.Prices, row)
	}
	return in
}

// identities returns the identities of keys that are not stored: those of the settings,
// and the bootstrap key.
func (s *Server) identities(set *settings.Settings) ([]*access.Identity, error) {
	var list []*access.Identity
	for _, k := range set.Keys {
		hash, err := access.ParseHash(k.SHA256)
		if err != nil {
			return nil, err
		}
		addresses, err := access.ParseAddresses(k.Addresses)
		if err != nil {
			return nil, err
		}
		id := &access.Identity{
			AllowedAddresses: addresses,
			KeyID:            route.FileID(k.Name), Type: access.WorkspaceService, Name: k.Name, Hash: hash,
			Scopes: scopes(k.Scopes), Providers: k.Providers, Config: k.Config,
			Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace,
			Logging: access.Logging{Key: access.ParseLogLevel(k.Logging)}, ResponseModel: api.ResponseModel(k.ResponseModel),
		}
		if k.Tools != nil {
			id.Tools = [][]string{k.Tools}
		}
		if p := k.Egress.Strict(); p != nil {
			id.Egress = []*egress.Policy{p}
		}
		list = append(list, id)
	}
	if !s.BootstrapKey.Empty() {
		list = append(list, &access.Identity{
			KeyID: "bootstrap", Type: access.WorkspaceService, Name: "bootstrap", Hash: access.HashKey(s.BootstrapKey.Reveal()), Scopes: scopes(nil),
			Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace,
		})
	}
	return list, nil
}

func scopes(names []string) []access.Scope {
	if names == nil {
		return []access.Scope{access.ScopeAll}
	}
	list := make([]access.Scope, len(names))
	for i, n := range names {
		list[i] = access.Scope(n)
	}
	return list
}

func managed(set *settings.Settings) []snapshot.ManagedProvider {
	list := make([]snapshot.ManagedProvider, len(set.Providers))
	for i := range set.Providers {
		p := &set.Providers[i]
		list[i] = snapshot.ManagedProvider{
			Workspace: store.DefaultWorkspace,
			Slug:      p.Slug,
			Provider:  p.Provider,
			Settings:  provider.Settings{Key: p.Key(), CustomHost: p.CustomHost, Options: p.Options},
			Models:    p.Models,
		}
	}
	return list
}

// ensureKey creates the first gateway key of an installation that has none.
func (s *Server) ensureKey(ctx context.Context) error {
	if !s.store.Ready() || !s.BootstrapKey.Empty() {
		return nil
	}
	if any, err := s.store.HasKeys(ctx); any || err != nil {
		return err
	}
	key, _, err := CreateKey(ctx, s.store, store.Key{Name: "first"})
	if err != nil {
		return err
	}
	s.firstKey = key
	return s.refresh(ctx)
}

// CreateKey creates a gateway key with k's fields and stores its hash. Without scopes
// it gets every scope. The secret is returned only here, with the stored key.
func CreateKey(ctx context.Context, db *store.DB, k store.Key) (secret.String, store.Key, error) {
	key, k := newKey(k)
	return key, k, db.CreateKey(ctx, k)
}

// CreateKeyAsOperator is [CreateKey] for a command, with an audit event.
func CreateKeyAsOperator(ctx context.Context, db *store.DB, k store.Key) (secret.String, store.Key, error) {
	key, k := newKey(k)
	a := store.OperatorAudit(cmp.Or(k.Organisation, store.DefaultOrganisation), "keys create",
		map[string]any{"name": k.Name, "scopes": k.Scopes, "providers": k.Providers, "expires_at": k.ExpiresAt})
	a.Workspace, a.ResourceType, a.ResourceID, a.Action = k.Workspace, "api_key", k.ID, "create"
	return key, k, db.Update(ctx, a, func(tx *store.Tx) error { return tx.CreateKey(ctx, k) })
}

// newKey returns a new secret, and k with its hash.
func newKey(k store.Key) (secret.String, store.Key) {
	key := access.NewKey()
	now := time.Now()
	k.ID, k.CreatedAt = reqlog.NewID(now).String(), now
	k.Hash, k.Mask = access.HashKey(key.Reveal()), store.Mask(key)
	if k.Scopes == nil {
		k.Scopes = scopes(nil)
	}
	return key, k
}

// headerPrefixes returns the additional header prefixes in canonical form.
func headerPrefixes(set *settings.Settings) []string {
	list := make([]string, len(set.Compat.HeaderPrefixes))
	for i, p := range set.Compat.HeaderPrefixes {
		list[i] = http.CanonicalHeaderKey(p)
	}
	return list
}
