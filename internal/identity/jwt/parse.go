package jwt

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// Limits of a token. Issuers that include group memberships reach a few kilobytes.
const (
	maxToken   = 8 << 10
	maxMembers = 100 // of the header and of the claims, each
	maxText    = 255 // characters of an id
)

// parsed is a parsed token. Nothing in it is verified.
type parsed struct {
	kid          string
	organisation string
	claims       members
	signed       string // header and claims as signed
	signature    []byte
}

// members are the members of a JSON object by their exact names.
type members map[string]json.RawMessage

// parse splits a token and checks its header (RFC 7515, section 4.1).
func parse(token string) (*parsed, error) {
	if len(token) > maxToken {
		return nil, rejected("is longer than 8192 bytes")
	}
	dot := strings.LastIndexByte(token, '.')
	head, body, ok := strings.Cut(token[:max(dot, 0)], ".")
	if !ok || strings.Contains(body, ".") {
		return nil, rejected("does not have three parts with dots between them")
	}
	p := &parsed{signed: token[:dot]}
	if err := p.readHeader(head); err != nil {
		return nil, err
	}
	var err error
	if p.signature, err = decode(token[dot+1:]); err != nil || len(p.signature) == 0 {
		return nil, rejected("has a signature that is not base64url")
	}
	if p.claims, err = object(body); err != nil {
		return nil, rejected("has claims that are not a JSON object in base64url, or have duplicate or too many names")
	}
	p.organisation, err = p.claims.text("gateway_oid", "organisation_id")
	return p, err
}

func (p *parsed) readHeader(part string) error {
	head, err := object(part)
	if err != nil {
		return rejected("has a header that is not a JSON object in base64url, or has duplicate or too many names")
	}
	alg, err := head.text("alg")
	if err != nil || alg != "RS256" {
		return rejected("is not signed by RS256, the one algorithm that is taken (alg)")
	}
	if _, ok := head["crit"]; ok {
		return rejected("requires unknown extensions (crit)")
	}
	p.kid, err = head.text("kid")
	if err == nil && p.kid == "" {
		err = rejected("does not say which key it is signed with (kid)")
	}
	return err
}

// decode decodes base64url without padding.
func decode(part string) ([]byte, error) {
	if strings.ContainsAny(part, "\r\n") { // accepted by package base64
		return nil, errors.New("line breaks")
	}
	return base64.RawURLEncoding.Strict().DecodeString(part)
}

// object decodes a part of a token. A duplicate name is an error, because readers
// disagree on which one is used.
func object(part string) (members, error) {
	text, err := decode(part)
	if err != nil {
		return nil, err
	}
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
