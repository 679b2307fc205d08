package jwt

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/quota"
)

// Limits of metadata, the same as for keys.
const (
	maxMetadata      = 64
	maxMetadataChars = 128
)

// claims are the claims of a token in the gateway's terms. The organisation is read
// earlier, to find the keys.
type claims struct {
	workspace string
	user      string
	issuer    string
	audience  []string
	scopes    []string // nil if the claim is absent
	expires   time.Time
	notBefore time.Time // zero for always
	issuedAt  time.Time // zero if absent
	rates     []quota.Rate

	defaults struct {
		Config        string            `json:"config_id"`
		Metadata      map[string]string `json:"metadata"`
		ResponseModel api.ResponseModel `json:"response_model"`
	}
}

// readClaims decodes the claims of a token with a valid signature.
func readClaims(m members) (*claims, error) {
	c := new(claims)
	for _, read := range []func() error{
		func() (err error) { c.workspace, err = m.text("gateway_workspace", "workspace_slug"); return },
		func() (err error) { c.user, err = m.text("email_id", "sub", "uid"); return },
		func() (err error) { c.issuer, err = m.text("iss"); return },
		func() (err error) { c.audience, err = m.list("aud", singleValue); return },
		func() (err error) { c.expires, err = m.moment("exp"); return },
		func() (err error) { c.notBefore, err = m.moment("nbf"); return },
		func() (err error) { c.issuedAt, err = m.moment("iat"); return },
		func() error { return refuseBudgets(m) },
		func() error { return c.readRates(m) },
		func() error { return c.readScopes(m) },
		func() error { return c.readDefaults(m["defaults"]) },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	if c.expires.IsZero() {
		return nil, rejected("does not say when it ends (exp)")
	}
	return c, nil
}

// refuseBudgets returns an error for a claim of budgets. The spend of a budget is
// counted for stored objects, and the user of a token need not be one.
func refuseBudgets(m members) error {
	list, err := m.array("usage_limits")
	if err == nil && list != nil {
		err = rejected("has usage_limits, which tokens cannot set; leave the claim out, and set the budget of the user with this e-mail address")
	}
	return err
}

// maxRates is the limit of rate limits in a claim: one for each type and unit.
const maxRates = 10

// readRates reads the rate limits, which need a user to hold them.
func (c *claims) readRates(m members) error {
	raw, err := m.array("rate_limits")
	if err != nil || raw == nil {
		return err
	}
	good := json.Unmarshal(raw, &c.rates) == nil && len(c.rates) <= maxRates
	seen := make(map[[2]string]bool)
	for _, r := range c.rates {
		of := [2]string{r.Type, r.Unit}
		good = good && (r.Type == quota.Requests.String() || r.Type == quota.Tokens.String()) && quota.Window(r.Unit) != 0 && r.Value >= 1 &&
			r.Value <= quota.MaxLimit && !seen[of]
		seen[of] = true
	}
	if !good {
		return rejected("has rate_limits that are not an array of at most 10 different {type, unit, value}: requests or tokens, per rps, rpm, rph, rpd or rpw, from 1")
	}
	if c.user == "" {
		return rejected("has rate_limits but no user (email_id, sub or uid)")
	}
	return nil
}

// limits returns the rate limits, which all tokens of the user share.
func (c *claims) limits(organisation string) (list []*quota.Limit) {
	for _, r := range c.rates {
		list = append(list, r.Limit(quota.Holder{Kind: "user", ID: organisation + "/" + keyID(c.account()), Name: c.user}))
	}
	return list
}

// account returns the user as accounts are named if the claim is an e-mail address, whose
// capitals do not matter. Those of other names may.
func (c *claims) account() string {
	if address, err := access.ParseEmail(c.user); err == nil {
		return address
	}
	return c.user
}

// readScopes merges both spellings of the claim.
func (c *claims) readScopes(m members) error {
	for _, name := range []string{"scope", "scopes"} {
		words, err := m.list(name, strings.Fields)
		if err != nil {
			return err
		}
		if m[name] != nil && c.scopes == nil { // an empty claim is a claim
			c.scopes = []string{}
		}
		c.scopes = append(c.scopes, words...)
	}
	return nil
}

func (c *claims) readDefaults(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	d := &c.defaults
	good := json.Unmarshal(raw, d) == nil && plain(d.Config) && len(d.Metadata) <= maxMetadata
	for name, value := range d.Metadata {
		good = good && name != "" && plain(name) && plain(value) && len([]rune(name)) <= maxMetadataChars &&
			len([]rune(value)) <= maxMetadataChars
	}
	if !good {
		return rejected("has defaults that are not {config_id, metadata, response_model} with strings of at most 128 characters")
	}
	if m := d.ResponseModel; m != "" && m != api.ModelRequested && m != api.ModelServed {
		return rejected("has a response_model in its defaults that is neither requested nor served")
	}
	return nil
}

// names reports whether the token is intended for this audience.
func (c *claims) names(audience string) bool { return slices.Contains(c.audience, audience) }

// list decodes a member that is an array of strings or a string, which split splits.
func (m members) list(name string, split func(string) []string) ([]string, error) {
	raw := m[name]
	if raw == nil {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return split(one), nil
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return nil, rejected("has a " + name + " that is neither a string nor an array of strings")
	}
	return list, nil
}

func singleValue(s string) []string { return []string{s} }

// moment decodes a time in Unix seconds. An absent time is zero.
func (m members) moment(name string) (time.Time, error) {
	const last = 253402300799 // in the year 9999
	raw := m[name]
	if raw == nil {
		return time.Time{}, nil
	}
	var seconds float64
	if json.Unmarshal(raw, &seconds) != nil || seconds < 1 || seconds > last {
		return time.Time{}, rejected("has a " + name + " that is not a time in Unix seconds")
	}
	return time.Unix(int64(seconds), 0).UTC(), nil
}

// array returns a member that is an array unchanged, nil if it is absent or empty.
func (m members) array(name string) (json.RawMessage, error) {
	var list []json.RawMessage
	if raw := m[name]; raw != nil && (json.Unmarshal(raw, &list) != nil) {
		return nil, rejected("has " + name + " that is not an array")
	}
	if len(list) == 0 {
		return nil, nil
	}
	return m[name], nil
}

// identity returns the identity that a valid token proves, like that of a key of its
// workspace.
func (by *issuer) identity(c *claims, w *Workspace, hash access.Hash) *access.Identity {
	metadata := c.defaults.Metadata
	if len(w.Metadata) > 0 {
		metadata = make(map[string]string, len(w.Metadata)+len(c.defaults.Metadata))
		maps.Copy(metadata, c.defaults.Metadata)
		maps.Copy(metadata, w.Metadata)
	}
	return &access.Identity{
		KeyID: keyID(c.user), Type: access.Token, Name: c.user, Hash: hash, Organisation: by.Organisation, Workspace: w.ID,
		Scopes: by.allowedScopes(c.scopes), Config: c.defaults.Config, Metadata: metadata, ExpiresAt: c.expires,
		Logging: w.Logging, ResponseModel: c.defaults.ResponseModel,
		Limits: c.limits(by.Organisation), Claims: &access.Claims{User: c.user, IssuedAt: c.issuedAt},
	}
}

// keyID returns what a user's tokens have instead of a key id. It is neither the id of
// a key nor of a user in the store.
func keyID(user string) string {
	if user == "" {
		return "jwt"
	}
	return "jwt:" + user
}

// UserOf returns the user in the key id of a token, and false for another key id or a
// token without a user.
func UserOf(keyID string) (user string, ok bool) { return strings.CutPrefix(keyID, "jwt:") }

// allowedScopes returns the scopes among words that a workspace key may have. Words
// that are not scopes, which issuers use for other applications, and scopes for
// everything are ignored.
func (by *issuer) allowedScopes(words []string) []access.Scope {
	if words == nil {
		return by.Scopes
	}
	list := []access.Scope{}
	for _, word := range words {
		s, err := access.ParseScope(word)
		if err == nil && s != access.ScopeAll && s.CheckHolder(access.Token) == nil && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}
