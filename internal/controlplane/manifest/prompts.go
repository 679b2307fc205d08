package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modelgate/config"
	"modelgate/internal/controlplane/prompts"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/prompt"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

var partialKind = kind[settings.Partial, store.Prompt]{
	section: "prompt_partials", name: "prompt_partial",
	entries: func(s *settings.Settings) *[]settings.Partial { return &s.PromptPartials },
	rows:    func(s *state) []store.Prompt { return s.prompts },
	key:     func(v *settings.Partial) entryID { return entryID{v.Workspace, v.Slug} },
	rowKey:  promptKey, read: (*reader).partial, drop: dropPrompt,
	keep: func(_ *plan, want, have *settings.Partial) {
		want.Versions = appendStored(want.Versions, have.Versions)
	},
	put: func(p *plan, path string, want *settings.Partial, old *store.Prompt, _ []string) (step, error) {
		same := settings.Prompt{Slug: want.Slug, Workspace: want.Workspace, Name: want.Name,
			Collection: want.Collection, Published: want.Published}
		for _, v := range want.Versions {
			same.Versions = append(same.Versions, settings.PromptVersion{String: v.String, Description: v.Description})
		}
		return p.saved(path, store.KindPartial, &same, old)
	},
}

var promptKind = kind[settings.Prompt, store.Prompt]{
	section: "prompts", name: "prompt",
	entries: func(s *settings.Settings) *[]settings.Prompt { return &s.Prompts },
	rows:    func(s *state) []store.Prompt { return s.prompts },
	key:     func(v *settings.Prompt) entryID { return entryID{v.Workspace, v.Slug} },
	rowKey:  promptKey, read: (*reader).prompt, drop: dropPrompt,
	keep: func(_ *plan, want, have *settings.Prompt) { want.Versions = appendStored(want.Versions, have.Versions) },
	put: func(p *plan, path string, want *settings.Prompt, old *store.Prompt, _ []string) (step, error) {
		if p.names.partials[qualify(want.Workspace, want.Slug)] {
			return nil, p.file.ErrorAt(path+".slug", errors.New("a partial in the file has the same slug"))
		}
		return p.saved(path, store.KindPrompt, want, old)
	},
}

// promptKey returns the key of a prompt or partial; they share one namespace of slugs.
func promptKey(s *state, p *store.Prompt) entryID { return entryID{s.slugs[p.Workspace], p.Slug} }

// appendStored returns versions followed by the further versions of have, because stored
// versions stay.
func appendStored[T any](versions, have []T) []T {
	return append(slices.Clone(versions), have[min(len(versions), len(have)):]...)
}

func dropPrompt(_ *plan, row store.Prompt) step { return dropRow(prompts.Archive, row) }

// saved returns the step that stores a prompt or a partial. Stored versions never
// change.
func (p *plan) saved(path, kind string, want *settings.Prompt, old *store.Prompt) (step, error) {
	workspace, err := p.workspaceID(path+".workspace", want.Workspace)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Kind != kind {
		return nil, p.file.ErrorAt(path+".slug", fmt.Errorf("a %s has the same slug", old.Kind))
	}
	row := rowOr(old, store.Prompt{ID: newID(), Kind: kind, Organisation: p.state.organisation.ID,
		Workspace: workspace, Slug: want.Slug})
	row.Collection = p.names.collections[qualify(want.Workspace, want.Collection)]
	if want.Collection != "" && row.Collection == "" {
		return nil, p.missing(path+".collection", "collection", want.Collection)
	}
	versions, err := p.versions(path, want, row)
	if err != nil {
		return nil, err
	}
	if most := int64(max(len(want.Versions), len(p.state.versions[row.ID]))); want.Published > most {
		return nil, p.file.ErrorAt(path+".published", fmt.Errorf("must be at most %d, the number of versions", most))
	}
	row.Name, row.Published, row.Status = want.Name, want.Published, store.Active
	return func(ctx context.Context, c *route.Caller) error { return prompts.Put(ctx, c, old, row, versions) }, nil
}

// versions returns the versions of a prompt that are not stored yet, or not with their
// label.
func (p *plan) versions(path string, want *settings.Prompt, row store.Prompt) (out []store.PromptVersion, err error) {
	rows := p.state.versions[row.ID]
	stored, err := versionsOf(rows, row.Kind, p.state.labelNames)
	if err != nil {
		return nil, err
	}
	on := make(map[string]int)
	for i, v := range want.Versions {
		at := fmt.Sprintf("%s.versions[%d]", path, i)
		label, err := p.labelID(at, want.Workspace, v.Label)
		if err != nil {
			return nil, err
		}
		if other := on[label]; label != "" && other > 0 {
			return nil, p.file.ErrorAt(at+".label", fmt.Errorf("version %d has the same label", other))
		}
		on[label] = i + 1
		var next store.PromptVersion
		if i < len(stored) {
			if next = rows[i]; !sameVersion(v, stored[i]) {
				return nil, p.file.ErrorAt(at, fmt.Errorf("version %d differs from the stored one, and versions cannot be changed; add a new version at the end", i+1))
			}
		} else if next, err = version(v, row); err != nil {
			return nil, p.fault(at, err)
		}
		if next.Number == 0 || label != next.Label {
			next.Label = label
			out = append(out, next)
		}
	}
	return out, nil
}

// sameVersion reports whether two versions are equal apart from their labels.
func sameVersion(a, b settings.PromptVersion) bool {
	a.Label, b.Label = "", ""
	return len(settings.ChangedFields(a, b)) == 0
}

