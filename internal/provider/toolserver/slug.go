package toolserver

import (
	"errors"
	"fmt"
	"regexp"
)

// slugPattern matches slugs of servers and bundles. They have no underscore, which separates
// them from names of tools.
var slugPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// Limits of the length of slugs.
const (
	minSlug = 3
	maxSlug = 50
)

// reserved are slugs that the path /{slug}/mcp cannot have: words that begin other paths, or
// look as if they named all servers.
var reserved = map[string]bool{
	"a2a": true, "mcp": true, "v1": true, "v0": true, "all": true, "mcp-servers": true, "mcp-bundles": true, "mcp-integrations": true,
	"admin": true, "api": true, "api-keys": true, "auth": true, "console": true, "health": true, "healthz": true, "livez": true,
	"login": true, "logout": true, "metrics": true, "oauth": true, "openapi": true, "readyz": true, "reference": true,
	"registry": true, "saml": true, "scim": true, "servers": true, "sso": true, "well-known": true,
}

// CheckSlug returns an error for a slug that a server or bundle cannot have.
func CheckSlug(slug string) error {
	switch {
	case len(slug) < minSlug || len(slug) > maxSlug:
		return fmt.Errorf("must have %d to %d characters", minSlug, maxSlug)
	case !slugPattern.MatchString(slug):
		return errors.New("must consist of lower-case letters, digits and single dashes between them")
	case reserved[slug]:
		return fmt.Errorf("%q is reserved for a path of the gateway; choose another", slug)
	}
	return nil
}
