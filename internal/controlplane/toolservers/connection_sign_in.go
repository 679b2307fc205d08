package toolservers

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oauth"
	"modelgate/internal/provider/toolauth"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// maxSignIns limits the sign-ins of a user that have begun.
const maxSignIns = 20

//go:embed connect.html
var connectPage []byte

// ServeConnect serves the page that links lead to, and to which authorization servers send
// browsers back. It is the same for every request; what it shows comes from routes that need the
// session of the browser. So the browser is never sent to the sign-in of the gateway while an
// authorization server waits.
func ServeConnect(w http.ResponseWriter, r *http.Request) { route.Page(w, r, connectPage) }

func (f *family) addSignIn(a *route.API) {
	r := route.Route{Tag: "MCP connections", Path: "/auth/tool-sign-in", Private: true}
	r.Method, r.Name, r.Summary = http.MethodGet, "get-tool-sign-in", "Read which MCP server a link leads to"
	route.Add(a, r, f.showSignIn)
	r.Method, r.Name, r.Resource, r.Summary = http.MethodPost, "begin-tool-sign-in", connectionResource, "Begin to sign in to an MCP server"
	route.Add(a, r, f.beginSignIn)
	r.Path, r.Name, r.Summary = "/auth/tool-sign-in/finish", "finish-tool-sign-in", "Finish to sign in to an MCP server"
	route.Add(a, r, f.finishSignIn)
	route.AddBrowser(a, route.Route{Method: http.MethodGet, Path: toolauth.DocumentPath, Also: []string{toolauth.DocumentPath}, Open: true,
		Name: "tool-client-document"}, clientDocument)
}

// signInTarget returns a server that users sign in to, as requests see it.
func (f *family) signInTarget(ctx context.Context, c *route.Caller, row store.ToolServer) (*toolserver.Server, error) {
	i, err := usable(ctx, c, row)
	if err != nil {
		return nil, err
	}
	if i.Auth != string(toolserver.AuthUser) || f.SignIn == nil || row.Status != store.Active {
		return nil, apierr.New(apierr.Conflict, "users do not sign in to the MCP server %s, or it is disabled", row.Slug)
	}
	if f.api.Secrets == nil || f.SignIn.Links.Box == nil {
		return nil, errNoMasterKey
	}
	return targetOf(ctx, f.api.Secrets, &i, &row)
}

// allow returns the check of addresses for a server.
func (f *family) allow(s *toolserver.Server) toolauth.Allow {
	return func(u *url.URL) error {
		if f.api.Egress == nil {
			return nil
		}
		return f.api.Egress(s.Organisation, s.Workspace).Check(egress.Request{Managed: true, Host: u})
	}
}

// openedLink is a link that its own user has opened.
type openedLink struct {
	toolauth.Link
	row    store.ToolServer
	target *toolserver.Server
}

// openLink returns the link that a person has opened. Nobody else learns of it.
func (f *family) openLink(ctx context.Context, c *route.Caller, text string) (*openedLink, error) {
	if err := checkBrowser(ctx, c); err != nil {
		return nil, err
	}
	if f.SignIn == nil {
		return nil, errNoMasterKey
	}
	link, err := f.SignIn.Links.Parse(text, c.Now)
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "%s", err.Error()).WithParam("link").WithCode("tool_sign_in_link")
	}
	if link.User != c.UserID || link.Organisation != c.Organisation {
		return nil, apierr.New(apierr.Forbidden, "this link is for another person; sign in to the gateway as that person, or make a call of your own to get a link").
			WithParam("link").WithCode("tool_sign_in_other_user")
	}
	o := &openedLink{Link: link}
	o.row, err = c.DB().ToolServer(ctx, c.Organisation, link.Workspace, link.Server)
	if apierr.IsNotFound(err) {
		err = route.NotFound("link", "MCP server", link.Server)
	}
	if err != nil {
		return nil, err
	}
	c.SetAuditSubject(o.row.Workspace, o.row.ID)
	if err := checkMember(ctx, c, c.DB(), o.row.Workspace); err != nil {
		return nil, err
	}
	o.target, err = f.signInTarget(ctx, c, o.row)
	return o, err
}

// checkMember returns an error unless the caller belongs to a workspace.
func checkMember(ctx context.Context, c *route.Caller, q store.Queries, workspace string) error {
	m, err := q.Membership(ctx, c.Organisation, c.UserID)
	if err == nil && m.RoleIn(workspace) == "" {
		err = apierr.New(apierr.Forbidden, "you do not belong to the workspace of this MCP server").WithCode("AB03")
	}
	return err
}

// checkBrowser returns an error unless the caller is a person with a session of a browser.
func checkBrowser(ctx context.Context, c *route.Caller) error {
	if c.Type != access.Session {
		return apierr.New(apierr.Forbidden, "only a person can sign in to an MCP server; open the link in a browser in which you are signed in to the gateway").
			WithCode("AB03")
	}
	s, err := c.DB().Session(ctx, c.Hash.String())
	if err == nil && s.Method == store.MethodDevice {
		err = apierr.New(apierr.Forbidden, "a command line cannot sign in to an MCP server; open the link in a browser").WithCode("AB03")
	}
	return err
}

