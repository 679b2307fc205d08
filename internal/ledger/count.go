package ledger

import (
	"context"
	"math"
	"time"

	"modelgate/internal/reqlog"
)

// Counter keeps what settlements come to.
type Counter interface {
	// Counted returns up to where segments were counted. It leaves out those of
	// which it knows nothing.
	Counted(ctx context.Context, segments []string) (map[string]int64, error)

	// Count adds what c holds and keeps how far its segments were counted, both
	// or neither: an error leaves open which. It is refused with an error where
	// one of them was not counted up to From.
	Count(ctx context.Context, c *Counts) error
}

// Counts are what settlements in parts of segments come to.
type Counts struct {
	Spans []CountedSpan
	Spent map[reqlog.SpendOwner]*reqlog.Spend
}

// CountedSpan is a part of a segment.
type CountedSpan struct {
	Segment  string
	From, To int64
}

// MarksKept is for how long a [Counter] has to know how far a segment was
// counted. One that is older and that it does not know is not counted: it may
// have been before, and was put back from a backup.
const MarksKept = 90 * 24 * time.Hour

// clockError is how far clocks may be apart.
const clockError = 24 * time.Hour

// Bounds of what is counted at a time.
const (
	mostSettlements = 100_000
	mostOwners      = 2_000
)

// settlementCounter reads the segments again and counts the settlements in them. How
// far it came is known to the Counter alone: after a failure, and at a start,
// all is read again, and what was counted before is skipped. Only what no
// power cut takes away is counted.
type settlementCounter struct {
	l      *Ledger
	wake   chan struct{} // holds one: something was made safe
	fresh  bool          // nothing is known
	parts  map[*segment]*part
	open   map[attempt]openIntent
	known  map[string]reqlog.SpendOwner // by the texts of an intent
	reader reader

	// What was read and is not counted.
	spent   map[reqlog.SpendOwner]*reqlog.Spend
	settled int // settlements in it
	own     int // of those, the ones this process has noted
	paid    map[*segment]int
	failing bool

	stats countStats // guarded by the ledger's lock
}

// countStats are what others see of it.
type countStats struct {
	own     uint64    // settlements of this process that were counted
	at      time.Time // when all there was had been counted last
	failure string
}

// part is how far a segment was read.
type part struct {
	mark int64 // what is before it was counted; the Counter knows
	read int64
	open int // intents in it whose settlement was not counted
}

// openIntent is an attempt whose settlement was not read.
type openIntent struct {
	owner reqlog.SpendOwner
	seg   *segment // where its intent stands
}

func newCounting(l *Ledger) *settlementCounter {
	return &settlementCounter{l: l, wake: make(chan struct{}, 1), fresh: true, stats: countStats{at: time.Now()}}
}

// run counts until the ledger is closed.
func (c *settlementCounter) run() {
	pause := firstPause
	for {
		wake, wait := c.wake, c.l.o.SyncInterval
		if c.failing {
			wake, wait = nil, pause
			pause = min(2*pause, longestPause)
		} else {
			pause = firstPause
		}
		if wake != nil {
			select {
			case <-wake:
			case <-c.l.stop.Done():
				return
			}
		}
		select { // others join in the meantime
		case <-time.After(wait):
		case <-c.l.stop.Done():
			return
		}
		c.all(c.l.stop)
	}
}

// all counts all there is, unless that fails.
func (c *settlementCounter) all(ctx context.Context) {
	for began := time.Now(); ; {
		more, err := c.pass(ctx)
		if ctx.Err() != nil {
			c.fresh = true
			return
		}
		c.tell(err, more, began)
		if err != nil || !more {
			ring(c.l.wake) // for the segments that are done now
			return
		}
	}
}

// tell says when counting begins to fail and when it works again.
func (c *settlementCounter) tell(err error, more bool, began time.Time) {
	switch {
	case err != nil && !c.failing:
		c.l.o.Logger.Error("counting settlements for budgets failed; retrying", "err", err)
	case err == nil && c.failing:
		c.l.o.Logger.Info("counting for budgets works again")
	}
	c.failing = err != nil
	c.fresh = c.fresh || err != nil
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	switch {
	case err != nil:
		c.stats.failure = err.Error()
	case !more:
		c.stats.failure, c.stats.at = "", began
	}
	c.l.changed.Broadcast()
}

// segmentState is what counting needs of a segment at a moment.
type segmentState struct {
	seg   *segment
	to    int64 // end of what is safe
	whole bool  // that is all of it
}

// pass reads on and counts what it has read. More says that there is more.
func (c *settlementCounter) pass(ctx context.Context) (more bool, err error) {
	if c.fresh {
		c.forget()
	}
	list := c.segments()
	if err := c.ask(ctx, list); err != nil {
		return false, err
	}
	c.fresh = false
	for _, s := range list {
		if err := c.scan(s); err != nil {
			return false, err
		}
		if more = c.full(); more || !s.whole {
			break // an intent is before its settlement
		}
	}
	if c.settled > 0 {
		if err := c.l.o.Counter.Count(ctx, c.counts(list)); err != nil {
			return false, err
		}
	}
	c.counted(list)
	return more, nil
}

