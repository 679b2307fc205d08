package ledger_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/waittest"
)

// noise is what can't be compressed, and what is known by the id.
func noise(id reqlog.ID, n int) []byte {
	r := rand.New(rand.NewPCG(binary.BigEndian.Uint64(id[:]), binary.BigEndian.Uint64(id[8:])))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

// withBodies is an entry with two bodies of n bytes each.
func withBodies(id reqlog.ID, n int) *reqlog.Entry {
	e := entry(id)
	data := noise(id, 2*n)
	e.Level = reqlog.LevelFull
	e.Bodies = &reqlog.Bodies{Request: reqlog.Body{Type: "a/b", Data: data[:n], Size: int64(n)}, Response: reqlog.Body{Data: data[n:], Size: int64(n)}}
	return e
}

// library is a store that looks at bodies, and can be held.
type library struct {
	gate chan struct{} // closed when rows are taken; nil when they always are
	size int

	mu      sync.Mutex
	with    map[reqlog.ID]int
	without map[reqlog.ID]int
}

func newLibrary(size int) *library {
	return &library{size: size, with: map[reqlog.ID]int{}, without: map[reqlog.ID]int{}}
}

func (s *library) Apply(ctx context.Context, rows []*reqlog.Entry, again bool) error {
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range rows {
		if again && s.with[e.ID]+s.without[e.ID] > 0 {
			continue
		}
		if e.Bodies == nil {
			s.without[e.ID]++
			continue
		}
		want := noise(e.ID, 2*s.size)
		if !bytes.Equal(e.Bodies.Request.Data, want[:s.size]) || !bytes.Equal(e.Bodies.Response.Data, want[s.size:]) || e.Bodies.Request.Type != "a/b" {
			return errors.New("bodies of another exchange")
		}
		s.with[e.ID]++
	}
	return nil
}

func (s *library) Sync(context.Context) error { return nil }

// TestBodiesThatWaitForTheStoreStayOutOfMemory ends many exchanges while nothing
// is applied.
func TestBodiesThatWaitForTheStoreStayOutOfMemory(t *testing.T) {
	const exchanges, size, most = 2000, 50 << 10, 36 << 20
	store := newLibrary(size)
	store.gate = make(chan struct{})
	l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Store: store})
	ids := make(chan reqlog.ID)
	var ending sync.WaitGroup
	for range 8 {
		ending.Go(func() {
			for id := range ids {
				mustIntend(t, l, id, 1)
				l.RecordSettlement(settlement(id, 1))
				l.Record(t.Context(), withBodies(id, size))
			}
		})
	}
	peak := uint64(0)
	for n := range exchanges {
		ids <- reqlog.NewID(time.Now())
		if n%200 == 199 {
			peak = max(peak, heap())
		}
	}
	close(ids)
	ending.Wait()
	peak = max(peak, heap())
	t.Logf("%d MB of bodies wait; the heap has %d MB at most", exchanges*2*size>>20, peak>>20)
	if peak > most {
		t.Errorf("the heap has grown to %d MB, want at most %d", peak>>20, most>>20)
	}
	if st := l.Stats(); st.Depth != exchanges {
		t.Errorf("Stats = %+v, want %d rows in depth", st, exchanges)
	}
	close(store.gate)
	for st := l.Stats(); st.Depth > 0; st = l.Stats() {
		peak = max(peak, heap())
	}
	if peak > 3*most { // with what is garbage as soon as it was compared
		t.Errorf("the heap has grown to %d MB while rows were applied, want at most %d", peak>>20, 3*most>>20)
	}
	mustClose(t, l)
	if len(store.with) != exchanges {
		t.Errorf("%d rows have their bodies, want %d", len(store.with), exchanges)
	}
	for id, n := range store.with {
		if n != 1 {
			t.Errorf("the row of %s was applied %d times, want once", id, n)
		}
	}
}

