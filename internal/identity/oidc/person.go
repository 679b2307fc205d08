package oidc

import (
	"net/url"
	"strings"
	"time"
)

// Person is whom an ID token describes.
type Person struct {
	Issuer  string
	Subject string

	Email     string // as the provider writes it; may be empty
	Proved    bool   // the provider vouches that the address is the person's
	Domain    string // that the provider manages and the person belongs to, in lower case; empty if it names none
	FirstName string
	LastName  string

	Groups      []string // names or ids
	GroupsKnown bool     // false if the token does not have all groups: then none may be taken away

	Session  string    // the provider's id of its session (sid); may be empty
	SignedIn time.Time // when the person authenticated; zero if unknown
	Methods  []string  // how (amr)
	Class    string    // how strongly (acr)
}

// maxGroups and maxGroup bound what a token may claim: groups, and bytes of one's name.
const (
	maxGroups = 2000
	maxGroup  = 255
)

type claims struct{ raw map[string]any }

func (c *claims) text(name string) string {
	s, _ := c.raw[name].(string)
	return strings.TrimSpace(s)
}

// is reports whether a claim is true, however the provider writes it.
func (c *claims) is(name string) bool {
	switch v := c.raw[name].(type) {
	case bool:
		return v
	case string:
		return strings.EqualFold(v, "true") || v == "1"
	case float64:
		return v == 1
	}
	return false
}

func (c *claims) time(name string) time.Time {
	if v, ok := c.raw[name].(float64); ok && v > 0 && v < 1<<40 {
		return time.Unix(int64(v), 0)
	}
	return time.Time{}
}

func (c *claims) after(name string, limit time.Time) bool {
	at := c.time(name)
	return !at.IsZero() && at.After(limit)
}

// complete reports whether the ID token has what a sign-in needs.
func (c *claims) complete(groups string) bool {
	return c.text("email") != "" && (groups == "" || c.at(groups) != nil || c.overflows(groups))
}

// at returns the claim at a path. A name with dots in it takes precedence over a nested
// claim.
func (c *claims) at(path string) any {
	if v, ok := c.raw[path]; ok {
		return v
	}
	var v any = c.raw
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// overflows reports whether the token says that groups are too many for it, as Microsoft
// Entra does above 200.
// https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference
func (c *claims) overflows(path string) bool {
	names, _ := c.raw["_claim_names"].(map[string]any)
	_, distributed := names[path]
	return distributed || c.is("hasgroups")
}

// groups returns the groups at a path, and whether they are all.
func (c *claims) groups(path string) (list []string, known bool) {
	if path == "" || c.overflows(path) {
		return nil, false
	}
	switch v := c.at(path).(type) {
	case string:
		list = []string{v}
	case []any:
		for _, e := range v {
			if name, ok := e.(string); ok {
				list = append(list, name)
			}
		}
	default:
		return nil, false
	}
	if len(list) > maxGroups {
		return nil, false
	}
	kept := list[:0]
	for _, name := range list {
		if name = strings.TrimSpace(name); name != "" && len(name) <= maxGroup {
			kept = append(kept, name)
		}
	}
	return kept, true
}

// person returns whom the claims describe.
func (c *claims) person(issuer, subject string, set *Settings) Person {
	p := Person{
		Issuer: issuer, Subject: subject, Email: c.text("email"), FirstName: cut(c.text("given_name")), LastName: cut(c.text("family_name")),
		Session: c.text("sid"), SignedIn: c.time("auth_time"), Class: c.text("acr"),
	}
	if p.FirstName == "" && p.LastName == "" {
		p.FirstName, p.LastName, _ = strings.Cut(cut(c.text("name")), " ")
	}
	p.Groups, p.GroupsKnown = c.groups(set.GroupsClaim)
	methods, _ := c.raw["amr"].([]any)
	for _, m := range methods {
		if name, ok := m.(string); ok && len(p.Methods) < 20 {
			p.Methods = append(p.Methods, name)
		}
	}
	p.Proved, p.Domain = c.proved(issuer, p.Email)
	return p
}

func cut(name string) string {
	if len(name) > maxGroup {
		name = strings.ToValidUTF8(name[:maxGroup], "")
	}
	return name
}

// Hosts of issuers whose e-mail addresses are proved by other claims than
// email_verified.
const (
	google   = "accounts.google.com"
	entra    = "login.microsoftonline.com"
	entraOld = "sts.windows.net"
)

// proved reports whether the provider vouches for the address, and the domain that the
// person belongs to. At Google, that is the claim hd and not the address's domain; at
// Microsoft Entra, an address is whatever its tenant's administrator wrote unless the
// domain's owner is verified (xms_edov).
func (c *claims) proved(issuer, email string) (proved bool, domain string) {
	host := issuer
	if u, err := url.Parse(issuer); err == nil && u.Host != "" {
		host = u.Host
	}
	if at := strings.LastIndexByte(email, '@'); at > 0 {
		domain = strings.ToLower(email[at+1:])
	}
	switch host {
	case google:
		return c.is("email_verified"), strings.ToLower(c.text("hd"))
	case entra, entraOld:
		return c.is("xms_edov"), domain
	}
	return c.is("email_verified"), domain
}
