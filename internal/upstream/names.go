package upstream

import (
	"net/netip"
	"strings"
)

// Underscores are no part of host names, but of the service names that
// container networks give.
const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

// metadataNames are refused even when they are trusted.
var metadataNames = map[string]bool{
	"metadata.google.internal":   true,
	"metadata.goog":              true,
	"metadata.azure.com":         true,
	"metadata.azure.internal":    true,
	"instance-data":              true,
	"instance-data.ec2.internal": true,
}

// blockedNames are names of private networks that no suffix covers.
var blockedNames = map[string]bool{
	"metadata":  true,
	"localhost": true,
}

// blockedSuffixes end names that only a private network resolves, and are
// blocked as a whole name too.
var blockedSuffixes = []string{
	"local", "localdomain", "internal", "intranet", "lan", "home", "corp", "private",
	"test", "invalid", "onion", "localhost", "home.arpa",
}

// dnsHelpers are public domains below which a name says what it resolves to.
var dnsHelpers = []string{
	"nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "traefik.me", "localhost.run",
}

// blockedPorts are those of services that are no model providers and that
// could be made to act by an HTTP request.
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

// nameSyntaxRule returns the rule that the way a name is written breaks. These hold
// for trusted names too, since none of them is a name.
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

// looksNumeric reports whether a last label makes some resolvers take the
// whole host for an IPv4 address: 2130706433, 0x7f000001, 127.1, 0177.0.0.1.
// An address in the usual form never gets here.
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
		if within(host, s) {
			return RuleBlockedSuffix
		}
	}
	for _, s := range dnsHelpers {
		if within(host, s) {
			return RuleDNSHelper
		}
	}
	if strings.HasPrefix(host, "xn--") || strings.Contains(host, ".xn--") {
		return RulePunycode
	}
	return ""
}

// within reports whether host is domain or a name below it.
func within(host, domain string) bool {
	return strings.HasSuffix(host, domain) &&
		(len(host) == len(domain) || host[len(host)-len(domain)-1] == '.')
}

// isMetadata reports whether addr is, or hides, a metadata address.
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
