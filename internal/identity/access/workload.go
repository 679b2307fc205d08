package access

import (
	"maps"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/secret"
)

// workloadPrefix is the prefix of the short-lived keys of workloads.
const workloadPrefix = KeyPrefix + "wi_"

// Names of the metadata of requests with keys of workloads.
const (
	workloadName    = "workload_identity" // slug of the identity
	workloadSubject = "workload_subject"  // what the issuer calls the workload
)

// maxMetadataChars is the limit of a value of metadata, in characters.
const maxMetadataChars = 128

// WorkloadGrant is what a short-lived key of a workload says. The key is not stored: it
// is authenticated with the signing secret of its workload identity.
type WorkloadGrant struct {
	Workload string  `json:"w"`           // id of the workload identity
	Subject  string  `json:"s"`           // sub of the token for which it was given
	Expires  int64   `json:"e"`           // in Unix seconds
	Scopes   []Scope `json:"c,omitempty"` // of the service key, to which it is limited; nil is all
	Nonce    string  `json:"n"`
}

// NewSigningSecret returns a secret that signs the keys of a workload identity.
func NewSigningSecret() secret.String { return fresh("") }

// NewWorkloadKey returns a key that says g.
func NewWorkloadKey(signing secret.String, g WorkloadGrant) (secret.String, error) {
	g.Nonce = newNonce()
	return newSigned(workloadPrefix, signing, g)
}

// IsWorkloadKey reports whether text looks like a key of a workload.
func IsWorkloadKey(text string) bool { return strings.HasPrefix(text, workloadPrefix) }

// ParseWorkloadKey returns what a key says, if signing returns the secret of its workload
// identity and the key is signed with it. It does not check when the key expires.
func ParseWorkloadKey(key string, signing func(workload string) (secret.String, bool)) (g WorkloadGrant, ok bool) {
	ok = parseSigned(workloadPrefix, key, &g, func() (secret.String, bool) { return signing(g.Workload) })
	return g, ok
}

// ForWorkload returns the identity of a short-lived key: id is that of the service key,
// whose limits and budgets count for all its short-lived keys together.
func (id *Identity) ForWorkload(slug string, g WorkloadGrant) *Identity {
	out := *id
	out.Workload = g.Workload
	if end := time.Unix(g.Expires, 0); out.ExpiresAt.IsZero() || end.Before(out.ExpiresAt) {
		out.ExpiresAt = end
	}
	if g.Scopes != nil {
		out.Scopes = slices.DeleteFunc(slices.Clone(g.Scopes), func(s Scope) bool { return !id.Allows(s) })
	}
	out.Metadata = make(map[string]string, len(id.Metadata)+2)
	maps.Copy(out.Metadata, id.Metadata)
	out.Metadata[workloadName], out.Metadata[workloadSubject] = slug, cutText(g.Subject, maxMetadataChars)
	return &out
}

// cutText returns the first n characters of s at most.
func cutText(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}
