package respcache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// keys are data keys that are made on demand.
type keys struct {
	mu   sync.Mutex
	box  *secret.Box
	made map[string]*secret.DataKey
}

func newKeys(t testing.TB) *keys {
	t.Helper()
	box, err := secret.NewBox(secret.New("the master key of a test"))
	if err != nil {
		t.Fatal(err)
	}
	return &keys{box: box, made: make(map[string]*secret.DataKey)}
}

func (k *keys) Current(organisation string) *secret.DataKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.made[organisation]
}

func (k *keys) Create(_ context.Context, organisation string) (*secret.DataKey, error) {
	key, err := k.box.DataKey(organisation, k.box.NewDataKey(organisation))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made[organisation] = key
	return key, err
}

// open is a backend in memory that fails and waits on demand, and that everybody may
// change.
type openBackend struct {
	mu      sync.Mutex
	values  map[string][]byte
	err     error
	stuck   bool
	entered int
}

func (b *openBackend) wait() error {
	b.mu.Lock()
	b.entered++
	stuck, err := b.stuck, b.err
	b.mu.Unlock()
	if stuck {
		select {} // whatever the context says
	}
	return err
}

func (b *openBackend) Read(_ context.Context, name string, most int) ([]byte, error) {
	if err := b.wait(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.values[name], nil
}

func (b *openBackend) Write(_ context.Context, records []respcache.Record) error {
	if err := b.wait(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range records {
		b.values[r.Name] = r.Value
	}
	return nil
}

func (b *openBackend) Close() error { return nil }

func (b *openBackend) snapshot() map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.values)
}

func newShared(t testing.TB, b respcache.Backend, k respcache.Keys, log *bytes.Buffer) *respcache.Shared {
	t.Helper()
	o := respcache.SharedOptions{Backend: b, Keys: k, MaxResponse: 1 << 20, Now: func() time.Time { return start }, Deadline: time.Minute}
	if log != nil {
		o.Logger = textLogger(log)
	}
	s := respcache.NewShared(o)
	t.Cleanup(func() { s.Close() })
	return s
}

// put stores an entry and closes the store, so that it is written.
func put(t testing.TB, b respcache.Backend, k respcache.Keys, key respcache.Key, e *respcache.Entry) {
	t.Helper()
	s := newShared(t, unclosed{b}, k, nil)
	if err := s.Put(t.Context(), key, e); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if st := s.Stats(); st.Dropped != 0 {
		t.Fatalf("not written: %+v", st)
	}
}

// unclosed is a backend that another store uses next.
type unclosed struct{ respcache.Backend }

func (unclosed) Close() error { return nil }

func full(e *respcache.Entry) {
	e.Status, e.ContentType, e.Encoding, e.Form = 200, "text/event-stream", "gzip", respcache.Events
	e.Model, e.Upstream, e.Finish, e.Terminated = "served", "sent", "stop", true
	e.Usage = llm.Usage{Input: 3, Output: 4, CachedInput: 1}
	e.Params = []dialect.ParamChange{{Name: "top_k", Note: "n"}}
	e.Cost, e.Priced = 123, true
	e.Body = []byte("data: the response\n\n\x00\xff")
}

