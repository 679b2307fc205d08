package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/controlplane/prompts"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

var labelKind = kind[settings.PromptLabel, store.PromptLabel]{
	section: "prompt_labels", name: "prompt_label",
	entries: func(s *settings.Settings) *[]settings.PromptLabel { return &s.PromptLabels },
	rows:    func(s *state) []store.PromptLabel { return s.labels },
	key:     func(l *settings.PromptLabel) entryID { return entryID{l.Workspace, l.Name} },
	rowKey:  func(s *state, l *store.PromptLabel) entryID { return entryID{s.slugs[l.Workspace], l.Name} },
	read:    (*reader).label, put: (*plan).label,
	drop: func(_ *plan, row store.PromptLabel) step { return dropRow(prompts.RemoveLabel, row) },
}

func (p *plan) label(path string, want *settings.PromptLabel, old *store.PromptLabel, _ []string) (step, error) {
	workspace, err := p.place(path, want.Workspace)
	if err != nil {
		return nil, err
	}
	if p.labelTaken(want) {
		return nil, p.file.ErrorAt(path+".name", fmt.Errorf("the label %q already exists there", want.Name))
	}
	row := rowOr(old, store.PromptLabel{
		ID: p.names.labels[qualify(want.Workspace, want.Name)], Organisation: p.state.organisation.ID,
		Workspace: workspace, Name: want.Name,
	})
	row.Description, row.Color = want.Description, want.Color
	return putRow(prompts.PutLabel, old, row), nil
}

// labelTaken reports whether another label has the name where want is visible. An
// organisation label is visible in all workspaces.
func (p *plan) labelTaken(want *settings.PromptLabel) bool {
	if p.state.everybodys[want.Name] != "" {
		return true
	}
	if want.Workspace != "" {
		return p.names.labels[qualify("", want.Name)] != ""
	}
	for key := range p.names.labels {
		if place, name, _ := strings.Cut(key, "/"); place != "" && name == want.Name {
			return true
		}
	}
	return false
}

// collectionKind identifies a default collection by its being the default, because its
// slug is generated and differs between installations.
var collectionKind = kind[settings.PromptCollection, store.PromptCollection]{
	section: "prompt_collections", name: "prompt_collection",
	entries: func(s *settings.Settings) *[]settings.PromptCollection { return &s.PromptCollections },
	rows:    func(s *state) []store.PromptCollection { return s.collections },
	key: func(c *settings.PromptCollection) entryID {
		if c.Default {
			return entryID{workspace: c.Workspace}
		}
		return entryID{c.Workspace, c.Slug}
	},
	rowKey: func(s *state, c *store.PromptCollection) entryID {
		if c.IsDefault {
			return entryID{workspace: s.slugs[c.Workspace]}
		}
		return entryID{s.slugs[c.Workspace], c.Slug}
	},
	title: func(c *settings.PromptCollection) string { return qualify(c.Workspace, c.Slug) },
	order: func(a, b settings.PromptCollection) int {
		return entryID{a.Workspace, a.Slug}.compare(entryID{b.Workspace, b.Slug})
	},
	read: (*reader).collection, put: (*plan).collection, drop: dropCollection,
}

// parentsFirst sorts collections so that each follows its parent.
func parentsFirst(list []settings.PromptCollection) []settings.PromptCollection {
	above := parents(list)
	depth := func(c settings.PromptCollection) (n int) {
		for at := c.Parent; at != "" && n < len(list); n++ {
			at = above[qualify(c.Workspace, at)]
		}
		return n
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b settings.PromptCollection) int { return depth(a) - depth(b) })
}

// parents returns the parent of each collection in list.
func parents(list []settings.PromptCollection) map[string]string {
	above := make(map[string]string)
	for _, c := range list {
		above[qualify(c.Workspace, c.Slug)] = c.Parent
	}
	return above
}

// hasCycle reports whether a collection is its own ancestor.
func hasCycle(of *settings.PromptCollection, above map[string]string) bool {
	at := of.Parent
	for range above {
		if at == "" || at == of.Slug {
			return at != ""
		}
		at = above[qualify(of.Workspace, at)]
	}
	return false
}

