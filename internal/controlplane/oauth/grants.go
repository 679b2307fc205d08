package oauth

import (
	"context"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

func (f *family) addGrants(a *route.API) {
	own := route.Route{Tag: tag, Path: "/auth/grants"}
	own.Method, own.Name, own.Summary = http.MethodGet, "list-own-grants", "List what you let clients do"
	route.Add(a, own, listUserGrants)
	own = route.Route{Method: http.MethodDelete, Path: "/auth/grants/{grant}", Name: "revoke-own-grant", Tag: tag, Resource: grantResource}
	own.Summary = "End what you let a client do"
	route.Add(a, own, revokeUserGrant)

	all := route.Family{Path: "/oauth/grants", Also: "/oauth/grants", Tag: tag, Resource: grantResource}
	all.Scopes = []string{"organisation_users"}
	route.Add(a, all.Route(http.MethodGet, "", "list-grants", "list", "List what people of the organisation let clients do"), listGrants)
	route.Add(a, all.Route(http.MethodDelete, "/{grant}", "revoke-grant", "update", "End what a person let a client do"), revokeGrant)
}

type grantItem struct {
	Object     string     `json:"object"`
	ID         string     `json:"id"`
	Client     string     `json:"client_id"`
	ClientName string     `json:"client_name" doc:"What the client said of itself when the person consented"`
	Redirect   string     `json:"redirect_uri"`
	User       string     `json:"user_id"`
	Email      string     `json:"user_email"`
	Workspace  string     `json:"workspace_id"`
	Resource   string     `json:"resource" doc:"Address of the tool servers that the client may use"`
	Scopes     []string   `json:"scopes"`
	CreatedAt  route.Time `json:"created_at"`
	LastUsedAt route.Time `json:"last_used_at" doc:"When the client got an access token last"`
	ExpiresAt  route.Time `json:"expires_at" doc:"Until then the client refreshes its tokens"`
}

// list returns a page of the grants of a user, of all users if user is empty.
func list(ctx context.Context, c *route.Caller, user string, p route.LongPaging) (*route.List[grantItem], error) {
	rows, err := c.DB().HeldGrants(ctx, c.Organisation, user, c.Now)
	return route.PageOf(rows, p, err, func(g store.HeldGrant) grantItem {
		out := grantItem{
			Object: "grant", ID: g.ID, Client: g.Client, ClientName: g.ClientName, Redirect: g.RedirectURI, User: g.UserID, Email: g.Email,
			Workspace: g.Workspace, Resource: resourceAddress(c, g.Resource), CreatedAt: route.Time(g.CreatedAt),
			LastUsedAt: route.Time(g.UsedAt), ExpiresAt: route.Time(g.EndsAt),
		}
		for _, s := range g.Scopes {
			out.Scopes = append(out.Scopes, string(s))
		}
		return out
	})
}

func listUserGrants(ctx context.Context, c *route.Caller, in *struct{ route.LongPaging }) (*route.List[grantItem], error) {
	if err := checkPerson(c); err != nil {
		return nil, err
	}
	return list(ctx, c, c.UserID, in.LongPaging)
}

func listGrants(ctx context.Context, c *route.Caller, in *struct{ route.LongPaging }) (*route.List[grantItem], error) {
	return list(ctx, c, "", in.LongPaging)
}

type grantInput struct {
	Grant string `path:"grant" maxLength:"255"`
}

func revokeUserGrant(ctx context.Context, c *route.Caller, in *grantInput) (*route.Empty, error) {
	if err := checkPerson(c); err != nil {
		return nil, err
	}
	return end(ctx, c, c.UserID, in.Grant)
}

func revokeGrant(ctx context.Context, c *route.Caller, in *grantInput) (*route.Empty, error) {
	return end(ctx, c, "", in.Grant)
}

// end ends a grant of a user, of whatever user if it is empty.
func end(ctx context.Context, c *route.Caller, user, id string) (*route.Empty, error) {
	g, err := c.DB().OAuthGrant(ctx, id)
	if err == nil && (g.Organisation != c.Organisation || user != "" && g.UserID != user) {
		err = route.NotFound("grant", "grant", id)
	}
	if err := c.CheckFound("", id, err, route.NotFound("grant", "grant", id)); err != nil {
		return nil, err
	}
	c.SetAuditAction("oauth_revoke", g.ID)
	c.SetAuditDetails(map[string]string{"client_id": g.Client, "client_name": g.ClientName, "user_id": g.UserID})
	return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error { return tx.DeleteOAuthGrant(ctx, c.Organisation, user, g.ID) })
}

var errNoSession = apierr.New(apierr.Forbidden, "a session is required; keys cannot be used here").WithCode("AB03")

// checkPerson returns an error unless the caller is a person who signed in.
func checkPerson(c *route.Caller) error {
	if c.Type != access.Session {
		return errNoSession
	}
	return nil
}
