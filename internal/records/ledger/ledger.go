// Package ledger records attempts so that a crash cannot lose them.
//
// An attempt is recorded before it is sent ([Ledger.RecordIntent]) and when it has
// ended ([Ledger.RecordSettlement]), and an exchange when its response has ended
// ([Ledger.Record]). These methods return when the record was written to a segment, an
// append-only file, which survives the end of the process. Written records are synced
// in groups to survive a power failure, and applied to the log store in the background,
// each row once; settlements are added to a [Counter], each once. At the start the
// ledger recovers what an earlier process left: attempts without an end are estimated,
// missing rows are applied. The package does not encode rows (see logstore) or use the
// counts (see store and budgets).
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"modelgate/internal/records/reqlog"
)

// FullPolicy says what happens to requests while nothing can be written because the
// disk is full, read-only or too slow.
type FullPolicy string

// Policies. The zero value is Block.
const (
	Block      FullPolicy = "block"       // attempts wait up to HoldTime and are then rejected; ends of responses wait
	DropBodies FullPolicy = "drop_bodies" // recorded bodies are dropped and counted; otherwise like Reject
	DropRows   FullPolicy = "drop_rows"   // nothing waits; bodies, then records without space, are lost and counted
	Reject     FullPolicy = "reject"      // new attempts are rejected, after HoldTime if the disk is only slow; ended exchanges wait in memory
)

// HoldTime is how long an attempt waits until something can be written, with [Block] or
// while a write takes long.
const HoldTime = 10 * time.Second

// SyncMode says when an attempt may be sent.
type SyncMode string

// Modes. The zero value is Grouped.
const (
	Grouped SyncMode = "grouped" // when its intent is written
	Strict  SyncMode = "strict"  // when its intent would survive a power failure
)

// Store stores rows.
type Store interface {
	// Apply returns when all rows can be read. Again means that some of them may have
	// been applied before; each must be stored once.
	Apply(ctx context.Context, rows []*reqlog.Entry, again bool) error
	// Sync returns when everything applied would survive a power failure.
	Sync(ctx context.Context) error
}

// Options configure a ledger. Dir, Store and Codec are required.
type Options struct {
	Dir   string // created if necessary; several processes may share it
	Store Store
	Codec Codec

	// Counter counts settlements in addition to Store. Segments stay until both have
	// their content. Nil counts nothing.
	Counter Counter

	OnFull FullPolicy
	Sync   SyncMode

	// SegmentSize is the size at which a new segment begins, and MaxSize the total size
	// of segments at which writing stops, in bytes. Zero means 16 MB and 1 GB.
	SegmentSize, MaxSize int64

	// ReplayAll looks up all rows of earlier processes in the store, not only those not
	// marked as applied.
	ReplayAll bool

	// KeepSegments removes no segments, because others need them too.
	KeepSegments bool

	// MaxQueued is the limit of rows waiting in memory for the store, as long as their
	// bodies take at most 16 MB. Further rows are read from the segments later. Zero
	// means 8192.
	MaxQueued int

	// SyncInterval is the interval of syncs, and how long rows wait for others. Zero
	// means 200 ms.
	SyncInterval time.Duration

	// Logger reports damage, recovery at the start, and write failures and recoveries.
	// Nil is silent.
	Logger *slog.Logger

	wrap func(file) file // faults, in tests
}

// Codec encodes and decodes rows.
type Codec struct {
	Append func(dst []byte, e *reqlog.Entry) []byte
	Parse  func(b []byte) (*reqlog.Entry, error)
}

func (o Options) withDefaults() Options {
	if o.SegmentSize <= 0 {
		o.SegmentSize = 16 << 20
	}
	if o.MaxSize <= 0 {
		o.MaxSize = 1 << 30
	}
	if o.MaxQueued <= 0 {
		o.MaxQueued = 8192
	}
	if o.SyncInterval <= 0 {
		o.SyncInterval = 200 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.wrap == nil {
		o.wrap = func(f file) file { return f }
	}
	return o
}

// maxPending is the limit of records waiting to be written, in bytes. A larger row
// waits until half of it is free.
const maxPending = 1 << 20

// Ledger is an open ledger. It is safe for concurrent use.
type Ledger struct {
	o    Options
	wake chan struct{} // wakes the committer
	due  chan struct{} // wakes the applier

	stop    context.Context // ends waiting when the ledger is closing
	stopNow context.CancelFunc
	ended   sync.WaitGroup

	mu          sync.Mutex
	changed     *sync.Cond // something was written, synced, applied or lost
	all         []*segment // oldest first; guarded by mu, like the following fields
	cur         *segment   // the last of all, to which records are appended
	next        *segment   // created in advance; nil if there is none
	pending     []byte     // accepted for cur and not yet written
	spare       []byte
	writing     bool
	slow        bool // the current write takes unusually long
	alarm       *time.Timer
	total       int64  // size of all segments
	dirty       bool   // the committer was woken for accepted records
	strict      int    // callers waiting for a sync
	failedWrite *group // could not be written; nil if writes succeed
	failure     error  // of failedWrite
	open        map[attempt]place

	rows     rows
	counting *settlementCounter
	stats    Stats
	closed   bool
}

// attempt identifies an attempt.
type attempt struct {
	id     reqlog.ID
	number uint16
}

// place is the position of a record.
type place struct {
	seg *segment
	at  int64
}

// group is what is written at once.
type group struct {
	seg *segment
	buf []byte
	at  int64
}

// Stats are the statistics of a ledger.
type Stats struct {
	Intents, Settled, Rows uint64 // recorded since the start
	Open                   int    // attempts that have not ended
	Depth                  int    // rows not applied yet
	Oldest                 time.Time
	Lost                   uint64 // lost rows
	BodiesDropped          uint64 // rows recorded without their bodies
	LostAttempts           uint64 // lost intents and settlements
	Segments               int
	Bytes                  int64
	Quarantined            int    // damaged segments quarantined at the start
	Estimated              int    // attempts estimated at the start
	Recovered              int    // rows created from attempts at the start
	LastError              string // why writes fail; empty if they succeed

	Uncounted  int       // settlements recorded since the start and not counted yet
	CountedAt  time.Time // time since which something waits to be counted; zero if nothing does
	CountError string    // why counting fails; empty if it succeeds
}

// ErrFull means that nothing can be written now.
var ErrFull = errors.New("the ledger cannot be written")

// Open opens the ledger in a folder, recovers what ended processes have left in it, and
// starts its goroutines, which [Ledger.Close] ends. Damaged segments are quarantined
// and logged; they are not an error.
func Open(ctx context.Context, o Options) (*Ledger, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the ledger folder: %w", err)
	}
	l := &Ledger{o: o, wake: make(chan struct{}, 1), due: make(chan struct{}, 1), open: map[attempt]place{}}
	l.changed = sync.NewCond(&l.mu)
	l.rows.max = o.MaxQueued
	l.counting = newCounting(l)
	l.alarm = time.AfterFunc(slowAfter, l.tooSlow)
	l.stop, l.stopNow = context.WithCancel(context.WithoutCancel(ctx))
	if err := l.recover(); err != nil {
		l.stopNow()
		l.releaseAll()
		return nil, err
	}
	l.ended.Go(l.commit)
	l.ended.Go(l.apply)
	if o.Counter != nil {
		ring(l.counting.wake) // for what others left
		l.ended.Go(l.counting.run)
	}
	return l, nil
}

// Close accepts no more records, applies the waiting ones and closes the files. If ctx
// ends first, records not applied are left for the next start; records not even written
// are lost.
func (l *Ledger) Close(ctx context.Context) error {
	flushed := l.Flush(ctx)
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	l.stopNow()
	l.ended.Wait()
	if l.o.Counter != nil {
		l.counting.finish(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.releaseAll()
	if l.failedWrite != nil || len(l.pending) > 0 {
		return fmt.Errorf("closing the ledger: records could not be written: %w", l.failure)
	}
	if flushed != nil && l.rows.depth() > 0 {
		l.o.Logger.Warn("ledger rows left for the next start", "rows", l.rows.depth())
	}
	return nil
}

func (l *Ledger) releaseAll() {
	for _, s := range l.all {
		s.release()
	}
	if l.next != nil {
		l.next.release()
		os.Remove(l.next.path)
	}
	l.all, l.next = nil, nil
}

// Blocked reports whether nothing can be written now: writes fail or take unusually
// long, or the segments have reached their total size.
func (l *Ledger) Blocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writeStalled() || !l.fitsSegments(kindIntent, intentSize)
}

// Stats returns the statistics of the ledger.
func (l *Ledger) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.stats
	st.Open = len(l.open)
	st.Depth, st.Oldest = l.rows.depth(), l.rows.oldest
	st.Segments, st.Bytes = len(l.all), l.total
	st.Uncounted, st.CountedAt = l.uncounted()
	st.CountError = l.counting.stats.failure
	if l.failure != nil {
		st.LastError = l.failure.Error()
	}
	return st
}
