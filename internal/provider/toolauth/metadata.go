package toolauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider/toolserver"
)

// Metadata is what is known of the authorization server of a tool server. It is immutable.
type Metadata struct {
	// Issuer identifies the authorization server, byte for byte. If the settings of the server
	// have the endpoints, it is the address of the token endpoint.
	Issuer string
	// Resource is what tokens are for (RFC 8707).
	Resource string

	Authorize, Token, Register, Revoke string // endpoints; empty if there is none

	Documents      bool     // clients may have the address of a document as id
	NamesIssuer    bool     // responses have the issuer (RFC 9207)
	TokenMethods   []string // with which clients authenticate; empty is client_secret_basic
	ResourceScopes []string // that the tool server asks for; empty for none

	offline bool // refresh tokens have a scope of their own
	place   place
}

// Limits of what is remembered of authorization servers.
const (
	documentTime = 10 * time.Minute
	failureTime  = 5 * time.Second
	maxDocuments = 1000
	maxIssuers   = 3 // of a tool server, that are tried
)

// documents remembers what was found.
type documents struct {
	mu    sync.Mutex
	known map[documentKey]*document // guarded by mu
}

// documentKey is everything that what is found depends on.
type documentKey struct{ server, address, token, authorize, issuer string }

type document struct {
	turn     chan struct{} // holds a token while nobody asks
	metadata *Metadata     // read and written by who took the token, like the following
	err      error
	until    time.Time
}

func (d *documents) entry(key documentKey) *document {
	d.mu.Lock()
	defer d.mu.Unlock()
	if doc := d.known[key]; doc != nil {
		return doc
	}
	if d.known == nil {
		d.known = make(map[documentKey]*document)
	}
	for other := range d.known { // any: it is fetched again when it is needed
		if len(d.known) < maxDocuments {
			break
		}
		delete(d.known, other)
	}
	doc := &document{turn: make(chan struct{}, 1)}
	doc.turn <- struct{}{}
	d.known[key] = doc
	return doc
}

// Discover returns the authorization server of a tool server: as its settings name it, or as
// its documents do. One of several callers asks, and the result is remembered for some minutes.
// Errors are *apierr.Error, except for those of a context that ended.
func (c *Client) Discover(ctx context.Context, s *toolserver.Server, allow Allow) (*Metadata, error) {
	return c.Find(ctx, s, "", allow)
}

// Find is [Client.Discover] for the authorization server with an issuer; empty is any. It returns
// [ErrRefused] if the settings or a document of the tool server name others only.
func (c *Client) Find(ctx context.Context, s *toolserver.Server, issuer string, allow Allow) (*Metadata, error) {
	key := documentKey{server: s.ID, address: s.URL.String(), issuer: issuer}
	if s.OAuth != nil {
		key.token, key.authorize = s.OAuth.TokenURL, s.OAuth.AuthorizeURL
	}
	doc := c.documents.entry(key)
	select {
	case <-doc.turn:
		defer func() { doc.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.now().Before(doc.until) {
		return doc.metadata, doc.err
	}
	metadata, err := c.discover(ctx, s, issuer, place{guarded: s.Guarded, insecure: s.URL.Scheme == "http", allow: allow})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	doc.metadata, doc.err, doc.until = metadata, err, c.now().Add(documentTime)
	if err != nil {
		doc.until = c.now().Add(failureTime)
	}
	return metadata, err
}

func (c *Client) discover(ctx context.Context, s *toolserver.Server, wanted string, p place) (*Metadata, error) {
	m := &Metadata{Resource: s.URL.String(), place: p}
	if o := s.OAuth; o != nil && o.TokenURL != "" {
		if m.Issuer, m.Token, m.Authorize = o.TokenURL, o.TokenURL, o.AuthorizeURL; wanted != "" && wanted != m.Issuer {
			return nil, ErrRefused
		}
		return m, m.check(s)
	}
	found, err := c.findResource(ctx, s, p)
	if err != nil {
		return nil, unavailable(err, "the tool server %s does not say where to sign in; set authorization_url and token_url in its integration", s.Slug)
	}
	issuers := []string{s.URL.Scheme + "://" + s.URL.Host} // of servers up to 2025-03-26, which have no document of their own
	if found != nil {
		m.Resource, m.ResourceScopes, issuers = found.Resource, found.Scopes, found.Servers
	}
	if wanted != "" {
		if found != nil && !slices.Contains(issuers, wanted) {
			return nil, ErrRefused
		}
		if !slices.Contains(issuers, wanted) { // a document that is away may come back
			return nil, unavailable(nil, "the tool server %s does not say where to sign in; try again shortly", s.Slug)
		}
		issuers = []string{wanted}
	}
	for _, issuer := range issuers[:min(len(issuers), maxIssuers)] {
		if err = c.findServer(ctx, p, m, issuer); err == nil {
			err = m.check(s)
		}
		if err == nil {
			return m, nil
		}
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return nil, e
	}
	return nil, unavailable(err, "the authorization server of the tool server %s has no valid metadata; set authorization_url and token_url in the integration", s.Slug)
}

// resource is a document of RFC 9728.
type resource struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// findResource returns the document of the tool server: at the address in its challenge, or at
// one of the well-known ones. It is nil if there is none.
func (c *Client) findResource(ctx context.Context, s *toolserver.Server, p place) (*resource, error) {
	challenge, err := c.challenge(ctx, s, p)
	if err != nil {
		return nil, err
	}
	const wellKnown = "/.well-known/oauth-protected-resource"
	root := s.URL.Scheme + "://" + s.URL.Host + wellKnown
	candidates := []string{root + strings.TrimSuffix(s.URL.EscapedPath(), "/"), root}
	if named := challenge["resource_metadata"]; named != "" {
		candidates = []string{named}
	}
	for _, address := range slices.Compact(candidates) {
		res, err := c.get(ctx, p, address)
		if err != nil {
			return nil, err
		}
		if missing, err := res.isMissing(); err != nil {
			return nil, err
		} else if missing {
			continue
		}
		var r resource
		if json.Unmarshal(res.body, &r) != nil {
			return nil, errors.New("the document of the tool server is not a JSON object")
		}
		if !covers(r.Resource, s.URL) {
			return nil, errors.New("the document of the tool server is about another address")
		}
		if len(r.Servers) == 0 {
			return nil, errors.New("the document of the tool server names no authorization server")
		}
		if scope := challenge["scope"]; scope != "" {
			r.Scopes = strings.Fields(scope)
		}
		r.Scopes = boundScopes(r.Scopes)
		return &r, nil
	}
	if challenge["resource_metadata"] != "" {
		return nil, errors.New("the document that the tool server names does not exist")
	}
	return nil, nil
}

// challenge asks the tool server without a credential, and returns the parameters of its
// challenge.
func (c *Client) challenge(ctx context.Context, s *toolserver.Server, p place) (map[string]string, error) {
	u, err := p.parse(s.URL.String())
	if err != nil {
		return nil, err
	}
	h := http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}}
	for name, value := range s.Headers {
		h[name] = []string{value.Reveal()}
	}
	res, err := c.send(ctx, p, &http.Request{Method: http.MethodPost, URL: u, Header: h}, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if err != nil {
		return nil, err
	}
	if res.status != http.StatusUnauthorized {
		return nil, nil
	}
	return Challenge(strings.Join(res.header["Www-Authenticate"], ", ")), nil
}

// covers reports whether the resource of a document is the address of a server, or one above it
// on the same host.
func covers(text string, server *url.URL) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != server.Scheme || !strings.EqualFold(u.Host, server.Host) || u.Fragment != "" || u.User != nil {
		return false
	}
	above, path := strings.TrimSuffix(u.EscapedPath(), "/"), server.EscapedPath()
	return above == "" || path == above || strings.HasPrefix(path, above+"/")
}

