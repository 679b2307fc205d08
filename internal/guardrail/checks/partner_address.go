package checks

import (
	"cmp"
	"iter"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/base/secret"
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

// addressCredentials returns the names of the credentials that decide the host.
func (row *partner) addressCredentials() (list []string) {
	for name, at := range names(row.url) {
		if placeAt(row.url, at).ofHost() {
			list = append(list, name)
		}
	}
	for name, at := range row.places {
		if at.ofHost() {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// destination returns the address without path that the check sends credentials to;
// see [guardrail.Partner].
func (row *partner) destination(own map[string]secret.String) (to *url.URL, ours bool, err error) {
	address, rest := "", row.url
	ours = true
	if _, after, ok := strings.Cut(rest, "://"); ok {
		host, _, _ := strings.Cut(after, "/")
		rest = strings.TrimSuffix(rest, after) + host
	} else if end := strings.Index(rest, "}"); end >= 0 {
		rest = rest[:end+1]
	}
	from := 0
	for name, at := range names(rest) {
		value := cmp.Or(own[name].Reveal(), row.fallbacks[name])
		if value == "" {
			return nil, false, &guardrail.ParamError{Path: name, Message: "is required"}
		}
		p := placeAt(row.url, at)
		if message := p.check(value); message != "" {
			return nil, false, &guardrail.ParamError{Path: name, Message: message}
		}
		ours = ours && value == row.fallbacks[name]
		address += rest[from:at] + p.write(value)
		from = at + len(name) + 2
	}
	address += rest[from:]
	for name, p := range row.places {
		value := own[name].Reveal()
		if value == "" {
			continue
		}
		if message := p.check(value); message != "" {
			return nil, false, &guardrail.ParamError{Path: name, Message: message}
		}
		switch p {
		case base:
			address, ours = base.write(value), false
		case token:
			if address, err = acuvityHost(value); err != nil {
				return nil, false, &guardrail.ParamError{Path: name, Message: err.Error()}
			}
			ours = false
		}
	}
	to, err = parseURL(address)
	if err != nil {
		return nil, false, &guardrail.ParamError{Message: err.Error()}
	}
	return &url.URL{Scheme: to.Scheme, Host: to.Host}, ours, nil
}
