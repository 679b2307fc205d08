// Package workload verifies the tokens with which machines prove what they run.
//
// A [Trust] says which issuer an organisation trusts and which of its workloads: rules on
// claims, one of which must identify the workload. A [Verifier] verifies tokens and caches
// the keys of issuers. The package guarantees that a token is accepted only if it is signed
// with a key of the trusted issuer, was issued for one audience, has not expired, and
// satisfies every rule; that a pattern never matches beyond a segment; that a trust which
// would accept workloads of anybody is refused when it is set; and that no error contains a
// token. It does not issue keys (see access) or decide who may set a trust.
package workload

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"modelgate/internal/identity/jws"
)

// Kinds of issuers.
const (
	OIDC       = "oidc"
	GitHub     = "github-actions"
	Kubernetes = "kubernetes"
	GCP        = "gcp"
	AWS        = "aws"
	Entra      = "entra"
	SPIFFE     = "spiffe"
)

// Trust says which tokens of an issuer are accepted.
type Trust struct {
	Type   string `json:"type"`             // one of the kinds
	Issuer string `json:"issuer,omitempty"` // iss of tokens; of SPIFFE, optional

	// Keys come from KeySet, a JSON Web Key Set, or from KeysURL. Without either, the
	// issuer's discovery document has the address.
	KeysURL string `json:"jwks_url,omitempty"`
	KeySet  string `json:"jwks,omitempty"`

	TrustDomain string `json:"trust_domain,omitempty"` // of SPIFFE
	Audience    string `json:"audience"`

	// Claims are the rules: each claim must match one of its values. A * in a value
	// stands for one or more characters of a segment; segments end at / : @ and |.
	Claims map[string][]string `json:"claims"`
}

// Limits of a trust.
const (
	maxRules  = 20
	maxValues = 50
	maxValue  = 512 // characters
	maxKeySet = 256 << 10
)

// FieldError is a field of a trust that cannot be saved, and why.
type FieldError struct{ Field, Problem string }

// Error implements error.
func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

