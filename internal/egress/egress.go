// Package egress says where requests may be sent.
//
// [Hosts] are patterns of hosts, of which a secret reference has some. A [Policy]
// limits where the requests of an organisation, a workspace or a key go. It
// guarantees that what is not clearly listed is not allowed. It does not check
// whether an address is private (see upstream), nor whose policies bind a request
// (see snapshot).
package egress

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// The most entries that a list of a policy has.
const maxEntries = 100

// Policy limits where requests go. The zero value limits nothing; several are
// applied one after the other, so that the narrowest wins.
type Policy struct {
	// CustomHosts are the hosts that requests may go to instead of the provider's
	// own address, whoever chose them. Nil says nothing, an empty list allows none
	// and [Any] all.
	CustomHosts Hosts `json:"custom_hosts,omitzero" maxItems:"100" doc:"Hosts in addition to the providers' own; an empty list allows none, * any; null says nothing"`

	// PassThrough are the paths that pass through, with their methods. Nil says
	// nothing, an empty list allows none and [Any] all.
	PassThrough Paths `json:"pass_through,omitzero" maxItems:"100" doc:"Methods and paths that pass through, such as GET /files/*; an empty list allows none, * any; null says nothing"`

	// ManagedOnly refuses requests that bring a credential of their own.
	ManagedOnly bool `json:"managed_providers_only,omitempty" doc:"Refuses requests that name no managed provider"`
}

// The fields of a policy, as requests name them.
const (
	FieldCustomHosts = "custom_hosts"
	FieldPassThrough = "pass_through"
	FieldManagedOnly = "managed_providers_only"
)

// Parse returns p with its patterns in their one form. Nil stays nil, as does a
// policy that says nothing. The error says what is wrong with the field, which has
// the index of its entry.
func (p *Policy) Parse() (out *Policy, field string, err error) {
	if p == nil || p.CustomHosts == nil && p.PassThrough == nil && !p.ManagedOnly {
		return nil, "", nil
	}
	out = &Policy{ManagedOnly: p.ManagedOnly}
	for name, n := range map[string]int{FieldCustomHosts: len(p.CustomHosts), FieldPassThrough: len(p.PassThrough)} {
		if n > maxEntries {
			return nil, name, fmt.Errorf("must have at most %d entries", maxEntries)
		}
	}
	var i int
	if p.CustomHosts != nil {
		if out.CustomHosts, i, err = ParseHosts(p.CustomHosts); err != nil {
			return nil, fmt.Sprintf("%s[%d]", FieldCustomHosts, i), err
		}
	}
	if p.PassThrough != nil {
		if out.PassThrough, i, err = ParsePaths(p.PassThrough); err != nil {
			return nil, fmt.Sprintf("%s[%d]", FieldPassThrough, i), err
		}
	}
	return out, "", nil
}

// Strict returns p with its patterns in their one form, and for one that has not
// been checked and is malformed a policy that allows nothing.
func (p *Policy) Strict() *Policy {
	out, _, err := p.Parse()
	if err != nil {
		return &Policy{CustomHosts: Hosts{}, PassThrough: Paths{}, ManagedOnly: true}
	}
	return out
}

// Request is what a policy is asked about: one target of a request.
type Request struct {
	Managed bool     // the target is a managed provider
	Host    *url.URL // the custom host; nil for the provider's own address

	// Method and Path are those of a request that passes through: the path behind
	// /v1 in its canonical form. Path is empty for every other.
	Method, Path string
}

// Refuses returns the field of p that does not allow r, empty where p does. A nil
// policy allows everything.
func (p *Policy) Refuses(r Request) (field string) {
	switch {
	case p == nil:
		return ""
	case p.ManagedOnly && !r.Managed:
		return FieldManagedOnly
	case p.CustomHosts != nil && r.Host != nil && !p.CustomHosts.Allow(r.Host):
		return FieldCustomHosts
	case p.PassThrough != nil && r.Path != "" && !p.PassThrough.Allow(r.Method, r.Path):
		return FieldPassThrough
	}
	return ""
}

// String returns p as JSON, empty for nil.
func (p *Policy) String() string {
	if p == nil {
		return ""
	}
	b, _ := json.Marshal(p) // strings are always written
	return string(b)
}

// GobEncode implements gob.GobEncoder: gob itself writes an empty list as none,
// which would turn a policy that allows nothing into one that says nothing.
func (p *Policy) GobEncode() ([]byte, error) { return json.Marshal((*plain)(p)) }

// GobDecode implements gob.GobDecoder.
func (p *Policy) GobDecode(b []byte) error { return json.Unmarshal(b, (*plain)(p)) }

type plain Policy
