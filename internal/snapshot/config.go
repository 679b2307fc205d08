package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"modelgate/config"
	"modelgate/internal/secret"
)

// Config is a saved config.
type Config struct {
	Workspace string // id
	ID        string // by which it is found as well as by its slug; may be empty
	Slug      string
	Text      secret.String // JSON; credentials are in it

	// Err is why the config can't be used, an *apierr.Error; nil when it can.
	Err error

	// Stored configs are the database's. They were checked when they were saved
	// and are not checked again. If a slug is duplicated, the config that is
	// not stored counts.
	Stored bool
}

// Ref is what the log calls the config: its id, or its slug when it has none.
func (c *Config) Ref() string { return cmp.Or(c.ID, c.Slug) }

// addConfig adds a config, and returns what is wrong with one that is not stored.
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

// checkConfig checks the providers that a saved config names, so that a slip
// is told when it is saved and not by the first request.
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
			return fmt.Errorf("%s names @%s, and there is no provider entry with this slug", node.Path, slug)
		}
	}
	return nil
}

// Config returns a workspace's saved config with this slug or id. It is shared.
func (s *Snapshot) Config(workspace, ref string) (*Config, bool) {
	c, ok := s.configs[scopedName{workspace, ref}]
	return c, ok
}

// RequiresSavedConfig reports whether requests of an organisation may not bring a config
// of their own.
func (s *Snapshot) RequiresSavedConfig(organisation string) bool { return s.savedOnly[organisation] }

// Exhausted reports whether a workspace has used up its budget.
func (s *Snapshot) Exhausted(workspace string) bool { return s.exhausted[workspace] }
