package toolservers

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/snapshot"
)

// registryList is a page of servers in the form of the public registry.
// https://github.com/modelcontextprotocol/registry
type registryList struct {
	Servers  []registryEntry  `json:"servers"`
	Metadata registryMetadata `json:"metadata"`
}

type registryEntry struct {
	Server registryServer `json:"server"`
	Meta   struct{}       `json:"_meta"`
}

type registryServer struct {
	Name        string           `json:"name" doc:"Host of the gateway in reverse, a slash, and the slug"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	Version     string           `json:"version" doc:"Always 1.0.0: the address stays when the server behind it changes"`
	Remotes     []registryRemote `json:"remotes"`
}

type registryRemote struct {
	Type string `json:"type" doc:"Always streamable-http"`
	URL  string `json:"url" doc:"Address at this gateway"`
}

type registryMetadata struct {
	Count int    `json:"count"`
	Next  string `json:"nextCursor,omitempty" doc:"The cursor of the next page; absent on the last"`
}

type registryInput struct {
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug; required for users of several workspaces"`
	Search    string `query:"search" maxLength:"255" doc:"Substring of the name or the slug, in any case"`
	Cursor    string `query:"cursor" maxLength:"255" doc:"nextCursor of the page before"`
	Limit     int    `query:"limit" minimum:"1" maximum:"100" default:"30"`
}

// registry lists the servers and bundles that the caller may use, by the decisions that bind
// their requests.
func (f *family) registry(ctx context.Context, c *route.Caller, in *registryInput) (*registryList, error) {
	if c.Type != access.Session && !c.Allows(access.ScopeTools) {
		return nil, apierr.New(apierr.Forbidden, "this key lacks the scope %q", string(access.ScopeTools)).WithCode("AB03")
	}
	w, err := c.InWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	id, err := c.IdentityIn(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	out := &registryList{Servers: []registryEntry{}}
	if f.Snapshot == nil {
		return out, nil
	}
	namespace, all := registryNamespace(c.AbsoluteLink("")), usableEntries(f.Snapshot(), id)
	for _, e := range all {
		if e.slug <= in.Cursor || !e.contains(in.Search) {
			continue
		}
		if len(out.Servers) == in.Limit {
			out.Metadata.Next = slugOf(out.Servers[len(out.Servers)-1].Server.Name)
			break
		}
		out.Servers = append(out.Servers, registryEntry{Server: registryServer{
			Name: namespace + "/" + e.slug, Title: e.name, Description: e.description, Version: "1.0.0",
			Remotes: []registryRemote{{"streamable-http", c.AbsoluteLink("/" + e.slug + "/mcp")}},
		}})
	}
	out.Metadata.Count = len(out.Servers)
	return out, nil
}

func slugOf(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// listed is a server or bundle of the registry.
type listed struct{ slug, name, description string }

func (e listed) contains(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(strings.ToLower(e.name), text) || strings.Contains(e.slug, text)
}

// usableEntries returns the servers and bundles that a caller may use anything of, sorted by
// slug.
func usableEntries(s *snapshot.Snapshot, id *access.Identity) (list []listed) {
	selections := s.ToolSelections(id)
	var servers []*toolserver.Server
	for _, server := range s.ToolServers(id.Workspace) {
		if server.AllowsUser(id.UserID) && selectsServer(selections, server.Slug) {
			servers = append(servers, server)
			list = append(list, listed{server.Slug, server.Name, server.Description})
		}
	}
	for _, b := range s.ToolBundles(id.Workspace) {
		if slices.ContainsFunc(servers, func(s *toolserver.Server) bool { return b.Selection.HasServer(s.Slug) }) {
			list = append(list, listed{b.Slug, b.Name, ""})
		}
	}
	slices.SortFunc(list, func(a, b listed) int { return strings.Compare(a.slug, b.slug) })
	return list
}

// selectsServer reports whether all selections select anything of a server.
func selectsServer(list []toolserver.Selection, slug string) bool {
	return !slices.ContainsFunc(list, func(s toolserver.Selection) bool { return !s.HasServer(slug) })
}

// registryNamespace returns the host of an address in the reverse order that names in a
// registry begin with.
func registryNamespace(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "modelgate"
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return "modelgate"
	}
	parts := strings.Split(u.Hostname(), ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}
