package jwt

import (
	"encoding/json"
	"errors"
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/jws"
)

// Limits of a token. Issuers that include group memberships reach a few kilobytes.
const (
	maxToken   = 8 << 10
	maxMembers = 100 // of the claims
	maxText    = 255 // characters of an id
)

// parsed is a parsed token. Nothing in it is verified.
type parsed struct {
	token        *jws.Token
	organisation string
	claims       members
}

// members are the members of a JSON object by their exact names.
type members map[string]json.RawMessage

// parse parses a token and finds its organisation.
func parse(text string) (*parsed, error) {
	if len(text) > maxToken {
		return nil, rejected("is longer than 8192 bytes")
	}
	token, err := rules().Parse(text)
	switch {
	case errors.Is(err, jws.ErrAlgorithm):
		return nil, rejected("is not signed by RS256, the one algorithm that is taken (alg)")
	case err != nil:
		return nil, rejected(err.Error())
	}
	p := &parsed{token: token}
	if p.claims, err = object(token.Claims); err != nil {
		return nil, rejected(jws.ErrClaims.Error())
	}
	p.organisation, err = p.claims.text("gateway_oid", "organisation_id")
	return p, err
}

// object decodes the claims of a token. A duplicate name is an error, because readers
// disagree on which one is used.
func object(text []byte) (members, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(text); err != nil {
		return nil, err
	}
	if doc.Len() > maxMembers {
		return nil, errors.New("too many names")
	}
	m := make(members, doc.Len())
	for name, value := range doc.Members() {
		m[name.String()] = value.Raw()
	}
	return m, nil
}

// text returns the first non-empty member of names. Each member up to it must be a
// short string without control characters.
func (m members) text(names ...string) (string, error) {
	for _, name := range names {
		raw := m[name]
		if raw == nil {
			continue
		}
		var s string
		if json.Unmarshal(raw, &s) != nil || !plain(s) {
			return "", rejected("has a " + name + " that is not a string of at most 255 characters")
		}
		if s != "" {
			return s, nil
		}
	}
	return "", nil
}

// plain reports whether s is short and can be stored and logged.
func plain(s string) bool {
	return len([]rune(s)) <= maxText && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
