// Package ledger keeps account of attempts where no crash can take it away.
//
// An attempt is noted before it is sent ([Ledger.RecordIntent]) and when it has ended
// ([Ledger.RecordSettlement]), and the exchange's entry once its answer has ended
// ([Ledger.Record]). What these have noted was written to a segment, an
// append-only file: a process that is killed loses none of it. What was written
// is made safe against a power cut in groups, and applied to the log store in
// the background, each row once; what settlements come to is given to a
// [Counter], each once too. A start finds what an earlier process left
// behind: attempts without an end become estimates, rows that the store lacks
// are applied. What a row holds is left to the log store, what is made of sums to
// others.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"modelgate/internal/reqlog"
)

// FullPolicy says what happens to exchanges while nothing can be written: the disk is
// full, read-only, or too slow for what comes.
type FullPolicy string

// What may become of them. The zero value is Block.
const (
	Block      FullPolicy = "block"       // attempts, and ends of answers, wait
	DropBodies FullPolicy = "drop_bodies" // recorded bodies are left out and counted, the rest waits
	DropRows   FullPolicy = "drop_rows"   // nobody waits; bodies, then what finds no room, are lost and counted
	Reject     FullPolicy = "reject"      // further attempts are refused; what has ended waits in memory
)

// SyncMode says when an attempt may be sent.
type SyncMode string

// When an attempt may be sent. The zero value is Grouped.
const (
	Grouped SyncMode = "grouped" // when its intent was written
	Strict  SyncMode = "strict"  // when its intent is safe against a power cut
)

// Store takes rows.
type Store interface {
	// Apply returns when all rows can be read. again says that some of them may
	// have been applied before: each must be there once in the end.
	Apply(ctx context.Context, rows []*reqlog.Entry, again bool) error
	// Sync returns when no power cut can take away what was applied.
	Sync(ctx context.Context) error
}

// Options say where the ledger is and what it does when it can't write. Dir,
// Store and Codec have to be given.
type Options struct {
	Dir   string // created when missing; several processes may share it
	Store Store
	Codec Codec

	// Counter counts settlements beside Store. Segments stay until both have
	// taken what is in them. Nil counts nothing.
	Counter Counter

	OnFull FullPolicy
	Sync   SyncMode

	// SegmentSize is the size at which a new segment is begun, and Max that of all
	// segments from which on nothing can be written, in bytes. Zero means 16 MB
	// and 1 GB.
	SegmentSize, MaxSize int64

	// ReplayAll looks for all rows that earlier processes have left in the store,
	// not only for those that they did not apply.
	ReplayAll bool

	// KeepSegments removes no segment: what is in them is for others too.
	KeepSegments bool

	// MaxQueued is how many rows wait in memory for the store, as long as their bodies
	// take no more than 16 MB. More are read from the segments when it is their
	// turn. Zero means 8192.
	MaxQueued int

	// SyncInterval is how often what was written is made safe, and how long rows wait
	// for others. Zero means 200 ms.
	SyncInterval time.Duration

	// Logger is told of damage, of what a start found, and when writing fails
	// and works again. Nil is silent.
	Logger *slog.Logger

	wrap func(file) file // faults, in tests
}

// Codec is how rows are written.
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

// maxPending bounds the records that wait to be written, in bytes. A row that is
// larger by itself waits for half of it to be free.
const maxPending = 1 << 20

// Ledger is an open ledger. It is safe for concurrent use.
type Ledger struct {
	o    Options
	wake chan struct{} // holds one: the committer has something to do
	due  chan struct{} // holds one: the applier has something to do

	stop    context.Context // ends what waits: the ledger is being closed
	stopNow context.CancelFunc
	ended   sync.WaitGroup

	mu          sync.Mutex
	changed     *sync.Cond // something was written, synced, applied or given up
	all         []*segment // guarded by mu, as is all below; the oldest first
	cur         *segment   // the last of all, which records are added to
	next        *segment   // made ahead; nil while there is none
	pending     []byte     // accepted for cur and not written
	spare       []byte
	writing     bool
	slow        bool // the write under way takes unusually long
	alarm       *time.Timer
	total       int64  // size of all
	dirty       bool   // the committer was told of what was accepted
	strict      int    // callers that wait for a sync
	failedWrite *group // could not be written; nil when writing works
	failure     error  // why
	open        map[attempt]place

	rows     rows
	counting *settlementCounter
	stats    Stats
	closed   bool
}

// attempt names an attempt.
type attempt struct {
	id     reqlog.ID
	number uint16
}

// place is where a record stands.
type place struct {
	seg *segment
	at  int64
}

// group is what is written at a time.
type group struct {
	seg *segment
	buf []byte
	at  int64
}

// Stats is the state of a ledger at one moment.
type Stats struct {
	Intents, Settled, Rows uint64 // noted since the start
	Open                   int    // attempts that have not ended
	Depth                  int    // rows that were not applied
	Oldest                 time.Time
	Lost                   uint64 // rows given up
	BodiesDropped          uint64 // rows noted without the bodies that they had
	LostAttempts           uint64 // intents and settlements given up
	Segments               int
	Bytes                  int64
	Quarantined            int    // damaged segments that this start put aside
	Estimated              int    // attempts that this start settled by an estimate
	Recovered              int    // rows that this start made of attempts
	LastError              string // why writing fails now; empty when it works

	Uncounted  int       // settlements noted since the start and not counted
	CountedAt  time.Time // since then something waits to be counted; zero when nothing does
	CountError string    // why counting fails now; empty when it works
}

// ErrFull says that nothing can be written now.
var ErrFull = errors.New("the ledger can't be written to")

// Open opens the ledger of a folder, takes over what processes that ended have
// left in it, and starts what [Ledger.Close] ends. Damage is put aside and told,
// and is no error.
func Open(ctx context.Context, o Options) (*Ledger, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the folder of the ledger can't be made: %w", err)
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

// Close takes no more records, applies those that wait, and closes the files.
// When ctx ends first, what was not applied is left for the next start; what
// was not even written is lost.
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
		l.o.Logger.Warn("rows of the ledger wait for the next start", "rows", l.rows.depth())
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

// Stats returns the state of the ledger.
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
