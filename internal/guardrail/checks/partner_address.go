package checks

import (
	"iter"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"modelgate/internal/guardrail"
)

// place is where a template of an address has a name.
type place uint8

const (
	segment place = iota // of the path
	query                // value in the query
	label                // of a host under the partner's domain
	domain               // end of the host
	base                 // scheme, host, port and path; https if there is no scheme
	token                // a key of Acuvity, whose claims have a base
)

// names returns the names in a template and where their braces open.
func names(template string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for at, c := range template {
			if c != '{' {
				continue
			}
			name, _, _ := strings.Cut(template[at+1:], "}")
			if !yield(name, at) {
				return
			}
		}
	}
}

// placeAt returns the place of the name whose brace opens at an index.
func placeAt(template string, at int) place {
	before := template[:at]
	_, after, _ := strings.Cut(template[at:], "}")
	switch {
	case at == 0:
		return base
	case strings.Contains(before, "?"):
		return query
	case before[0] == '{' || strings.Count(before, "/") > 2:
		return segment
	case strings.HasPrefix(after, "."):
		return label
	}
	return domain
}

// ofHost reports whether the place is the host or part of it.
func (p place) ofHost() bool { return p >= label }

// check returns what a value must be in the place, nothing if it is valid.
func (p place) check(value string) string {
	switch p {
	case segment:
		if strings.Trim(value, ".") == "" {
			return "must not consist of dots"
		}
	case label:
		if strings.Contains(value, ".") || !isHostName(value) {
			return "must be one part of a host name: letters, digits and hyphens"
		}
	case domain:
		if !isHostName(value) {
			return "must be a host name without scheme, port and path; write an internationalised name in its ASCII form"
		}
	case base:
		if !isBase(value) {
			return "must be an http or https URL of host, port and path only; write an internationalised name in its ASCII form"
		}
	case token:
		if _, err := acuvityHost(value); err != nil {
			return "must be a key of Acuvity, which has the address of its service"
		}
	}
	return ""
}

// write returns a valid value as it is in the address.
func (p place) write(value string) string {
	switch p {
	case segment:
		return url.PathEscape(value)
	case query:
		return url.QueryEscape(value)
	case base:
		return strings.TrimRight(withScheme(value), "/")
	}
	return value
}

func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return "https://" + address
}

// isHostName reports whether text is a host name in ASCII, without a final dot.
func isHostName(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || len(part) > 63 || part[0] == '-' || part[len(part)-1] == '-' ||
			strings.Trim(strings.ToLower(part), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(text) < 254
}

// isBase reports whether text is the beginning of an address, to which a path can
// be appended.
func isBase(text string) bool {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`?#@%\`, r) }) {
		return false
	}
	u, err := parseURL(withScheme(text))
	if err != nil {
		return false
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil && !isHostName(u.Hostname()) {
		return false
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) || strings.HasSuffix(u.Host, ":") {
		return false
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == "." || part == ".." {
			return false
		}
	}
	return true
}

// checkAddress checks the credentials and parameters in addresses of the check. A
// credential that is absent is an error only when the check runs.
func (row *partner) checkAddress(p *guardrail.Params) error {
	own := p.Credentials()
	fault := func(name, value string, at place) error {
		path := name
		if _, ok := own[name]; ok {
			path = "credentials." + name
		}
		if message := at.check(value); value != "" && message != "" {
			return &guardrail.ParamError{Path: path, Message: message}
		}
		return nil
	}
	for name, at := range names(row.url) {
		value := own[name].Reveal()
		if value == "" {
			value = p.String(name)
		}
		if err := fault(name, value, placeAt(row.url, at)); err != nil {
			return err
		}
	}
	for name, at := range row.places {
		if err := fault(name, own[name].Reveal(), at); err != nil {
			return err
		}
	}
	return nil
}
