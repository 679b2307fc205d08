// Package logstore keeps the records of exchanges in an SQLite file of their
// own, or in PostgreSQL.
//
// [Store.Record] hands an entry over and returns; one writer packs what came in
// into blocks and stores them in one transaction at a time. What was written is
// never damaged by a crash, which costs at most what was still queued. When the
// disk is full or the database away, the writer keeps its batch and tries again until it is
// back, and whoever records waits for room; an entry is given up only when that
// wait ends, and is then counted. Reading never waits for the writer. Who may
// read what, and how an entry looks to a client, is left to the callers.
package logstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"modelgate/internal/postgres"
	"modelgate/internal/reqlog"
)

// Options say where entries go and how they are gathered. All but one of Path and
// URL may be zero.
type Options struct {
	// Path is the SQLite file. A missing one is created for its owner only; its
	// folder has to exist.
	Path string

	// URL is the "postgres://" address of a database instead of Path's, and
	// Postgres how it is reached. Several processes may share it. It may be away:
	// entries wait until it is there.
	URL      string
	Postgres postgres.Options

	// Queue bounds the entries that wait, beside as many in the batch that is
	// being written. Zero means 8192.
	Queue int

	// Batch is how many waiting entries start a write at once. Zero means 2000.
	Batch int

	// Flush is the longest an entry waits for others before it is written. Zero
	// means 200 ms.
	Flush time.Duration

	// Retention is what is removed by and by. Zero removes nothing.
	Retention Retention

	// Logger is told when writing fails and when it works again. Nil is silent.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Queue <= 0 {
		o.Queue = 8192
	}
	if o.Batch <= 0 {
		o.Batch = 2000
	}
	o.Batch = min(o.Batch, o.Queue)
	if o.Flush <= 0 {
		o.Flush = 200 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Store is an open log. It is safe for concurrent use.
type Store struct {
	queue
	keeper  backend
	log     *slog.Logger
	batch   int
	flush   time.Duration
	limits  scanLimits
	damage  damage
	written chan struct{} // closed when the writer has ended

	grown      chan struct{} // holds one after much was written
	added      int64         // since then, in bytes; of the writer
	pruneAfter int64

	searches chan struct{} // holds one for each that is under way
	pruning  sync.WaitGroup

	// giveUp ends the writer's retries: Close ran out of time.
	giveUp     context.Context
	giveUpNow  context.CancelFunc
	endPruning context.CancelFunc
	closeFiles sync.Once
}

var _ reqlog.Recorder = (*Store)(nil)

// Stats is the state of a store at one moment.
type Stats struct {
	Depth     int    // entries recorded and not yet written
	Written   uint64 // entries written
	Lost      uint64 // entries given up
	Batches   uint64 // transactions that wrote them
	Pruned    uint64 // entries removed because of their age or the log's size
	Damaged   int    // blocks of entries found damaged, and skipped
	LastError string // why writing fails now; empty when it works
}

// Open opens the log, creating its file when it is missing, and starts the
// writer, which [Store.Close] ends. Errors are one line for an operator.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	k, err := openKeeper(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Store{
		keeper:  k,
		log:     o.Logger,
		batch:   o.Batch,
		flush:   o.Flush,
		limits:  scanLimits{entries: scanEntries, bytes: scanBytes},
		written: make(chan struct{}),

		grown:      make(chan struct{}, 1),
		pruneAfter: max(pruneAfter, o.Retention.Bytes/32),

		searches: make(chan struct{}, searchesAtOnce),
	}
	s.queue.init(o.Queue, o.Batch)
	s.giveUp, s.giveUpNow = context.WithCancel(context.WithoutCancel(ctx))
	go s.write()
	prune, end := context.WithCancel(s.giveUp)
	s.endPruning = end
	if o.Retention != (Retention{}) {
		s.pruning.Go(func() { s.pruneOn(prune, o.Retention) })
	}
	return s, nil
}

func openKeeper(ctx context.Context, o Options) (backend, error) {
	if o.URL != "" {
		return openServer(ctx, o)
	}
	return openFile(ctx, o.Path)
}

// Close stops taking entries, writes those that wait, and closes the file. When
// ctx ends first, what is not written is counted as lost and ctx's error is
// returned.
func (s *Store) Close(ctx context.Context) error {
	s.queue.close()
	s.endPruning()
	s.pruning.Wait()
	var err error
	select {
	case <-s.written:
	case <-ctx.Done():
		s.giveUpNow()
		<-s.written
		if lost := s.Stats().Lost; lost > 0 {
			err = fmt.Errorf("closing the log: %d entries lost: %w", lost, ctx.Err())
		}
	}
	s.giveUpNow()
	s.closeFiles.Do(func() {
		if e := s.keeper.close(); e != nil && err == nil {
			err = fmt.Errorf("closing the log: %w", e)
		}
	})
	return err
}
