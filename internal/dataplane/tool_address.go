package dataplane

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/snapshot"
)

const (
	// serverTokenTime is how long a provider may use the credential for a tool server. It outlasts
	// most responses, in which models call tools several times.
	serverTokenTime = 30 * time.Minute
	// maxServerToken limits the credential, which providers send in a header.
	maxServerToken = 6 << 10
)

// serverToken is what the credential says that a provider gets for a tool server of the gateway:
// for whom and for which address it is. It is sealed, and never has a gateway key in it.
type serverToken struct {
	Key     []byte `json:"k,omitempty"` // the hash of the gateway key, or
	Token   string `json:"t,omitempty"` // the token of the caller, which expires by itself
	Slug    string `json:"s"`
	Expires int64  `json:"e"` // in Unix seconds
	Trace   string `json:"r"` // of the request in which the model calls tools
}

// toolServers are those that the caller of a request may let providers call. It implements
// [exchange.ToolServers].
type toolServers struct{ a *admission }

// Address implements [exchange.ToolServers].
func (t toolServers) Address(slug string) (address string, credential secret.String, err error) {
	a, p := t.a, t.a.plane
	id, public := a.request.Identity, ""
	if p.PublicURL != nil {
		public = p.PublicURL()
	}
	refuse := func(kind apierr.Kind, code, format string, args ...any) (string, secret.String, error) {
		return "", credential, apierr.New(kind, "the tool server modelgate://%.100s cannot be used: "+format, append([]any{slug}, args...)...).
			WithParam("tools").WithCode(code)
	}
	switch {
	case public == "":
		return refuse(apierr.Invalid, "tool_server_unreachable", "providers need an address of this gateway; set public_url")
	case !id.Allows(access.ScopeTools):
		return refuse(apierr.Forbidden, "tool_server_scope", "this gateway key lacks the scope %q", access.ScopeTools)
	case len(id.AllowedAddresses) > 0:
		return refuse(apierr.Forbidden, "tool_server_addresses", "this gateway key may be used from some addresses only, and the provider would use it from another")
	case slug == "" || p.Tools.CheckServer(a.snap, id, slug) != nil:
		return refuse(apierr.NotFound, "tool_server_not_found", "there is none that this key may use; GET /v0.1/servers lists those that it may")
	}
	says := serverToken{Slug: slug, Expires: time.Now().Add(serverTokenTime).Unix(), Trace: a.request.TraceID}
	if _, err := a.snap.KeyOwner(id.Hash, time.Now()); err == nil {
		says.Key = id.Hash[:]
	} else if says.Token = a.request.Received.Key.Reveal(); says.Token == "" {
		return refuse(apierr.Invalid, "tool_server_caller", "this request was not made with a gateway key")
	}
	text, err := sealServerToken(p.Box, says)
	if err != nil {
		return "", credential, err
	}
	if len(text) > maxServerToken {
		return refuse(apierr.Invalid, "tool_server_caller", "the token of this request is too long to make a credential of it; use a gateway key")
	}
	return public + "/mcp/" + slug, secret.New(text), nil
}

// serverTokenOwner returns for whom the credential of a provider for the tool server with a slug
// is. It returns false for another credential. The request joins the trace in which the model
// calls tools, unless it names one.
func (a *admission) serverTokenOwner(s *snapshot.Snapshot, slug string, now time.Time) (id *access.Identity, ok bool, err error) {
	h := a.request.Received.Header
	key, _ := s.Credential(h)
	text, ok := strings.CutPrefix(key, access.ServerTokenPrefix)
	if !ok {
		return nil, false, nil
	}
	refused := func(code, message string) (*access.Identity, bool, error) {
		return nil, true, apierr.New(apierr.Unauthenticated, "%s", message).WithParam("authorization").WithCode(code)
	}
	var says serverToken
	switch err := openServerToken(a.plane.Box, text, &says); {
	case err != nil:
		return refused("", "the credential for the tool server is unknown")
	case says.Slug != slug:
		return refused("wrong_audience", "the credential is for another tool server")
	case now.Unix() >= says.Expires:
		return refused("expired_access_token", "the credential for the tool server has expired; models get one with each request")
	}
	owner := new(access.Identity)
	if says.Token != "" {
		owner, err = s.Token(says.Token, now)
	} else {
		var hash access.Hash
		copy(hash[:], says.Key)
		owner, err = s.KeyOwner(hash, now)
	}
	if err != nil {
		return nil, true, err
	}
	own := *owner
	if end := time.Unix(says.Expires, 0); own.ExpiresAt.IsZero() || end.Before(own.ExpiresAt) {
		own.ExpiresAt = end
	}
	if says.Trace != "" && len(h[api.HeaderTraceID])+len(h[api.HeaderTraceParent]) == 0 {
		h[api.HeaderTraceID] = []string{says.Trace}
	}
	return &own, true, nil
}

// sealServerToken returns the credential that says something.
func sealServerToken(box *secret.Box, says serverToken) (string, error) {
	raw, err := json.Marshal(says)
	if err != nil {
		return "", err
	}
	sealed := box.Seal(secret.New(string(raw)))
	return access.ServerTokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(sealed)), nil
}

// openServerToken reads what a credential says, without its prefix.
func openServerToken(box *secret.Box, text string, says *serverToken) error {
	if len(text) > maxServerToken {
		return errors.New("too long")
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	raw, err := box.Open(string(sealed))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(raw.Reveal()), says)
}
