package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"modelgate/config"
	"modelgate/internal/quota"
	"modelgate/internal/secret"
)

// Config is a saved config.
type Config struct {
	Workspace string // id
	ID        string // may be empty; configs are found by id and by slug
	Slug      string
	Text      secret.String // JSON, including credentials

	// Err is why the config cannot be used, an *apierr.Error, otherwise nil.
	Err error

	// Stored configs are from the database. They were checked when they were saved and
	// are not checked again. If a slug is duplicated, the config that is not stored is
	// used.
	Stored bool
}

// Ref returns the config's reference in the log: its id, or its slug if it has none.
func (c *Config) Ref() string { return cmp.Or(c.ID, c.Slug) }

// addConfig adds a config. For a config that is not stored it returns what is wrong
// with it.
func (s *Snapshot) addConfig(c Config) error {
	for _, name := range [...]string{c.Slug, c.ID} {
		at := scopedName{c.Workspace, name}
		if _, taken := s.configs[at]; name != "" && !taken {
			s.configs[at] = &c
		}
	}
	if c.Stored {
		return nil
	}
	return s.checkConfig(c)
}

// checkConfig checks the providers that a saved config names, so that an error is
// reported when it is saved, not by the first request.
func (s *Snapshot) checkConfig(saved Config) error {
	c, err := config.Parse([]byte(saved.Text.Reveal()))
	if err != nil {
		return err
	}
	if err := c.CheckProviders(slices.Collect(maps.Keys(s.specs))); err != nil {
		return err
	}
	for node := range c.All() {
		slug, managed := strings.CutPrefix(node.Provider, "@")
		if !managed {
			slug = strings.TrimPrefix(node.VirtualKey, "@")
		}
		if _, ok := s.Managed(saved.Workspace, slug); slug != "" && (managed || node.Provider == "") && !ok {
			return fmt.Errorf("%s names @%s, but no provider has this slug", node.Path, slug)
		}
	}
	return nil
}

// Config returns a workspace's saved config with this slug or id. It is shared.
func (s *Snapshot) Config(workspace, ref string) (*Config, bool) {
	c, ok := s.configs[scopedName{workspace, ref}]
	return c, ok
}

// RequiresSavedConfig reports whether inline configs are rejected in an organisation.
func (s *Snapshot) RequiresSavedConfig(organisation string) bool { return s.savedOnly[organisation] }

// Exhausted reports whether the budget of a workspace is exhausted.
func (s *Snapshot) Exhausted(workspace string) bool { return s.exhausted[workspace] }

// DropUsed deletes from names the counters that are in use at now: those of the limits of
// keys, users, workspaces and providers, and of policies.
func (s *Snapshot) DropUsed(names map[string]bool, now time.Time) {
	drop := func(list []*quota.Limit) {
		for _, l := range list {
			delete(names, l.Counter)
		}
	}
	for _, id := range s.keys {
		drop(id.Limits)
	}
	for _, list := range s.limits {
		drop(list)
	}
	for _, u := range s.users {
		drop(u.Limits)
	}
	for _, e := range s.entries {
		if e.Target != nil {
			drop(e.Target.Quota)
		}
	}
	for name := range names {
		if s.Policies.InUse(name, now) {
			delete(names, name)
		}
	}
}

// Limits returns the limits of a workspace, in the order in which they are
// checked. The slice is shared.
func (s *Snapshot) Limits(workspace string) []*quota.Limit { return s.limits[workspace] }
