package toolservers

import (
	"context"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolauth"
	"modelgate/internal/store"
)

// SignIn is what users sign in to servers with.
type SignIn struct {
	Client *toolauth.Client
	Links  toolauth.Links
	Forget func(server, user string) // what this node remembers of a connection
}

// connectionResource is the name of connections in the audit log.
const connectionResource = "mcp_connection"

func (f *family) addConnections(a *route.API) {
	r := route.Route{Tag: "MCP connections", Path: "/auth/tool-connections"}
	r.Method, r.Name, r.Summary = http.MethodGet, "list-own-tool-connections", "List the MCP servers that you signed in to"
	route.Add(a, r, listOwnConnections)
	r.Method, r.Name, r.Resource = http.MethodPost, "create-tool-sign-in-link", connectionResource
	r.Summary = "Get a link with which you sign in to an MCP server"
	route.Add(a, r, f.newLink)
	r.Method, r.Name, r.Path = http.MethodDelete, "revoke-own-tool-connection", "/auth/tool-connections/{tool_server}"
	r.Summary, r.Versioned = "Delete your tokens for an MCP server", true
	route.Add(a, r, f.revokeOwnConnection)
	f.addSignIn(a)
}

// Connection is the credential of a user for a server, without its tokens.
type Connection struct {
	Server    string     `json:"mcp_server_id"`
	User      string     `json:"user_id"`
	Issuer    string     `json:"issuer"`
	State     string     `json:"state" doc:"active, needs_reauth or revoked"`
	ExpiresAt route.Time `json:"expires_at" doc:"When the access token expires; it is renewed if the authorization server allows it"`
	CreatedAt route.Time `json:"created_at"`
	UpdatedAt route.Time `json:"last_updated_at"`
}

func showConnection(c store.ToolConnection) Connection {
	return Connection{c.Server, c.User, c.Issuer, c.State, route.Time(c.ExpiresAt), route.Time(c.CreatedAt), route.Time(c.UpdatedAt)}
}

type listConnectionsInput struct {
	NamedServer
	User string `query:"user_id" maxLength:"255"`
	route.Paging
}

func listConnections(ctx context.Context, c *route.Caller, in *listConnectionsInput) (*route.List[Connection], error) {
	row, err := findServer(ctx, c, in.NamedServer)
	if err != nil {
		return nil, err
	}
	// Those who cannot manage the server see their own sign-in only.
	if err := c.CheckPermission(ctx, row.Workspace, access.WriteMCPServers); err != nil {
		if apierr.From(err).Kind != apierr.Forbidden {
			return nil, err
		}
		in.User = c.UserID
	}
	rows, total, err := c.DB().ToolConnections(ctx, row.ID, in.User, in.Rows())
	return route.Listing(rows, total, err, showConnection)
}

type revokeConnectionInput struct {
	NamedServer
	User string `query:"user_id" required:"true" minLength:"1" maxLength:"255"`
}

func (f *family) revokeConnection(ctx context.Context, c *route.Caller, in *revokeConnectionInput) (*route.Empty, error) {
	row, err := findServer(ctx, c, in.NamedServer)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, f.revoke(ctx, c, &row, in.User)
}

// revoke deletes the tokens of a user for a server. The authorization server is asked to end them
// afterwards, as it is whenever tokens are deleted; see [store.DB.OnEnded].
func (f *family) revoke(ctx context.Context, c *route.Caller, s *store.ToolServer, user string) error {
	missing := route.Missing("user_id", "connection of the user", user)
	err := c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolServer(ctx, s.Organisation, s.Workspace, s.ID)
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		err = tx.RevokeToolConnection(ctx, s.ID, user, c.Now)
		if apierr.IsNotFound(err) {
			err = missing
		}
		return err
	})
	if err == nil && f.SignIn != nil {
		f.SignIn.Forget(s.ID, user)
	}
	return err
}

func listOwnConnections(ctx context.Context, c *route.Caller, in *struct{ route.LongPaging }) (*route.List[Connection], error) {
	if c.UserID == "" {
		return nil, errNoUser
	}
	rows, err := c.DB().UserConnections(ctx, c.Organisation, c.UserID)
	return route.PageOf(rows, in.LongPaging, err, showConnection)
}

var errNoUser = apierr.New(apierr.Forbidden, "only users sign in to MCP servers, and this key has none; use the key of a user or a session").
	WithCode("tool_server_needs_user")

func (f *family) revokeOwnConnection(ctx context.Context, c *route.Caller, in *NamedServer) (*route.Empty, error) {
	if c.UserID == "" {
		return nil, errNoUser
	}
	row, err := findServer(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, f.revoke(ctx, c, &row, c.UserID)
}

type newLinkInput struct {
	Body struct {
		Server    string `json:"mcp_server_id" minLength:"1" maxLength:"255" doc:"Id, or slug in a workspace"`
		Workspace string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug"`
	}
}

type signInLink struct {
	Object    string     `json:"object"`
	Link      string     `json:"link" doc:"For you alone and once; open it in a browser in which you are signed in to the gateway"`
	ExpiresAt route.Time `json:"expires_at"`
}

func (f *family) newLink(ctx context.Context, c *route.Caller, in *newLinkInput) (*signInLink, error) {
	if c.UserID == "" {
		return nil, errNoUser
	}
	row, err := findServer(ctx, c, NamedServer{in.Body.Server, in.Body.Workspace})
	if err != nil {
		return nil, err
	}
	if _, err := f.signInTarget(ctx, c, row); err != nil {
		return nil, err
	}
	link, _ := f.SignIn.Links.New(toolauth.Link{Organisation: row.Organisation, Workspace: row.Workspace, Server: row.ID, User: c.UserID},
		c.Now)
	return &signInLink{"tool_sign_in_link", link, route.Time(c.Now.Add(toolauth.LinkTime))}, nil
}