// version returns the row of a new version.
func version(v settings.PromptVersion, row store.Prompt) (store.PromptVersion, error) {
	out := store.PromptVersion{Text: v.String, Description: v.Description}
	if row.Kind == store.KindPartial {
		if err := prompts.CheckPartial(v.String); err != nil {
			return out, err
		}
	} else {
		var err error
		f := fields(v)
		if out, err = f.Row(); err != nil {
			return out, err
		}
	}
	out.ID, out.Prompt = newID(), row.ID
	return out, nil
}

// fields returns a version in the form of a request.
func fields(v settings.PromptVersion) prompts.Fields {
	set := func(raw []byte) (m route.Optional[route.JSON]) {
		m.Set, m.Value = raw != nil, route.JSON(raw)
		return m
	}
	word := func(s string) route.Optional[string] { return route.Optional[string]{Set: true, Value: s} }
	f := prompts.Fields{
		String: set(text(v.String)), Parameters: set(v.Parameters), Model: word(v.Model), VirtualKey: word(v.Provider),
		Functions: set(v.Functions),
		Tools:     set(v.Tools), ToolChoice: set(v.ToolChoice), Description: word(v.Description), Metadata: set(v.Metadata),
	}
	if v.Raw {
		f.Raw = route.Optional[int]{Set: true, Value: 1}
	}
	return f
}

// labelID returns the id of a version's label.
func (p *plan) labelID(path, workspace, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	for _, id := range [...]string{p.names.labels[qualify(workspace, name)], p.names.labels[qualify("", name)], p.state.everybodys[name]} {
		if id != "" {
			return id, nil
		}
	}
	return "", p.missing(path+".label", "label", name)
}

// qualify returns a name qualified by its workspace.
func qualify(workspace, name string) string { return workspace + "/" + name }

// normalisePrompts fills in the defaults of prompts and their related objects.
func (p *plan) normalisePrompts(home string) {
	f, defaults := p.file, make(map[string]string)
	for _, c := range p.state.collections {
		if c.IsDefault {
			defaults[p.state.slugs[c.Workspace]] = c.Slug
		}
	}
	for i := range f.PromptCollections {
		c := &f.PromptCollections[i]
		orElse(&c.Workspace, home)
		orElse(&c.Name, c.Slug)
		c.Default = c.Default || defaults[c.Workspace] == c.Slug
	}
	for _, c := range f.PromptCollections {
		if c.Default {
			defaults[c.Workspace] = c.Slug
		}
	}
	for i := range f.PromptPartials {
		v := &f.PromptPartials[i]
		orElse(&v.Workspace, home)
		orElse(&v.Name, v.Slug)
		normalPlace(&v.Collection, defaults[v.Workspace])
		normalNumber(&v.Published, len(v.Versions))
	}
	for i := range f.Prompts {
		v := &f.Prompts[i]
		orElse(&v.Workspace, home)
		orElse(&v.Name, v.Slug)
		normalPlace(&v.Collection, defaults[v.Workspace])
		normalNumber(&v.Published, len(v.Versions))
		for j := range v.Versions {
			t := &v.Versions[j]
			t.Provider = strings.TrimPrefix(t.Provider, "@")
			t.Parameters, t.Metadata = object(t.Parameters), object(t.Metadata)
		}
	}
}

// normalPlace clears the collection if it is the default.
func normalPlace(collection *string, otherwise string) {
	if *collection == otherwise {
		*collection = ""
	}
}

// normalNumber sets the published version to the last one if the file does not set it.
func normalNumber(published *int64, versions int) {
	if *published == 0 {
		*published = int64(versions)
	}
}

func (r *reader) partial(p *store.Prompt) (settings.Partial, bool, error) {
	s, ok, err := r.saved(p, store.KindPartial)
	v := settings.Partial{Slug: s.Slug, Workspace: s.Workspace, Name: s.Name, Collection: s.Collection, Published: s.Published}
	for _, t := range s.Versions {
		v.Versions = append(v.Versions, settings.PartialVersion{String: t.String, Description: t.Description})
	}
	return v, ok, err
}

func (r *reader) prompt(p *store.Prompt) (settings.Prompt, bool, error) {
	return r.saved(p, store.KindPrompt)
}

// saved returns an active prompt or partial with its versions.
func (r *reader) saved(p *store.Prompt, kind string) (v settings.Prompt, ok bool, err error) {
	slug, placed := r.workspaces[p.Workspace]
	if p.Kind != kind || p.Status != store.Active || !placed {
		return v, false, nil
	}
	v = settings.Prompt{Slug: p.Slug, Workspace: slug, Name: p.Name, Published: p.Published}
	if c := r.folders[p.Collection]; !c.IsDefault {
		v.Collection = c.Slug
	}
	v.Versions, err = versionsOf(r.state.versions[p.ID], kind, r.state.labelNames)
	return v, true, err
}

// versionsOf converts stored versions to the form of the file. Labels are names by id.
func versionsOf(versions []store.PromptVersion, kind string, labels map[string]string) ([]settings.PromptVersion, error) {
	var out []settings.PromptVersion
	for _, v := range versions {
		v.Text = string(config.MaskExposed([]byte(v.Text)))
		said := settings.PromptVersion{String: v.Text, Description: v.Description,
			Metadata: object(config.MaskExposed(v.Metadata)), Label: labels[v.Label]}
		if kind == store.KindPrompt {
			c, err := prompt.Decode(v.Text)
			if err != nil {
				return nil, fmt.Errorf("version %d: %w", v.Number, err)
			}
			said.String, said.Raw, said.Model, said.Provider = c.String, c.Raw, c.Model, c.Provider
			said.Parameters, said.Functions = object(c.Parameters), settings.Value(c.Functions)
			said.Tools, said.ToolChoice = settings.Value(c.Tools), settings.Value(c.ToolChoice)
		}
		out = append(out, said)
	}
	return out, nil
}
