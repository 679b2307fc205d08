package server

import (
	"modelgate/internal/base/apierr"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// openToolServers returns the tool servers of a state. One that cannot be used has a fault,
// which its users receive; everything else is still published.
func (s *Server) openToolServers(open secretOpener, list []publication.ToolServer) []*toolserver.Server {
	out := make([]*toolserver.Server, len(list))
	for i := range list {
		p := &list[i]
		opened, err := open.secrets(p.Integration.Organisation, p.Integration.Sealed)
		t := store.ToolTarget(p.Integration, &p.Row, opened)
		t.Own, t.Above, t.Users = store.ToolItemRules(p.Own), store.ToolItemRules(p.Above), p.Users
		if err != nil {
			t.Fault = apierr.New(apierr.Unavailable, "the tool server %s cannot be used because its credentials cannot be opened; set them again in its integration", p.Row.Slug).
				WithCode("tool_server_unusable").WithCause(err)
		}
		out[i] = t
	}
	return out
}

func toolBundles(list []store.ToolBundle) []*toolserver.Bundle {
	out := make([]*toolserver.Bundle, len(list))
	for i, b := range list {
		out[i] = &toolserver.Bundle{ID: b.ID, Slug: b.Slug, Workspace: b.Workspace, Name: b.Name, Selection: b.Selection,
			SearchAbove: b.SearchAbove}
		if out[i].Selection == nil {
			out[i].Selection = toolserver.Selection{} // nil would select everything
		}
	}
	return out
}
