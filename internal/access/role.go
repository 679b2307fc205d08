package access

import (
	"crypto/rand"
	"encoding/base64"
	"strings"

	"modelgate/internal/secret"
)

// What begins the tokens of sessions and of links, so that they are told from
// keys.
const (
	sessionPrefix = "mgs-"
	linkPrefix    = "mgl-"
)

// NewSessionToken returns a fresh token of 256 random bits.
func NewSessionToken() secret.String { return fresh(sessionPrefix) }

// NewLinkToken returns a fresh token of 256 random bits for a link that counts
// once.
func NewLinkToken() secret.String { return fresh(linkPrefix) }

func fresh(prefix string) secret.String {
	var b [32]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return secret.New(prefix + base64.RawURLEncoding.EncodeToString(b[:]))
}

// IsSessionToken reports whether text has the form of a session's token.
func IsSessionToken(text string) bool { return strings.HasPrefix(text, sessionPrefix) }

// RoleScopes returns what a session may do by its person's role in the
// organisation: everything for the owner and admins. A member may do what
// workspaces have, as far as their role in each goes.
func RoleScopes(role string) []Scope {
	switch role {
	case "owner", "admin":
		return Scopes(Session)
	case "member":
		return Scopes(WorkspaceService)
	}
	return nil
}