type showSignInInput struct {
	Link string `query:"link" required:"true" minLength:"1" maxLength:"8192" doc:"As in the address that you got"`
}

type shownSignIn struct {
	Object string   `json:"object"`
	Server string   `json:"mcp_server_id"`
	Name   string   `json:"name"`
	Slug   string   `json:"slug"`
	Host   string   `json:"host" doc:"Of the MCP server"`
	Scopes []string `json:"scopes" doc:"That the server asks for in addition; empty for the usual ones"`
}

func (f *family) showSignIn(ctx context.Context, c *route.Caller, in *showSignInInput) (*shownSignIn, error) {
	o, err := f.openLink(ctx, c, in.Link)
	if err != nil {
		return nil, err
	}
	return &shownSignIn{"tool_sign_in", o.row.ID, o.row.Name, o.row.Slug, o.target.URL.Host, append([]string{}, o.Scopes...)}, nil
}

// flow is what the gateway remembers until the authorization server sends the browser back.
type flow struct {
	Issuer      string   `json:"issuer"`
	NamesIssuer bool     `json:"names_issuer"`
	ClientID    string   `json:"client_id"`
	Secret      string   `json:"client_secret,omitempty"`
	Method      string   `json:"method"`
	Redirect    string   `json:"redirect_uri"`
	Callback    string   `json:"callback,omitempty"` // what is behind the path of Redirect
	Verifier    string   `json:"verifier"`
	Scopes      []string `json:"scopes,omitempty"`
	URL         string   `json:"url"` // of the server
}

type beginSignInInput struct {
	Body struct {
		Link string `json:"link" minLength:"1" maxLength:"8192"`
	}
}

type begunSignIn struct {
	Object   string `json:"object"`
	Redirect string `json:"redirect_uri" doc:"Where you sign in"`
}

// beginSignIn uses a link up, and returns where the person signs in.
func (f *family) beginSignIn(ctx context.Context, c *route.Caller, in *beginSignInInput) (*begunSignIn, error) {
	c.SetAuditAction("sign_in_begin", "")
	o, err := f.openLink(ctx, c, in.Body.Link)
	if err != nil {
		return nil, err
	}
	c.AddAuditDetail("mcp_server", o.row.Slug)
	m, err := f.SignIn.Client.Discover(ctx, o.target, f.allow(o.target))
	if err != nil {
		return nil, err
	}
	c.AddAuditDetail("issuer", m.Issuer)
	callback, redirect := m.Callback(), c.DialledLink(toolauth.CallbackPath)
	if callback != "" {
		redirect += "/" + callback
	}
	r, err := f.register(ctx, c, o.target, m, redirect)
	if err != nil {
		return nil, err
	}
	w := flow{Issuer: m.Issuer, NamesIssuer: m.NamesIssuer, ClientID: r.ID, Method: r.Method, Redirect: redirect, Callback: callback,
		Verifier: rand.Text() + rand.Text(), Scopes: m.Scopes(o.target, o.Scopes), URL: o.target.URL.String()}
	if o.target.OAuth == nil || o.target.OAuth.ID != r.ID { // otherwise the settings have it
		w.Secret = r.Secret.Reveal()
	}
	state := rand.Text() + rand.Text()
	address, err := m.AuthorizeURL(toolauth.Request{ClientID: r.ID, Redirect: redirect, State: state, Verifier: w.Verifier, Scopes: w.Scopes})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	sealed, err := f.api.Secrets.Seal(ctx, c.Organisation, secret.New(string(text)))
	if err != nil {
		return nil, err
	}
	err = f.api.DB.AddToolSignIn(ctx, store.ToolSignIn{ID: people.LimitID(o.ID), Server: o.row.ID, User: c.UserID, Session: c.Hash.String(),
		State: access.HashKey(state).String(), Sealed: sealed, EndsAt: c.Now.Add(2 * toolauth.LinkTime)}, c.Now, maxSignIns)
	if err != nil && apierr.From(err).Kind == apierr.Conflict {
		err = apierr.New(apierr.Conflict, "this link was used before; repeat the call that gave it to you, which gives you another").
			WithParam("link").WithCode("tool_sign_in_link")
	}
	return &begunSignIn{"tool_sign_in", address}, err
}

type finishSignInInput struct {
	Body struct {
		Query    string `json:"query" minLength:"1" maxLength:"16384" doc:"With which the authorization server sent the browser back"`
		Callback string `json:"callback,omitempty" maxLength:"255" doc:"Where it sent the browser: what is behind /oauth/callback/ in the path"`
	}
}

