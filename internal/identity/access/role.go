package access

import (
	"crypto/rand"
	"encoding/base64"
	"strings"

	"modelgate/internal/base/secret"
)

// Prefixes of session, link and directory tokens, which distinguish them from keys.
const (
	sessionPrefix   = "mgs-"
	linkPrefix      = "mgl-"
	directoryPrefix = "mgd-"
)

// NewSessionToken returns a new token with 256 random bits.
func NewSessionToken() secret.String { return fresh(sessionPrefix) }

// NewLinkToken returns a new token with 256 random bits for a link that can be used
// once.
func NewLinkToken() secret.String { return fresh(linkPrefix) }

// NewDirectoryToken returns a new token with 256 random bits for the directory of an
// organisation.
func NewDirectoryToken() secret.String { return fresh(directoryPrefix) }

// IsDirectoryToken reports whether text looks like the token of a directory.
func IsDirectoryToken(text string) bool { return strings.HasPrefix(text, directoryPrefix) }

func fresh(prefix string) secret.String {
	var b [32]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return secret.New(prefix + base64.RawURLEncoding.EncodeToString(b[:]))
}

// tokenLength is the length of a token without its prefix.
const tokenLength = 43

// HasToken reports whether text is or contains, as a separate word, something that
// looks like a gateway key, one of a workload, the token of a session, link or directory, or a
// token or code of a client.
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

// beginsToken reports whether text begins with the part of a token after "mg".
func beginsToken(text string) bool {
	for _, prefix := range [...]string{workloadPrefix, accessPrefix} {
		if rest, ok := strings.CutPrefix(text, strings.TrimPrefix(prefix, "mg")); ok {
			payload, _, _ := strings.Cut(rest, ".")
			return len(payload) >= tokenLength && strings.IndexFunc(payload, func(r rune) bool { return r > '~' || !isTokenByte(byte(r)) }) < 0
		}
	}
	if len(text) > 0 && strings.IndexByte("sldo", text[0]) >= 0 {
		text = text[1:]
	}
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

// SessionCookie is the name of the cookie with a session's token.
const SessionCookie = "mg_login"

// IsSessionToken reports whether text looks like a session token.
func IsSessionToken(text string) bool { return strings.HasPrefix(text, sessionPrefix) }

// RoleScopes returns the scopes of a session by the user's role in the organisation:
// all for the owner and admins, those of workspaces for a member, whose role in each
// workspace limits them further.
func RoleScopes(role string) []Scope {
	switch role {
	case "owner", "admin":
		return Scopes(Session)
	case "member":
		return Scopes(WorkspaceService)
	}
	return nil
}
