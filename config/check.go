package config

import (
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// checkProvider says what is wrong with a provider.
func checkProvider(p string) string {
	if p == "@" {
		return "must name a managed provider after @"
	}
	return ""
}

// checkHost says what is wrong with a base address. Whether it may be called
// is decided where it is called.
func checkHost(host string) string {
	u, err := url.Parse(host)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "must be an http or https URL, as https://models.example.com/v1"
	case u.User != nil:
		return "must not hold a user name or password; give the credential in api_key"
	case u.RawQuery != "" || u.Fragment != "":
		return "must not have a query or fragment; give the base address only"
	}
	return ""
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// neverForwarded are headers that would let a client speak for the gateway.
var neverForwarded = []string{
	"x-gateway-forward-headers", "metadata-flavor", "x-aws-ec2-metadata-token", "x-google-metadata-request",
}

// checkForward says what is wrong with the name of a header to forward.
func checkForward(name string) string {
	if !headerName.MatchString(name) {
		return "must be the name of a header, as X-My-Header"
	}
	if slices.Contains(neverForwarded, strings.ToLower(name)) {
		return "names a header that is never forwarded; remove it"
	}
	return ""
}

var dropPath = regexp.MustCompile(`^[^.\[\]]+(\[(\d+|\*)\])*(\.[^.\[\]]+(\[(\d+|\*)\])*)*$`)

// checkDropPath says what is wrong with a path of drop_params.
func checkDropPath(path string) string {
	if !dropPath.MatchString(path) {
		return "must be names joined by dots with [n] or [*] behind lists, as messages[*].name"
	}
	return ""
}

// ForwardHeaders reads the names of headers to forward as the header of that
// name gives them: a JSON array or a comma list. The spelling is kept. The
// error is an *Errors whose paths begin with the place in the list.
func ForwardHeaders(list string) ([]string, error) {
	var fs faults
	r := &reader{faults: &fs}
	rule := listOf(checked(word, checkForward))
	if strings.HasPrefix(strings.TrimSpace(list), "[") {
		v, ok := decode([]byte(list), &fs)
		if !ok {
			return nil, fs.err()
		}
		names, _ := rule.read(r, "$", v)
		return names, fs.err()
	}
	v := value{kind: isArray}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			v.items = append(v.items, value{kind: isString, text: name})
		}
	}
	names, _ := rule.read(r, "$", v)
	return names, fs.err()
}

// All yields the node and every node below it, parents first.
func (c *Config) All() iter.Seq[*Config] {
	return func(yield func(*Config) bool) { c.each(yield) }
}

func (c *Config) each(yield func(*Config) bool) bool {
	if !yield(c) {
		return false
	}
	for _, t := range c.Targets {
		if !t.each(yield) {
			return false
		}
	}
	return true
}

// CheckProviders refuses provider ids that are not among known, which holds
// aliases too. Managed providers ("@slug") are not checked. The error is an
// *Errors with every fault.
func (c *Config) CheckProviders(known []string) error {
	var fs faults
	for node := range c.All() {
		if node.Provider == "" || strings.HasPrefix(node.Provider, "@") || slices.Contains(known, node.Provider) {
			continue
		}
		message := fmt.Sprintf("names no known provider (%s); list them with modelgate providers", quote(node.Provider))
		if like := Nearest(node.Provider, known); like != "" {
			message = fmt.Sprintf("names no known provider (%s); did you mean %s?", quote(node.Provider), quote(like))
		}
		fs.add(node.jsonPath()+".provider", message)
	}
	return fs.err()
}
