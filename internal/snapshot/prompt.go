package snapshot

import "modelgate/internal/prompt"

// byName indexes prompts by their slugs and ids.
func byName(list []*prompt.Saved) map[place]*prompt.Saved {
	m := make(map[place]*prompt.Saved, 2*len(list))
	for _, p := range list {
		m[place{p.Workspace, p.Slug}] = p
		m[place{p.Workspace, p.ID}] = p
	}
	return m
}

// Prompt returns a workspace's prompt with this slug or id.
func (s *Snapshot) Prompt(workspace, name string) (*prompt.Saved, bool) {
	p, ok := s.prompts[place{workspace, name}]
	return p, ok
}

// Partial returns the template of a workspace's partial that ref means: a slug
// or id, with the version after an @ unless it is the published one.
func (s *Snapshot) Partial(workspace, ref string) (text string, ok bool) {
	name, which := prompt.Cut(ref)
	p, ok := s.partials[place{workspace, name}]
	if !ok {
		return "", false
	}
	v, ok := p.Version(which)
	if !ok {
		return "", false
	}
	return v.Text, true
}