// findServer fills m with the metadata of an authorization server (RFC 8414, OpenID Connect
// Discovery).
func (c *Client) findServer(ctx context.Context, p place, m *Metadata, issuer string) error {
	u, err := p.parse(issuer)
	if err != nil {
		return err
	}
	root, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	candidates := []string{root + "/.well-known/oauth-authorization-server" + path, root + "/.well-known/openid-configuration" + path}
	if path != "" {
		candidates = append(candidates, root+path+"/.well-known/openid-configuration")
	}
	for _, address := range candidates {
		res, err := c.get(ctx, p, address)
		if err != nil {
			return err
		}
		if missing, err := res.isMissing(); err != nil {
			return err
		} else if missing {
			continue
		}
		var d struct {
			Issuer       string   `json:"issuer"`
			Authorize    string   `json:"authorization_endpoint"`
			Token        string   `json:"token_endpoint"`
			Register     string   `json:"registration_endpoint"`
			Revoke       string   `json:"revocation_endpoint"`
			Documents    bool     `json:"client_id_metadata_document_supported"`
			NamesIssuer  bool     `json:"authorization_response_iss_parameter_supported"`
			Challenges   []string `json:"code_challenge_methods_supported"`
			TokenMethods []string `json:"token_endpoint_auth_methods_supported"`
			Scopes       []string `json:"scopes_supported"`
		}
		if json.Unmarshal(res.body, &d) != nil {
			return errors.New("the metadata of the authorization server are not a JSON object")
		}
		if d.Issuer != issuer {
			return errors.New("the metadata of the authorization server are of another issuer")
		}
		m.Issuer, m.Authorize, m.Token, m.Register, m.Revoke = d.Issuer, d.Authorize, d.Token, d.Register, d.Revoke
		m.Documents, m.NamesIssuer, m.TokenMethods = d.Documents, d.NamesIssuer, d.TokenMethods
		m.offline = slices.Contains(d.Scopes, offline)
		if !slices.Contains(d.Challenges, "S256") {
			m.Authorize = "" // nobody may sign in there without PKCE
		}
		return nil
	}
	return errors.New("the authorization server has no metadata")
}

// check returns an error for endpoints that cannot be used.
func (m *Metadata) check(s *toolserver.Server) error {
	if m.Token == "" {
		return errors.New("the authorization server has no token endpoint")
	}
	if m.Authorize == "" && s.Auth == toolserver.AuthUser {
		return apierr.New(apierr.UpstreamFailed, "the authorization server of the tool server %s cannot sign users in: it announces no PKCE with S256, or has no authorization endpoint; set authorization_url and token_url in the integration", s.Slug).
			WithCode("tool_server_sign_in_failed")
	}
	for _, address := range [...]string{m.Authorize, m.Token, m.Register, m.Revoke} {
		if address == "" {
			continue
		}
		if _, err := m.place.parse(address); err != nil {
			return err
		}
	}
	return nil
}

// CheckToken returns an error if requests may not go to the token endpoint now.
func (m *Metadata) CheckToken() error {
	_, err := m.place.parse(m.Token)
	return err
}
