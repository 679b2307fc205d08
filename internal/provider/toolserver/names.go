package toolserver

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the limit of a name that clients see, in bytes: some drop longer ones, and
// providers of models refuse those of more than 64.
const maxName = 60

// separator is between the slug of a server and the name of its tool.
const separator = "__"

// OuterName returns the name under which clients see a tool or prompt of a server: with the
// slug of the server in front if prefixed. A name that is too long, or has characters that
// providers of models refuse, is replaced by a part of it and a digest, always the same.
func OuterName(slug, name string, prefixed bool) string {
	out := name
	if prefixed {
		out = slug + separator + name
	}
	if len(out) <= maxName && hasPlainChars(out) {
		return out
	}
	sum := sha256.Sum256([]byte(slug + "\x00" + name))
	end := "_" + hex.EncodeToString(sum[:digestBytes])
	out = strings.Map(func(r rune) rune {
		if hasPlainChars(string(r)) {
			return r
		}
		return '_'
	}, out)
	return out[:min(len(out), maxName-len(end))] + end
}

// CutPrefix returns what may be the name of a tool of a server in a name that clients see,
// and false if it lacks the prefix of the server.
func CutPrefix(slug, outer string) (name string, ok bool) {
	return strings.CutPrefix(outer, slug+separator)
}

const digestBytes = 5

// MayBeReplaced reports whether a name that clients see may be in place of another: it ends as
// names do that [OuterName] has replaced.
func MayBeReplaced(outer string) bool {
	at := len(outer) - 2*digestBytes - 1
	if at < 0 || outer[at] != '_' {
		return false
	}
	_, err := hex.DecodeString(outer[at+1:])
	return err == nil
}

// hasPlainChars reports whether a name has only characters that every client and provider takes.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-names
func hasPlainChars(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return name != ""
}
