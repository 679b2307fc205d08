package config

import (
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// checkProvider returns what is wrong with a provider, empty if nothing is.
func checkProvider(p string) string {
	if p == "@" {
		return "must name a managed provider after @"
	}
	return ""
}

// checkHost returns what is wrong with a base address, empty if nothing is.
// Whether it may be called is checked when it is called.
func checkHost(host string) string {
	u, err := url.Parse(host)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "must be an http or https URL, as https://models.example.com/v1"
	case u.User != nil:
		return "must not contain a user name or password; put the credential into api_key"
	case u.RawQuery != "" || u.Fragment != "":
		return "must not have a query or fragment; use only the base URL"
	}
	return ""
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// neverForwarded are headers with which a client could speak for the gateway.
var neverForwarded = []string{
	"x-gateway-forward-headers", "metadata-flavor", "x-aws-ec2-metadata-token", "x-google-metadata-request",
}

// checkForward returns what is wrong with the name of a header to forward,
// empty if nothing is.
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

// checkDropPath returns what is wrong with a path of drop_params, empty if
// nothing is.
func checkDropPath(path string) string {
	if !dropPath.MatchString(path) {
		return "must be names joined by dots with [n] or [*] behind lists, as messages[*].name"
	}
	return ""
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

// CheckProviders returns an error for provider ids that are not in known, which
// must contain aliases too. Managed providers ("@slug") are not checked. The
// error is an *Errors with every fault.
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
