package sessions

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/argon2"
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

// hash returns what is stored of a password, in the usual form of argon2id.
func (f *family) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails: crypto/rand ends the program instead
	sum, err := f.sum(ctx, password, salt, memory, passes)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, passes, lanes, encode(salt), encode(sum)), nil
}

// verify reports whether a password is the one that stored was made of.
func (f *family) verify(ctx context.Context, password, stored string) (bool, error) {
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
	sum, err := f.sum(ctx, password, salt, mem, times)
	return subtle.ConstantTimeCompare(sum, want) == 1, err
}

// sum hashes once it is its turn.
func (f *family) sum(ctx context.Context, password string, salt []byte, mem, times uint32) ([]byte, error) {
	select {
	case f.hashing <- struct{}{}:
		defer func() { <-f.hashing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return argon2.IDKey([]byte(password), salt, times, mem, lanes, hashSize), nil
}

func encode(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }

// After tries wrong passwords within window, an address has to wait for the rest
// of it. At most maxGuesses addresses are remembered.
const (
	tries      = 10
	window     = 15 * time.Minute
	maxGuesses = 10_000
)

// guesses counts wrong passwords by address.
type guesses struct {
	mu    sync.Mutex
	since map[string]guess // guarded by mu
}

type guess struct {
	from  time.Time
	count int
}

func newGuesses() *guesses { return &guesses{since: make(map[string]guess)} }

// wait returns how long an address has to wait, zero for not at all.
func (g *guesses) wait(email string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.since[email]
	if !ok || s.count < tries {
		return 0
	}
	return max(s.from.Add(window).Sub(now), 0)
}

func (g *guesses) wrong(email string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.since[email]
	if s.count == 0 || !now.Before(s.from.Add(window)) {
		s = guess{from: now}
	}
	s.count++
	if len(g.since) >= maxGuesses {
		for other, old := range g.since { // those whose time is over, else anyone
			if delete(g.since, other); !now.Before(old.from.Add(window)) || len(g.since) < maxGuesses {
				break
			}
		}
	}
	g.since[email] = s
}

func (g *guesses) right(email string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.since, email)
}
