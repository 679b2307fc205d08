// Package snapshot is everything that a request reads.
//
// A [Snapshot] is built whole, is immutable from then on and is swapped by one
// atomic pointer, so that a request sees one state from its beginning to its
// end. Building it from the store and the file is left to server and, later,
// the control plane; what requests write lives elsewhere and survives swaps.
package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"modelgate/config"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/catalog"
	"modelgate/internal/provider"
)

// Input is what a snapshot is built from.
type Input struct {
	Revision  int64
	Keys      []*access.Identity
	Specs     []*provider.Spec
	Providers []Managed

	Configs map[string]string // saved configs as JSON text, by slug
	Prices  []catalog.Price

	// HeaderPrefixes are further prefixes read like x-gateway-, in the
	// canonical form of net/http and with their last dash.
	HeaderPrefixes []string
}

// Managed is a provider entry with stored credentials, used as @slug.
type Managed struct {
	Slug     string
	Provider string // id of a row
	Settings provider.Settings
	// Models are what GET /v1/models lists for it. Nil asks the provider.
	Models []string
}

// Snapshot is one state of the gateway. It is safe for concurrent use.
type Snapshot struct {
	Revision       int64
	HeaderPrefixes []string
	Prices         *catalog.Book

	configs map[string]string
	keys    map[access.Hash]*access.Identity
	specs   map[string]*provider.Spec
	bare    map[string]*provider.Target
	managed map[string]*provider.Target
	models  map[string][]string
	slugs   []string // in the order given
}

// Build checks in and returns the snapshot of it. The error names the entry at fault.
func Build(in Input) (*Snapshot, error) {
	s := &Snapshot{
		Revision:       in.Revision,
		HeaderPrefixes: in.HeaderPrefixes,
		Prices:         catalog.NewBook(in.Prices),
		configs:        in.Configs,
		keys:           make(map[access.Hash]*access.Identity, len(in.Keys)),
		specs:          make(map[string]*provider.Spec, 2*len(in.Specs)),
		bare:           make(map[string]*provider.Target, len(in.Specs)),
		managed:        make(map[string]*provider.Target, len(in.Providers)),
		models:         make(map[string][]string),
	}
	for _, id := range in.Keys {
		s.keys[id.Hash] = id
	}
	for _, spec := range in.Specs {
		s.addSpec(spec)
	}
	for _, m := range in.Providers {
		if err := s.addManaged(m); err != nil {
			return nil, err
		}
	}
	for _, slug := range slices.Sorted(maps.Keys(in.Configs)) {
		if err := s.checkConfig(in.Configs[slug]); err != nil {
			return nil, fmt.Errorf("config %q: %w", slug, err)
		}
	}
	return s, nil
}

// checkConfig judges the providers that a saved config names, so that a slip
// is told when it is saved and not by the first request.
func (s *Snapshot) checkConfig(text string) error {
	c, err := config.Parse([]byte(text))
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
		if _, ok := s.managed[slug]; slug != "" && (managed || node.Provider == "") && !ok {
			return fmt.Errorf("%s names @%s, and there is no provider entry with this slug", node.Path, slug)
		}
	}
	return nil
}

func (s *Snapshot) addSpec(spec *provider.Spec) {
	s.specs[spec.ID] = spec
	for _, alias := range spec.Aliases {
		s.specs[alias] = spec
	}
	// Rows that need an option or a custom host have no target of their own.
	if t, err := provider.NewTarget(spec, provider.Settings{}); err == nil {
		s.bare[spec.ID] = t.Prepare()
	}
}

func (s *Snapshot) addManaged(m Managed) error {
	spec, ok := s.specs[m.Provider]
	if !ok {
		return apierr.New(apierr.Invalid, "provider %q of entry %q is not in the table; `modelgate providers` lists them", m.Provider, m.Slug).WithParam("provider")
	}
	if _, taken := s.managed[m.Slug]; taken {
		return apierr.New(apierr.Conflict, "two provider entries have the slug %q", m.Slug).WithParam("slug")
	}
	settings := m.Settings
	settings.Slug = m.Slug
	t, err := provider.NewTarget(spec, settings)
	if err != nil {
		return err
	}
	s.managed[m.Slug] = t.Prepare()
	s.slugs = append(s.slugs, m.Slug)
	if m.Models != nil {
		s.models[m.Slug] = m.Models
	}
	return nil
}

// Identity returns the owner of key. The comparison of the stored hash takes
// the same time for every key.
func (s *Snapshot) Identity(key string) (*access.Identity, bool) {
	h := access.HashKey(key)
	id, ok := s.keys[h]
	if !ok || !id.Hash.Equal(h) {
		return nil, false
	}
	return id, true
}

// Keys returns the number of gateway keys.
func (s *Snapshot) Keys() int { return len(s.keys) }

// Spec returns the row with this id or alias.
func (s *Snapshot) Spec(id string) (*provider.Spec, bool) {
	spec, ok := s.specs[id]
	if !ok {
		spec, ok = s.specs[strings.ToLower(id)]
	}
	return spec, ok
}

// Bare returns the target of a row without credentials, and false for rows
// that need settings.
func (s *Snapshot) Bare(spec *provider.Spec) (*provider.Target, bool) {
	t, ok := s.bare[spec.ID]
	return t, ok
}

// Managed returns the managed provider with this slug, written without @.
func (s *Snapshot) Managed(slug string) (*provider.Target, bool) {
	t, ok := s.managed[slug]
	return t, ok
}

// Config returns the text of the saved config with this slug.
func (s *Snapshot) Config(slug string) (string, bool) {
	text, ok := s.configs[slug]
	return text, ok
}

// Slugs returns the managed providers' slugs in the order they were given. The
// slice is shared.
func (s *Snapshot) Slugs() []string { return s.slugs }

// Models returns the models listed for a managed provider, and false where the
// provider itself is to be asked.
func (s *Snapshot) Models(slug string) ([]string, bool) {
	m, ok := s.models[slug]
	return m, ok
}

// Holder publishes snapshots. The zero value holds none; Publish before use.
type Holder struct{ p atomic.Pointer[Snapshot] }

// Load returns the current snapshot. It costs one atomic read.
func (h *Holder) Load() *Snapshot { return h.p.Load() }

// Publish makes s the current snapshot. Requests that loaded another keep it.
func (h *Holder) Publish(s *Snapshot) { h.p.Store(s) }
