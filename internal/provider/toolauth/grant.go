package toolauth

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider/toolserver"
)

// Grant is what a user has at a tool server: tokens, and whom they were given to.
type Grant struct {
	Tokens
	Registration
	SignIn string   // random; another for each sign-in
	URL    string   // of the tool server, which alone gets the tokens
	Asked  []string // scopes that were asked for
	Issued time.Time
}

// storedGrant is a grant as it is sealed.
type storedGrant struct {
	Access  string   `json:"access"`
	Refresh string   `json:"refresh,omitempty"`
	Scopes  []string `json:"scopes,omitempty"`
	Ends    int64    `json:"ends,omitempty"` // Unix time in milliseconds
	Issued  int64    `json:"issued"`
	ID      string   `json:"client_id"`
	Secret  string   `json:"client_secret,omitempty"`
	Method  string   `json:"method"`
	SignIn  string   `json:"sign_in"`
	URL     string   `json:"url"`
	Asked   []string `json:"asked,omitempty"`
}

// Text returns the grant as text to seal.
func (g *Grant) Text() secret.String {
	s := storedGrant{Access: g.Access.Reveal(), Refresh: g.Refresh.Reveal(), Scopes: g.Scopes, Issued: g.Issued.UnixMilli(), ID: g.ID,
		Secret: g.Secret.Reveal(), Method: g.Method, SignIn: g.SignIn, URL: g.URL, Asked: g.Asked}
	if !g.Tokens.Ends.IsZero() {
		s.Ends = g.Tokens.Ends.UnixMilli()
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // it has only texts and numbers
	}
	return secret.New(string(raw))
}

// ParseGrant reads the result of [Grant.Text].
func ParseGrant(text secret.String) (*Grant, error) {
	var s storedGrant
	if json.Unmarshal([]byte(text.Reveal()), &s) != nil {
		return nil, errors.New("the stored tokens cannot be read")
	}
	g := &Grant{Tokens: Tokens{Access: secret.New(s.Access), Refresh: secret.New(s.Refresh), Scopes: s.Scopes},
		Registration: Registration{ID: s.ID, Secret: secret.New(s.Secret), Method: s.Method},
		SignIn:       s.SignIn, URL: s.URL, Asked: s.Asked, Issued: time.UnixMilli(s.Issued)}
	if s.Ends != 0 {
		g.Tokens.Ends = time.UnixMilli(s.Ends)
	}
	return g, nil
}

// Fits reports whether the grant is one for a server as its integration is now. One for another
// address, or of another client, is not.
func (g *Grant) Fits(s *toolserver.Server) bool {
	return s.URL != nil && g.URL == s.URL.String() && (s.OAuth == nil || s.OAuth.ID == "" || s.OAuth.ID == g.ID)
}

// client returns whom the tokens were given to. A secret in the settings may have changed since.
func (g *Grant) client(m *Metadata, s *toolserver.Server) Registration {
	if s.OAuth != nil && s.OAuth.ID == g.ID {
		r, _ := m.FindRegistration(s, "")
		return r
	}
	return g.Registration
}

// IsRegistered reports whether the tokens were given to a client that the gateway registered
// itself.
func (g *Grant) IsRegistered(s *toolserver.Server) bool {
	return (s.OAuth == nil || s.OAuth.ID != g.ID) && !strings.HasSuffix(g.ID, DocumentPath)
}

// maxSkew is how long before its end a token is renewed, at most.
const maxSkew = time.Minute

// RenewAt returns when the access token should be renewed: a little before it ends, since clocks
// differ. Zero is never.
func (g *Grant) RenewAt() time.Time {
	if g.Tokens.Ends.IsZero() {
		return time.Time{}
	}
	return g.Tokens.Ends.Add(-min(maxSkew, g.Tokens.Ends.Sub(g.Issued)/4))
}
