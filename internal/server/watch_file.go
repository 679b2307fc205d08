package server

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

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
