package upstream

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Rules that reject a custom host. The names are stable: clients and tests see
// them. Rules for addresses are in addr.go.
const (
	RuleEmpty         = "empty"
	RuleLength        = "length"
	RuleCharacters    = "characters"
	RuleSyntax        = "syntax"
	RuleScheme        = "scheme"
	RuleUserInfo      = "user-info"
	RuleQuery         = "query"
	RulePort          = "port"
	RuleBlockedPort   = "blocked-port"
	RuleTrailingDot   = "trailing-dot"
	RuleLabels        = "labels"
	RulePunycode      = "punycode"
	RuleIPNotation    = "ip-notation"
	RuleOwnHost       = "own-host"
	RuleBlockedName   = "blocked-name"
	RuleBlockedSuffix = "blocked-suffix"
	RuleDNSHelper     = "dns-helper"
)

const (
	maxHostLength = 2048
	maxLabels     = 10
)

const trustAdvice = "if it is meant to be reached, list it in upstream.trusted_hosts"

// reasons holds a message for each rule: what is wrong and what to do.
var reasons = map[string]string{
	RuleEmpty:         "it is empty; use the base URL of the endpoint, for example https://models.example.com/v1",
	RuleLength:        "it is longer than 2048 bytes",
	RuleCharacters:    "it has a character that no host has; a host consists of letters, digits, dots and hyphens, or is an IPv6 address in brackets",
	RuleSyntax:        "it is not a URL; use the base URL of the endpoint, for example https://models.example.com/v1",
	RuleScheme:        "it must begin with https:// or http://",
	RuleUserInfo:      "it contains a user name or password; send credentials in Authorization instead",
	RuleQuery:         "it has a query or a fragment; use only the base URL",
	RulePort:          "the port must be a number from 1 to 65535",
	RuleBlockedPort:   "the port belongs to a service other than a model provider; " + trustAdvice,
	RuleTrailingDot:   "the name ends in a dot; leave the dot away",
	RuleLabels:        "the name is not well formed: it has an empty label, or more than 10 labels",
	RulePunycode:      "the name is written in punycode; " + trustAdvice,
	RuleIPNotation:    "the address must be written as four decimal numbers",
	RuleOwnHost:       "it is the gateway itself",
	RuleBlockedName:   "the name belongs to a private network; " + trustAdvice,
	RuleBlockedSuffix: "names with this ending belong to private networks; " + trustAdvice,
	RuleDNSHelper:     "names of this domain resolve to any address; " + trustAdvice,

	RuleMetadata:     "cloud metadata services are always blocked",
	RuleUnspecified:  "the unspecified network is not an address of a host; " + trustAdvice,
	RuleLoopback:     "the address is the gateway's own machine; " + trustAdvice,
	RulePrivate:      "the address is of a private network; " + trustAdvice,
	RuleLinkLocal:    "the address is link-local; " + trustAdvice,
	RuleShared:       "the address is of a carrier's shared network; " + trustAdvice,
	RuleMulticast:    "the address is a multicast one; " + trustAdvice,
	RuleReserved:     "the address is reserved; " + trustAdvice,
	RuleEmbeddedIPv4: "the address hides an IPv4 address; " + trustAdvice,
}

// RefusedError reports the rule by which a custom host was rejected.
type RefusedError struct {
	Rule string // one of the Rule constants
	Host string // only the host; no user information, path or query

	// Address is the address that the rule rejected, if it is about an address.
	// Error leaves it out: clients must not learn the addresses of internal
	// names.
	Address netip.Addr
}

// Error names the host and the rule, and says what to do.
func (e *RefusedError) Error() string {
	host := ""
	if e.Host != "" {
		host = " " + strconv.Quote(e.Host)
	}
	return "custom host" + host + " is refused by " + e.Reason()
}

// Reason returns the rule and what to do, without the host.
func (e *RefusedError) Reason() string { return "rule " + e.Rule + ": " + reasons[e.Rule] }

// guard checks custom hosts. It is immutable.
type guard struct {
	trusted  trustList
	ownHosts map[string]bool
}

func newGuard(o Options) *guard {
	g := &guard{trusted: newTrustList(o.TrustedHosts), ownHosts: make(map[string]bool)}
	if o.TrustLoopback {
		g.trusted = append(g.trusted, newTrustList(loopback)...)
	}
	for _, h := range o.OwnHosts {
		g.ownHosts[strings.ToLower(h)] = true
	}
	return g
}

