// Package egress decides where requests may be sent.
//
// [Hosts] are patterns of hosts, also used by secret references. A [Policy]
// limits the destinations of requests of an organisation, a workspace or a key.
// It guarantees that only what is listed is allowed. It does not check whether
// an address is private (see upstream) or decide which policies apply to a
// request (see snapshot).
package egress

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// Maximum number of entries in a list of a policy.
const maxEntries = 100

// Policy limits the destinations of requests. The zero value has no limits.
// Several policies are applied in turn, so that the narrowest decides.
type Policy struct {
	// CustomHosts are the hosts that requests may be sent to instead of the
	// provider's own address, whether a request, a config or a provider names them. Nil means no limit, an empty
	// list allows none and [Any] all.
	CustomHosts Hosts `json:"custom_hosts,omitzero" maxItems:"100" doc:"Hosts in addition to the providers' own; an empty list allows none, * any; null says nothing"`

	// PassThrough are the paths that pass through, with their methods. Nil
	// means no limit, an empty list allows none and [Any] all.
	PassThrough Paths `json:"pass_through,omitzero" maxItems:"100" doc:"Methods and paths that pass through, such as GET /files/*; an empty list allows none, * any; null says nothing"`

	// ManagedOnly rejects requests with their own credential.
	ManagedOnly bool `json:"managed_providers_only,omitempty" doc:"Rejects requests that do not name a managed provider"`
}

// Names of a policy's fields on the wire.
const (
	fieldCustomHosts = "custom_hosts"
	fieldPassThrough = "pass_through"
	fieldManagedOnly = "managed_providers_only"
)

// Parse returns p with its patterns in canonical form. Nil and a policy without
// limits become nil. For an error, field is the invalid field with the index of
// its entry.
func (p *Policy) Parse() (out *Policy, field string, err error) {
	if p == nil || p.CustomHosts == nil && p.PassThrough == nil && !p.ManagedOnly {
		return nil, "", nil
	}
	out = &Policy{ManagedOnly: p.ManagedOnly}
	for name, n := range map[string]int{fieldCustomHosts: len(p.CustomHosts), fieldPassThrough: len(p.PassThrough)} {
		if n > maxEntries {
			return nil, name, fmt.Errorf("must have at most %d entries", maxEntries)
		}
	}
	var i int
	if p.CustomHosts != nil {
		if out.CustomHosts, i, err = ParseHosts(p.CustomHosts); err != nil {
			return nil, fmt.Sprintf("%s[%d]", fieldCustomHosts, i), err
		}
	}
	if p.PassThrough != nil {
		if out.PassThrough, i, err = ParsePaths(p.PassThrough); err != nil {
			return nil, fmt.Sprintf("%s[%d]", fieldPassThrough, i), err
		}
	}
	return out, "", nil
}

// Strict returns p with its patterns in canonical form. A policy that has not
// been validated and is malformed becomes a policy that allows nothing.
func (p *Policy) Strict() *Policy {
	out, _, err := p.Parse()
	if err != nil {
		return &Policy{CustomHosts: Hosts{}, PassThrough: Paths{}, ManagedOnly: true}
	}
	return out
}

// Request describes one target of a request for a policy.
type Request struct {
	Managed bool     // the target is a managed provider
	Host    *url.URL // the custom host; nil means the provider's own address

	// Method and Path are set for a request that passes through: the path after
	// /v1 in its canonical form. Path is empty for other requests.
	Method, Path string
}

// Refuses returns the field of p that does not allow r, empty if p allows it. A
// nil policy allows everything.
func (p *Policy) Refuses(r Request) (field string) {
	switch {
	case p == nil:
		return ""
	case p.ManagedOnly && !r.Managed:
		return fieldManagedOnly
	case p.CustomHosts != nil && r.Host != nil && !p.CustomHosts.Allow(r.Host):
		return fieldCustomHosts
	case p.PassThrough != nil && r.Path != "" && !p.PassThrough.Allow(r.Method, r.Path):
		return fieldPassThrough
	}
	return ""
}

// String returns p as JSON, empty for nil.
func (p *Policy) String() string {
	if p == nil {
		return ""
	}
	b, _ := json.Marshal(p) // strings always marshal
	return string(b)
}

// GobEncode implements gob.GobEncoder: gob itself encodes an empty list like
// nil, which would turn a policy that allows nothing into one without limits.
func (p *Policy) GobEncode() ([]byte, error) { return json.Marshal((*plain)(p)) }

// GobDecode implements gob.GobDecoder.
func (p *Policy) GobDecode(b []byte) error { return json.Unmarshal(b, (*plain)(p)) }

type plain Policy
