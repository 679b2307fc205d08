// Package access says who a caller is and what it may do.
//
// Keys are kept as hashes; an [Identity] is what a key proves. Finding the
// identity of a hash is left to the snapshot, storing it to the store.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"modelgate/internal/egress"
	"modelgate/internal/secret"
)

// KeyPrefix begins every gateway key, so that a leaked one is recognised.
const KeyPrefix = "mg-"

// Hash is the SHA-256 of a gateway key. Keys hold 256 random bits, so that a
// plain hash can't be searched.
type Hash [sha256.Size]byte

// HashKey returns the hash of key. It does not allocate for keys as long as
// ours are.
func HashKey(key string) Hash {
	var room [128]byte
	return sha256.Sum256(append(room[:0], key...))
}

// Equal compares in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// String returns the hash in hexadecimal, as it is stored.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what [Hash.String] wrote.
func ParseHash(s string) (Hash, error) {
	var h Hash
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return h, fmt.Errorf("a key hash is %d hexadecimal digits", 2*len(h))
	}
	copy(h[:], b)
	return h, nil
}

// NewKey returns a fresh gateway key of 256 random bits.
func NewKey() secret.String { return fresh(KeyPrefix) }

// Identity is the owner of a gateway key, session or token. It is immutable once published and
// safe for concurrent use.
type Identity struct {
	KeyID        string
	Type         KeyType
	UserID       string // of the person behind a user's key or a session; empty for service keys
	Name         string
	Hash         Hash
	Organisation string
	Workspace    string
	Scopes       []Scope

	// Providers limits the key to these provider ids and slugs. Empty allows all.
	Providers []string

	// AllowedAddresses limits the key to clients of these networks. Empty allows
	// all.
	AllowedAddresses []netip.Prefix

	// Config is the slug of the saved config that applies when a request brings
	// none. Empty applies none.
	Config string

	// ConfigFixed refuses requests that bring another config than Config.
	ConfigFixed bool

	// Metadata is added to that of requests and wins over it.
	Metadata map[string]string

	// Exhausted is true of a key that has used up its budget: it asks models for
	// nothing, and reads on.
	Exhausted bool

	// ExpiresAt ends the key. Zero means never.
	ExpiresAt time.Time

	// Egress are the policies that limit where the requests of the key go besides
	// those of its workspace and organisation: all of them hold.
	Egress []*egress.Policy

	// Logging is how much is kept of the exchanges.
	Logging Logging

	// Lineage are the ids of the keys that made this one, the nearest first: see
	// [Identity.Under]. It is shared.
	Lineage []string

	// Rank is that of who made the key, RankNone where it is unknown: see
	// [Identity.KeyRank].
	Rank Rank

	// Claims is what a token says besides. Nil for keys and sessions.
	Claims *Claims
}

// Claims is what a JSON Web Token says that no key does.
type Claims struct {
	// User is what its issuer calls the person, empty for none. It is no id of
	// a user of the gateway, and gives no right.
	User     string
	IssuedAt time.Time // zero when it is not said
}

// AllowsProvider reports whether the identity may use the provider with this
// id or slug.
func (id *Identity) AllowsProvider(name string) bool {
	return len(id.Providers) == 0 || slices.Contains(id.Providers, name)
}

// Expired reports whether the key has ended at now.
func (id *Identity) Expired(now time.Time) bool {
	return !id.ExpiresAt.IsZero() && !now.Before(id.ExpiresAt)
}
