package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/prompts"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

func (p *plan) labels() error {
	rows, placed := make(map[string]store.PromptLabel), make(map[[2]string]string)
	for _, l := range p.state.labels {
		rows[l.ID], placed[[2]string{l.Workspace, l.Name}] = l, l.ID
	}
	return compare(p, family[settings.PromptLabel]{
		section: "prompt_labels", kind: "prompt_label", want: p.file.PromptLabels, have: p.have.PromptLabels, spared: p.keepsUnlisted(p.file.PromptLabels != nil),
		name: func(l *settings.PromptLabel) string { return strings.TrimPrefix(within(l.Workspace, l.Name), "/") },
		id:   func(l *settings.PromptLabel) string { return within(l.Workspace, l.Name) },
		put: func(path string, want *settings.PromptLabel, _ []string) (step, error) {
			workspace, err := p.place(path, want.Workspace)
			if err != nil {
				return nil, err
			}
			if err := prompts.CheckLabel(want.Name); err != nil {
				return nil, err
			}
			if p.labelTaken(want) {
				return nil, p.file.ErrorAt(path+".name", fmt.Errorf("there is a label %q already that is seen from there", want.Name))
			}
			id := p.names.labels[within(want.Workspace, want.Name)]
			row, known := rows[id]
			if !known {
				row = store.PromptLabel{ID: id, Organisation: p.state.organisation.ID, Workspace: workspace, Name: want.Name, CreatedAt: p.now}
			}
			row.Description, row.Color, row.UpdatedAt = want.Description, want.Color, p.now
			return func(ctx context.Context, tx *store.Tx) error {
				if known {
					return tx.UpdatePromptLabel(ctx, row)
				}
				return tx.CreatePromptLabel(ctx, row)
			}, nil
		},
		drop: func(have *settings.PromptLabel) step {
			id := placed[[2]string{p.stored(have.Workspace), have.Name}]
			return func(ctx context.Context, tx *store.Tx) error { return tx.DeletePromptLabel(ctx, id) }
		},
	})
}

// labelTaken reports whether another label has the name where want is seen: one
// of the organisation is seen in all its workspaces.
func (p *plan) labelTaken(want *settings.PromptLabel) bool {
	if p.state.everybodys[want.Name] != "" {
		return true
	}
	if want.Workspace != "" {
		return p.names.labels[within("", want.Name)] != ""
	}
	for key := range p.names.labels {
		if place, name, _ := strings.Cut(key, "/"); place != "" && name == want.Name {
			return true
		}
	}
	return false
}

func (p *plan) collections() error {
	rows, placed, above := make(map[string]store.PromptCollection), make(map[[2]string]store.PromptCollection), make(map[string]string)
	for _, c := range p.state.collections {
		rows[c.ID], placed[[2]string{c.Workspace, c.Slug}] = c, c
	}
	for _, c := range p.file.PromptCollections {
		above[within(c.Workspace, c.Slug)] = c.Parent
	}
	return compare(p, family[settings.PromptCollection]{
		section: "prompt_collections", kind: "prompt_collection", want: p.file.PromptCollections, have: parentsFirst(p.have.PromptCollections),
		spared: p.keepsUnlisted(p.file.PromptCollections != nil),
		name:   func(c *settings.PromptCollection) string { return within(c.Workspace, c.Slug) },
		id: func(c *settings.PromptCollection) string { // the default one is known by that: its slug is made up in each installation
			if c.Default {
				return within(c.Workspace, "")
			}
			return within(c.Workspace, c.Slug)
		},
		put: func(path string, want *settings.PromptCollection, _ []string) (step, error) {
			if hasCycle(want, above) {
				return nil, p.file.ErrorAt(path+".parent", errors.New("the collection would stand in itself"))
			}
			return p.collection(path, want, rows[p.names.collections[within(want.Workspace, want.Slug)]])
		},
		drop: func(have *settings.PromptCollection) step {
			if have.Default {
				return nil
			}
			return p.dropCollection(placed[[2]string{p.stored(have.Workspace), have.Slug}])
		},
	})
}

// parentsFirst returns collections in an order in which each comes behind the one
// that it is in.
func parentsFirst(list []settings.PromptCollection) []settings.PromptCollection {
	above := make(map[string]string)
	for _, c := range list {
		above[within(c.Workspace, c.Slug)] = c.Parent
	}
	depth := func(c settings.PromptCollection) (n int) {
		for at := c.Parent; at != "" && n < len(list); n++ {
			at = above[within(c.Workspace, at)]
		}
		return n
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b settings.PromptCollection) int { return depth(a) - depth(b) })
}

