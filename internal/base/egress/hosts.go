package egress

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Any is the pattern that everything matches.
const Any = "*"

// Hosts are patterns of hosts, in the form returned by [ParseHosts]: scheme,
// host and, unless it is the scheme's default, port. A host that begins with *.
// matches every subdomain.
type Hosts []string

// ParseHosts parses patterns: [https://|http://]host[:port]. The default scheme
// is https, the default port that of the scheme. For an error, index is the
// invalid entry.
func ParseHosts(list []string) (out Hosts, index int, err error) {
	out = make(Hosts, 0, len(list))
	for i, text := range list {
		pattern, err := parseHost(text)
		if err != nil {
			return nil, i, err
		}
		if !slices.Contains(out, pattern) {
			out = append(out, pattern)
		}
	}
	return out, 0, nil
}

var errHost = errors.New("must be a host, such as models.example.com, *.example.com, models.example.com:8443 or http://10.0.0.5:8080")

func parseHost(text string) (string, error) {
	if text == Any {
		return Any, nil
	}
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	below := ""
	if scheme, rest, _ := strings.Cut(text, "://"); strings.HasPrefix(rest, "*.") {
		text, below = scheme+"://"+rest[2:], "*."
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" ||
		u.Opaque != "" {
		return "", errHost
	}
	if u.Scheme != "https" && u.Scheme != "http" || !plainHost(u) || below != "" && !strings.Contains(u.Hostname(), ".") {
		return "", errHost
	}
	scheme, host := origin(u)
	return scheme + "://" + below + host, nil
}

// plainHost reports whether a host is an ASCII name or an address, and its port
// a number or absent.
func plainHost(u *url.URL) bool {
	host := u.Hostname()
	if _, err := netip.ParseAddr(host); err == nil {
		return !strings.HasSuffix(u.Host, ":")
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
	return host != "" && strings.Trim(host, plain) == "" && !strings.HasSuffix(u.Host, ":") && !strings.HasPrefix(host, ".") &&
		!strings.HasSuffix(host, ".")
}

// origin returns a scheme, and a host with its port, in the form in which they
// are compared.
func origin(u *url.URL) (scheme, host string) {
	scheme, host = strings.ToLower(u.Scheme), strings.ToLower(u.Hostname())
	if addr, err := netip.ParseAddr(host); err == nil {
		if host = addr.String(); addr.Is6() {
			host = "[" + host + "]"
		}
	}
	port := strings.TrimLeft(u.Port(), "0")
	if port != "" && !(scheme == "https" && port == "443") && !(scheme == "http" && port == "80") {
		host += ":" + port
	}
	return scheme, host
}

// Allow reports whether an address is one of the hosts. User information, path
// and query are ignored.
func (h Hosts) Allow(u *url.URL) bool {
	if slices.Contains(h, Any) {
		return true
	}
	scheme, host := origin(u)
	for _, pattern := range h {
		of, name, _ := strings.Cut(pattern, "://")
		if of != scheme {
			continue
		}
		if suffix, below := strings.CutPrefix(name, "*"); name == host || below && strings.HasSuffix(host, suffix) && len(host) > len(suffix) {
			return true
		}
	}
	return false
}
