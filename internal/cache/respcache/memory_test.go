package respcache_test

import (
	"fmt"
	"testing"
	"time"

	"modelgate/internal/cache/respcache"
)

var (
	start = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	owner = respcache.Tenant{Organisation: "o", Workspace: "w"}
)

func entry(mod func(*respcache.Entry)) *respcache.Entry {
	e := &respcache.Entry{Owner: owner, Generation: 5, Expires: start.Add(time.Minute), Namespace: "n", Config: "c", KeyID: "k", Body: []byte("body")}
	if mod != nil {
		mod(e)
	}
	return e
}

func TestAnEntryIsServedToItsOwnerUntilItExpires(t *testing.T) {
	m := respcache.NewMemory(0)
	m.Put(t.Context(), respcache.Key{1}, entry(nil))
	for _, tt := range []struct {
		name  string
		owner respcache.Tenant
		key   respcache.Key
		after time.Duration
		found bool
	}{
		{"at once", owner, respcache.Key{1}, 0, true},
		{"another key", owner, respcache.Key{2}, 0, false},
		{"another workspace", respcache.Tenant{Organisation: "o", Workspace: "x"}, respcache.Key{1}, 0, false},
		{"another organisation", respcache.Tenant{Organisation: "x", Workspace: "w"}, respcache.Key{1}, 0, false},
		{"before its end", owner, respcache.Key{1}, time.Minute - 1, true},
		{"at its end", owner, respcache.Key{1}, time.Minute, false},
	} {
		e, err := m.Get(t.Context(), tt.owner, tt.key, start.Add(tt.after))
		if err != nil || (e != nil) != tt.found {
			t.Errorf("%s: %v, %v; want found %v", tt.name, e, err, tt.found)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	const limit = 1 << 20
	m := respcache.NewMemory(limit)
	for i := range 10_000 {
		key := respcache.Key{byte(i), byte(i >> 8)}
		m.Put(t.Context(), key, entry(func(e *respcache.Entry) { e.Body = fmt.Appendf(nil, "%01000d", i) }))
	}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) { // eviction runs in the background
		size, entries := m.Bytes()
		if size <= limit && entries > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes in %d entries, want at most %d bytes", size, entries, limit)
		}
	}
}
