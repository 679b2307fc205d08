package ledger_test

import (
	"context"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
)

// plain writes a row as its id, followed by n bytes, and counts those that are
// read again.
func plain(n int, parsed *atomic.Int64) ledger.Codec {
	return ledger.Codec{
		Append: func(dst []byte, e *reqlog.Entry) []byte {
			return append(append(dst, e.ID[:]...), make([]byte, n)...)
		},
		Parse: func(b []byte) (*reqlog.Entry, error) {
			parsed.Add(1)
			return &reqlog.Entry{ID: reqlog.ID(b[:16])}, nil
		},
	}
}

// TestRowsBeyondTheQueueAreReadFromTheSegments records rows while the store is
// away. As many as [ledger.Options].Queue wait in memory, with 16 MB of bodies.
func TestRowsBeyondTheQueueAreReadFromTheSegments(t *testing.T) {
	const mega = 1 << 20
	body := make([]byte, mega)
	bodies := func(n int) (list []int) {
		for range n {
			list = append(list, mega)
		}
		return list
	}
	for _, tt := range []struct {
		name   string
		queue  int
		bodies []int // bytes of the body of each row
		parsed int64
	}{
		{"as many as the queue", 10, make([]int, 10), 0},
		{"one more", 10, make([]int, 11), 1},
		{"five more", 10, make([]int, 15), 5},
		{"as many as a queue without a size", 0, make([]int, 8192), 0},
		{"as many bodies as memory has room for", 100, bodies(16), 0},
		{"one byte more", 100, append(bodies(16), 1), 1},
		{"one row without bodies more", 100, append(bodies(16), 0), 0},
		{"a row without bodies behind one that has no room", 100, append(bodies(16), 1, 0), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, parsed := newMemory(), new(atomic.Int64)
				store.setError(errAway)
				l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Store: store, Codec: plain(1, parsed), MaxQueued: tt.queue})
				for _, n := range tt.bodies {
					e := entry(reqlog.NewID(time.Now()))
					if n > 0 {
						e.Bodies = &reqlog.Bodies{Response: reqlog.Body{Data: body[:n]}}
					}
					l.Record(t.Context(), e)
					if n := len(tt.bodies); n > 16 && n < 100 { // those before are being applied
						synctest.Wait()
					}
				}
				if got := l.Stats().Depth; got != len(tt.bodies) {
					t.Errorf("Stats = %d rows in depth, want %d", got, len(tt.bodies))
				}
				time.Sleep(time.Minute)
				store.setError(nil)
				time.Sleep(time.Minute)
				if got := len(store.ids(t)); got != len(tt.bodies) || parsed.Load() != tt.parsed {
					t.Errorf("the store has %d rows, %d of them from the segments; want %d and %d", got, parsed.Load(), len(tt.bodies), tt.parsed)
				}
				if st := l.Stats(); st.Depth != 0 || !st.Oldest.IsZero() {
					t.Errorf("at the end Stats = %d rows in depth, the oldest of %v; want none", st.Depth, st.Oldest)
				}
				mustClose(t, l)
			})
		})
	}
}

// TestSegmentsGrowToTheirSizeAndNoFurther notes exchanges one by one.
func TestSegmentsGrowToTheirSizeAndNoFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 16 << 10
		dir, parsed := t.TempDir(), new(atomic.Int64)
		l := mustOpen(t, ledger.Options{Dir: dir, Codec: plain(500, parsed), SegmentSize: size, KeepSegments: true})
		const record = ledger.IntentSize + 192 + 16 + 16 + 16 + 500
		for range 100 {
			exchange(t, l)
			time.Sleep(time.Second)
		}
		names := segments(t, dir)
		total := int64(0)
		for i, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			total += info.Size()
			if got := info.Size(); got > size+record || i < len(names)-2 && got < size {
				t.Errorf("%s has %d bytes, want %d and at most an exchange more", name, got, size)
			}
		}
		if want := int64(100*record + len(names)*ledger.HeadSize); total != want {
			t.Errorf("%d segments have %d bytes, want %d", len(names), total, want)
		}
		mustClose(t, l)
		if r := mustVerify(t, dir); !r.OK() || r.Exchanges != 100 || r.Attempts != 100 {
			t.Errorf("Verify = %+v, want 100 exchanges", r)
		}
	})
}

// TestStatsHaveTheSizeOfTheSegments notes exchanges while segments come and go.
func TestStatsHaveTheSizeOfTheSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := mustOpen(t, ledger.Options{Dir: dir, SegmentSize: 4 << 10})
		for n := range 50 {
			exchange(t, l)
			time.Sleep(2 * time.Second)
			names := segments(t, dir)
			total := int64(0)
			for _, name := range names {
				info, err := os.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				total += info.Size()
			}
			st := l.Stats()
			if len(names) == st.Segments+1 { // one is made ahead
				total -= ledger.HeadSize
			} else if len(names) != st.Segments {
				t.Errorf("after %d exchanges Stats = %d segments, want %d", n+1, st.Segments, len(names))
			}
			if st.Bytes != total || st.Segments > 2 {
				t.Errorf("after %d exchanges Stats = %d segments of %d bytes, want at most two of %d bytes", n+1, st.Segments, st.Bytes, total)
			}
		}
		mustClose(t, l)
		if names := segments(t, dir); len(names) != 1 {
			t.Errorf("segments after the end = %v, want the last one that was written to", names)
		}
	})
}

