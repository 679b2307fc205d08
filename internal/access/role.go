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

// tokenLength is the length of what follows the prefix.
const tokenLength = 43

// HasToken reports whether text holds what has the form of a gateway key, or of the
// token of a session or link: alone, or as a word of its own.
func HasToken(text string) bool {
	for {
		at := strings.Index(text, "mg")
		if at < 0 {
			return false
		}
		bare := at == 0 || !isTokenByte(text[at-1])
		if text = text[at+len("mg"):]; bare && beginsToken(text) {
			return true
		}
	}
}

// beginsToken reports whether text begins with what follows "mg" in a token.
func beginsToken(text string) bool {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "s"), "l")
	if len(text) < 1+tokenLength || text[0] != '-' {
		return false
	}
	for i := range tokenLength {
		if !isTokenByte(text[1+i]) {
			return false
		}
	}
	return len(text) == 1+tokenLength || !isTokenByte(text[1+tokenLength])
}

func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
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
