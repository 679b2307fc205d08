package toolservers

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolauth"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// clientDocument describes the gateway to authorization servers that read the documents of
// clients. The gateway has it only if it names it.
// https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/
func clientDocument(_ context.Context, c *route.Caller, _ *http.Request) *route.Answer {
	id := documentAddress(c)
	if id == "" {
		return &route.Answer{Status: http.StatusNotFound, Type: "text/plain; charset=utf-8",
			Body: []byte("The gateway has a document only if public_url begins with https.\n")}
	}
	text, err := json.Marshal(map[string]any{
		"client_id": id, "client_name": "modelgate", "client_uri": c.Link(""),
		"redirect_uris": []string{c.Link(toolauth.CallbackPath)}, "grant_types": []string{"authorization_code", "refresh_token"},
		"response_types": []string{"code"}, "token_endpoint_auth_method": "none", "application_type": "web",
	})
	if err != nil {
		panic(err) // it has only texts
	}
	return &route.Answer{Type: "application/json", Body: text}
}

// documentAddress returns the address of the gateway's document, empty if authorization servers
// cannot be sure of it.
func documentAddress(c *route.Caller) string {
	if address := c.Link(toolauth.DocumentPath); strings.HasPrefix(address, "https://") {
		return address
	}
	return ""
}

// register returns what the gateway is to an authorization server: what the settings say, its own
// document, or what it registered. In this order.
func (f *family) register(ctx context.Context, c *route.Caller, s *toolserver.Server, m *toolauth.Metadata,
	redirect string) (toolauth.Registration, error) {
	if r, ok := m.FindRegistration(s, documentAddress(c)); ok {
		return r, nil
	}
	row, err := c.DB().ToolClient(ctx, s.ID, m.Issuer, redirect)
	if err == nil {
		text, err := f.api.Secrets.Open(ctx, c.Organisation, row.Sealed)
		var r storedClient
		if err == nil && json.Unmarshal([]byte(text.Reveal()), &r) == nil && (r.Ends == 0 || c.Now.Unix() < r.Ends) {
			return toolauth.Registration{ID: r.ID, Secret: secret.New(r.Secret), Method: r.Method}, nil
		}
	} else if !apierr.IsNotFound(err) {
		return toolauth.Registration{}, err
	}
	r, err := f.SignIn.Client.Register(ctx, m, s, redirect)
	if err != nil {
		return r, err
	}
	w := storedClient{ID: r.ID, Secret: r.Secret.Reveal(), Method: r.Method}
	if !r.Ends.IsZero() {
		w.Ends = r.Ends.Unix()
	}
	text, err := json.Marshal(w)
	if err != nil {
		return r, err
	}
	sealed, err := f.api.Secrets.Seal(ctx, c.Organisation, secret.New(string(text)))
	if err != nil {
		return r, err
	}
	return r, f.api.DB.PutToolClient(ctx, store.ToolClient{Server: s.ID, Issuer: m.Issuer, Redirect: redirect, Sealed: sealed,
		CreatedAt: c.Now})
}

// storedClient is a registration as it is sealed.
type storedClient struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	Method string `json:"method"`
	Ends   int64  `json:"ends,omitempty"` // Unix time in seconds
}