// syncing counts how often it was asked to keep what it has.
type syncing struct {
	*memory
	syncs atomic.Int64
}

func (s *syncing) Sync(context.Context) error { s.syncs.Add(1); return nil }

// TestStoreIsSyncedOnceForSeveralGroups notes exchanges all the time and then none.
func TestStoreIsSyncedOnceForSeveralGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &syncing{memory: newMemory()}
		l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Store: store, SyncInterval: 200 * time.Millisecond})
		for range 1000 {
			exchange(t, l)
			time.Sleep(10 * time.Millisecond)
		}
		if got := store.syncs.Load(); got < 5 || got > 11 {
			t.Errorf("the store was synced %d times in 10 s, want it about once a second", got)
		}
		time.Sleep(time.Minute)
		before := store.syncs.Load()
		time.Sleep(time.Hour)
		if got := store.syncs.Load() - before; got != 0 {
			t.Errorf("the store was synced %d times in an idle hour, want never", got)
		}
		mustClose(t, l)
	})
}

// turnstile is a store that lets one call in at a time.
type turnstile struct {
	*memory
	turn chan struct{}
}

func (s *turnstile) Apply(ctx context.Context, rows []*reqlog.Entry, again bool) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.memory.Apply(ctx, rows, again)
}

// TestOldestIsTheEndOfTheExchangeThatWaitsLongest records exchanges of 3 s, of which
// one is being applied.
func TestOldestIsTheEndOfTheExchangeThatWaitsLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &turnstile{memory: newMemory(), turn: make(chan struct{})}
		l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Store: store})
		if st := l.Stats(); !st.Oldest.IsZero() {
			t.Errorf("of no rows the oldest is of %v, want zero", st.Oldest)
		}
		record := func() time.Time {
			e := entry(reqlog.NewID(time.Now().Add(-3 * time.Second)))
			e.Total = 3 * time.Second
			l.Record(t.Context(), e)
			return time.Now()
		}
		first := record()
		time.Sleep(10 * time.Second) // it is being applied
		second := record()
		time.Sleep(10 * time.Second)
		record()
		time.Sleep(time.Second)
		if st := l.Stats(); !st.Oldest.Equal(first) || st.Depth != 3 {
			t.Errorf("before any is applied Stats = %d rows, the oldest of %v; want 3 of %v", st.Depth, st.Oldest, first)
		}
		store.turn <- struct{}{}
		time.Sleep(time.Second)
		if st := l.Stats(); !st.Oldest.Equal(second) || st.Depth != 2 {
			t.Errorf("after one was applied Stats = %d rows, the oldest of %v; want 2 of %v", st.Depth, st.Oldest, second)
		}
		close(store.turn)
		time.Sleep(time.Second)
		if st := l.Stats(); !st.Oldest.IsZero() || st.Depth != 0 {
			t.Errorf("after all were applied Stats = %d rows, the oldest of %v; want none", st.Depth, st.Oldest)
		}
		mustClose(t, l)
	})
}

// TestRowThatWaitsIsAppliedAfterAKill kills a process that has applied the row before
// and marked it, in the same segment and in the one before.
func TestRowThatWaitsIsAppliedAfterAKill(t *testing.T) {
	for _, size := range []int64{1 << 20, 1 << 10} {
		for _, queue := range []int{10, 1} {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				store := &turnstile{memory: newMemory(), turn: make(chan struct{})}
				l := mustOpen(t, ledger.Options{Dir: dir, Store: store, SegmentSize: size, MaxQueued: queue})
				var want []reqlog.ID
				for range 6 { // the first is being applied
					want = append(want, exchange(t, l))
					time.Sleep(time.Second)
				}
				for applied := range 3 {
					left := kill(t, dir)
					rest := newMemory()
					mustClose(t, mustOpen(t, ledger.Options{Dir: left, Store: rest}))
					have := store.ids(t)
					for _, id := range want {
						if !slices.Contains(have, id) && rest.rows[id] != 1 {
							t.Errorf("segments of %d bytes, %d rows in memory: after %d steps, which applied %d rows, the row of %s is lost in a kill", size, queue, applied, len(have), id)
						}
					}
					select {
					case store.turn <- struct{}{}:
					case <-time.After(time.Minute): // all are applied
					}
					time.Sleep(10 * time.Second) // they are marked
				}
				close(store.turn)
				mustClose(t, l)
				if got := len(store.ids(t)); got != len(want) {
					t.Errorf("the store has %d rows, want %d", got, len(want))
				}
			})
		}
	}
}
