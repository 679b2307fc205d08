package toolauth

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider/toolserver"
)

// Registration is what the gateway is to an authorization server.
type Registration struct {
	ID     string
	Secret secret.String // empty for none
	Method string        // with which the gateway authenticates: none, client_secret_basic or client_secret_post
	// Ends is when it is no longer valid; zero is never.
	Ends time.Time
}

// Ways to authenticate at the token endpoint.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
)

// FindRegistration returns the registration that needs no request: that of the settings, or the address of
// the gateway's own document, which is empty if authorization servers cannot read it.
func (m *Metadata) FindRegistration(s *toolserver.Server, document string) (r Registration, ok bool) {
	switch {
	case s.OAuth != nil && s.OAuth.ID != "":
		return Registration{ID: s.OAuth.ID, Secret: s.OAuth.Secret, Method: m.method(s.OAuth.Secret)}, true
	case m.Documents && m.NamesIssuer && document != "": // without the issuer, its responses could be those of another
		return Registration{ID: document, Method: methodNone}, true
	}
	return r, false
}

// method returns how a client with a secret authenticates.
func (m *Metadata) method(s secret.String) string {
	switch {
	case s.Empty():
		return methodNone
	case len(m.TokenMethods) > 0 && !slices.Contains(m.TokenMethods, methodBasic) && slices.Contains(m.TokenMethods, methodPost):
		return methodPost
	}
	return methodBasic
}

// Register registers the gateway at an authorization server (RFC 7591), for one redirect URI.
// Errors are *apierr.Error.
func (c *Client) Register(ctx context.Context, m *Metadata, s *toolserver.Server, redirect string) (r Registration, err error) {
	if m.Register == "" {
		return r, apierr.New(apierr.Conflict, "the authorization server of the tool server %s registers no clients: register the gateway there with the redirect URI %s, and set client_id, and client_secret if it has one, in the integration", s.Slug, redirect).
			WithCode("tool_server_client_missing")
	}
	method := methodNone
	if len(m.TokenMethods) > 0 && !slices.Contains(m.TokenMethods, methodNone) {
		method = m.method(secret.New("any"))
	}
	body, err := json.Marshal(map[string]any{
		"client_name": "modelgate", "redirect_uris": []string{redirect}, "grant_types": []string{"authorization_code", "refresh_token"},
		"response_types": []string{"code"}, "token_endpoint_auth_method": method, "application_type": "web",
	})
	if err != nil {
		return r, err
	}
	failed := func(cause error) error {
		return unavailable(cause, "the authorization server of the tool server %s did not register the gateway; try again, or register it there with the redirect URI %s and set client_id in the integration", s.Slug, redirect)
	}
	u, err := m.place.parse(m.Register)
	if err != nil {
		return r, failed(err)
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	res, err := c.send(ctx, m.place, &http.Request{Method: http.MethodPost, URL: u, Header: h}, string(body))
	if err != nil {
		return r, failed(err)
	}
	var out struct {
		ID     string  `json:"client_id"`
		Secret string  `json:"client_secret"`
		Ends   float64 `json:"client_secret_expires_at"`
		Method string  `json:"token_endpoint_auth_method"`
	}
	ok := res.status == http.StatusCreated || res.status == http.StatusOK
	if !ok || json.Unmarshal(res.body, &out) != nil || !isVisible(out.ID) || len(out.ID) > 2048 {
		return r, failed(nil)
	}
	r = Registration{ID: out.ID, Secret: secret.New(out.Secret), Method: out.Method}
	if out.Secret != "" && out.Ends > 0 && out.Ends < 1<<40 {
		r.Ends = time.Unix(int64(out.Ends), 0)
	}
	if out.Secret == "" || r.Method != methodBasic && r.Method != methodPost {
		r.Method = m.method(r.Secret)
	}
	return r, nil
}

// isVisible reports whether text has only visible ASCII characters, and some.
func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != ""
}
