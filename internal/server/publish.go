package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/fsnotify/fsnotify"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/catalog"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/reqlog"
	"modelgate/internal/secret"
	"modelgate/internal/settings"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
)

// poll is how often the store's revision is looked at, so that a key made by
// another process counts within a second.
const poll = 500 * time.Millisecond

// settle is the pause after the last change of the config file: editors write
// in several steps.
const settle = 100 * time.Millisecond

// state is what the current snapshot was built from.
type state struct {
	settings *settings.Settings
	revision int64
}

// publish builds a snapshot from set and the store and makes it current. On an
// error the last good one stays.
func (s *Server) publish(ctx context.Context, set *settings.Settings) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision, err := s.store.Revision(ctx)
	if err != nil {
		return err
	}
	keys, err := s.identities(ctx, set)
	if err != nil {
		return err
	}
	in := input(set)
	in.Revision, in.Keys = revision, keys
	for _, m := range s.Managed {
		if m.Workspace == "" {
			m.Workspace = store.DefaultWorkspace
		}
		in.Providers = append(in.Providers, m)
	}
	in.Specs = append(in.Specs, s.Specs...)
	snap, err := snapshot.Build(in)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Config, err)
	}
	s.holder.Publish(snap)
	s.setLogLevel(set.Log.Level)
	s.state = state{set, revision}
	s.metrics.published(snap)
	return nil
}

// setLogLevel takes the level of the settings, which have judged it.
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

// input is what the settings alone give a snapshot.
func input(set *settings.Settings) snapshot.Input {
	in := snapshot.Input{
		Specs:          table.All(),
		Providers:      managed(set),
		HeaderPrefixes: headerPrefixes(set),
	}
	for _, c := range set.Configs {
		in.Configs = append(in.Configs, snapshot.Config{Workspace: store.DefaultWorkspace, Slug: c.Slug, Text: string(c.Config)})
	}
	for _, p := range set.Prices {
		input, _ := catalog.PerMillion(p.Input) // settings has judged them
		output, _ := catalog.PerMillion(p.Output)
		in.Prices = append(in.Prices, catalog.Price{Provider: p.Provider, Model: p.Model, Input: input, Output: output})
	}
	return in
}

// identities returns the owners of all keys: of the store, of the settings,
// and the bootstrap key.
func (s *Server) identities(ctx context.Context, set *settings.Settings) ([]*access.Identity, error) {
	stored, err := s.store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	var list []*access.Identity
	for _, k := range stored {
		if k.Status == store.KeyActive {
			list = append(list, k.Identity())
		}
	}
	for _, k := range set.Keys {
		hash, err := access.ParseHash(k.SHA256)
		if err != nil {
			return nil, err
		}
		list = append(list, &access.Identity{
			KeyID: "file:" + k.Name, Type: access.WorkspaceService, Name: k.Name, Hash: hash, Scopes: scopes(k.Scopes), Providers: k.Providers, Config: k.Config,
			Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace,
		})
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

func managed(set *settings.Settings) []snapshot.Managed {
	list := make([]snapshot.Managed, len(set.Providers))
	for i := range set.Providers {
		p := &set.Providers[i]
		list[i] = snapshot.Managed{
			Workspace: store.DefaultWorkspace,
			Slug:      p.Slug,
			Provider:  p.Provider,
			Settings:  provider.Settings{Key: p.Key(), CustomHost: p.CustomHost, Options: p.Options},
			Models:    p.Models,
		}
	}
	return list
}

// ensureKey makes the first gateway key of an installation that has none.
func (s *Server) ensureKey(ctx context.Context, set *settings.Settings) error {
	keys, err := s.store.Keys(ctx)
	if err != nil || len(keys) > 0 || !s.BootstrapKey.Empty() {
		return err
	}
	key, _, err := CreateKey(ctx, s.store, store.Key{Name: "first"})
	if err != nil {
		return err
	}
	s.firstKey = key
	return s.publish(ctx, set)
}

// CreateKey makes a gateway key with k's name and rights and stores its hash.
// No scopes means every scope. The key is returned this once, beside what was
// stored of it.
func CreateKey(ctx context.Context, db *store.DB, k store.Key) (secret.String, store.Key, error) {
	key := access.NewKey()
	now := time.Now()
	k.ID, k.CreatedAt = reqlog.NewID(now).String(), now
	k.Hash, k.Mask = access.HashKey(key.Reveal()), store.Mask(key)
	if k.Scopes == nil {
		k.Scopes = scopes(nil)
	}
	return key, k, db.CreateKey(ctx, k)
}

// Reload reads the settings again. On an error the running ones stay.
func (s *Server) Reload(ctx context.Context) error {
	set, err := s.readSettings()
	if err == nil {
		err = s.publish(ctx, set)
	}
	s.metrics.reloaded(err)
	if err != nil {
		s.Logger.Error("reload refused; the running settings stay", "err", err.Error())
		return err
	}
	s.Logger.Info("settings reloaded", "providers", len(set.Providers), "keys", len(set.Keys))
	if fixed(s.first) != fixed(set) {
		s.Logger.Warn("limits, timeouts, drain, trusted hosts and log.queue take effect at the next start")
	}
	return nil
}

// fixed returns the settings that are read at the start only, as text.
func fixed(set *settings.Settings) string {
	return fmt.Sprint(set.Limits, set.Timeouts, set.Drain, set.Upstream, set.Log.Queue)
}

// watch reloads when the config file or the store changes, until ctx ends.
func (s *Server) watch(ctx context.Context) {
	var changed <-chan fsnotify.Event
	if s.watcher != nil {
		changed = s.watcher.Events
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	var bodies tide
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-changed:
			if concerns(e, s.Config) {
				quiet.Reset(settle)
			}
		case <-quiet.C:
			s.Reload(ctx)
		case <-tick.C:
			s.followStore(ctx)
			if bodies.out(s.engine.Pool.Used()) {
				debug.FreeOSMemory()
			}
		}
	}
}

// watchFile watches the folder of the config file: editors and Kubernetes
// replace the file rather than writing into it. It returns nil where there is
// nothing to watch.
func (s *Server) watchFile() *fsnotify.Watcher {
	if s.Config == "" {
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err == nil {
		err = w.Add(filepath.Dir(s.Config))
	}
	if err != nil {
		s.Logger.Warn("the config file is not watched; send SIGHUP after a change", "err", err.Error())
		return nil
	}
	return w
}

// concerns reports whether an event may have changed the file. Kubernetes
// swaps a link beside it, named with two dots.
func concerns(e fsnotify.Event, file string) bool {
	if e.Op == fsnotify.Chmod {
		return false
	}
	name := filepath.Base(e.Name)
	return name == filepath.Base(file) || name == "..data"
}

// followStore publishes what another process wrote to the store.
func (s *Server) followStore(ctx context.Context) {
	revision, err := s.store.Revision(ctx)
	s.mu.Lock()
	current := s.state
	s.mu.Unlock()
	if err != nil || revision == current.revision {
		return
	}
	if err := s.publish(ctx, current.settings); err != nil {
		s.Logger.Error("the store's change was not taken", "err", apierr.From(err).Error())
	}
}

// headerPrefixes returns the further header families in canonical form.
func headerPrefixes(set *settings.Settings) []string {
	list := make([]string, len(set.Compat.HeaderPrefixes))
	for i, p := range set.Compat.HeaderPrefixes {
		list[i] = http.CanonicalHeaderKey(p)
	}
	return list
}
