package tools

import (
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/snapshot"
)

// view is what a caller may use at an address.
type view struct {
	servers    []*toolserver.Server // in the order of their slugs
	selections []toolserver.Selection
	prefixed   bool   // names have the slug of their server in front
	title      string // of the server or bundle; empty for all servers
	// searchAbove is how many tools are shown at most; longer lists are replaced by tools for
	// searching. Zero shows all.
	searchAbove int
}

// errNoServer is the same for servers that do not exist, are disabled and are forbidden.
var errNoServer = apierr.New(apierr.NotFound, "there is no tool server or bundle at this address that this key may use; GET /v0.1/servers lists those that it may").
	WithCode("tool_server_not_found")

// viewOf returns what the caller of a request may use at its address. With plainNames, items of the
// only server have no prefix.
func viewOf(t *dataplane.ToolRequest, plainNames bool) (*view, error) {
	return viewAt(t.Snapshot, t.Identity, t.Slug, plainNames)
}

// viewAt returns what a caller may use at the address of a server or bundle, or at that of all
// if slug is empty.
func viewAt(s *snapshot.Snapshot, id *access.Identity, slug string, plainNames bool) (*view, error) {
	v := &view{selections: s.ToolSelections(id), prefixed: true}
	switch server, ok := s.ToolServer(id.Workspace, slug); {
	case slug == "":
		v.servers = s.ToolServers(id.Workspace)
	case ok:
		v.servers, v.prefixed, v.title, v.searchAbove = []*toolserver.Server{server}, false, server.Name, server.SearchAbove
	default:
		bundle, ok := s.ToolBundle(id.Workspace, slug)
		if !ok {
			return nil, errNoServer
		}
		v.servers, v.title, v.searchAbove = s.ToolServers(id.Workspace), bundle.Name, bundle.SearchAbove
		v.selections = append(slices.Clip(v.selections), bundle.Selection)
	}
	v.servers = slices.DeleteFunc(slices.Clone(v.servers), func(s *toolserver.Server) bool { return !v.hasServer(id, s) })
	if len(v.servers) == 0 && slug != "" {
		return nil, errNoServer
	}
	v.prefixed = v.prefixed && !(plainNames && len(v.servers) == 1)
	return v, nil
}

func (v *view) hasServer(id *access.Identity, s *toolserver.Server) bool {
	for _, selection := range v.selections {
		if !selection.HasServer(s.Slug) {
			return false
		}
	}
	return s.AllowsUser(id.UserID)
}

// allows reports whether the caller may use an item of a server of the view. Lists and calls
// ask it alike. digest is that of the item's definition.
func (v *view) allows(s *toolserver.Server, i toolserver.Item, digest string) bool {
	return v.selects(s, i) && s.Shows(i, digest)
}

// selects reports the same, whatever the definition of the item is.
func (v *view) selects(s *toolserver.Server, i toolserver.Item) bool {
	if i.Kind == toolserver.Resource && len(v.selections) > 0 && toolserver.ClimbsOut(i.Name) {
		return false
	}
	for _, selection := range v.selections {
		if !selection.Has(s.Slug, i) {
			return false
		}
	}
	return !s.IsOff(i)
}

// server returns the server with a slug.
func (v *view) server(slug string) *toolserver.Server {
	for _, s := range v.servers {
		if s.Slug == slug {
			return s
		}
	}
	return nil
}
