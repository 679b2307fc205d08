// Package clientaddr finds the address of the client behind trusted proxies.
//
// A [Policy] names the proxies whose word is taken, and the header that they
// write. [Policy.RemoteAddr] reads that header, [NewListener] the PROXY protocol
// in front of a connection. It guarantees that nothing an untrusted peer sends
// changes the address, and that the work is bounded. It does not decide what
// an address may do.
package clientaddr

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// The headers in which proxies report the client's address.
const (
	xForwardedFor = "X-Forwarded-For"
	forwarded     = "Forwarded" // RFC 7239
)

// maxHops is the number of proxies that a request may have passed. Addresses
// further to the left are not read.
const maxHops = 32

// Policy says whose reports of a client's address are believed. Nil believes
// nobody. A Policy does not change and is safe for concurrent use.
type Policy struct {
	trusted []netip.Prefix
	header  string
}

// New returns the policy that trusts the proxies with the listed addresses and
// CIDRs to write the named header. An empty header means X-Forwarded-For. Only
// one header is read, because a proxy that writes one passes the client's copy
// of the other through.
func New(proxies []string, header string) (*Policy, error) {
	p := &Policy{header: xForwardedFor}
	switch {
	case header == "" || strings.EqualFold(header, xForwardedFor):
	case strings.EqualFold(header, forwarded):
		p.header = forwarded
	default:
		return nil, fmt.Errorf("the header %.40q is not supported; use %s or %s", header, xForwardedFor, forwarded)
	}
	for _, text := range proxies {
		prefix, err := ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		if prefix.Bits() == 0 {
			return nil, fmt.Errorf("%s trusts every address; list the addresses of the proxies", text)
		}
		p.trusted = append(p.trusted, prefix)
	}
	return p, nil
}

// ParsePrefix reads an address or a CIDR. A single address is a prefix of its
// full length; IPv4 addresses written as IPv6 become IPv4.
func ParsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%.60q is not an address or a CIDR; write it as 10.0.0.7, 10.0.0.0/8 or 2001:db8::/32", text)
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("%.60q mixes IPv4 and IPv6; write an IPv4 CIDR such as 10.0.0.0/8", text)
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// Host returns the address of a host:port as [http.Request] has it in
// RemoteAddr, without zone. It is invalid if there is none.
func Host(remote string) netip.Addr {
	if ap, err := netip.ParseAddrPort(remote); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	a, _ := netip.ParseAddr(remote)
	return a.Unmap().WithZone("")
}

// Trusts reports whether a is one of the proxies.
func (p *Policy) Trusts(a netip.Addr) bool {
	if p == nil || !a.IsValid() {
		return false
	}
	for _, prefix := range p.trusted {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// RemoteAddr returns the address of the client that sent r, as host:port. If the
// peer is a trusted proxy, it is the right-most address of the header that is
// not a trusted proxy, with port 0; if the header ends or cannot be read before
// one is found, the last address that a trusted proxy reported. For every other
// peer it is r.RemoteAddr.
func (p *Policy) RemoteAddr(r *http.Request) string {
	if p == nil || len(p.trusted) == 0 {
		return r.RemoteAddr
	}
	peer := Host(r.RemoteAddr)
	if !p.Trusts(peer) {
		return r.RemoteAddr
	}
	client := p.walk(peer, r.Header[p.header])
	if client == peer {
		return r.RemoteAddr
	}
	return net.JoinHostPort(client.String(), "0")
}

// walk follows the chain of proxies from right to left.
func (p *Policy) walk(at netip.Addr, lines []string) netip.Addr {
	read, cut := parseAddress, lastComma
	if p.header == forwarded {
		read, cut = parseElement, lastUnquotedComma
	}
	hops := 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; hops++ {
			if hops == maxHops {
				return at
			}
			var element string
			rest, element, more = cut(rest)
			if element = strings.Trim(element, " \t"); element == "" {
				continue // an empty item of a list says nothing
			}
			a, err := read(element)
			if err != nil {
				return at
			}
			if at = a; !p.Trusts(at) {
				return at
			}
		}
	}
	return at
}

// lastComma cuts a list before its last item.
func lastComma(list string) (rest, item string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", list, false
	}
	return list[:i], list[i+1:], true
}

// lastUnquotedComma is [lastComma] for items with quoted strings. It reads
// backwards, so that a quote left open by the client cannot swallow what the
// proxies have added behind it.
func lastUnquotedComma(list string) (rest, item string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && !escaped(list, i):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[:i], list[i+1:], true
		}
	}
	return "", list, false
}

// escaped reports whether an odd number of backslashes is in front of i.
func escaped(s string, i int) bool {
	n := 0
	for i--; i >= 0 && s[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

var errNoAddress = errors.New("no address")

// parseElement reads the for parameter of an element of Forwarded. An element
// with more than one is ambiguous.
func parseElement(element string) (netip.Addr, error) {
	var found string
	for pair := range strings.SplitSeq(element, ";") {
		name, value, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !ok || !strings.EqualFold(name, "for") {
			continue
		}
		if found != "" || value == "" {
			return netip.Addr{}, errNoAddress
		}
		found = value
	}
	if n := len(found); n >= 2 && found[0] == '"' && found[n-1] == '"' {
		found = found[1 : n-1]
	}
	return parseAddress(found)
}

// parseAddress reads an address with or without a port: 192.0.2.1,
// 192.0.2.1:80, 2001:db8::1, [2001:db8::1] and [2001:db8::1]:80.
func parseAddress(text string) (netip.Addr, error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			text = inner
		}
	}
	a := Host(text)
	if !a.IsValid() || a.IsUnspecified() {
		return netip.Addr{}, errNoAddress
	}
	return a, nil
}
