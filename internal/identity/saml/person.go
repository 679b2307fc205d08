package saml

import (
	"slices"
	"strings"

	crewjam "github.com/crewjam/saml"
)

// Person is whom an assertion describes.
type Person struct {
	Email     string // as the provider writes it; may be empty
	Domain    string // of the address, in lower case
	FirstName string
	LastName  string

	Groups      []string // names or ids
	GroupsKnown bool     // false if the assertion does not have all groups: then none may be taken away
}

// Limits of what an assertion may say: groups, and bytes of a text.
const (
	maxGroups = 2000
	maxText   = 255
)

func cut(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return text
}

// usual are the names of attributes at Okta, Microsoft Entra, Google, AD FS and Shibboleth, in
// lower case.
var usual = struct{ email, first, last, groups []string }{
	email: []string{
		"email", "mail", "emailaddress", "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
		"urn:oid:0.9.2342.19200300.100.1.3",
	},
	first: []string{
		"firstname", "first_name", "givenname", "given_name", "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/givenname",
		"urn:oid:2.5.4.42",
	},
	last: []string{
		"lastname", "last_name", "surname", "sn", "family_name", "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/surname",
		"urn:oid:2.5.4.4",
	},
	groups: []string{
		"groups", "memberof", "http://schemas.microsoft.com/ws/2008/06/identity/claims/groups", "http://schemas.xmlsoap.org/claims/group",
	},
}

// groupsLink is the attribute that Microsoft Entra sends instead of more than 150 groups.
// https://learn.microsoft.com/entra/identity-platform/reference-saml-tokens
const groupsLink = "http://schemas.microsoft.com/claims/groups.link"

type attributeValues struct {
	name   string
	values []string
}

type attributes []attributeValues

// attributesOf returns the attributes of an assertion, each name once.
func attributesOf(a *crewjam.Assertion) attributes {
	var list attributes
	index := make(map[string]int)
	for _, s := range a.AttributeStatements {
		for _, e := range s.Attributes {
			i, ok := index[e.Name]
			if !ok {
				i = len(list)
				index[e.Name] = i
				list = append(list, attributeValues{name: e.Name})
			}
			for _, v := range e.Values {
				if text := strings.TrimSpace(v.Value); text != "" {
					list[i].values = append(list[i].values, text)
				}
			}
		}
	}
	return list
}

// names returns the names of the attributes, sorted and at most 100.
func (list attributes) names() []string {
	names := []string{}
	for _, e := range list[:min(len(list), 100)] {
		names = append(names, cut(e.name))
	}
	slices.Sort(names)
	return names
}

// find returns the values of the attribute with this name, or, without one, of the first with
// a usual name.
func (list attributes) find(name string, usual []string) ([]string, bool) {
	if name != "" {
		usual = []string{strings.ToLower(name)}
	}
	for _, u := range usual {
		for _, e := range list {
			if strings.ToLower(e.name) == u {
				return e.values, true
			}
		}
	}
	return nil, false
}

// text returns the only value of an attribute. Of several, nobody knows which is meant.
func (list attributes) text(name string, usual []string) string {
	values, _ := list.find(name, usual)
	if values = slices.Compact(values); len(values) != 1 {
		return ""
	}
	return cut(values[0])
}

func (p *Provider) person(list attributes, s Subject) Person {
	names := &p.set.Names
	out := Person{
		Email:     list.text(names.Email, usual.email),
		FirstName: list.text(names.FirstName, usual.first),
		LastName:  list.text(names.LastName, usual.last),
	}
	if out.Email == "" && names.Email == "" && s.Format == string(crewjam.EmailAddressNameIDFormat) {
		out.Email = s.Name
	}
	if at := strings.LastIndexByte(out.Email, '@'); at > 0 {
		out.Domain = strings.ToLower(out.Email[at+1:])
	}
	if _, link := list.find(groupsLink, nil); link {
		return out
	}
	groups, known := list.find(names.Groups, usual.groups)
	if !known || len(groups) > maxGroups {
		return out
	}
	out.GroupsKnown = true
	for _, g := range groups {
		if len(g) <= maxText {
			out.Groups = append(out.Groups, g)
		}
	}
	return out
}
