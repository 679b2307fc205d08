package upstream

import (
	"net/netip"
	"strings"
)

// Underscores are not valid in host names, but occur in service names of
// container networks.
const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

// metadataNames are rejected even if they are trusted.
var metadataNames = map[string]bool{
	"metadata.google.internal":   true,
	"metadata.goog":              true,
	"metadata.azure.com":         true,
	"metadata.azure.internal":    true,
	"instance-data":              true,
	"instance-data.ec2.internal": true,
}

// blockedNames are names in private networks that no suffix covers.
var blockedNames = map[string]bool{
	"metadata":  true,
	"localhost": true,
}

// blockedSuffixes are suffixes of names that resolve only in a private network;
// a name that equals one is blocked too.
var blockedSuffixes = []string{
	"local", "localdomain", "internal", "intranet", "lan", "home", "corp", "private",
	"test", "invalid", "onion", "localhost", "home.arpa",
}

// dnsHelpers are public domains whose subdomains resolve to an address in their
// name.
var dnsHelpers = []string{
	"nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "traefik.me", "localhost.run",
}

// blockedPorts are ports of services other than model providers that an HTTP
// request could make act.
var blockedPorts = set(
	"21", "22", "23", "25", "53", "69", "88", "110", "111", "135", "139", "143", "161", "389", "445", "465",
	"514", "587", "636", "873", "993", "995", "1433", "1521", "2049", "2181", "2375", "2376", "2379", "2380",
	"3306", "3389", "5432", "5672", "5900", "5984", "6379", "6443", "8500", "9042", "9092", "9200", "9300",
	"10250", "10255", "11211", "27017", "27018",
)

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

// nameSyntaxRule returns the rule that the spelling of a name breaks. It
// applies to trusted names too, since such a name is never valid.
func nameSyntaxRule(host string) string {
	if host == "" {
		return RuleEmpty
	}
	for _, c := range []byte(host) {
		if strings.IndexByte(nameChars, c) < 0 {
			return RuleCharacters
		}
	}
	if strings.HasSuffix(host, ".") {
		return RuleTrailingDot
	}
	if looksNumeric(host[strings.LastIndexByte(host, '.')+1:]) {
		return RuleIPNotation
	}
	if n := strings.Count(host, ".") + 1; n > maxLabels || strings.Contains(host, "..") || host[0] == '.' {
		return RuleLabels
	}
	return ""
}

// looksNumeric reports whether a last label makes some resolvers take the host
// for an IPv4 address: 2130706433, 0x7f000001, 127.1, 0177.0.0.1. Addresses in
// the usual form are handled before.
func looksNumeric(label string) bool {
	if label == "" {
		return false
	}
	if strings.HasPrefix(label, "0x") {
		return strings.Trim(label[2:], "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// nameRule returns the rule that an untrusted name breaks.
func nameRule(host string) string {
	if strings.Contains(host, "_") {
		return RuleCharacters
	}
	if blockedNames[host] {
		return RuleBlockedName
	}
	for _, s := range blockedSuffixes {
		if inDomain(host, s) {
			return RuleBlockedSuffix
		}
	}
	for _, s := range dnsHelpers {
		if inDomain(host, s) {
			return RuleDNSHelper
		}
	}
	if strings.HasPrefix(host, "xn--") || strings.Contains(host, ".xn--") {
		return RulePunycode
	}
	return ""
}

// inDomain reports whether host is domain or a subdomain of it.
func inDomain(host, domain string) bool {
	return strings.HasSuffix(host, domain) &&
		(len(host) == len(domain) || host[len(host)-len(domain)-1] == '.')
}

// isMetadata reports whether addr is a metadata address, also inside an IPv6
// address.
func isMetadata(addr netip.Addr) bool {
	if inner, ok := embedded(addr); ok {
		addr = inner
	}
	for _, p := range metadataRanges {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