// forget makes it read everything again.
func (c *settlementCounter) forget() {
	c.parts, c.open, c.known = map[*segment]*part{}, map[attempt]openIntent{}, map[string]reqlog.SpendOwner{}
	c.clear()
}

func (c *settlementCounter) clear() {
	c.spent, c.paid = map[reqlog.SpendOwner]*reqlog.Spend{}, map[*segment]int{}
	c.settled, c.own = 0, 0
}

func (c *settlementCounter) full() bool {
	return c.settled >= mostSettlements || len(c.spent) >= mostOwners
}

func (c *settlementCounter) segments() []segmentState {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	list := make([]segmentState, len(c.l.all))
	for i, s := range c.l.all {
		list[i] = segmentState{s, s.synced, s.synced >= s.end}
	}
	return list
}

// ask learns how far segments were counted that are new to it, and forgets those
// that went.
func (c *settlementCounter) ask(ctx context.Context, list []segmentState) error {
	here := make(map[*segment]bool, len(list))
	var ids []string
	for _, s := range list {
		here[s.seg] = true
		if c.parts[s.seg] == nil && (c.fresh || s.seg.foreign) && s.seg.id != "" {
			ids = append(ids, s.seg.id)
		}
	}
	for s := range c.parts {
		if !here[s] {
			delete(c.parts, s)
		}
	}
	var marks map[string]int64
	var err error
	if len(ids) > 0 {
		if marks, err = c.l.o.Counter.Counted(ctx, ids); err != nil {
			return err
		}
	}
	for _, s := range list {
		if c.parts[s.seg] == nil {
			c.parts[s.seg] = &part{mark: c.from(s.seg, marks), read: segmentHead}
		}
	}
	return nil
}

// from returns from where a segment is to be counted.
func (c *settlementCounter) from(s *segment, marks map[string]int64) int64 {
	mark, known := marks[s.id]
	switch {
	case known:
		return mark
	case s.id == "":
		c.l.o.Logger.Warn("a segment of the ledger that does not say which one it is does not count for budgets", "segment", s.path)
		return math.MaxInt64
	case s.foreign && time.Since(s.made) > MarksKept-clockError:
		c.l.o.Logger.Warn("a segment of the ledger is too old to count for budgets", "segment", s.path)
		return math.MaxInt64
	}
	return segmentHead
}

// counts returns what was read.
func (c *settlementCounter) counts(list []segmentState) *Counts {
	out := &Counts{Spent: c.spent}
	for _, s := range list {
		if p := c.parts[s.seg]; p.read > max(p.mark, segmentHead) {
			out.Spans = append(out.Spans, CountedSpan{s.seg.id, p.mark, p.read})
		}
	}
	return out
}

// counted notes that all that was read is counted.
func (c *settlementCounter) counted(list []segmentState) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	for s, n := range c.paid {
		if p := c.parts[s]; p != nil {
			p.open -= n
		}
	}
	for _, s := range list {
		p := c.parts[s.seg]
		if c.settled > 0 {
			p.mark = max(p.mark, p.read)
		}
		s.seg.counted, s.seg.uncounted = p.read, p.open
	}
	c.stats.own += uint64(c.own)
	c.clear()
}

// fullyCounted reports whether nothing in s is needed to count any more.
func (l *Ledger) fullyCounted(s *segment) bool {
	return l.o.Counter == nil || s.counted >= s.end && s.uncounted == 0
}

// finish counts what is left, when nothing else writes to the ledger any more.
func (c *settlementCounter) finish(ctx context.Context) {
	if c.failing {
		return // the next start counts it
	}
	c.all(ctx)
	c.l.compact()
}

// Counted returns when everything that was settled before is counted, or ctx ends.
// Without a Counter it returns at once.
func (l *Ledger) Counted(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.Counter == nil {
		return nil
	}
	target, began := l.stats.Settled, time.Now()
	for {
		_, since := l.uncounted()
		if l.counting.stats.own >= target && (since.IsZero() || !since.Before(began)) {
			return nil
		}
		if l.closed {
			return errClosed
		}
		ring(l.counting.wake)
		if err := l.pause(ctx); err != nil {
			return err
		}
	}
}

// uncounted returns how many settlements of this process wait to be counted, and
// since when something does; zero when nothing does.
func (l *Ledger) uncounted() (n int, since time.Time) {
	if l.o.Counter == nil {
		return 0, since
	}
	for _, s := range l.all {
		if s.counted < s.end {
			since = l.counting.stats.at
		}
	}
	return int(l.stats.Settled - l.counting.stats.own), since
}
