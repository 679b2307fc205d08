package upstream

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// loopback holds the hosts that Options.TrustLoopback adds to the trusted ones.
var loopback = []string{"localhost", "127.0.0.0/8", "::1/128"}

// trustEntry is one entry of upstream.trusted_hosts. Either prefix or name is
// set.
type trustEntry struct {
	prefix netip.Prefix
	name   string // lower case
	below  bool   // matches subdomains of name
	itself bool   // matches name itself
	port   string // empty means every port
}

type trustList []trustEntry

func newTrustList(entries []string) trustList {
	var list trustList
	for _, e := range entries {
		if t, err := parseTrusted(e); err == nil {
			list = append(list, t)
		}
	}
	return list
}

// CheckTrusted returns an error if an entry of Options.TrustedHosts is invalid.
func CheckTrusted(entry string) error {
	_, err := parseTrusted(entry)
	return err
}

func parseTrusted(entry string) (trustEntry, error) {
	text := strings.ToLower(strings.TrimSpace(entry))
	if p, err := netip.ParsePrefix(text); err == nil {
		return trustEntry{prefix: p.Masked()}, nil
	}
	if strings.Contains(text, "://") {
		return trustEntry{}, fmt.Errorf("trusted host %q: leave http:// and the path away; write a host or host:port", entry)
	}
	host, port := splitTrusted(text)
	if n, err := strconv.Atoi(port); port != "" && (err != nil || n < 1 || n > 65535) {
		return trustEntry{}, fmt.Errorf("trusted host %q: the port must be a number from 1 to 65535", entry)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap()
		return trustEntry{prefix: netip.PrefixFrom(a, a.BitLen()), port: port}, nil
	}
	name, wild := strings.CutPrefix(host, "*.")
	if nameSyntaxRule(name) != "" {
		return trustEntry{}, fmt.Errorf("trusted host %q: write a host, host:port, *.suffix or an address range such as 10.0.0.0/8", entry)
	}
	// Resolvers take every name below localhost for this machine.
	return trustEntry{name: name, below: wild || name == "localhost", itself: !wild, port: port}, nil
}

// splitTrusted splits off the port, if there is one. A bare IPv6 address has
// colons and no port.
func splitTrusted(text string) (host, port string) {
	if _, err := netip.ParseAddr(text); err == nil {
		return text, ""
	}
	if h, p, err := net.SplitHostPort(text); err == nil && p != "" {
		return h, p
	}
	return strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), ""
}

// name reports whether a lower-case name is trusted on port.
func (l trustList) name(host, port string) bool {
	for _, t := range l {
		if t.name == "" || t.port != "" && t.port != port {
			continue
		}
		if t.itself && host == t.name || t.below && host != t.name && inDomain(host, t.name) {
			return true
		}
	}
	return false
}

// addr reports whether an address is trusted on port.
func (l trustList) addr(a netip.Addr, port string) bool {
	a = a.Unmap()
	for _, t := range l {
		if t.name == "" && (t.port == "" || t.port == port) && t.prefix.Contains(a) {
			return true
		}
	}
	return false
}
