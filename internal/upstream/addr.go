package upstream

import "net/netip"

// Rules that reject an address; see guard.go for the others.
const (
	RuleMetadata     = "metadata"
	RuleUnspecified  = "unspecified-address"
	RuleLoopback     = "loopback-address"
	RulePrivate      = "private-address"
	RuleLinkLocal    = "link-local-address"
	RuleShared       = "shared-address"
	RuleMulticast    = "multicast-address"
	RuleReserved     = "reserved-address"
	RuleEmbeddedIPv4 = "embedded-ipv4"
)

// metadataRanges are rejected even if they are trusted: they serve credentials
// of the machine itself.
var metadataRanges = prefixes(
	"169.254.169.0/24",   // all large clouds
	"169.254.170.2/32",   // task roles of containers
	"169.254.170.23/32",  // pod identities
	"100.100.100.200/32", // Alibaba Cloud
	"168.63.129.16/32",   // Azure's host agent
	"192.0.0.192/32",     // Oracle Cloud
	"fd00:ec2::/96",      // AWS over IPv6
	"fd20:ce::254/128",   // Google Cloud over IPv6
)

type addrRange struct {
	prefix netip.Prefix
	rule   string
}

// ranges4 are the IPv4 addresses that are not public: IANA's special-purpose
// registry, and multicast and everything above it.
var ranges4 = []addrRange{
	{netip.MustParsePrefix("0.0.0.0/8"), RuleUnspecified},
	{netip.MustParsePrefix("10.0.0.0/8"), RulePrivate},
	{netip.MustParsePrefix("100.64.0.0/10"), RuleShared},
	{netip.MustParsePrefix("127.0.0.0/8"), RuleLoopback},
	{netip.MustParsePrefix("169.254.0.0/16"), RuleLinkLocal},
	{netip.MustParsePrefix("172.16.0.0/12"), RulePrivate},
	{netip.MustParsePrefix("192.0.0.0/24"), RuleReserved},
	{netip.MustParsePrefix("192.0.2.0/24"), RuleReserved},
	{netip.MustParsePrefix("192.88.99.0/24"), RuleReserved},
	{netip.MustParsePrefix("192.168.0.0/16"), RulePrivate},
	{netip.MustParsePrefix("198.18.0.0/15"), RuleReserved},
	{netip.MustParsePrefix("198.51.100.0/24"), RuleReserved},
	{netip.MustParsePrefix("203.0.113.0/24"), RuleReserved},
	{netip.MustParsePrefix("224.0.0.0/4"), RuleMulticast},
	{netip.MustParsePrefix("240.0.0.0/4"), RuleReserved},
}

// ranges6 are the IPv6 addresses that are not public. Addresses neither here
// nor in 2000::/3 are reserved.
var ranges6 = []addrRange{
	{netip.MustParsePrefix("::/128"), RuleUnspecified},
	{netip.MustParsePrefix("::1/128"), RuleLoopback},
	{netip.MustParsePrefix("::/96"), RuleEmbeddedIPv4},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), RuleEmbeddedIPv4}, // IPv4-translated
	{netip.MustParsePrefix("64:ff9b:1::/48"), RuleEmbeddedIPv4},  // NAT64 of the local network
	{netip.MustParsePrefix("2001::/32"), RuleEmbeddedIPv4},       // Teredo
	{netip.MustParsePrefix("2001::/23"), RuleReserved},           // protocol assignments
	{netip.MustParsePrefix("2001:db8::/32"), RuleReserved},
	{netip.MustParsePrefix("2002::/16"), RuleEmbeddedIPv4}, // 6to4
	{netip.MustParsePrefix("3fff::/20"), RuleReserved},
	{netip.MustParsePrefix("fc00::/7"), RulePrivate},
	{netip.MustParsePrefix("fe80::/10"), RuleLinkLocal},
	{netip.MustParsePrefix("fec0::/10"), RulePrivate},
	{netip.MustParsePrefix("ff00::/8"), RuleMulticast},
}

var (
	global6 = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4  = netip.MustParsePrefix("2002::/16")
	compat4 = netip.MustParsePrefix("::/96")
	transl4 = netip.MustParsePrefix("::ffff:0:0:0/96")
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

// addrRule returns the rule that an untrusted address breaks, or an empty
// string for a public one. A mapped address and one of the well-known NAT64
// prefix, which networks without IPv4 use for every public host, are checked by
// the IPv4 address inside. Other forms with an IPv4 address are obsolete and
// rejected.
func addrRule(addr netip.Addr) string {
	if addr.Is4In6() || nat64.Contains(addr) {
		addr, _ = embedded(addr)
	}
	if addr.Is4() {
		return ruleIn(ranges4, addr)
	}
	if rule := ruleIn(ranges6, addr); rule != "" {
		return rule
	}
	if !global6.Contains(addr) {
		return RuleReserved
	}
	return ""
}

func ruleIn(ranges []addrRange, addr netip.Addr) string {
	for _, r := range ranges {
		if r.prefix.Contains(addr) {
			return r.rule
		}
	}
	return ""
}

// embedded returns the IPv4 address inside an IPv6 address.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if addr.Is4In6() {
		return addr.Unmap(), true
	}
	b := addr.As16()
	switch {
	case addr.Is4():
		return addr, false
	case nat64.Contains(addr), transl4.Contains(addr), compat4.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixTo4.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return addr, false
}