// heap returns how much memory is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestTwoBodiesOfAMegabyteAreNotedAndReadAgain(t *testing.T) {
	const size = 1 << 20
	dir, store := t.TempDir(), newLibrary(size)
	store.gate = make(chan struct{})
	l := mustOpen(t, ledger.Options{Dir: dir, Store: store, SyncInterval: time.Millisecond})
	var ending sync.WaitGroup
	for range 4 { // among small ones, which do not keep them from their turn
		ending.Go(func() {
			for range 8 {
				exchange(t, l)
				id := reqlog.NewID(time.Now())
				mustIntend(t, l, id, 1)
				l.RecordSettlement(settlement(id, 1))
				l.Record(t.Context(), withBodies(id, size))
			}
		})
	}
	ending.Wait()
	l.Close(closed(t)) // nothing was applied
	if r := mustVerify(t, dir); !r.OK() || r.Exchanges != 64 || r.Attempts != 64 || r.Input != 640 || r.Cost != 64*1234 {
		t.Errorf("Verify = %+v, want 64 exchanges and their sums", r)
	}
	close(store.gate)
	l = mustOpen(t, ledger.Options{Dir: dir, Store: store})
	mustClose(t, l)
	if len(store.with) != 32 || len(store.without) != 32 {
		t.Errorf("%d rows with bodies and %d without, want 32 each", len(store.with), len(store.without))
	}
}

func TestAFullDiskCostsBodiesWhereTheyMayBeDropped(t *testing.T) {
	const size = 1000
	disk, store := new(ledger.Disk), newLibrary(size)
	l := mustOpen(t, disk.On(ledger.Options{Dir: t.TempDir(), Store: store, OnFull: ledger.DropBodies, SyncInterval: time.Millisecond}))
	ids := []reqlog.ID{reqlog.NewID(time.Now()), reqlog.NewID(time.Now())}
	for _, id := range ids {
		mustIntend(t, l, id, 1)
		l.RecordSettlement(settlement(id, 1))
	}
	l.Record(t.Context(), withBodies(ids[0], size))
	disk.Fill(true)
	runWithin(t, "an attempt and the end of another, while the disk is full", func() {
		if err := l.RecordIntent(t.Context(), intent(reqlog.NewID(time.Now()), 1)); !errors.Is(err, ledger.ErrFull) {
			t.Errorf("RecordIntent = %v, want ErrFull", err)
		}
		l.Record(t.Context(), withBodies(ids[1], size))
	})
	if got := l.Stats().BodiesDropped; got != 1 {
		t.Errorf("%d rows lost their bodies, want 1", got)
	}
	disk.Fill(false)
	waittest.Until(t, "writing works again", func() bool { return l.Stats().LastError == "" })
	mustClose(t, l)
	if store.with[ids[0]] != 1 || store.without[ids[1]] != 1 || l.Stats().Lost != 0 {
		t.Errorf("with bodies %v, without %v, %+v; want one each and nothing lost", store.with, store.without, l.Stats())
	}
}

func TestBodiesLeaveRoomToRowsWithout(t *testing.T) {
	const size, most = 20 << 10, 1 << 20
	for full, share := range map[ledger.FullPolicy]int64{ledger.DropBodies: most / 2, ledger.DropRows: most / 2} {
		t.Run(string(full), func(t *testing.T) {
			store := newLibrary(size)
			store.gate = make(chan struct{})
			dir := t.TempDir()
			l := mustOpen(t, ledger.Options{Dir: dir, Store: store, OnFull: full, SegmentSize: 64 << 10, MaxSize: most, SyncInterval: time.Millisecond})
			n, with := 0, int64(0) // bytes before bodies were dropped
			runWithin(t, "exchanges of which a hundred lose their bodies", func() {
				for ; l.Stats().BodiesDropped < 100; n++ {
					id := reqlog.NewID(time.Now())
					mustIntend(t, l, id, 1)
					l.RecordSettlement(settlement(id, 1))
					l.Record(t.Context(), withBodies(id, size))
					if st := l.Stats(); st.BodiesDropped == 0 {
						with = st.Bytes
					}
				}
			})
			if with > share || with < share-3*size {
				t.Errorf("bodies were noted up to %d bytes, want %d of %d", with, share, most)
			}
			var r *ledger.Report
			waittest.Until(t, "a moment without a segment that is being created", func() bool {
				r = mustVerify(t, kill(t, dir))
				return r.Segments[len(r.Segments)-1].Bytes >= ledger.HeadSize
			})
			if !r.OK() || r.Exchanges != n {
				t.Errorf("Verify = %+v; want all %d rows to be read", r, n)
			}
			st := l.Stats()
			if st.Lost != 0 || n < 105 || n > 130 || st.Bytes > most*9/10 {
				t.Errorf("after %d exchanges %+v; want some with bodies, a hundred without, and room left", n, st)
			}
			close(store.gate)
			mustClose(t, l)
			if len(store.without) != 100 || len(store.with) != n-100 {
				t.Errorf("%d rows without bodies, %d with; want 100 and %d", len(store.without), len(store.with), n-100)
			}
		})
	}
}
