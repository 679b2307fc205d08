package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
)

// countStore is a Counter in memory.
type countStore struct {
	mu    sync.Mutex
	marks map[string]int64
	spent map[reqlog.SpendOwner]reqlog.Spend
	own   reqlog.Spend // by the process that counted
	names map[string]reqlog.Spend
	calls int
	wrong []string // spans that do not begin where the last one ended
	// before and after are called around each count, and may refuse it.
	before, after func() error
}

func newCountStore() *countStore {
	return &countStore{marks: map[string]int64{}, spent: map[reqlog.SpendOwner]reqlog.Spend{}, names: map[string]reqlog.Spend{}}
}

func (c *countStore) Counted(_ context.Context, segments []string) (map[string]int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before != nil {
		if err := c.before(); err != nil {
			return nil, err
		}
	}
	out := map[string]int64{}
	for _, s := range segments {
		if n, ok := c.marks[s]; ok {
			out[s] = n
		}
	}
	return out, nil
}

func (c *countStore) Count(_ context.Context, n *ledger.Counts) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.before != nil {
		if err := c.before(); err != nil {
			return err
		}
	}
	for _, s := range n.Spans {
		at, ok := c.marks[s.Segment]
		if !ok {
			at = ledger.HeadSize
		}
		if at != s.From || s.To <= s.From {
			c.wrong = append(c.wrong, fmt.Sprintf("%+v after %d", s, at))
			return errors.New("it was counted elsewhere")
		}
	}
	for _, s := range n.Spans {
		c.marks[s.Segment] = s.To
	}
	for o, s := range n.Spent {
		sum := c.spent[o]
		sum.Add(*s)
		c.spent[o] = sum
	}
	for _, s := range n.Own {
		c.own.Add(*s)
	}
	for name, s := range n.Counters {
		sum := c.names[name]
		sum.Add(*s)
		c.names[name] = sum
	}
	if c.after != nil {
		return c.after()
	}
	return nil
}

// setError makes it fail, or work again.
func (c *countStore) setError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.after = func() error { return err }, nil
}

func (c *countStore) callCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

func (c *countStore) sums() map[reqlog.SpendOwner]reqlog.Spend {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.spent)
}

// waitCounted waits until everything that was settled is counted.
func waitCounted(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		st := l.Stats()
		if st.Uncounted == 0 && st.CountedAt.IsZero() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after a minute %d settlements are not counted: %s", st.Uncounted, st.CountError)
		}
	}
}

var payer = reqlog.SpendOwner{Organisation: "org", Workspace: "ws", KeyID: "key", Slug: "main"}

