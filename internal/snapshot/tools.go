package snapshot

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
)

// toolServers are the tool servers and bundles of workspaces, by id of the workspace and
// sorted by slug.
type toolServers struct {
	servers map[string][]*toolserver.Server
	agents  map[string][]*toolserver.Server // of the transport A2A, which are not in servers
	bundles map[string][]*toolserver.Bundle
	limits  map[string][]string // patterns, by id of the workspace
}

func newToolServers(in *Input) toolServers {
	t := toolServers{make(map[string][]*toolserver.Server), make(map[string][]*toolserver.Server),
		make(map[string][]*toolserver.Bundle), in.WorkspaceTools}
	for _, s := range in.ToolServers {
		of := t.servers
		if s.Transport == toolserver.A2A {
			of = t.agents
		}
		of[s.Workspace] = append(of[s.Workspace], s)
	}
	for _, b := range in.ToolBundles {
		t.bundles[b.Workspace] = append(t.bundles[b.Workspace], b)
	}
	for _, of := range [...]map[string][]*toolserver.Server{t.servers, t.agents} {
		for _, list := range of {
			slices.SortFunc(list, func(a, b *toolserver.Server) int { return cmp.Compare(a.Slug, b.Slug) })
		}
	}
	for _, list := range t.bundles {
		slices.SortFunc(list, func(a, b *toolserver.Bundle) int { return cmp.Compare(a.Slug, b.Slug) })
	}
	return t
}

// ToolServers returns the tool servers of a workspace, sorted by slug. The slice is shared.
func (s *Snapshot) ToolServers(workspace string) []*toolserver.Server {
	return s.tools.servers[workspace]
}

// AllToolServers returns the tool servers and agents of all workspaces, in the order of the ids
// of workspaces and of slugs. They are shared.
func (s *Snapshot) AllToolServers() iter.Seq[*toolserver.Server] {
	return func(yield func(*toolserver.Server) bool) {
		for _, of := range [...]map[string][]*toolserver.Server{s.tools.servers, s.tools.agents} {
			for _, workspace := range slices.Sorted(maps.Keys(of)) {
				for _, t := range of[workspace] {
					if !yield(t) {
						return
					}
				}
			}
		}
	}
}

// ToolServer returns the tool server of a workspace with this slug.
func (s *Snapshot) ToolServer(workspace, slug string) (*toolserver.Server, bool) {
	return findServer(s.tools.servers[workspace], slug)
}

// Agent returns the agent of a workspace with this slug.
func (s *Snapshot) Agent(workspace, slug string) (*toolserver.Server, bool) {
	return findServer(s.tools.agents[workspace], slug)
}

func findServer(list []*toolserver.Server, slug string) (*toolserver.Server, bool) {
	i, ok := slices.BinarySearchFunc(list, slug, func(s *toolserver.Server, slug string) int { return cmp.Compare(s.Slug, slug) })
	if !ok {
		return nil, false
	}
	return list[i], true
}

// ToolBundles returns the bundles of a workspace, sorted by slug. The slice is shared.
func (s *Snapshot) ToolBundles(workspace string) []*toolserver.Bundle {
	return s.tools.bundles[workspace]
}

// ToolBundle returns the bundle of a workspace with this slug.
func (s *Snapshot) ToolBundle(workspace, slug string) (*toolserver.Bundle, bool) {
	list := s.tools.bundles[workspace]
	i, ok := slices.BinarySearchFunc(list, slug, func(b *toolserver.Bundle, slug string) int { return cmp.Compare(b.Slug, slug) })
	if !ok {
		return nil, false
	}
	return list[i], true
}

// ToolSelections returns the selections that limit what id may use of tool servers: of its
// workspace, its user, its key, and of the keys and users that the key descends from. All of
// them must select an item. Nil limits nothing.
func (s *Snapshot) ToolSelections(id *access.Identity) (list []toolserver.Selection) {
	if patterns := s.tools.limits[id.Workspace]; patterns != nil {
		list = append(list, patterns)
	}
	for _, u := range s.limitedUsers(id) {
		if u.Tools != nil {
			list = append(list, u.Tools)
		}
	}
	for _, patterns := range id.Tools {
		list = append(list, patterns)
	}
	return list
}
