package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/limits/quota"
)

// Config is a saved config.
type Config struct {
	Workspace string // id
	ID        string // may be empty; configs are found by id and by slug
	Slug      string
	Text      secret.String // JSON, including credentials
	Version   int64         // number of the version that Text is of; zero if there are no versions
	History   History       // nil for a config of the settings file, which has no versions
	Replaced  bool          // another version is the current one

	// Err is why the config cannot be used, an *apierr.Error, otherwise nil.
	Err error

	// Stored configs are from the database. They were checked when they were saved and
	// are not checked again. If a slug is duplicated, the config that is not stored is
	// used.
	Stored bool
}

// History has the versions of a config.
type History interface {
	// Numbers returns the numbers of the versions, in ascending order.
	Numbers() []int64
	// Text returns the text of a version like [Config.Text]. An error is an *apierr.Error.
	Text(number int64) (secret.String, error)
}

// Ref returns the config's reference in the log: its id, or its slug if it has none. It is
// the same for all versions.
func (c *Config) Ref() string { return cmp.Or(c.ID, c.Slug) }

// at returns a version of the config. If there is none, its Err names those that exist.
func (c *Config) at(number int64) *Config {
	if number == c.Version {
		return c
	}
	v := *c
	v.Version, v.Text, v.Err, v.Replaced = number, secret.String{}, nil, true
	if c.History != nil && slices.Contains(c.History.Numbers(), number) {
		v.Text, v.Err = c.History.Text(number)
		return &v
	}
	v.Err = apierr.New(apierr.NotFound, "version %d of config %.60q not found; %s", number, c.Slug, c.versions()).
		WithParam("x-gateway-config").WithCode("unknown_config")
	return &v
}

// versions describes the versions that exist.
func (c *Config) versions() string {
	if c.History == nil {
		return "it is in the settings file and has no versions"
	}
	switch list := c.History.Numbers(); {
	case len(list) == 0:
		return "it has no versions"
	case len(list) == 1:
		return fmt.Sprintf("it has only version %d", list[0])
	default: // versions are numbered without gaps and never removed
		return fmt.Sprintf("it has versions %d to %d", list[0], list[len(list)-1])
	}
}

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

// Config returns a workspace's saved config with this slug or id: its current version, or
// the one whose number follows after @, as in pc-x@3. It is shared.
func (s *Snapshot) Config(workspace, ref string) (*Config, bool) {
	if c, ok := s.configs[scopedName{workspace, ref}]; ok {
		return c, true
	}
	name, number, ok := cutVersion(ref)
	if !ok {
		return nil, false
	}
	c, ok := s.configs[scopedName{workspace, name}]
	if !ok {
		return nil, false
	}
	return c.at(number), true
}

// cutVersion splits a reference such as pc-x@3. It returns false if ref names no version.
// References may be inline configs, so it looks at their end first.
func cutVersion(ref string) (name string, number int64, ok bool) {
	if ref == "" || ref[len(ref)-1] < '0' || ref[len(ref)-1] > '9' {
		return "", 0, false
	}
	i := strings.LastIndexByte(ref, '@')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(ref[i+1:], 10, 31)
	return ref[:i], int64(n), err == nil && n > 0
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
	for _, e := range s.managed {
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
