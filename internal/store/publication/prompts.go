package publication

import (
	"context"

	"modelgate/internal/prompt"
	"modelgate/internal/store"
)

// readPrompts reads the prompts and partials that are active, with all their
// versions. Texts that were read before are taken from there.
func (l *loader) readPrompts(ctx context.Context) error {
	rows, err := l.q.ActivePrompts(ctx)
	if err != nil {
		return err
	}
	byID := make(map[string]*prompt.Saved, len(rows))
	for _, p := range rows {
		s := &prompt.Saved{Workspace: p.Workspace, ID: p.ID, Slug: p.Slug, Published: p.Published}
		if byID[s.ID] = s; p.Kind == store.KindPartial {
			l.state.Partials = append(l.state.Partials, s)
		} else {
			l.state.Prompts = append(l.state.Prompts, s)
		}
	}
	return l.addPromptVersions(ctx, byID)
}

// addPromptVersions adds the versions of the prompts.
func (l *loader) addPromptVersions(ctx context.Context, byID map[string]*prompt.Saved) error {
	versions, err := l.q.ActivePromptVersions(ctx)
	if err != nil {
		return err
	}
	labels, err := l.q.AllPromptLabels(ctx)
	if err != nil {
		return err
	}
	names := make(map[string]string, len(labels))
	for _, label := range labels {
		names[label.ID] = label.Name
	}
	texts := l.before.promptTexts()
	var missing []string
	for _, v := range versions {
		if _, ok := texts[v.ID]; !ok && byID[v.Prompt] != nil {
			missing = append(missing, v.ID)
		}
	}
	list, err := l.q.PromptVersionsByID(ctx, missing)
	for _, v := range list {
		texts[v.ID] = v.Text
	}
	for _, v := range versions {
		if s := byID[v.Prompt]; s != nil {
			s.Versions = append(s.Versions, prompt.Version{ID: v.ID, Number: v.Number, Label: names[v.Label], Text: texts[v.ID]})
		}
	}
	return err
}

// promptTexts returns the text of each version of a prompt. A nil state has none.
func (s *State) promptTexts() map[string]string {
	texts := make(map[string]string)
	if s == nil {
		return texts
	}
	for _, list := range [...][]*prompt.Saved{s.Prompts, s.Partials} {
		for _, p := range list {
			for _, v := range p.Versions {
				texts[v.ID] = v.Text
			}
		}
	}
	return texts
}
