package manifest

import (
	"cmp"
	"fmt"
	"slices"

	"modelgate/config"
	"modelgate/internal/prompt"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

func (r *reader) listLabels(out *settings.Settings) error {
	out.PromptLabels = []settings.PromptLabel{}
	for _, l := range r.state.labels {
		slug, placed := r.workspaces[l.Workspace]
		if l.Workspace != "" && !placed {
			continue
		}
		out.PromptLabels = append(out.PromptLabels, settings.PromptLabel{Name: l.Name, Workspace: slug, Description: l.Description, Color: l.Color})
	}
	slices.SortFunc(out.PromptLabels, func(a, b settings.PromptLabel) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

func (r *reader) listCollections(out *settings.Settings) error {
	out.PromptCollections = []settings.PromptCollection{}
	for _, c := range r.folders {
		slug, placed := r.workspaces[c.Workspace]
		if !placed {
			continue
		}
		out.PromptCollections = append(out.PromptCollections, settings.PromptCollection{
			Slug: c.Slug, Workspace: slug, Name: c.Name, Parent: r.folders[c.Parent].Slug, Default: c.IsDefault,
		})
	}
	slices.SortFunc(out.PromptCollections, func(a, b settings.PromptCollection) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Slug, b.Slug))
	})
	return nil
}

func (r *reader) listPartials(out *settings.Settings) error {
	list, err := r.saved(store.KindPartial)
	out.PromptPartials = []settings.Partial{}
	for _, s := range list {
		v := settings.Partial{Slug: s.Slug, Workspace: s.Workspace, Name: s.Name, Collection: s.Collection, Published: s.Published}
		for _, t := range s.Versions {
			v.Versions = append(v.Versions, settings.PartialVersion{String: t.String, Description: t.Description})
		}
		out.PromptPartials = append(out.PromptPartials, v)
	}
	return err
}

func (r *reader) listPrompts(out *settings.Settings) (err error) {
	out.Prompts, err = r.saved(store.KindPrompt)
	return err
}

// saved returns the active prompts of a kind with their versions.
func (r *reader) saved(kind string) ([]settings.Prompt, error) {
	list := []settings.Prompt{}
	for _, p := range r.state.prompts {
		slug, placed := r.workspaces[p.Workspace]
		if p.Kind != kind || p.Status != store.Active || !placed {
			continue
		}
		v := settings.Prompt{Slug: p.Slug, Workspace: slug, Name: p.Name, Published: p.Published}
		if c := r.folders[p.Collection]; !c.IsDefault {
			v.Collection = c.Slug
		}
		var err error
		if v.Versions, err = saidBy(r.state.versions[p.ID], kind, r.state.labelNames); err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind, p.Slug, err)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b settings.Prompt) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Slug, b.Slug))
	})
	return list, nil
}

// saidBy returns what stored versions of a kind say. Labels are names by ids.
func saidBy(versions []store.PromptVersion, kind string, labels map[string]string) ([]settings.PromptVersion, error) {
	var out []settings.PromptVersion
	for _, v := range versions {
		v.Text = string(config.MaskExposed([]byte(v.Text)))
		said := settings.PromptVersion{String: v.Text, Description: v.Description, Metadata: object(config.MaskExposed(v.Metadata)), Label: labels[v.Label]}
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
