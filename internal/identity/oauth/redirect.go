package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// maxURI is the limit of an address that a client names, in bytes.
const maxURI = 2000

// refusedSchemes are those at whose addresses a browser runs or shows what the address says, or
// that lead to no program of a client.
var refusedSchemes = []string{
	"javascript", "data", "vbscript", "file", "filesystem", "blob", "about", "view-source", "ws", "wss", "ftp", "mailto", "tel", "sms",
	"intent", "chrome", "edge", "resource", "jar",
}

// checkRedirectURI returns an error for an address that codes must not be sent to: it must be
// https, http on the client's own host, or a scheme of a program (RFC 8252, section 7).
func checkRedirectURI(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxURI || strings.ContainsFunc(text, isUnsafe):
		return errors.New("it is not an address, or is too long")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return errors.New("it must not have a fragment")
	case u.User != nil:
		return errors.New("it must not have a user")
	case u.Scheme == "https" && u.Hostname() != "", u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	case u.Scheme == "http", u.Scheme == "https":
		return errors.New("it must be https, or http on 127.0.0.1, [::1] or localhost")
	case u.Scheme == "" || slices.Contains(refusedSchemes, u.Scheme):
		return errors.New("it must be https, or have the scheme of a program")
	}
	return nil
}

// isUnsafe reports whether r has no place in an address, which could end it in a header or in a
// page.
func isUnsafe(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\\\"'<>`{}|^", r) }

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// isLoopbackURI reports whether a redirect URI leads to the host of the browser, where any program
// may receive the code.
func isLoopbackURI(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Scheme == "http" && isLoopback(u.Hostname())
}

// MatchesRedirect reports whether uri is one of those of a client, byte for byte. The port of an
// address of the client's own host may differ (RFC 8252, section 7.3).
func MatchesRedirect(registered []string, uri string) bool {
	if checkRedirectURI(uri) != nil {
		return false
	}
	return slices.ContainsFunc(registered, func(own string) bool {
		if own == uri {
			return true
		}
		a, err := url.Parse(own)
		b, err2 := url.Parse(uri)
		return err == nil && err2 == nil && isLoopbackURI(own) && isLoopbackURI(uri) && a.User == nil &&
			a.Hostname() == b.Hostname() && a.EscapedPath() == b.EscapedPath() && a.RawQuery == b.RawQuery && a.ForceQuery == b.ForceQuery
	})
}

// RedirectTo returns the address to which a browser takes the response of the authorization
// endpoint, with the parameters added to the query that uri has.
func RedirectTo(uri string, parameters url.Values) string {
	separator := "?"
	if strings.Contains(uri, "?") {
		separator = "&"
	}
	return uri + separator + parameters.Encode()
}

// challengeLength is the length of the SHA-256 of a verifier.
const challengeLength = 43

// IsChallenge reports whether text can be a code challenge of the method S256.
func IsChallenge(text string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(text) == challengeLength && len(b) == sha256.Size
}

// MatchesChallenge reports whether a verifier is the one of a challenge (RFC 7636, section 4.6).
func MatchesChallenge(challenge, verifier string) bool {
	if len(verifier) < 43 || len(verifier) > 128 || strings.ContainsFunc(verifier, func(r rune) bool {
		return r > '~' || !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~", r))
	}) {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}
