package sessions

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/argon2"

	"modelgate/internal/base/apierr"
)

// Cost of hashing a password: 19 MiB and two passes, as OWASP recommends.
// https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html
const (
	memory   = 19 << 10 // KiB
	passes   = 2
	lanes    = 1
	saltSize = 16
	hashSize = 32
)

// Limits of the queue of password hashing. Places reserved for known addresses keep a
// flood of sign-ins from shutting users out.
const (
	places        = 32
	unknownPlaces = 24 // of all places
	addressPlaces = 8  // of one client address
	mostSlots     = 4  // passwords hashed concurrently: 19 MB each
)

// hasher hashes passwords, few at a time. It is safe for concurrent use.
type hasher struct {
	slots chan struct{}

	mu    sync.Mutex
	taken map[string]int // places by client address; guarded by mu
	total int            // guarded by mu
}

// newHasher returns a hasher that uses at most half of the processors.
func newHasher() *hasher {
	return &hasher{slots: make(chan struct{}, min(max(runtime.GOMAXPROCS(0)/2, 1), mostSlots)), taken: make(map[string]int)}
}

// enter takes a place in the queue; leave releases it. Known means that the account has
// used the address before. If the queue is full it returns an error at once.
func (h *hasher) enter(address string, known bool) (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.taken[address] >= addressPlaces:
		return nil, busy(apierr.RateLimited, "%d sign-ins from this address are under way; try again in a second", addressPlaces)
	case h.total >= places, !known && h.total >= unknownPlaces:
		return nil, busy(apierr.Unavailable, "the limit of concurrent sign-ins is reached; try again in a second")
	}
	h.taken[address]++
	h.total++
	return func() { h.leave(address) }, nil
}

func (h *hasher) leave(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total--
	if h.taken[address]--; h.taken[address] == 0 {
		delete(h.taken, address)
	}
}

func busy(k apierr.Kind, format string, args ...any) error {
	e := apierr.New(k, format, args...).WithCode("sign_in_busy")
	e.RetryAfter = time.Second
	return e
}

// hash returns the stored form of a password, the usual string of argon2id. Like
// verify, it must be called between enter and leave.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails: crypto/rand aborts the program instead
	sum, err := h.sum(ctx, password, salt, memory, passes)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, passes, lanes, encode(salt), encode(sum)), nil
}

// verify reports whether stored is the hash of password.
func (h *hasher) verify(ctx context.Context, password, stored string) (bool, error) {
	var version, mem, times, threads uint32
	head, tail, _ := strings.Cut(stored, "$m=")
	if _, err := fmt.Sscanf(head, "$argon2id$v=%d", &version); err != nil || version != argon2.Version {
		return false, fmt.Errorf("a stored password hash is malformed")
	}
	costs, rest, _ := strings.Cut(tail, "$")
	if _, err := fmt.Sscanf(costs, "%d,t=%d,p=%d", &mem, &times, &threads); err != nil || threads != lanes {
		return false, fmt.Errorf("a stored password hash is malformed")
	}
	saltText, sumText, _ := strings.Cut(rest, "$")
	salt, err := base64.RawStdEncoding.DecodeString(saltText)
	if err != nil {
		return false, fmt.Errorf("a stored password hash is malformed")
	}
	want, err := base64.RawStdEncoding.DecodeString(sumText)
	if err != nil || len(want) != hashSize {
		return false, fmt.Errorf("a stored password hash is malformed")
	}
	sum, err := h.sum(ctx, password, salt, mem, times)
	return subtle.ConstantTimeCompare(sum, want) == 1, err
}

// sum waits for a free slot and hashes.
func (h *hasher) sum(ctx context.Context, password string, salt []byte, mem, times uint32) ([]byte, error) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return argon2.IDKey([]byte(password), salt, times, mem, lanes, hashSize), nil
}

func encode(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }
