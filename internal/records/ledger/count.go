package ledger

import (
	"context"
	"math"
	"time"

	"modelgate/internal/records/reqlog"
)

// Counter stores the counts of settlements.
type Counter interface {
	// Counted returns the positions up to which segments were counted. Unknown segments
	// are not included.
	Counted(ctx context.Context, segments []string) (map[string]int64, error)

	// Count adds c and stores the positions up to which its segments were counted, in
	// one transaction; an error leaves open whether it succeeded. It returns an error
	// if a segment was not counted up to From.
	Count(ctx context.Context, c *Counts) error
}

// Counts are the settlements in parts of segments, added up.
type Counts struct {
	Spans []CountedSpan
	Spent map[reqlog.SpendOwner]*reqlog.Spend
	// Counters is the part of Spent that counts for budgets of policies, by the
	// name of their counter; see [reqlog.Intent].
	Counters map[string]*reqlog.Spend
	// Own and OwnCounters are the parts of Spent and Counters that this process
	// settled.
	Own         map[reqlog.SpendOwner]*reqlog.Spend
	OwnCounters map[string]*reqlog.Spend
}

// CountedSpan is a part of a segment.
type CountedSpan struct {
	Segment  string
	From, To int64
}

// MarksKept is how long a [Counter] must remember the positions of segments. An older
// segment that it does not know is not counted, because it may have been counted before
// and restored from a backup.
const MarksKept = 90 * 24 * time.Hour

// clockError is the largest expected difference between clocks.
const clockError = 24 * time.Hour

// Limits of one count.
const (
	mostSettlements = 100_000
	mostOwners      = 2_000
)

// settlementCounter reads the segments and counts their settlements. Only the Counter
// knows what was counted: after a failure and at the start everything is read again,
// and what was counted before is skipped. Only records that would survive a power
// failure are counted.
type settlementCounter struct {
	l      *Ledger
	wake   chan struct{} // holds one token: something was synced
	fresh  bool          // nothing is known yet
	parts  map[*segment]*part
	open   map[attempt]openIntent
	known  map[string]owners // by the strings of an intent
	reader reader

	// Read but not counted yet.
	sums    Counts // without spans
	settled int    // settlements in sums
	own     int    // of those, recorded by this process
	paid    map[*segment]int
	failing bool

	stats countStats // guarded by the ledger's lock
}

// countStats is the part that other goroutines read.
type countStats struct {
	own     uint64    // counted settlements of this process
	at      time.Time // when everything was last counted
	failure string
}

// part is the progress of reading a segment.
type part struct {
	mark int64 // everything before it was counted, as the Counter knows
	read int64
	open int // intents whose settlement was not counted
}

// openIntent is an attempt whose settlement was not read yet.
type openIntent struct {
	owners
	seg *segment // segment with its intent
}

// owners are what an attempt is counted for.
type owners struct {
	owner    reqlog.SpendOwner
	counters []string // of policies
}

func newCounting(l *Ledger) *settlementCounter {
	return &settlementCounter{l: l, wake: make(chan struct{}, 1), fresh: true, stats: countStats{at: time.Now()}}
}

// run counts in the background until the ledger is closed.
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
		select { // others join meantime
		case <-time.After(wait):
		case <-c.l.stop.Done():
			return
		}
		c.all(c.l.stop)
	}
}

// all counts everything, unless that fails.
func (c *settlementCounter) all(ctx context.Context) {
	for began := time.Now(); ; {
		more, err := c.pass(ctx)
		if ctx.Err() != nil {
			c.fresh = true
			return
		}
		c.logState(err, more, began)
		if err != nil || !more {
			ring(c.l.wake) // for segments that are now complete
			return
		}
	}
}

// logState logs when counting begins to fail and when it recovers.
func (c *settlementCounter) logState(err error, more bool, began time.Time) {
	switch {
	case err != nil && !c.failing:
		c.l.o.Logger.Error("counting settlements for budgets failed; retrying", "err", err)
	case err == nil && c.failing:
		c.l.o.Logger.Info("counting settlements for budgets recovered")
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

// segmentState is the state of a segment that counting needs.
type segmentState struct {
	seg      *segment
	to       int64 // end of the synced part
	complete bool  // to is the end of the segment
}

// pass reads on and counts what it has read. More reports that there is more.
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
		if more = c.full(); more || !s.complete {
			break // an intent precedes its settlement
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

// forget makes everything be read again.
func (c *settlementCounter) forget() {
	c.parts, c.open, c.known = map[*segment]*part{}, map[attempt]openIntent{}, map[string]owners{}
	c.clear()
}

func (c *settlementCounter) clear() {
	c.sums = Counts{
		Spent: map[reqlog.SpendOwner]*reqlog.Spend{}, Own: map[reqlog.SpendOwner]*reqlog.Spend{},
		Counters: map[string]*reqlog.Spend{}, OwnCounters: map[string]*reqlog.Spend{},
	}
	c.paid = map[*segment]int{}
	c.settled, c.own = 0, 0
}

func (c *settlementCounter) full() bool {
	return c.settled >= mostSettlements || len(c.sums.Spent)+len(c.sums.Counters) >= mostOwners
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

// ask gets the counted positions of new segments, and forgets removed segments.
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

// from returns the position from which a segment must be counted.
func (c *settlementCounter) from(s *segment, marks map[string]int64) int64 {
	mark, known := marks[s.id]
	switch {
	case known:
		return mark
	case s.id == "":
		c.l.o.Logger.Warn("ledger segment without an id not counted for budgets", "segment", s.path)
		return math.MaxInt64
	case s.foreign && time.Since(s.made) > MarksKept-clockError:
		c.l.o.Logger.Warn("ledger segment too old to be counted for budgets", "segment", s.path)
		return math.MaxInt64
	}
	return segmentHead
}

// counts returns what was read.
func (c *settlementCounter) counts(list []segmentState) *Counts {
	out := c.sums
	for _, s := range list {
		if p := c.parts[s.seg]; p.read > max(p.mark, segmentHead) {
			out.Spans = append(out.Spans, CountedSpan{s.seg.id, p.mark, p.read})
		}
	}
	return &out
}

// counted marks everything that was read as counted.
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

// fullyCounted reports whether s is no longer needed for counting.
func (l *Ledger) fullyCounted(s *segment) bool {
	return l.o.Counter == nil || s.counted >= s.end && s.uncounted == 0
}

// finish counts the rest when nothing else writes to the ledger any more.
func (c *settlementCounter) finish(ctx context.Context) {
	if c.failing {
		return // the next start counts the rest
	}
	c.all(ctx)
	c.l.compact()
}

// AwaitCounted returns when everything settled before is counted, or ctx ends. Without a
// Counter it returns at once.
func (l *Ledger) AwaitCounted(ctx context.Context) error {
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

// uncounted returns the number of settlements of this process that wait to be counted,
// and the time since which something waits, zero if nothing does.
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
