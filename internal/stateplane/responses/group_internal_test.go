package responses

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"modelgate/internal/dataplane"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/access"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

func TestConcurrentWritesShareATransaction(t *testing.T) {
	g := &group{db: storetest.Open(t, "file:"+filepath.Join(t.TempDir(), "modelgate.db"))}
	const n = 20
	begun, open := make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		g.do(t.Context(), func(context.Context, *store.Tx) error { close(begun); <-open; return nil })
	})
	waittest.Receive(t, begun, "the first write")
	var mu sync.Mutex
	transactions := make(map[*store.Tx]int)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			err := g.do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				mu.Lock()
				defer mu.Unlock()
				transactions[tx]++
				return nil
			})
			if err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		})
	}
	waittest.Until(t, "all writes wait", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.waiting) == n
	})
	close(open)
	all.Wait()
	first.Wait()
	if len(transactions) != 1 {
		t.Errorf("%d writes took %d transactions, want 1", n, len(transactions))
	}
}

func TestAFailedWriteFailsAlone(t *testing.T) {
	db := storetest.Open(t, "file:"+filepath.Join(t.TempDir(), "modelgate.db"))
	g := &group{db: db}
	broken := errors.New("broken")
	add := func(id string, end error) *write {
		return &write{done: make(chan error, 1), change: func(ctx context.Context, tx *store.Tx) error {
			o := store.Object{ID: id, Kind: store.ObjectResponse, CreatedAt: time.UnixMilli(1), UpdatedAt: time.UnixMilli(1)}
			return errors.Join(tx.AddObject(ctx, o), end)
		}}
	}
	list := []*write{add("a", nil), add("b", broken), add("c", nil)}
	g.store(t.Context(), list)
	for i, w := range list {
		if err := waittest.Receive(t, w.done, "the result of a write"); (err != nil) != (i == 1) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	for id, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if _, err := db.ObjectByID(t.Context(), id); (err == nil) != want {
			t.Errorf("%s is stored: %t, want %t", id, err == nil, want)
		}
	}
}

// Requests do not wait for a database that does not respond.
func TestADatabaseThatHangsIsLeftAlone(t *testing.T) {
	g := &group{db: storetest.Open(t, "file:"+filepath.Join(t.TempDir(), "modelgate.db"))}
	begun, open := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() {
		if err := g.do(ctx, func(context.Context, *store.Tx) error { close(begun); <-open; return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("the write that hangs: %v", err)
		}
	})
	waittest.Receive(t, begun, "the first write")
	cancel()
	first.Wait()
	if err := g.do(t.Context(), func(context.Context, *store.Tx) error { return nil }); !errors.Is(err, errHung) {
		t.Errorf("a write after one that hangs: %v", err)
	}
	close(open)
	g.mu.Lock()
	g.hung = time.Now().Add(-pause)
	g.mu.Unlock()
	if err := g.do(t.Context(), func(context.Context, *store.Tx) error { return nil }); err != nil {
		t.Errorf("a write after the pause: %v", err)
	}
}

// BenchmarkWrites measures storing a response of 4 KB with 64 requests in progress.
func BenchmarkWrites(b *testing.B) {
	g := &group{db: storetest.Open(b, "file:"+filepath.Join(b.TempDir(), "modelgate.db"))}
	content := make([]byte, 4<<10)
	b.SetParallelism(32) // for each core
	var mu sync.Mutex
	n := 0
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			n++
			id := fmt.Sprint("r", n)
			mu.Unlock()
			err := g.do(b.Context(), func(ctx context.Context, tx *store.Tx) error {
				o := store.Object{ID: id, Kind: store.ObjectResponse, CreatedAt: time.UnixMilli(1), UpdatedAt: time.UnixMilli(1)}
				if err := tx.AddObject(ctx, o); err != nil {
					return err
				}
				return tx.PutResponseContent(ctx, o.ID, content)
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A keeper without a database would panic if it were asked.
func TestRequestsThatStoreNothingDoNotReachTheDatabase(t *testing.T) {
	k := New(&kept.Deps{}, Options{Own: true})
	var doc jsonedit.Doc
	if err := doc.Scan([]byte(`{"model":"m","input":"x","store":false,"previous_response_id":null}`)); err != nil {
		t.Fatal(err)
	}
	if turn, err := k.Begin(t.Context(), &dataplane.TurnRequest{Identity: &access.Identity{}, Body: &doc, Retains: true}); turn != nil || err != nil {
		t.Errorf("Begin = %+v, %v", turn, err)
	}
}
