// Package logstore stores log entries in an SQLite file or in PostgreSQL.
//
// [Store.Record] queues an entry and returns; one writer encodes queued entries into
// blocks and stores them, one transaction at a time. A crash never damages stored
// entries and loses at most the queue. If the disk is full or the database is
// unavailable, the writer retries its batch, and callers of Record wait for space in
// the queue; an entry is counted as lost only when that wait ends. Reads never wait for
// the writer. The package does not check who may read, and does not define how clients
// see entries.
package logstore

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/postgres"
)

// Options configure where entries are stored and how they are batched. Exactly one of
// Path and URL must be set; all other fields may be zero.
type Options struct {
	// Path is the SQLite file. It is created, for its owner only, if necessary; its
	// folder must exist.
	Path string

	// URL is the "postgres://" address of a database used instead of Path, and Postgres
	// configures the connection. Several processes may share it. It may be unavailable:
	// entries wait for it.
	URL      string
	Postgres postgres.Options

	// Queue is the limit of queued entries, in addition to the batch being written.
	// Zero means 8192.
	Queue int

	// Batch is the number of queued entries that triggers a write at once. Zero means
	// 2000.
	Batch int

	// Flush is the longest time an entry is queued before it is written. Zero means 200
	// ms.
	Flush time.Duration

	// Retention is removed in the background. Zero removes nothing.
	Retention Retention

	// Logger reports write failures and recoveries. Nil is silent.
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

	grown      chan struct{} // receives a value after much was written
	added      int64         // bytes since then; used by the writer only
	pruneAfter int64
	rows       rowGrowth

	searches *searches
	pruning  sync.WaitGroup

	// giveUp ends the writer's retries when Close runs out of time.
	giveUp     context.Context
	giveUpNow  context.CancelFunc
	endPruning context.CancelFunc
	closeFiles sync.Once
}

var _ reqlog.Recorder = (*Store)(nil)

// Stats are the statistics of a store.
type Stats struct {
	Depth     int    // entries recorded and not yet written
	Written   uint64 // entries written
	Lost      uint64 // entries lost
	Batches   uint64 // transactions that wrote them
	Pruned    uint64 // entries removed by retention
	Damaged   int    // blocks of entries found damaged, and skipped
	LastError string // why writing fails; empty if it works
}

// Open opens the log, creating its file if necessary, and starts the writer, which
// [Store.Close] ends. Errors are one line for an operator.
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

		searches: newSearches(),
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

// Close rejects new entries, writes the queued ones and closes the file. If ctx ends
// first, unwritten entries are counted as lost and ctx's error is returned.
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

// PrepareFor makes room for rows with these ids that are written to the tables directly.
func (s *Store) PrepareFor(ctx context.Context, ids []reqlog.ID) error {
	k, ok := s.keeper.(*postgresBackend)
	if !ok {
		return nil
	}
	days := make(map[int64]struct{})
	for _, id := range ids {
		days[dayOf(id)] = struct{}{}
	}
	return k.partition(ctx, slices.Sorted(maps.Keys(days)))
}