func TestAStoredEntryComesBackAsItWas(t *testing.T) {
	for name, open := range backends(t) {
		t.Run(name, func(t *testing.T) {
			b, k := open(t), newKeys(t)
			want := entry(full)
			put(t, b, k, respcache.Key{1}, want)
			got, err := newShared(t, b, k, nil).Get(t.Context(), owner, respcache.Key{1}, start)
			if err != nil || got == nil || !got.Expires.Equal(want.Expires) {
				t.Fatalf("%+v, %v", got, err)
			}
			got.Expires = want.Expires
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// Every string and number of an entry is set by full, so that the comparison above
// notices one that is not stored.
func TestTheEntryOfTheTestHasEveryField(t *testing.T) {
	v := reflect.ValueOf(*entry(full))
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not set", v.Type().Field(i).Name)
		}
	}
}

func TestABackendThatSomebodyElseWritesToYieldsNothing(t *testing.T) {
	const secretText = "a secret of the response"
	other := respcache.Tenant{Organisation: "o", Workspace: "x"}
	foreign := respcache.Tenant{Organisation: "p", Workspace: "w"}
	b, k := &openBackend{values: make(map[string][]byte)}, newKeys(t)
	names := make(map[respcache.Tenant]string)
	store := func(owner respcache.Tenant, key respcache.Key) string {
		before := b.snapshot()
		put(t, b, k, key, entry(func(e *respcache.Entry) {
			e.Owner, e.Body = owner, []byte(secretText+owner.Organisation+owner.Workspace)
		}))
		for name, v := range b.snapshot() {
			if strings.Contains(name+string(v), secretText) || strings.Contains(string(v), "expires") {
				t.Fatal("an entry can be read")
			}
			if _, ok := before[name]; !ok {
				return name
			}
		}
		t.Fatal("nothing was stored")
		return ""
	}
	for _, o := range []respcache.Tenant{owner, other, foreign} {
		names[o] = store(o, respcache.Key{1})
	}
	second := store(owner, respcache.Key{2})
	good := b.snapshot()
	mine := good[names[owner]]
	flip := func(i int) []byte {
		v := bytes.Clone(mine)
		v[i] ^= 1
		return v
	}
	log := new(bytes.Buffer)
	s := newShared(t, b, k, log)
	for _, tt := range []struct {
		name  string
		value []byte
		found bool
	}{
		{"as stored", mine, true},
		{"of another workspace", good[names[other]], false},
		{"of another organisation", good[names[foreign]], false},
		{"of another request", good[second], false},
		{"first byte", flip(0), false},
		{"middle", flip(len(mine) / 2), false},
		{"last byte", flip(len(mine) - 1), false},
		{"cut", mine[:len(mine)-1], false},
		{"longer", append(bytes.Clone(mine), 0), false},
		{"short", mine[:5], false},
		{"one byte", []byte{0}, false},
		{"plain", []byte("\x00\x00\x00\x02{}body"), false},
	} {
		b.mu.Lock()
		b.values[names[owner]] = tt.value
		b.mu.Unlock()
		e, err := s.Get(t.Context(), owner, respcache.Key{1}, start)
		if err != nil || (e != nil) != tt.found {
			t.Errorf("%s: %v, %v", tt.name, e, err)
		}
	}
	if st := s.Stats(); st.Rejected != 11 || st.Reads.Failed != 0 {
		t.Errorf("%+v, want 11 rejected", st)
	}
	if n := strings.Count(log.String(), "cache entry rejected"); n != 1 {
		t.Errorf("%d warnings, want one a minute: %s", n, log)
	}
}

func TestWithoutItsDataKeyAnEntryCannotBeRead(t *testing.T) {
	for name, open := range backends(t) {
		t.Run(name, func(t *testing.T) {
			b, k := open(t), newKeys(t)
			put(t, b, k, respcache.Key{1}, entry(nil))
			s := newShared(t, b, k, nil)
			get := func() *respcache.Entry {
				e, err := s.Get(t.Context(), owner, respcache.Key{1}, start)
				if err != nil {
					t.Error(err)
				}
				return e
			}
			if get() == nil {
				t.Fatal("nothing is stored")
			}
			delete(k.made, owner.Organisation)
			if get() != nil {
				t.Error("served without a data key")
			}
			k.Create(t.Context(), owner.Organisation)
			if get() != nil {
				t.Error("served with another data key")
			}
		})
	}
}

func TestAnEntryIsServedUntilItIsWritten(t *testing.T) {
	b, k := &openBackend{values: make(map[string][]byte), err: errors.New("full")}, newKeys(t)
	b.mu.Lock() // the write waits
	s := newShared(t, b, k, nil)
	s.Put(t.Context(), respcache.Key{1}, entry(nil))
	for _, tt := range []struct {
		owner respcache.Tenant
		at    time.Time
		found bool
	}{
		{owner, start, true},
		{owner, start.Add(time.Minute), false},
		{respcache.Tenant{Organisation: "x", Workspace: "w"}, start, false},
	} {
		if e, err := s.Get(t.Context(), tt.owner, respcache.Key{1}, tt.at); err != nil || (e != nil) != tt.found {
			t.Errorf("%v at %v: %v, %v", tt.owner, tt.at, e, err)
		}
	}
	b.mu.Unlock()
	s.Close()
	if st := s.Stats(); st.Writes.Failed != 1 || st.Dropped != 1 {
		t.Errorf("%+v", st)
	}
}

func TestABackendThatHangsTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, k := &openBackend{values: make(map[string][]byte)}, newKeys(t)
		k.Create(t.Context(), owner.Organisation)
		hangs := make(chan struct{})
		release := sync.OnceFunc(func() { close(hangs) })
		defer time.AfterFunc(time.Hour, release).Stop() // for a store that waits
		s := respcache.NewShared(respcache.SharedOptions{Backend: hanging{b, hangs}, Keys: k, MaxResponse: 1 << 20})
		began := time.Now()
		for range 100 {
			if e, err := s.Get(t.Context(), owner, respcache.Key{1}, start); e != nil || err == nil {
				t.Fatalf("%v, %v", e, err)
			}
		}
		if took := time.Since(began); took != 5*respcache.DefaultDeadline {
			t.Errorf("100 requests waited %v, want five deadlines", took)
		}
		for i := range 100_000 { // what cannot be written does not pile up
			s.Put(t.Context(), respcache.Key{byte(i), byte(i >> 8), byte(i >> 16)}, entry(func(e *respcache.Entry) { e.Body = make([]byte, 1<<10) }))
		}
		if st := s.Stats(); st.Dropped == 0 {
			t.Errorf("%+v: 100 MB wait to be written", st)
		}
		release()
		s.Close()
	})
}