// hasCycle reports whether a collection is among those that it is in.
func hasCycle(of *settings.PromptCollection, above map[string]string) bool {
	at := of.Parent
	for range above {
		if at == "" || at == of.Slug {
			return at != ""
		}
		at = above[within(of.Workspace, at)]
	}
	return false
}

func (p *plan) dropCollection(row store.PromptCollection) step {
	return func(ctx context.Context, tx *store.Tx) error {
		now, err := tx.PromptCollection(ctx, row.Organisation, row.Workspace, row.ID)
		if err != nil {
			return err
		}
		if now.Children+now.Prompts > 0 {
			return fmt.Errorf("it still holds %d prompts and %d collections", now.Prompts, now.Children)
		}
		now.Status, now.UpdatedAt = store.Archived, p.now
		return tx.UpdatePromptCollection(ctx, now)
	}
}

func (p *plan) collection(path string, want *settings.PromptCollection, row store.PromptCollection) (step, error) {
	workspace, err := p.workspaceID(path+".workspace", want.Workspace)
	if err != nil {
		return nil, err
	}
	parent := p.names.collections[within(want.Workspace, want.Parent)]
	if want.Parent != "" && parent == "" {
		return nil, p.missing(path+".parent", "collection", want.Parent)
	}
	known := row.ID != ""
	if known && row.Parent != parent {
		return nil, p.file.ErrorAt(path+".parent", errors.New("a collection does not move into another; give it another slug there"))
	}
	if !known {
		row = store.PromptCollection{
			ID: p.names.collections[within(want.Workspace, want.Slug)], Organisation: p.state.organisation.ID, Workspace: workspace, Parent: parent,
			IsDefault: want.Default, CreatedAt: p.now,
		}
	}
	row.Slug, row.Name, row.Status, row.UpdatedAt = want.Slug, want.Name, store.Active, p.now
	return func(ctx context.Context, tx *store.Tx) error {
		if known {
			return tx.UpdatePromptCollection(ctx, row)
		}
		return tx.CreatePromptCollection(ctx, row)
	}, nil
}

// folder returns what finds the collection that a prompt is in. The default
// one is made where there is none yet.
func (p *plan) folder(path string, of *settings.Prompt) (func(context.Context, *store.Tx) (string, error), error) {
	id := p.names.collections[within(of.Workspace, of.Collection)]
	if of.Collection != "" && id == "" {
		return nil, p.missing(path+".collection", "collection", of.Collection)
	}
	w := store.Workspace{ID: p.names.workspaces[of.Workspace], Organisation: p.state.organisation.ID}
	return func(ctx context.Context, tx *store.Tx) (string, error) {
		if id != "" {
			return id, nil
		}
		c, err := tx.DefaultPromptCollection(ctx, w.ID)
		if apierr.IsNotFound(err) {
			c = store.PromptCollection{ID: newID(), Slug: route.NewSlug("co", "default"), CreatedAt: p.now}
			err = tx.CreateDefaultPromptCollection(ctx, w, c)
		}
		return c.ID, err
	}, nil
}

// registerPrompts gives labels and collections their ids.
func (p *plan) registerPrompts() {
	f, s := p.file, p.state
	active := s.active()
	p.names.labels = ids(p.keepsUnlisted(f.PromptLabels != nil), f.PromptLabels, s.labels,
		func(l settings.PromptLabel) string { return within(l.Workspace, l.Name) },
		func(l store.PromptLabel) (string, string, bool) {
			return within(s.slugs[l.Workspace], l.Name), l.ID, l.Workspace == "" || active[l.Workspace] != ""
		})
	p.names.collections = ids(p.keepsUnlisted(f.PromptCollections != nil), f.PromptCollections, s.collections,
		func(c settings.PromptCollection) string { return within(c.Workspace, c.Slug) },
		func(c store.PromptCollection) (string, string, bool) {
			return within(s.slugs[c.Workspace], c.Slug), c.ID, c.Status == store.Active && active[c.Workspace] != ""
		})
	p.names.partials = make(map[string]bool)
	for _, v := range f.PromptPartials {
		p.names.partials[within(v.Workspace, v.Slug)] = true
	}
	p.registerDefaults()
}

// registerDefaults gives the default collections of the file, which have slugs of
// their own there, the ids of those that are stored. One that the file does not
// have stays.
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
		delete(p.names.collections, within(workspace, c.Slug))
		slug := cmp.Or(named[workspace], c.Slug)
		p.names.collections[within(workspace, slug)] = c.ID
	}
}
