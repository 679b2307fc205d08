package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/identity/access"
)

// token is the session of a client of the legacy era. It is sealed into the session's id, so
// that every node with the same master key serves it, also after a restart.
type token struct {
	Caller  string `json:"c"` // see callerOf
	Slug    string `json:"s,omitempty"`
	Version string `json:"v"` // negotiated
	Begun   int64  `json:"t"` // Unix time in seconds

	Info         json.RawMessage `json:"i,omitempty"`
	Capabilities json.RawMessage `json:"p,omitempty"`

	// Servers are the sessions that began with it, by id of the server.
	Servers map[string]tokenSession `json:"u,omitempty"`

	id string // as the client sends it; not sealed
}

type tokenSession struct {
	ID      string `json:"i,omitempty"`
	Version string `json:"v,omitempty"`
}

// Limits of sessions of clients.
const (
	tokenPrefix   = "mgs_"
	tokenLifetime = 7 * 24 * time.Hour
	// maxDeclared is the limit of what a client says of itself, in bytes.
	maxDeclared = 4 << 10
	// maxToken is the limit of a session's id, in bytes: servers in front of the gateway
	// refuse longer headers.
	maxToken = 7 << 10
)

// callerOf names a caller.
func callerOf(id *access.Identity) string { return id.Holder() }

// seal returns the token as the id of a session. Sessions of servers that do not fit are left
// out: the gateway begins others when they are used.
func (t *token) seal(box *secret.Box) string {
	for {
		text := sealJSON(box, tokenPrefix, t)
		if len(text) <= maxToken || len(t.Servers) == 0 {
			t.id = text
			return text
		}
		for id := range t.Servers {
			delete(t.Servers, id)
			break
		}
	}
}

// openToken returns the session with an id, and false for one that is unknown: another
// caller's, one of another address, one that has expired or was altered.
func openToken(box *secret.Box, id, caller, slug string, now time.Time) (*token, bool) {
	t := &token{id: id}
	if !openJSON(box, tokenPrefix, id, 2*maxToken, t) {
		return nil, false
	}
	age := now.Sub(time.Unix(t.Begun, 0))
	return t, t.Caller == caller && t.Slug == slug && age < tokenLifetime
}

// digest names the session in memory.
func (t *token) digest() string {
	sum := sha256.Sum256([]byte(t.id))
	return hex.EncodeToString(sum[:16])
}

// session returns the session of a server that began with the token.
func (t *token) session(server string) (peer.Session, bool) {
	s, ok := t.Servers[server]
	return peer.Session{ID: s.ID, Version: s.Version}, ok
}
