package oauth

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/oauth"
	"modelgate/internal/store"
)

// Limits of clients that register themselves, and of those of an organisation.
const (
	maxRegistered = 10_000
	maxClients    = 100
	unusedTime    = 30 * 24 * time.Hour // since anybody consented; then a registration is deleted
)

// registerLimit limits the registrations of an address.
var registerLimit = store.AttemptLimit{Free: 20, Wait: time.Minute, MaxWait: time.Hour, Forget: time.Minute}

// registration is the response to a client that registered (RFC 7591, section 3.2.1).
type registration struct {
	ID            string   `json:"client_id"`
	IssuedAt      int64    `json:"client_id_issued_at"`
	Name          string   `json:"client_name,omitempty"`
	RedirectURIs  []string `json:"redirect_uris"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	Method        string   `json:"token_endpoint_auth_method"`
}

// register stores a client that describes itself. Nobody has signed in, so that it may name
// itself as it likes; what it gets are only a name on the consent page and redirect URIs.
func (f *family) register(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	out, err := f.registerClient(ctx, c, r)
	if err != nil {
		return reply(w, nil, err)
	}
	return oauth.Write(w, http.StatusCreated, out)
}

func (f *family) registerClient(ctx context.Context, c *route.Caller, r *http.Request) (*registration, error) {
	if !f.Settings().Registration {
		return nil, &oauth.Error{Code: oauth.AccessDenied, Status: http.StatusForbidden,
			Description: "clients may not register themselves here; use the address of a client ID metadata document as client_id, or a client that an administrator registered"}
	}
	limit := registerLimit
	limit.ID = people.LimitID("register", people.AddressGroup(c.ClientIP()))
	if err := people.Reserve(ctx, c, f.api.DB, "too many clients registered from this address", limit); err != nil {
		return nil, err
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var in oauth.Client
	if err != nil || kind != "application/json" || json.Unmarshal(c.Body(), &in) != nil {
		return nil, oauth.NewError(oauth.InvalidMetadata, "the body must be a JSON object with redirect_uris and client_name")
	}
	if err := in.Check(); err != nil {
		return nil, err
	}
	row := store.OAuthClient{ID: c.NewID(), Name: in.Name, RedirectURIs: in.RedirectURIs, CreatedAt: c.Now}
	if err := f.api.DB.RegisterOAuthClient(ctx, row, c.Now.Add(-unusedTime), maxRegistered); err != nil {
		return nil, err
	}
	return &registration{
		ID: row.ID, IssuedAt: c.Now.Unix(), Name: row.Name, RedirectURIs: row.RedirectURIs,
		GrantTypes: []string{oauth.CodeGrant, oauth.RefreshGrant}, ResponseTypes: []string{"code"}, Method: "none",
	}, nil
}

func (f *family) addClients(a *route.API) {
	r := route.Family{Path: "/oauth/clients", Also: "/oauth/clients", Tag: tag, Resource: "oauth_client"}
	r.Scopes = []string{"identity_providers"}
	route.Add(a, r.Route(http.MethodGet, "", "list-oauth-clients", "list",
		"List the clients of tool servers that administrators registered"), listClients)
	route.Add(a, r.Route(http.MethodPost, "", "create-oauth-client", "create", "Register a client of tool servers"),
		createClient)
	route.Add(a, r.Route(http.MethodDelete, "/{client}", "delete-oauth-client", "delete",
		"Delete a client and end what people let it do"), deleteClient)
}

type clientItem struct {
	Object       string      `json:"object"`
	ID           string      `json:"id" doc:"The client_id"`
	Name         string      `json:"name"`
	RedirectURIs []string    `json:"redirect_uris"`
	CreatedBy    string      `json:"created_by"`
	CreatedAt    route.Time  `json:"created_at"`
	LastUsedAt   *route.Time `json:"last_used_at" doc:"When somebody consented last; null for never"`
}

func showClient(row store.OAuthClient) clientItem {
	out := clientItem{"oauth_client", row.ID, row.Name, row.RedirectURIs, row.CreatedBy, route.Time(row.CreatedAt), nil}
	if !row.UsedAt.IsZero() {
		at := route.Time(row.UsedAt)
		out.LastUsedAt = &at
	}
	return out
}

func listClients(ctx context.Context, c *route.Caller, in *struct{ route.LongPaging }) (*route.List[clientItem], error) {
	rows, err := c.DB().OAuthClients(ctx, c.Organisation)
	return route.PageOf(rows, in.LongPaging, err, showClient)
}

type createClientInput struct {
	Body struct {
		Name         string   `json:"name" minLength:"1" maxLength:"100" doc:"Shown to people who are asked to consent"`
		RedirectURIs []string `json:"redirect_uris" minItems:"1" maxItems:"20" doc:"Compared byte for byte, except for the port of addresses on 127.0.0.1, [::1] and localhost"`
	}
}

func createClient(ctx context.Context, c *route.Caller, in *createClientInput) (*clientItem, error) {
	client := oauth.Client{Name: in.Body.Name, RedirectURIs: in.Body.RedirectURIs}
	if err := client.Check(); err != nil {
		return nil, route.Invalid("redirect_uris", "is refused: %s", err.Description)
	}
	if client.Name == "" {
		return nil, route.Invalid("name", "must have a character that can be seen")
	}
	row := store.OAuthClient{
		ID: c.NewID(), Organisation: c.Organisation, Name: client.Name, RedirectURIs: client.RedirectURIs, CreatedBy: c.Actor(),
		CreatedAt: c.Now,
	}
	c.SetAuditSubject("", row.ID)
	if err := c.Change(ctx, func(tx *store.Tx) error { return tx.AddOAuthClient(ctx, row, maxClients) }); err != nil {
		return nil, err
	}
	return route.ItemOf(row, nil, showClient)
}

type clientInput struct {
	Client string `path:"client" maxLength:"255"`
}

func deleteClient(ctx context.Context, c *route.Caller, in *clientInput) (*route.Empty, error) {
	c.SetAuditSubject("", in.Client)
	err := c.Change(ctx, func(tx *store.Tx) error {
		if err := tx.DeleteOAuthClient(ctx, c.Organisation, in.Client); err != nil {
			return err
		}
		return tx.DeleteClientGrants(ctx, c.Organisation, in.Client)
	})
	if apierr.IsNotFound(err) {
		err = route.NotFound("client", "client", in.Client)
	}
	return &route.Empty{}, err
}
