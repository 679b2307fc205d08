package server

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"modelgate/internal/settings"
)

// maxLoggedChanges is the limit of changes that a reload logs one by one.
const maxLoggedChanges = 50

// Reload reads the settings again. On an error the running settings stay.
func (s *Server) Reload(context.Context) error {
	before := s.current().settings
	set, err := s.readSettings()
	if err == nil {
		err = s.publish(set, nil)
	}
	s.metrics.reloaded(err)
	if err != nil {
		s.Logger.Error("settings reload failed; keeping the running settings", "err", err.Error())
		return err
	}
	changes := settings.Diff(before, set)
	s.Logger.Info("settings reloaded", "providers", len(set.Providers), "keys", len(set.Keys), "changes", len(changes))
	for i, c := range changes {
		if i == maxLoggedChanges {
			s.Logger.Info("more settings changed", "changes", len(changes)-maxLoggedChanges)
			break
		}
		s.Logger.Info("settings changed", "change", c)
	}
	if startSettings(s.first) != startSettings(set) {
		s.Logger.Warn("listener.proxy_protocol, listener.tls, limits, timeouts, drain, upstream, secrets, ledger, logs.retention, log.queue, cache, realtime and compat.prompt_envelope_only take effect at the next start")
	}
	return nil
}

// startSettings returns the settings that are read only at the start, as text.
func startSettings(set *settings.Settings) string {
	return fmt.Sprint(set.Listener.ProxyProtocol, set.Listener.TLS, set.Limits, set.Timeouts, set.Drain,
		set.Upstream, set.References, set.Ledger, set.Logs.Retention, set.Log.Queue, set.Compat.PromptEnvelopeOnly, set.Cache, set.Realtime)
}

// reloadDelay is the pause after the last change of the config file, because editors
// write in several steps.
const reloadDelay = 100 * time.Millisecond

// watchSettings reloads when the config file or a TLS file changes, until ctx ends.
func (s *Server) watchSettings(ctx context.Context) {
	var changed <-chan fsnotify.Event
	if s.watcher != nil {
		changed = s.watcher.Events
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-changed:
			if affectsConfig(e, s.Config) {
				quiet.Reset(reloadDelay)
			}
		case <-quiet.C:
			s.Reload(ctx)
		case <-tick.C:
			s.renewCertificates()
		}
	}
}

// watchFile watches the folder of the config file, because editors and Kubernetes
// replace the file instead of writing to it. It returns nil if there is nothing to
// watch.
func (s *Server) watchFile() *fsnotify.Watcher {
	if s.Config == "" {
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err == nil {
		err = w.Add(filepath.Dir(s.Config))
	}
	if err != nil {
		s.Logger.Warn("config file not watched; send SIGHUP after a change", "err", err.Error())
		return nil
	}
	return w
}

// affectsConfig reports whether an event may have changed the file. Kubernetes replaces
// a link in the same folder whose name begins with two dots.
func affectsConfig(e fsnotify.Event, file string) bool {
	if e.Op == fsnotify.Chmod {
		return false
	}
	name := filepath.Base(e.Name)
	return name == filepath.Base(file) || name == "..data"
}