// hanging is a backend whose calls wait whatever their context says.
type hanging struct {
	respcache.Backend
	release chan struct{}
}

func (h hanging) Read(ctx context.Context, name string, most int) ([]byte, error) {
	<-h.release
	return h.Backend.Read(ctx, name, most)
}

func (h hanging) Write(ctx context.Context, records []respcache.Record) error {
	<-h.release
	return h.Backend.Write(ctx, records)
}

func TestTheLatestEntryOfAKeyRemains(t *testing.T) {
	for name, open := range backends(t) {
		t.Run(name, func(t *testing.T) {
			b, k := open(t), newKeys(t)
			s := newShared(t, unclosed{b}, k, nil)
			for i := range 50 {
				s.Put(t.Context(), respcache.Key{1}, entry(func(e *respcache.Entry) { e.Body = fmt.Append(nil, i) }))
			}
			s.Close()
			e, err := newShared(t, b, k, nil).Get(t.Context(), owner, respcache.Key{1}, start)
			if err != nil || e == nil || string(e.Body) != "49" {
				t.Errorf("%v, %v; want the body 49", e, err)
			}
		})
	}
}

// slow takes its time for each read.
type slow struct{ respcache.Backend }

func (b slow) Read(ctx context.Context, name string, most int) ([]byte, error) {
	time.Sleep(2 * time.Millisecond)
	return b.Backend.Read(ctx, name, most)
}

// A burst of requests must not turn off a store that works, for everybody.
func TestABurstOfReadsWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, k := &openBackend{values: make(map[string][]byte)}, newKeys(t)
		k.Create(t.Context(), owner.Organisation)
		s := respcache.NewShared(respcache.SharedOptions{Backend: slow{b}, Keys: k, MaxResponse: 1 << 20})
		defer s.Close()
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if _, err := s.Get(t.Context(), owner, respcache.Key{1}, start); err != nil {
					t.Errorf("Get = %v", err)
				}
			})
		}
		all.Wait()
		if st := s.Stats().Reads; st.Calls != 1000 || st.Failed != 0 || st.Skipped != 0 {
			t.Errorf("reads: %+v, want 1000 without a failure", st)
		}
	})
}