func dropCollection(p *plan, row store.PromptCollection) step {
	if row.IsDefault {
		return nil
	}
	return dropRow(prompts.ArchiveCollection, row)
}

func (p *plan) collection(path string, want *settings.PromptCollection, old *store.PromptCollection, _ []string) (step, error) {
	if hasCycle(want, p.names.parents) {
		return nil, p.file.ErrorAt(path+".parent", errors.New("a collection cannot contain itself"))
	}
	workspace, err := p.workspaceID(path+".workspace", want.Workspace)
	if err != nil {
		return nil, err
	}
	parent := p.names.collections[qualify(want.Workspace, want.Parent)]
	if want.Parent != "" && parent == "" {
		return nil, p.missing(path+".parent", "collection", want.Parent)
	}
	if old != nil && old.Parent != parent {
		return nil, p.file.ErrorAt(path+".parent", errors.New("the parent of a collection cannot be changed; use another slug there"))
	}
	row := rowOr(old, store.PromptCollection{
		ID: p.names.collections[qualify(want.Workspace, want.Slug)], Organisation: p.state.organisation.ID, Workspace: workspace, Parent: parent,
		IsDefault: want.Default,
	})
	row.Slug, row.Name, row.Status = want.Slug, want.Name, store.Active
	return putRow(prompts.PutCollection, old, row), nil
}

// registerPrompts assigns ids to labels and collections.
func (p *plan) registerPrompts() {
	f, s := p.file, p.state
	active := s.active()
	p.names.labels = ids(p.keepsUnlisted(f.PromptLabels != nil), f.PromptLabels, s.labels,
		func(l settings.PromptLabel) string { return qualify(l.Workspace, l.Name) },
		func(l store.PromptLabel) (string, string, bool) {
			return qualify(s.slugs[l.Workspace], l.Name), l.ID, l.Workspace == "" || active[l.Workspace] != ""
		})
	p.names.collections = ids(p.keepsUnlisted(f.PromptCollections != nil), f.PromptCollections, s.collections,
		func(c settings.PromptCollection) string { return qualify(c.Workspace, c.Slug) },
		func(c store.PromptCollection) (string, string, bool) {
			return qualify(s.slugs[c.Workspace], c.Slug), c.ID, c.Status == store.Active && active[c.Workspace] != ""
		})
	p.names.parents, p.names.partials = parents(f.PromptCollections), make(map[string]bool)
	for _, v := range f.PromptPartials {
		p.names.partials[qualify(v.Workspace, v.Slug)] = true
	}
	p.registerDefaults()
}

// registerDefaults assigns the stored ids to the default collections of the file, whose
// slugs differ between installations. A default collection that is not in the file
// stays.
func (p *plan) registerDefaults() {
	named := make(map[string]string)
	for _, c := range p.file.PromptCollections {
		if c.Default {
			named[c.Workspace] = c.Slug
		}
	}
	for _, c := range p.state.collections {
		if !c.IsDefault {
			continue
		}
		workspace := p.state.slugs[c.Workspace]
		delete(p.names.collections, qualify(workspace, c.Slug))
		slug := cmp.Or(named[workspace], c.Slug)
		p.names.collections[qualify(workspace, slug)] = c.ID
	}
}

func (r *reader) label(l *store.PromptLabel) (settings.PromptLabel, bool, error) {
	slug, placed := r.place(l.Workspace)
	return settings.PromptLabel{Name: l.Name, Workspace: slug, Description: l.Description, Color: l.Color}, placed, nil
}

func (r *reader) collection(c *store.PromptCollection) (settings.PromptCollection, bool, error) {
	slug, placed := r.workspaces[c.Workspace]
	return settings.PromptCollection{
		Slug: c.Slug, Workspace: slug, Name: c.Name, Parent: r.folders[c.Parent].Slug, Default: c.IsDefault,
	}, placed && c.Status == store.Active, nil
}