func TestSettlementsAreCountedForTheirOwner(t *testing.T) {
	dir, c := t.TempDir(), newCountStore()
	l := mustOpen(t, ledger.Options{Dir: dir, Counter: c, SyncInterval: 5 * time.Millisecond})
	for range 20 {
		exchange(t, l)
	}
	other := reqlog.NewID(time.Now())
	i := intent(other, 1)
	i.KeyID, i.Slug = "second", ""
	if err := l.RecordIntent(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	waitCounted(t, l)
	want := map[reqlog.SpendOwner]reqlog.Spend{payer: {Attempts: 20, Cost: 20 * 1234, Tokens: 20 * 15}}
	if got := c.sums(); !maps.Equal(got, want) {
		t.Errorf("counted %+v, want %+v: open ones are not counted", got, want)
	}
	l.RecordSettlement(reqlog.Settlement{ID: other, Attempt: 1, Outcome: reqlog.Answered})
	waitCounted(t, l)
	want[reqlog.SpendOwner{Organisation: "org", Workspace: "ws", KeyID: "second"}] = reqlog.Spend{Attempts: 1, Unknown: 1}
	if got := c.sums(); !maps.Equal(got, want) {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	mustClose(t, l)
	if len(c.wrong) > 0 {
		t.Errorf("spans were counted that were refused: %q", c.wrong)
	}
}

// A crash may come at any time: before the settlement is written, or before it is
// counted. What a later process counts is not its own.
func TestAttemptsAreCountedForPoliciesAcrossCrashes(t *testing.T) {
	dir, c := t.TempDir(), newCountStore()
	long := strings.Repeat("x", 5000)
	attempt := func(l *ledger.Ledger, settle bool, counters ...string) {
		t.Helper()
		i := intent(reqlog.NewID(time.Now()), 1)
		i.Counters = counters
		if err := l.RecordIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		if settle {
			l.RecordSettlement(settlement(i.ID, 1))
		}
	}
	o := ledger.Options{Dir: dir, Counter: c, SyncInterval: 5 * time.Millisecond, SegmentSize: 8 << 10}
	l := mustOpen(t, o)
	for n := range 30 {
		attempt(l, true, "a", long)
		attempt(l, n%3 > 0, "a", "b") // ten stay open, and are written again in later segments
		exchange(t, l)
	}
	waitCounted(t, l)
	if got := c.names; got["a"].Attempts != 50 || got["b"].Attempts != 20 || got[long].Attempts != 30 || got["b"].Tokens != 20*15 {
		t.Errorf("counted %+v", got)
	}
	if c.own.Attempts != 80 {
		t.Errorf("%d attempts were counted as this process's own, want 80", c.own.Attempts)
	}
	c.setError(errAway)
	attempt(l, true, "b")
	exchange(t, l) // writes the settlement
	left := kill(t, dir)
	mustClose(t, l)
	c.setError(nil)
	o.Dir = left
	l = mustOpen(t, o)
	waitCounted(t, l)
	mustClose(t, l)
	if got := c.names; got["a"].Attempts != 60 || got["b"].Attempts != 31 {
		t.Errorf("after a crash %+v, want the eleven attempts without a count too", got)
	}
	if c.own.Attempts != 90 { // the ten that it estimated itself
		t.Errorf("%d attempts were counted as a process's own", c.own.Attempts)
	}
}

func TestCountsArePutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCountStore()
		l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Counter: c})
		time.Sleep(time.Second)
		calls := c.callCount()
		for range 100 {
			for range 20 {
				exchange(t, l)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := c.callCount() - calls; n < 3 || n > 7 {
			t.Errorf("%d counts in a second of settlements, want about 5", n)
		}
		if got := c.sums()[payer].Attempts; got != 2000 {
			t.Errorf("%d attempts were counted, want 2000", got)
		}
		mustClose(t, l)
	})
}

func TestAStartCountsWhatTheLastOneDidNot(t *testing.T) {
	dir, c := t.TempDir(), newCountStore()
	c.setError(errAway)
	l := mustOpen(t, ledger.Options{Dir: dir, Counter: c, SyncInterval: 5 * time.Millisecond, SegmentSize: 4 << 10})
	for range 50 {
		exchange(t, l)
	}
	mustClose(t, l)
	if r := mustVerify(t, dir); r.Attempts != 50 {
		t.Errorf("the ledger has %d attempts after the end, want all 50: they were not counted", r.Attempts)
	}
	// A start without a counter, as of replay, takes nothing away.
	mustClose(t, mustOpen(t, ledger.Options{Dir: dir, ReplayAll: true, KeepSegments: true}))
	if r := mustVerify(t, dir); r.Attempts != 50 {
		t.Errorf("the ledger has %d attempts after a replay, want all 50", r.Attempts)
	}
	c.setError(nil)
	l = mustOpen(t, ledger.Options{Dir: dir, Counter: c, SyncInterval: 5 * time.Millisecond})
	waitCounted(t, l)
	mustClose(t, l)
	if got, want := c.sums()[payer], (reqlog.Spend{Attempts: 50, Cost: 50 * 1234, Tokens: 50 * 15}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if n := len(segments(t, dir)); n > 2 {
		t.Errorf("%d segments are left, want those of the last process alone", n)
	}
}

func TestCountingWaitsForACounterThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, c := t.TempDir(), newCountStore()
		l := mustOpen(t, ledger.Options{Dir: dir, Counter: c, SegmentSize: 8 << 10})
		exchange(t, l)
		time.Sleep(2 * time.Second)
		c.setError(errAway)
		for range 60 { // a minute each
			exchange(t, l)
			time.Sleep(time.Minute)
		}
		st := l.Stats()
		if st.Uncounted != 60 || st.CountError == "" || time.Since(st.CountedAt) < 59*time.Minute || st.Depth != 0 {
			t.Errorf("Stats = %+v, want 60 settlements that wait for an hour, and no row", st)
		}
		if r := mustVerify(t, dir); r.Attempts < 60 {
			t.Errorf("%d attempts are left in the ledger, want all that wait", r.Attempts)
		}
		c.setError(nil)
		time.Sleep(10 * time.Second)
		if st = l.Stats(); st.Uncounted != 0 || st.CountError != "" || !st.CountedAt.IsZero() {
			t.Errorf("Stats = %+v, want nothing that waits", st)
		}
		if got := c.sums()[payer].Attempts; got != 61 {
			t.Errorf("%d attempts were counted, want 61", got)
		}
		mustClose(t, l)
	})
}

func TestACountWithUnknownOutcomeIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCountStore()
		rnd := rand.New(rand.NewPCG(1, 2))
		c.before = func() error { return sometimes(rnd) }
		c.after = func() error { return sometimes(rnd) }
		l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Counter: c})
		for range 300 {
			exchange(t, l)
			time.Sleep(500 * time.Millisecond)
		}
		if n := c.callCount(); n < 10 {
			t.Errorf("%d counts, want many of which some fail", n)
		}
		c.setError(nil)
		time.Sleep(10 * time.Second)
		if got, want := c.sums()[payer], (reqlog.Spend{Attempts: 300, Cost: 300 * 1234, Tokens: 300 * 15}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		mustClose(t, l)
	})
}

func sometimes(rnd *rand.Rand) error {
	if rnd.IntN(4) == 0 {
		return errAway
	}
	return nil
}

func TestAnAttemptThatGoesOnForLongIsCountedInTheEnd(t *testing.T) {
	dir, c := t.TempDir(), newCountStore()
	l := mustOpen(t, ledger.Options{Dir: dir, Counter: c, SyncInterval: 2 * time.Millisecond, SegmentSize: 4 << 10})
	long := reqlog.NewID(time.Now())
	mustIntend(t, l, long, 1)
	first := segments(t, dir)[0]
	for end := time.Now().Add(time.Minute); ; {
		exchange(t, l)
		if _, err := os.Stat(first); errors.Is(err, fs.ErrNotExist) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the first segment is still there after a minute")
		}
	}
	before := c.sums()[payer].Attempts
	l.RecordSettlement(settlement(long, 1))
	waitCounted(t, l)
	if n := c.sums()[payer].Attempts; n <= before || int(n) != int(l.Stats().Settled) {
		t.Errorf("%d attempts were counted of %d, %d before the long one ended", n, l.Stats().Settled, before)
	}
	mustClose(t, l)
}

// TestSegmentsThatWereCopiedAreCountedOnce starts a ledger on a copy of another
// one's folder: a machine that was cloned, or a backup put back.
func TestSegmentsThatWereCopiedAreCountedOnce(t *testing.T) {
	dir, c := t.TempDir(), newCountStore()
	c.setError(errAway)
	l := mustOpen(t, ledger.Options{Dir: dir, Counter: c, SyncInterval: 2 * time.Millisecond, SegmentSize: 4 << 10})
	for range 30 {
		exchange(t, l)
	}
	left := kill(t, dir)
	for range 30 {
		exchange(t, l)
	}
	whole := kill(t, dir)
	mustClose(t, l)
	c.setError(nil)
	var list []*ledger.Ledger
	for _, dir := range []string{left, whole, dir} {
		list = append(list, mustOpen(t, ledger.Options{Dir: dir, Counter: c, SyncInterval: 2 * time.Millisecond}))
	}
	for _, l := range list {
		waitCounted(t, l)
		mustClose(t, l)
	}
	if got, want := c.sums()[payer], (reqlog.Spend{Attempts: 60, Cost: 60 * 1234, Tokens: 60 * 15}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

func TestASegmentWithoutAnIDIsNotCountedAndKeepsNothing(t *testing.T) {
	dir, c := t.TempDir(), newCountStore()
	id := reqlog.NewID(time.Now())
	i, s := intent(id, 1), settlement(id, 1)
	b := ledger.Segment([]ledger.Record{{Intent: &i}, {Settle: &s}, {Exchange: id, Row: codec.Append(nil, entry(id))}})
	clear(b[44:64])
	if err := os.WriteFile(filepath.Join(dir, "00000001.seg"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	l := mustOpen(t, ledger.Options{Dir: dir, Counter: c, SyncInterval: 2 * time.Millisecond})
	exchange(t, l)
	waitCounted(t, l)
	mustClose(t, l)
	if got := c.sums()[payer].Attempts; got != 1 {
		t.Errorf("%d attempts were counted, want the one of this process", got)
	}
	if n := len(segments(t, dir)); n != 1 {
		t.Errorf("%d segments are left, want one", n)
	}
}

func TestCountedReturnsWhenAllThatWasSettledIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCountStore()
		c.setError(errAway)
		l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Counter: c})
		exchange(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := l.AwaitCounted(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Counted = %v while the counter is away, want it to wait as long as its context lasts", err)
		}
		c.setError(nil)
		if err := l.AwaitCounted(t.Context()); err != nil || c.sums()[payer].Attempts != 1 {
			t.Errorf("Counted = %v with %d attempts counted, want 1", err, c.sums()[payer].Attempts)
		}
		exchange(t, l)
		if err := l.AwaitCounted(t.Context()); err != nil || c.sums()[payer].Attempts != 2 {
			t.Errorf("Counted = %v with %d attempts counted, want 2", err, c.sums()[payer].Attempts)
		}
		mustClose(t, l)
	})
}

func TestCountedWithoutACounterReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, ledger.Options{Dir: t.TempDir()})
		exchange(t, l)
		began := time.Now()
		if err := l.AwaitCounted(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("Counted = %v after %v, want nil at once", err, time.Since(began))
		}
		mustClose(t, l)
	})
}

// TestSegmentIsCountedAsLongAsCountersKnowIt opens a segment that was not counted
// after a long time. A counter keeps marks for 90 days, and clocks may differ by a
// day: after 89 days nobody knows whether it was counted before.
func TestSegmentIsCountedAsLongAsCountersKnowIt(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name  string
		after time.Duration
		want  int64
	}{
		{"before 89 days", 89*day - time.Hour, 1},
		{"after 89 days", 89*day + time.Hour, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, c := t.TempDir(), newCountStore()
				c.setError(errAway)
				l := mustOpen(t, ledger.Options{Dir: dir, Counter: c})
				exchange(t, l)
				mustClose(t, l)
				time.Sleep(tt.after)
				c.setError(nil)
				l = mustOpen(t, ledger.Options{Dir: dir, Counter: c})
				time.Sleep(time.Minute)
				if got := int64(c.sums()[payer].Attempts); got != tt.want {
					t.Errorf("%v later %d attempts were counted, want %d", tt.after, got, tt.want)
				}
				mustClose(t, l)
			})
		})
	}
}

// TestManyOwnersAreCountedOnceEach starts with more owners than are counted at a
// time.
func TestManyOwnersAreCountedOnceEach(t *testing.T) {
	const owners = 4500
	var intents, settles []ledger.Record
	want := map[reqlog.SpendOwner]reqlog.Spend{}
	for n := range owners {
		id := reqlog.NewID(time.Now())
		i := noteIntent(id, 1)
		i.Intent.KeyID = fmt.Sprint("key-", n)
		intents, settles = append(intents, i), append(settles, settleRecord(id, 1))
		o := payer
		o.KeyID = i.Intent.KeyID
		want[o] = reqlog.Spend{Attempts: 1, Cost: 1234, Tokens: 15}
	}
	c := newCountStore()
	l := mustOpen(t, ledger.Options{Dir: mustWriteSegments(t, ledger.Segment(append(intents, settles...))), Counter: c, SyncInterval: 2 * time.Millisecond})
	waitCounted(t, l)
	if got := c.sums(); !maps.Equal(got, want) || c.callCount() < 2 {
		t.Errorf("%d owners were counted in %d steps, %+v; want %d in some", len(got), c.callCount(), got[payer], owners)
	}
	if st := l.Stats(); st.Uncounted != 0 {
		t.Errorf("Stats = %d settlements of this process to be counted, want none: all are of an earlier one", st.Uncounted)
	}
	mustClose(t, l)
}

// TestCountsBeginWhereTheLastOneEnded notes and settles attempts one by one. A counter
// that nobody else calls receives only settlements and refuses none.
func TestCountsBeginWhereTheLastOneEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCountStore()
		l := mustOpen(t, ledger.Options{Dir: t.TempDir(), Counter: c})
		for n := range 3 {
			id := reqlog.NewID(time.Now())
			mustIntend(t, l, id, 1)
			time.Sleep(10 * time.Second)
			if got := c.callCount(); got != n {
				t.Errorf("with %d attempts settled and one in progress there were %d counts, want %d", n, got, n)
			}
			l.RecordSettlement(settlement(id, 1))
			time.Sleep(10 * time.Second)
			if got := c.callCount(); got != n+1 {
				t.Errorf("with %d attempts settled there were %d counts, want %d", n+1, got, n+1)
			}
		}
		mustClose(t, l)
		if got := c.sums()[payer].Attempts; got != 3 || len(c.wrong) > 0 {
			t.Errorf("%d attempts were counted and %q refused, want 3 and none", got, c.wrong)
		}
	})
}
