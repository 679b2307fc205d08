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

	"modelgate/internal/apierr"
)

// The cost of hashing a password: 19 MiB, twice, as OWASP recommends.
// https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html
const (
	memory   = 19 << 10 // KiB
	passes   = 2
	lanes    = 1
	saltSize = 16
	hashSize = 32
)

// The queue of the requests that hash a password. The places that only known
// addresses may take keep a flood from others from shutting people out.
const (
	places        = 32
	unknownPlaces = 24 // of all places
	addressPlaces = 8  // of one client address
	mostSlots     = 4  // passwords hashed at a time: 19 MB each
)

// hasher hashes passwords, few at a time. It is safe for concurrent use.
type hasher struct {
	slots chan struct{}

	mu    sync.Mutex
	taken map[string]int // places by client address; guarded by mu
	total int            // guarded by mu
}

// newHasher returns a hasher that leaves half of the processors to others.
func newHasher() *hasher {
	return &hasher{slots: make(chan struct{}, min(max(runtime.GOMAXPROCS(0)/2, 1), mostSlots)), taken: make(map[string]int)}
}

// enter takes a place in the queue, which leave returns. Known says that the
// address was used by the account before. A full queue is refused at once.
func (h *hasher) enter(address string, known bool) (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.taken[address] >= addressPlaces:
		return nil, busy(apierr.RateLimited, "%d sign-ins from this address are under way; try again in a second", addressPlaces)
	case h.total >= places, !known && h.total >= unknownPlaces:
		return nil, busy(apierr.Unavailable, "the gateway checks as many passwords as it may at a time; try again in a second")
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

// hash returns what is stored of a password, in the usual form of argon2id. Like
// verify it is for who has a place.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails: crypto/rand ends the program instead
	sum, err := h.sum(ctx, password, salt, memory, passes)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, passes, lanes, encode(salt), encode(sum)), nil
}

// verify reports whether a password is the one that stored was made of.
func (h *hasher) verify(ctx context.Context, password, stored string) (bool, error) {
	var version, mem, times, threads uint32
	head, tail, _ := strings.Cut(stored, "$m=")
	if _, err := fmt.Sscanf(head, "$argon2id$v=%d", &version); err != nil || version != argon2.Version {
		return false, fmt.Errorf("a stored password has another form")
	}
	costs, rest, _ := strings.Cut(tail, "$")
	if _, err := fmt.Sscanf(costs, "%d,t=%d,p=%d", &mem, &times, &threads); err != nil || threads != lanes {
		return false, fmt.Errorf("a stored password has another form")
	}
	saltText, sumText, _ := strings.Cut(rest, "$")
	salt, err := base64.RawStdEncoding.DecodeString(saltText)
	if err != nil {
		return false, fmt.Errorf("a stored password has another form")
	}
	want, err := base64.RawStdEncoding.DecodeString(sumText)
	if err != nil || len(want) != hashSize {
		return false, fmt.Errorf("a stored password has another form")
	}
	sum, err := h.sum(ctx, password, salt, mem, times)
	return subtle.ConstantTimeCompare(sum, want) == 1, err
}

// sum hashes once it is its turn.
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
