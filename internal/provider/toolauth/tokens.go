package toolauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider/toolserver"
)

// Tokens are what an authorization server gave.
type Tokens struct {
	Access  secret.String
	Refresh secret.String // empty for none
	Scopes  []string      // empty if the server does not say
	Ends    time.Time     // of Access; zero is unknown
}

// ErrRefused is the error for a grant that has ended: only a new sign-in helps.
var ErrRefused = errors.New("the authorization server refused the grant")

// ErrUnknownClient is the cause of an error for an authorization server that does not accept the
// gateway as its client, or not with this secret.
var ErrUnknownClient = errors.New("the authorization server refused the client")

// maxLife is for how long a token is believed to be valid, and maxToken its limit in bytes.
const (
	maxLife  = 24 * time.Hour
	maxToken = 16 << 10
)

// offline is the scope of refresh tokens.
// https://openid.net/specs/openid-connect-core-1_0.html#OfflineAccess
const offline = "offline_access"

// Scopes returns the scopes to ask for: those of the settings, or else those that the tool
// server asks for, and more.
func (m *Metadata) Scopes(s *toolserver.Server, more []string) []string {
	base := m.ResourceScopes
	if s.OAuth != nil && len(s.OAuth.Scopes) > 0 {
		base = s.OAuth.Scopes
	}
	if m.offline {
		more = append(slices.Clone(more), offline)
	}
	return Union(base, more)
}

// Request is what a browser asks of the authorization endpoint.
type Request struct {
	ClientID, Redirect, State, Verifier string
	Scopes                              []string
}

// AuthorizeURL returns the address at which a user signs in.
func (m *Metadata) AuthorizeURL(r Request) (string, error) {
	u, err := m.place.parse(m.Authorize)
	if err != nil {
		return "", unavailable(err, "the authorization endpoint of the tool server cannot be used")
	}
	sum := sha256.Sum256([]byte(r.Verifier))
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": r.ClientID, "redirect_uri": r.Redirect, "state": r.State,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256", "resource": m.Resource,
	} {
		q.Set(name, value)
	}
	if len(r.Scopes) > 0 {
		q.Set("scope", strings.Join(r.Scopes, " "))
	}
	if slices.Contains(r.Scopes, offline) {
		q.Set("prompt", "consent") // which OpenID Connect demands for this scope
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// Exchange returns the tokens for a code.
func (c *Client) Exchange(ctx context.Context, m *Metadata, r Registration, of Request, code string) (*Tokens, error) {
	return c.token(ctx, m, r, url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {of.Redirect},
		"code_verifier": {of.Verifier}, "resource": {m.Resource}})
}

// Refresh returns the grant with the tokens that follow on its refresh token. A failure that may pass is
// retried once. [ErrRefused] means that the grant has ended; other errors are *apierr.Error, or
// those of a context that ended.
func (c *Client) Refresh(ctx context.Context, m *Metadata, s *toolserver.Server, g *Grant) (*Grant, error) {
	r, form := g.client(m, s), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh.Reveal()}, "resource": {m.Resource}}
	out, err := c.token(ctx, m, r, form)
	if err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrUnknownClient) && ctx.Err() == nil {
		out, err = c.token(ctx, m, r, form)
	}
	if err != nil {
		return nil, err
	}
	next := *g
	next.Tokens, next.Issued = *out, c.now()
	if out.Refresh.Empty() {
		next.Refresh = g.Refresh
	}
	if len(out.Scopes) == 0 {
		next.Scopes = g.Scopes
	}
	return &next, nil
}

// Revoke asks the authorization server to end a grant by its refresh token, or by an access
// token (RFC 7009). A server without such an endpoint is not asked. Errors are those of sending, or
// *apierr.Error.
func (c *Client) Revoke(ctx context.Context, m *Metadata, s *toolserver.Server, g *Grant) error {
	token := g.Refresh
	if token.Empty() {
		token = g.Access
	}
	if m.Revoke == "" || token.Empty() {
		return nil
	}
	res, err := c.post(ctx, m, g.client(m, s), m.Revoke, url.Values{"token": {token.Reveal()}})
	if err == nil && (res.status < 200 || res.status > 299) {
		err = unavailable(nil, "the authorization server of the tool server answered the revocation with the status %d", res.status)
	}
	return err
}

// post sends a form to an endpoint for clients.
func (c *Client) post(ctx context.Context, m *Metadata, r Registration, address string, form url.Values) (*response, error) {
	u, err := m.place.parse(address)
	if err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	switch r.Method {
	case methodBasic: // RFC 6749, section 2.3.1
		pair := url.QueryEscape(r.ID) + ":" + url.QueryEscape(r.Secret.Reveal())
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	case methodPost:
		form.Set("client_id", r.ID)
		form.Set("client_secret", r.Secret.Reveal())
	default:
		form.Set("client_id", r.ID)
	}
	return c.send(ctx, m.place, &http.Request{Method: http.MethodPost, URL: u, Header: h}, form.Encode())
}

// token sends a form to the token endpoint.
func (c *Client) token(ctx context.Context, m *Metadata, r Registration, form url.Values) (*Tokens, error) {
	begun := c.now()
	res, err := c.post(ctx, m, r, m.Token, form)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, unavailable(err, "the authorization server of the tool server cannot be reached; try again shortly")
	}
	var out struct {
		Access  string          `json:"access_token"`
		Type    string          `json:"token_type"`
		Refresh string          `json:"refresh_token"`
		Scope   string          `json:"scope"`
		Life    json.RawMessage `json:"expires_in"`
		Error   string          `json:"error"`
	}
	malformed := json.Unmarshal(res.body, &out) != nil
	refused := !malformed && (res.status == http.StatusBadRequest || res.status == http.StatusUnauthorized)
	switch {
	case refused && out.Error == "invalid_grant":
		return nil, ErrRefused
	case refused && (out.Error == "invalid_client" || out.Error == "unauthorized_client"):
		return nil, unavailable(ErrUnknownClient, "the authorization server of the tool server refused the gateway as a client (%s); an admin must check client_id and client_secret of the integration", out.Error)
	case res.status != http.StatusOK:
		return nil, unavailable(nil, "the authorization server of the tool server answered with the status %d; try again shortly", res.status)
	case malformed, !isVisible(out.Access), len(out.Access) > maxToken, len(out.Refresh) > maxToken, !strings.EqualFold(out.Type, "Bearer"):
		return nil, unavailable(nil, "the authorization server of the tool server returned no bearer token")
	}
	t := &Tokens{Access: secret.New(out.Access), Refresh: secret.New(out.Refresh), Scopes: boundScopes(strings.Fields(out.Scope))}
	life, err := strconv.ParseFloat(strings.Trim(string(out.Life), `"`), 64) // some servers send a string
	if err == nil && life > 0 {
		t.Ends = begun.Add(time.Duration(min(life, maxLife.Seconds()) * float64(time.Second)))
	}
	return t, nil
}
