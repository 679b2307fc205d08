package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"modelgate/internal/model/llm"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// memory is a store in memory that can be away.
type memory struct {
	mu      sync.Mutex
	rows    map[reqlog.ID]int // how often each was applied
	looked  int               // rows that may have been applied before
	empty   int               // calls without a row
	away    error
	breaks  int // how many rows further it applies before it goes away; zero means it does not
	changed chan struct{}
}

func newMemory() *memory {
	return &memory{rows: map[reqlog.ID]int{}, changed: make(chan struct{}, 1)}
}

func (m *memory) Apply(_ context.Context, rows []*reqlog.Entry, again bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away != nil {
		return m.away
	}
	if len(rows) == 0 {
		m.empty++
	}
	for _, e := range rows {
		if again {
			m.looked++
			if m.rows[e.ID] > 0 {
				continue
			}
		}
		m.rows[e.ID]++
		if m.breaks--; m.breaks == 0 {
			return errAway
		}
	}
	return nil
}

func (m *memory) Sync(context.Context) error { return nil }

func (m *memory) setError(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = err
}

// ids returns the rows, and fails where one was applied twice, or none at a time.
func (m *memory) ids(t testing.TB) []reqlog.ID {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.empty > 0 {
		t.Errorf("the store was called %d times without a row", m.empty)
	}
	for id, n := range m.rows {
		if n != 1 {
			t.Errorf("the row of %s was applied %d times, want once", id, n)
		}
	}
	return slices.SortedFunc(maps.Keys(m.rows), func(a, b reqlog.ID) int { return slices.Compare(a[:], b[:]) })
}

var codec = ledger.Codec{Append: logstore.AppendEntry, Parse: logstore.ParseEntry}

// mustOpen opens a ledger that ends with the test.
func mustOpen(t testing.TB, o ledger.Options) *ledger.Ledger {
	t.Helper()
	if o.Codec.Append == nil {
		o.Codec = codec
	}
	if o.Store == nil {
		o.Store = newMemory()
	}
	l, err := ledger.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustClose(t testing.TB, l *ledger.Ledger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Fatalf("Close = %v", err)
	}
}

func mustIntend(t testing.TB, l *ledger.Ledger, id reqlog.ID, n uint16) {
	t.Helper()
	if err := l.RecordIntent(t.Context(), intent(id, n)); err != nil {
		t.Fatalf("Intend = %v", err)
	}
}

func intent(id reqlog.ID, n uint16) reqlog.Intent {
	return reqlog.Intent{
		ID: id, Attempt: n, Time: id.Time(), Organisation: "org", Workspace: "ws", KeyID: "key",
		Provider: "openai", Slug: "main", Model: "gpt-x", RequestBytes: 4000,
	}
}

func settlement(id reqlog.ID, n uint16) reqlog.Settlement {
	return reqlog.Settlement{
		ID: id, Attempt: n, Time: id.Time().Add(time.Second), Outcome: reqlog.Answered, Status: 200,
		Usage: llm.Usage{Input: 10, Output: 5, Known: true}, Cost: 1234, Priced: true, Price: "openai/gpt-x",
	}
}

func entry(id reqlog.ID) *reqlog.Entry {
	return &reqlog.Entry{ID: id, Time: id.Time(), Input: reqlog.Input{Model: "gpt-x"}, Origin: reqlog.Origin{Provider: "openai"}, Result: reqlog.Result{Status: 200, Usage: llm.Usage{Input: 10, Output: 5, Known: true}}}
}

// exchange notes a whole exchange of one attempt.
func exchange(t testing.TB, l *ledger.Ledger) reqlog.ID {
	t.Helper()
	id := reqlog.NewID(time.Now())
	mustIntend(t, l, id, 1)
	l.RecordSettlement(settlement(id, 1))
	l.Record(t.Context(), entry(id))
	return id
}

func mustVerify(t testing.TB, dir string) *ledger.Report {
	t.Helper()
	r, err := ledger.Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// segments returns the files of a ledger.
func segments(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.seg*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var errAway = errors.New("the store is away")

// recordLine is what a record says, to compare.
func recordLine(r ledger.Record) string {
	switch {
	case r.Intent != nil:
		return fmt.Sprintf("intent %+v", *r.Intent)
	case r.Settle != nil:
		return fmt.Sprintf("settle %+v", *r.Settle)
	}
	return fmt.Sprintf("row %s %d", r.Exchange, len(r.Row))
}

// closed is a context that has ended: for closing what can't be flushed.
func closed(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// runWithin fails a test whose step has not ended after a minute.
func runWithin(t *testing.T, step string, run func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not done after a minute", step)
	}
}
