package respcache_test

import (
	"fmt"
	"testing"
	"time"

	"modelgate/internal/respcache"
)

var (
	start = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	owner = respcache.Tenant{Organisation: "o", Workspace: "w"}
)

func entry(mod func(*respcache.Entry)) *respcache.Entry {
	e := &respcache.Entry{Owner: owner, Started: start, Expires: start.Add(time.Minute), Namespace: "n", Config: "c", KeyID: "k", Body: []byte("body")}
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

func TestInvalidationAlsoAppliesToCallsInProgress(t *testing.T) {
	for _, tt := range []struct {
		name  string
		owner respcache.Tenant
		sel   respcache.Selector
		gone  bool
	}{
		{"everything", owner, respcache.Selector{}, true},
		{"namespace", owner, respcache.Selector{Namespace: "n"}, true},
		{"another namespace", owner, respcache.Selector{Namespace: "m"}, false},
		{"config", owner, respcache.Selector{Config: "c"}, true},
		{"another config", owner, respcache.Selector{Config: "d"}, false},
		{"key", owner, respcache.Selector{KeyID: "k"}, true},
		{"one of two fields", owner, respcache.Selector{KeyID: "k", Namespace: "m"}, false},
		{"another tenant", respcache.Tenant{Organisation: "x", Workspace: "w"}, respcache.Selector{}, false},
	} {
		m := respcache.NewMemory(0)
		m.Put(t.Context(), respcache.Key{1}, entry(nil))
		m.Invalidate(t.Context(), tt.owner, tt.sel, start.Add(time.Second))
		m.Put(t.Context(), respcache.Key{2}, entry(nil)) // of a request that began before
		m.Put(t.Context(), respcache.Key{3}, entry(func(e *respcache.Entry) { e.Started = start.Add(2 * time.Second) }))
		for key, want := range map[byte]bool{1: !tt.gone, 2: !tt.gone, 3: true} {
			if e, _ := m.Get(t.Context(), owner, respcache.Key{key}, start.Add(3*time.Second)); (e != nil) != want {
				t.Errorf("%s: entry %d is there: %v, want %v", tt.name, key, e != nil, want)
			}
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

func TestManyInvalidationsOfATenantBecomeOneOfEverything(t *testing.T) {
	m := respcache.NewMemory(0)
	other := respcache.Tenant{Organisation: "o", Workspace: "x"}
	at := start.Add(time.Second)
	for i := range 64 {
		m.Invalidate(t.Context(), owner, respcache.Selector{Namespace: fmt.Sprint(i)}, at)
	}
	put := func(key byte, tenant respcache.Tenant) bool {
		m.Put(t.Context(), respcache.Key{key}, entry(func(e *respcache.Entry) { e.Owner = tenant }))
		e, _ := m.Get(t.Context(), tenant, respcache.Key{key}, at)
		return e != nil
	}
	if !put(1, owner) {
		t.Error("64 invalidations of other namespaces selected an entry")
	}
	m.Invalidate(t.Context(), owner, respcache.Selector{Namespace: "64"}, at)
	if put(2, owner) {
		t.Error("an entry of a request in flight was stored after 65 invalidations")
	}
	if !put(3, other) {
		t.Error("invalidations of one workspace selected an entry of another")
	}
}