func bad(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// kind is what is known of the issuers of a kind.
type kind struct {
	issuer   string   // if all have the same; empty otherwise
	example  string   // of an issuer
	identify []string // the claims of which one, at least, must have a rule

	// checkValue returns what is wrong with a value of an identifying claim, empty for
	// nothing.
	checkValue func(claim, value string) string
}

// kinds are the kinds of issuers with their presets.
var kinds = map[string]kind{
	OIDC: {example: "https://gitlab.example.com", identify: []string{"sub"}, checkValue: checkLastSegment},
	// https://docs.github.com/en/actions/reference/security/oidc
	GitHub: {
		issuer:   "https://token.actions.githubusercontent.com",
		identify: []string{"repository", "repository_id", "repository_owner", "repository_owner_id", "sub"}, checkValue: checkGitHub,
	},
	// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
	Kubernetes: {example: "https://kubernetes.default.svc.cluster.local", identify: []string{"sub"}, checkValue: checkServiceAccount},
	// https://cloud.google.com/compute/docs/instances/verifying-instance-identity
	GCP: {issuer: "https://accounts.google.com", identify: []string{"sub", "email"}, checkValue: checkExact},
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_outbound.html
	AWS: {example: "https://{id}.tokens.sts.global.api.aws", identify: []string{"sub"}, checkValue: checkLastSegment},
	// https://learn.microsoft.com/en-us/entra/identity-platform/access-token-claims-reference
	Entra: {example: "https://login.microsoftonline.com/{tenant id}/v2.0", identify: []string{"sub", "oid"}, checkValue: checkExact},
	// https://github.com/spiffe/spiffe/blob/main/standards/JWT-SVID.md
	SPIFFE: {identify: []string{"sub"}},
}

// UsualIssuer returns the issuer of all tokens of a kind, empty if each has its own.
func UsualIssuer(kind string) string { return kinds[kind].issuer }

// Check returns a [FieldError] for a trust that cannot be used, or that would accept
// workloads of anybody. It sets the fields that follow from the kind.
func (t *Trust) Check() error {
	k, ok := kinds[t.Type]
	if !ok {
		return bad("type", "must be oidc, github-actions, kubernetes, gcp, aws, entra or spiffe")
	}
	if t.Issuer == "" {
		t.Issuer = UsualIssuer(t.Type)
	}
	if t.Type == SPIFFE {
		k.checkValue = t.checkSPIFFE
	}
	for _, check := range []func(kind) error{t.checkIssuer, t.checkKeys, t.checkAudience, t.checkRules} {
		if err := check(k); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trust) checkIssuer(k kind) error {
	if t.Type == SPIFFE {
		if !isTrustDomain(t.TrustDomain) {
			return bad("trust_domain", "must be a trust domain such as example.org: lower-case letters, digits, dots, dashes and underscores")
		}
		if t.Issuer == "" {
			return nil
		}
	} else if t.TrustDomain != "" {
		return bad("trust_domain", "is allowed for the type spiffe only")
	}
	u, err := url.Parse(t.Issuer)
	switch {
	case t.Issuer == "":
		return bad("issuer", "is required, exactly as the iss claim of tokens has it, for example %s", k.example)
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return bad("issuer", "must be the address of an issuer, exactly as the iss claim of tokens has it")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(t.Issuer, "#") || strings.HasSuffix(t.Issuer, "?"):
		return bad("issuer", "must not have a user, a query or a fragment")
	case t.Type == Entra && isOfManyTenants(u.Path):
		return bad("issuer", "is of all tenants; use the issuer of yours: %s", k.example)
	case t.Type == OIDC && ownKinds[strings.ToLower(u.Hostname())] != "":
		return bad("issuer", "has a type of its own; set type to %s", ownKinds[strings.ToLower(u.Hostname())])
	}
	return nil
}

// ownKinds are the kinds of issuers whose host says which they are. Their rules must not
// be avoided with the kind of all others.
var ownKinds = map[string]string{
	"token.actions.githubusercontent.com": GitHub, "accounts.google.com": GCP,
	"login.microsoftonline.com": Entra, "sts.windows.net": Entra,
}

// isOfManyTenants reports whether the path of an issuer of Microsoft Entra is of several
// tenants, in which anybody can have workloads.
func isOfManyTenants(path string) bool {
	tenant, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains([]string{"", "common", "organizations", "consumers"}, strings.ToLower(tenant))
}

func (t *Trust) checkKeys(kind) error {
	switch {
	case t.KeysURL != "" && t.KeySet != "":
		return bad("jwks", "cannot be combined with jwks_url; leave one out")
	case t.KeysURL == "" && t.KeySet == "" && t.Type == SPIFFE:
		return bad("jwks_url", "is required, or jwks: the address or the text of the trust domain's bundle")
	case len(t.KeySet) > maxKeySet:
		return bad("jwks", "must be at most %d bytes long", maxKeySet)
	}
	if t.KeysURL != "" {
		if u, err := url.Parse(t.KeysURL); err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
			return bad("jwks_url", "must be an address without a user")
		}
	}
	if t.KeySet != "" {
		set, unused, err := t.rules().ParseKeys([]byte(t.KeySet))
		if err == nil && set.Len() == 0 {
			err = errors.New("has no key with a kid that can verify tokens")
			if len(unused) > 0 {
				err = unused[0]
			}
		}
		if err != nil {
			return bad("jwks", "%s", err)
		}
	}
	return nil
}

func (t *Trust) checkAudience(kind) error {
	if t.Audience == "" || len(t.Audience) > maxValue || !isPlain(t.Audience) {
		return bad("audience", "is required: 1 to %d characters that tokens for this gateway have as aud", maxValue)
	}
	return nil
}

// rules returns what tokens and keys of the issuer must satisfy.
func (t *Trust) rules() jws.Rules {
	r := jws.Rules{
		Algorithms: []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}, NeedKeyID: true,
	}
	if t.Type == SPIFFE {
		r.Algorithms = r.Algorithms[:9] // the standard has no EdDSA
		r.Use = "jwt-svid"
	}
	return r
}

// isTrustDomain reports whether s is the name of a trust domain.
// https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md#21-trust-domain
func isTrustDomain(s string) bool {
	return s != "" && len(s) <= 255 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// isPlain reports whether s has no control characters.
func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Equal reports whether both accept the same tokens.
func (t *Trust) Equal(other *Trust) bool { return reflect.DeepEqual(*t, *other) }
