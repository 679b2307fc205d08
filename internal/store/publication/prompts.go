package publication

import (
	"context"

	"modelgate/internal/prompt"
	"modelgate/internal/storage/sqlrow"
	"modelgate/internal/store"
)

// readPrompts reads the prompts and partials that are active, with all their
// versions. Texts that were read before are taken from there.
func (l *loader) readPrompts(ctx context.Context) error {
	const text = `
		SELECT p.kind, p.workspace_id, p.id, p.slug, p.published
		FROM prompts p
		JOIN workspaces w ON w.id = p.workspace_id
		WHERE p.status = 'active' AND w.status = 'active'
		ORDER BY p.id`
	byID := make(map[string]*prompt.Saved)
	_, err := sqlrow.List(ctx, l.q.Reader, "prompts", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		s, kind := new(prompt.Saved), ""
		err = r.Scan(&kind, &s.Workspace, &s.ID, &s.Slug, &s.Published)
		if byID[s.ID] = s; kind == store.KindPartial {
			l.state.Partials = append(l.state.Partials, s)
		} else {
			l.state.Prompts = append(l.state.Prompts, s)
		}
		return none, err
	})
	if err != nil {
		return err
	}
	if err := l.addVersions(ctx, byID); err != nil {
		return err
	}
	return l.addPromptTexts(ctx, byID)
}

// addVersions adds the versions of the prompts, without their content.
func (l *loader) addVersions(ctx context.Context, byID map[string]*prompt.Saved) error {
	const text = `
		SELECT v.prompt_id, v.id, v.number, COALESCE(l.name, '')
		FROM prompt_versions v
		JOIN prompts p ON p.id = v.prompt_id
		LEFT JOIN prompt_labels l ON l.id = v.label_id
		WHERE p.status = 'active'
		ORDER BY v.prompt_id, v.number`
	_, err := sqlrow.List(ctx, l.q.Reader, "versions of prompts", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var id string
		var v prompt.Version
		err = r.Scan(&id, &v.ID, &v.Number, &v.Label)
		if s := byID[id]; s != nil {
			s.Versions = append(s.Versions, v)
		}
		return none, err
	})
	return err
}

// addPromptTexts adds the text of each version: those of before, and of the others
// one by one when they are few, as after a change, or all at once.
func (l *loader) addPromptTexts(ctx context.Context, byID map[string]*prompt.Saved) error {
	const few = 20
	const all = `
		SELECT v.id, v.text
		FROM prompt_versions v
		JOIN prompts p ON p.id = v.prompt_id
		WHERE p.status = 'active'`
	const one = `
		SELECT id, text
		FROM prompt_versions
		WHERE id = $1`
	texts := l.before.promptTexts()
	scan := func(r sqlrow.Scanner) (none struct{}, err error) {
		var id, text string
		err = r.Scan(&id, &text)
		texts[id] = text
		return none, err
	}
	missing := missingTexts(byID, texts)
	if len(missing) > few {
		if _, err := sqlrow.List(ctx, l.q.Reader, "texts of prompts", all, scan); err != nil {
			return err
		}
		missing = nil
	}
	for _, id := range missing {
		if _, err := sqlrow.List(ctx, l.q.Reader, "texts of prompts", one, scan, id); err != nil {
			return err
		}
	}
	for _, s := range byID {
		for i := range s.Versions {
			s.Versions[i].Text = texts[s.Versions[i].ID]
		}
	}
	return nil
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

// missingTexts returns the versions whose text is unknown.
func missingTexts(byID map[string]*prompt.Saved, texts map[string]string) (missing []string) {
	for _, s := range byID {
		for _, v := range s.Versions {
			if _, ok := texts[v.ID]; !ok {
				missing = append(missing, v.ID)
			}
		}
	}
	return missing
}
