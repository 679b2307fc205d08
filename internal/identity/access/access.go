// Package access defines callers and their permissions.
//
// Keys are stored as hashes; an [Identity] is what a key proves. The package does not
// find the identity of a hash (see snapshot) or store it (see store).
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"modelgate/api"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/limits/quota"
)

// KeyPrefix is the prefix of every gateway key, by which leaked keys are recognised.
const KeyPrefix = "mg-"

// Hash is the SHA-256 of a gateway key. Keys have 256 random bits, so a plain hash
// cannot be brute-forced.
type Hash [sha256.Size]byte

// MinKeyBytes is the least length of keys and tokens that an operator chooses; shorter ones
// could be guessed.
const MinKeyBytes = 16

// HashKey returns the hash of key. It does not allocate for keys of the usual length.
func HashKey(key string) Hash {
	var room [128]byte
	return sha256.Sum256(append(room[:0], key...))
}

// Equal compares in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// String returns the hash in hexadecimal, the stored form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash parses the output of [Hash.String].
func ParseHash(s string) (Hash, error) {
	var h Hash
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, fmt.Errorf("a key hash must be %d hexadecimal digits", 2*len(h))
	}
	copy(h[:], b)
	return h, nil
}

// NewKey returns a new gateway key with 256 random bits.
func NewKey() secret.String { return fresh(KeyPrefix) }

// Identity is an authenticated gateway key, session or token. It is immutable once
// published and safe for concurrent use.
type Identity struct {
	KeyID        string
	Type         KeyType
	UserID       string // owner of a user key or session; empty for service keys
	Name         string
	Hash         Hash
	Organisation string
	Workspace    string
	Scopes       []Scope

	// Denied are the permissions that the user's role in the workspace lacks; nil for
	// keys that are not a user's. The slice is shared. See [Identity.May].
	Denied []Permission

	// Providers limits the key to these provider ids and slugs. Empty allows all.
	Providers []string

	// Tools limit what the key may use of tool servers: lists of patterns, all of which must
	// select it. Nil allows all, and an empty list nothing. See toolserver.Selection.
	Tools [][]string

	// AllowedAddresses limits the key to clients in these networks. Empty allows all.
	AllowedAddresses []netip.Prefix

	// Config is the slug of the saved config for requests that name none. Empty applies
	// none.
	Config string

	// ConfigFixed rejects requests that name another config than Config.
	ConfigFixed bool

	// Metadata is added to the metadata of requests and takes precedence.
	Metadata map[string]string

	// Exhausted means that the key's budget is exhausted: it may not send model
	// requests but may still read.
	Exhausted bool

	// Disabled means that the key may not be used until it is enabled again.
	Disabled bool

	// Limits are the key's rate limits and budgets, those of its user, and those
	// of the keys that it descends from. The slice is shared.
	Limits []*quota.Limit

	// ExpiresAt is when the key expires. Zero means never.
	ExpiresAt time.Time

	// Egress are the policies that limit the destinations of the key's requests, in
	// addition to those of its workspace and organisation. All of them apply.
	Egress []*egress.Policy

	// Logging is the logging level of the key's requests.
	Logging Logging

	// ResponseModel says which name responses give their model, for requests
	// whose config does not. Empty means the default of their dialect.
	ResponseModel api.ResponseModel

	// Lineage are the ids of the keys that the key descends from, nearest first; see
	// [Identity.Under]. The slice is shared.
	Lineage []string

	// Makers are the ids of other users whose keys the key descends from, whose limits
	// bind it too.
	Makers []string

	// Rank is the rank of the key's creator, RankNone if unknown; see
	// [Identity.KeyRank].
	Rank Rank

	// Pending is what a pending session waits for, and ProvedAt when the user of a session
	// last proved who they are. Zero for others.
	Pending  string
	ProvedAt time.Time

	// Claims are further claims of a token. Nil for keys and sessions.
	Claims *Claims

	// Workload is the id of the workload identity of a short-lived key, empty for others.
	Workload string
}

// Claims are the claims of a JSON Web Token that keys do not have.
type Claims struct {
	// User is the issuer's name for the user, empty for none. It is not the id of a
	// user of the gateway and grants nothing.
	User     string
	IssuedAt time.Time // zero if absent
}

// UserLimits are the rate limits and the budget of a user of an organisation.
type UserLimits struct {
	Organisation string // id
	ID           string
	Email        string // lower case
	Limits       []*quota.Limit
	Exhausted    bool
	Tools        []string // patterns of what they may use of tool servers; nil for all, empty for nothing
}

// AllowsProvider reports whether the identity may use the provider with this id or
// slug.
func (id *Identity) AllowsProvider(name string) bool {
	return len(id.Providers) == 0 || slices.Contains(id.Providers, name)
}

// Expired reports whether the key is expired at now.
func (id *Identity) Expired(now time.Time) bool {
	return !id.ExpiresAt.IsZero() && !now.Before(id.ExpiresAt)
}
