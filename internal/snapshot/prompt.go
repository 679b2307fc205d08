package snapshot

import "modelgate/internal/prompt"

// byName indexes prompts by slug and id.
func byName(list []*prompt.Saved) map[scopedName]*prompt.Saved {
	m := make(map[scopedName]*prompt.Saved, 2*len(list))
	for _, p := range list {
		m[scopedName{p.Workspace, p.Slug}] = p
		m[scopedName{p.Workspace, p.ID}] = p
	}
	return m
}

// Prompt returns a workspace's prompt with this slug or id.
func (s *Snapshot) Prompt(workspace, name string) (*prompt.Saved, bool) {
	p, ok := s.prompts[scopedName{workspace, name}]
	return p, ok
}

// Partial returns the template of the partial that ref names: a slug or id, optionally
// followed by @ and a version; otherwise the published one.
func (s *Snapshot) Partial(workspace, ref string) (text string, ok bool) {
	name, which := prompt.Cut(ref)
	p, ok := s.partials[scopedName{workspace, name}]
	if !ok {
		return "", false
	}
	v, ok := p.Version(which)
	if !ok {
		return "", false
	}
	return v.Text, true
}