// parse parses and checks a custom host as a client wrote it.
func (g *guard) parse(raw string) (*url.URL, error) {
	raw = strings.Trim(raw, " \t")
	if raw == "" {
		return nil, refuse(RuleEmpty, "")
	}
	if len(raw) > maxHostLength {
		return nil, refuse(RuleLength, "")
	}
	if strings.ContainsFunc(raw, unsafeURLCharacters) {
		return nil, refuse(RuleCharacters, "")
	}
	if !hasWebScheme(raw) {
		return nil, refuse(RuleScheme, "")
	}
	if strings.ContainsAny(authority(raw), "%") {
		return nil, refuse(RuleCharacters, "")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, refuse(ruleOfParse(raw), "")
	}
	if u.Host != "" && strings.ContainsAny(raw, "?#") {
		return nil, refuse(RuleQuery, "")
	}
	u.Host = strings.ToLower(u.Host)
	if err := g.check(u); err != nil {
		return nil, err
	}
	if len(u.String()) > maxHostLength { // escaping makes it longer
		return nil, refuse(RuleLength, "")
	}
	return u, nil
}

// check checks an address that is a parsed URL.
func (g *guard) check(u *url.URL) error {
	if u == nil || u.Host == "" {
		return refuse(RuleEmpty, "")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return refuse(RuleScheme, "")
	}
	if u.User != nil {
		return refuse(RuleUserInfo, "")
	}
	return g.checkAuthority(u)
}

func (g *guard) checkAuthority(u *url.URL) error {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if strings.HasSuffix(u.Host, ":") {
		return refuse(RulePort, host)
	}
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return refuse(RulePort, host)
	}
	return g.checkHost(host, strings.TrimLeft(port, "0"))
}

// checkHost checks a lower-case host: a name or an address.
func (g *guard) checkHost(host, port string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.checkLiteral(host, port, addr)
	}
	if rule := nameSyntaxRule(host); rule != "" {
		return refuse(rule, host)
	}
	if metadataNames[host] {
		return refuse(RuleMetadata, host)
	}
	if g.isGatewayHost(host, port) {
		return refuse(RuleOwnHost, host)
	}
	if g.trusted.name(host, port) {
		return nil
	}
	if rule := nameRule(host); rule != "" {
		return refuse(rule, host)
	}
	if blockedPorts[port] {
		return refuse(RuleBlockedPort, host)
	}
	return nil
}

func (g *guard) checkLiteral(host, port string, addr netip.Addr) error {
	if g.isGatewayHost(host, port) {
		return refuse(RuleOwnHost, host)
	}
	if err := g.checkResolved(host, port, addr); err != nil {
		return err
	}
	if blockedPorts[port] && !g.trusted.name(host, port) && !g.trusted.addr(addr, port) {
		return refuse(RuleBlockedPort, host)
	}
	return nil
}

// checkResolved checks one address that host resolves to.
func (g *guard) checkResolved(host, port string, addr netip.Addr) error {
	addr = addr.WithZone("")
	if isMetadata(addr) {
		return &RefusedError{Rule: RuleMetadata, Host: host, Address: addr}
	}
	rule := addrRule(addr)
	if rule == "" || g.trusted.name(host, port) || g.trusted.addr(addr, port) {
		return nil
	}
	return &RefusedError{Rule: rule, Host: host, Address: addr}
}

func (g *guard) isGatewayHost(host, port string) bool {
	return len(g.ownHosts) > 0 && (g.ownHosts[host] || g.ownHosts[net.JoinHostPort(host, port)])
}

func refuse(rule, host string) error { return &RefusedError{Rule: rule, Host: host} }

// unsafeURLCharacters reports characters that are invalid in a base address and
// that URL parsers disagree on.
func unsafeURLCharacters(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }

func hasWebScheme(raw string) bool {
	scheme, _, ok := strings.Cut(raw, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// authority returns the part between the scheme and the path.
func authority(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return rest[:i]
	}
	return rest
}

// ruleOfParse returns the rule for which url.Parse rejected raw: its errors
// differ only by text.
func ruleOfParse(raw string) string {
	a := authority(raw)
	if strings.Contains(a, "@") {
		return RuleUserInfo
	}
	if strings.HasPrefix(a, "[") && !strings.Contains(a, "]") {
		return RuleSyntax
	}
	host, port, ok := strings.Cut(a[strings.LastIndexByte(a, ']')+1:], ":")
	if ok && strings.Trim(port, "0123456789") != "" {
		return RulePort
	}
	if strings.Trim(host, nameChars) != "" {
		return RuleCharacters
	}
	return RuleSyntax
}

func defaultPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}