// finishSignIn stores the tokens of a person who comes back from an authorization server, in the
// session that began.
func (f *family) finishSignIn(ctx context.Context, c *route.Caller, in *finishSignInInput) (*Connection, error) {
	c.SetAuditAction("sign_in", "")
	if err := checkBrowser(ctx, c); err != nil {
		return nil, err
	}
	if f.SignIn == nil || f.api.Secrets == nil {
		return nil, errNoMasterKey
	}
	p, err := oauth.ParseForm("application/x-www-form-urlencoded", []byte(in.Body.Query))
	if err != nil {
		return nil, callbackError("it is malformed")
	}
	row, err := f.api.DB.SpendToolSignIn(ctx, access.HashKey(p["state"]).String(), c.Hash.String(), c.UserID, c.Now)
	if apierr.IsNotFound(err) {
		return nil, callbackError("its state is unknown, used or expired, or of another session of the gateway")
	}
	if err != nil {
		return nil, err
	}
	text, err := f.api.Secrets.Open(ctx, c.Organisation, row.Sealed)
	if err != nil {
		return nil, err
	}
	var w flow
	if err := json.Unmarshal([]byte(text.Reveal()), &w); err != nil {
		return nil, err
	}
	c.AddAuditDetail("issuer", w.Issuer)
	switch iss, has := p["iss"]; { // RFC 9207, byte for byte
	case has && iss != w.Issuer, !has && w.NamesIssuer, in.Body.Callback != w.Callback:
		return nil, callbackError("it is not from the authorization server at which you began")
	case p["error"] != "":
		if p["error"] == "unauthorized_client" || p["error"] == "invalid_client" {
			f.api.DB.DeleteToolClient(ctx, row.Server, w.Issuer, c.Now) // the next sign-in registers again
		}
		return nil, callbackError("the authorization server answered with the error " + cmp.Or(errorCode(p["error"]), "that it sent"))
	case p["code"] == "":
		return nil, callbackError("it has no code")
	}
	return f.connect(ctx, c, row, &w, p["code"])
}

// errorCode returns a code of OAuth if it is one, empty otherwise.
func errorCode(text string) string {
	if len(text) > 60 || strings.ContainsFunc(text, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		return ""
	}
	return text
}

func callbackError(why string) error {
	return apierr.New(apierr.Forbidden, "the response to your sign-in is refused: %s; repeat the call that needed it, and begin again", why).
		WithCode("tool_sign_in_refused")
}

// connect gets tokens for a code and stores them.
func (f *family) connect(ctx context.Context, c *route.Caller, s store.ToolSignIn, w *flow, code string) (*Connection, error) {
	server, err := c.DB().ToolServer(ctx, c.Organisation, "", s.Server)
	if err != nil {
		return nil, err
	}
	c.SetAuditSubject(server.Workspace, server.ID)
	c.AddAuditDetail("mcp_server", server.Slug)
	target, err := f.signInTarget(ctx, c, server)
	if err != nil {
		return nil, err
	}
	m, err := f.SignIn.Client.Find(ctx, target, w.Issuer, f.allow(target))
	if err == toolauth.ErrRefused || target.URL.String() != w.URL {
		return nil, callbackError("the authorization server or the address of the MCP server has changed")
	}
	if err != nil {
		return nil, err
	}
	r := toolauth.Registration{ID: w.ClientID, Secret: secret.New(w.Secret), Method: w.Method}
	g := &toolauth.Grant{Registration: r, SignIn: rand.Text(), URL: w.URL, Asked: w.Scopes, Issued: c.Now}
	if target.OAuth != nil && target.OAuth.ID == r.ID {
		r.Secret = target.OAuth.Secret
	}
	tokens, err := f.SignIn.Client.Exchange(ctx, m, r, toolauth.Request{Redirect: w.Redirect, Verifier: w.Verifier}, code)
	if err == toolauth.ErrRefused {
		return nil, callbackError("the authorization server gave no tokens for its code")
	}
	if errors.Is(err, toolauth.ErrUnknownClient) {
		f.api.DB.DeleteToolClient(ctx, server.ID, w.Issuer, c.Now) // the next sign-in registers again
	}
	if err != nil {
		return nil, err
	}
	if g.Tokens = *tokens; len(g.Scopes) == 0 {
		g.Scopes = w.Scopes
	}
	row := store.ToolConnection{Server: server.ID, User: c.UserID, Issuer: w.Issuer, State: store.ConnectionActive, ExpiresAt: g.Tokens.Ends,
		CreatedAt: c.Now, UpdatedAt: c.Now}
	if row.Sealed, err = f.api.Secrets.Seal(ctx, c.Organisation, g.Text()); err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		if _, err := tx.ToolServer(ctx, c.Organisation, server.Workspace, server.ID); err != nil {
			return err
		}
		if err := checkMember(ctx, c, tx.Queries, server.Workspace); err != nil { // it may have ended since the link was opened
			return err
		}
		return tx.PutToolConnection(ctx, row)
	})
	if err != nil {
		return nil, err
	}
	f.SignIn.Forget(server.ID, c.UserID)
	out := showConnection(row)
	return &out, nil
}
