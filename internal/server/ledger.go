package server

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/limits/policy"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// LedgerDir returns the folder of the ledger in a data folder.
func LedgerDir(data string) string { return filepath.Join(data, "ledger") }

// openLedger opens the ledger and makes the engine record in it.
func (s *Server) openLedger(ctx context.Context, set *settings.Settings) (err error) {
	o := ledgerOptions(s.Data, &logRows{Store: s.logs})
	o.OnFull, o.Sync, o.MaxSize = cmp.Or(ledger.FullPolicy(set.Ledger.OnFull), ledger.Reject),
		ledger.SyncMode(set.Ledger.Sync), set.Ledger.MaxSize.Or(0)
	o.MaxQueued = set.Log.Queue
	s.spender = s.newSpender()
	o.Counter = s.spender
	o.Logger = s.Logger
	if s.ledger, err = ledger.Open(ctx, o); err != nil {
		return err
	}
	if s.spender.keep != nil {
		s.spender.keep.Counted = s.ledger.AwaitCounted
	}
	if !s.NoRecording {
		s.engine.Ledger = s.ledger
	}
	return nil
}

func (s *Server) newSpender() *budgetCounter {
	p := &budgetCounter{db: s.store, late: make(map[store.BudgetRef]reqlog.Spend)}
	if !s.Off[route.UsageLimits] {
		p.keep = &budgets.Enforcer{DB: s.store, Logger: s.Logger, Changed: s.follower.wake, Counters: s.engine.Quota,
			Policies: s.currentPolicies, Now: time.Now}
		if s.counters.remote != nil {
			p.filled = s.counters.remote.MarkFilled
		}
	}
	return p
}

// currentPolicies returns the policies of the current snapshot, nil before the first.
func (s *Server) currentPolicies() *policy.Set {
	if snap := s.holder.Load(); snap != nil {
		return snap.Policies
	}
	return nil
}

func ledgerOptions(data string, rows *logRows) ledger.Options {
	return ledger.Options{
		Dir: LedgerDir(data), Store: rows,
		Codec: ledger.Codec{Append: logstore.AppendEntry, Parse: logstore.ParseEntry},
	}
}

// closeRecords applies the remaining rows of the ledger and closes the log and the
// counters of limits.
func (s *Server) closeRecords() error {
	wait := 10 * time.Second
	if s.logs != nil && s.logs.Stats().LastError != "" {
		wait = time.Second // the ledger keeps what cannot be applied for the next start
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var errs []error
	if s.ledger != nil {
		errs = append(errs, s.ledger.Close(ctx))
	}
	if s.logs != nil {
		err := s.logs.Close(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			s.Logger.Warn("log write failed; the next start applies the remaining ledger rows", "err", err)
			err = nil
		}
		errs = append(errs, err)
	}
	s.counters.close()
	return errors.Join(errs...)
}

// flushLog waits until recorded entries can be read, up to 10 seconds, or 2 while
// writing the log or the ledger fails: earlier entries can still be read.
func (s *Server) flushLog(ctx context.Context) error {
	for range 5 {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := s.ledger.Flush(short)
		late := short.Err() != nil
		cancel()
		if !late {
			return err
		}
		if s.logs.Stats().LastError != "" || s.ledger.Blocked() {
			break
		}
	}
	return ctx.Err()
}

// logRows applies rows of the ledger to the log.
type logRows struct {
	*logstore.Store
	added, known atomic.Int64 // of rows that may have been applied before
}

// Apply implements ledger.Store.
func (r *logRows) Apply(ctx context.Context, rows []*reqlog.Entry, again bool) error {
	if again {
		missing, err := r.Missing(ctx, rows)
		if err != nil {
			return err
		}
		r.added.Add(int64(len(missing)))
		r.known.Add(int64(len(rows) - len(missing)))
		rows = missing
	}
	for _, e := range rows {
		r.Record(ctx, e)
	}
	if err := ctx.Err(); err != nil {
		return err // some may not have fitted
	}
	return r.Flush(ctx)
}

// Replayed is the result of [ReplayLedger].
type Replayed struct {
	Added     int64 // rows added to the log
	Known     int64 // rows already in the log
	Estimated int   // attempts without an end that were estimated
	Aside     int   // quarantined segments
}

// ReplayLedger applies missing rows of a data folder's ledger to a log, from all
// segments that no running gateway uses.
func ReplayLedger(ctx context.Context, data string, log logstore.Options) (Replayed, error) {
	logs, err := logstore.Open(ctx, log)
	if err != nil {
		return Replayed{}, err
	}
	rows := &logRows{Store: logs}
	o := ledgerOptions(data, rows)
	o.ReplayAll, o.KeepSegments = true, true // a gateway counts them for budgets
	l, err := ledger.Open(ctx, o)
	if err != nil {
		return Replayed{}, errors.Join(err, logs.Close(ctx))
	}
	err = l.Flush(ctx)
	st := l.Stats()
	done := Replayed{Added: rows.added.Load(), Known: rows.known.Load(), Estimated: st.Estimated, Aside: st.Quarantined}
	return done, errors.Join(err, l.Close(ctx), logs.Close(ctx))
}

// ledgerMetrics returns the metrics of the ledger.
func ledgerMetrics(s *Server) []prometheus.Collector {
	stat := func(read func(ledger.Stats) float64) func() float64 {
		return func() float64 { return read(s.ledger.Stats()) }
	}
	return []prometheus.Collector{
		gaugeFunc("modelgate_log_queue_depth", "Entries waiting to be written to the log.",
			stat(func(st ledger.Stats) float64 { return float64(st.Depth) })),
		gaugeFunc("modelgate_log_oldest_seconds", "Age of the oldest entry waiting to be written to the log, in seconds.",
			stat(func(st ledger.Stats) float64 { return age(st.Oldest) })),
		counterFunc("modelgate_log_rows_written_total", "Entries written to the log.",
			func() float64 { return float64(s.logs.Stats().Written) }),
		counterFunc("modelgate_log_rows_lost_total", "Entries that could not be written. Must be 0.",
			func() float64 { return float64(s.ledger.Stats().Lost + s.logs.Stats().Lost) }),
		counterFunc("modelgate_ledger_bodies_dropped_total", "Entries recorded without their bodies for lack of space.",
			stat(func(st ledger.Stats) float64 { return float64(st.BodiesDropped) })),
		counterFunc("modelgate_ledger_records_lost_total", "Intents and settlements of attempts that could not be written. Must be 0.",
			stat(func(st ledger.Stats) float64 { return float64(st.LostAttempts) })),
		gaugeFunc("modelgate_ledger_open_attempts", "Attempts that have not ended.",
			stat(func(st ledger.Stats) float64 { return float64(st.Open) })),
		gaugeFunc("modelgate_ledger_uncounted_attempts", "Ended attempts of this process not yet counted for budgets.",
			stat(func(st ledger.Stats) float64 { return float64(st.Uncounted) })),
		gaugeFunc("modelgate_ledger_uncounted_seconds", "Age of the oldest settlement not yet counted for budgets, in seconds.",
			stat(func(st ledger.Stats) float64 { return age(st.CountedAt) })),
		gaugeFunc("modelgate_ledger_bytes", "Size of the ledger's segments.",
			stat(func(st ledger.Stats) float64 { return float64(st.Bytes) })),
		counterFunc("modelgate_log_rows_pruned_total", "Entries removed from the log because of their age or its size.",
			func() float64 { return float64(s.logs.Stats().Pruned) }),
		gaugeFunc("modelgate_log_ok", "1 while the log can be written to, else 0.",
			func() float64 { return one(s.logs.Stats().LastError == "") }),
		gaugeFunc("modelgate_log_damaged_blocks", "Blocks of entries of the log found damaged since the start.",
			func() float64 { return float64(s.logs.Stats().Damaged) }),
		gaugeFunc("modelgate_ledger_ok", "1 while the ledger can be written to, else 0.",
			stat(func(st ledger.Stats) float64 { return one(st.LastError == "") })),
		gaugeFunc("modelgate_ledger_quarantined_segments", "Damaged segments quarantined at startup.",
			stat(func(st ledger.Stats) float64 { return float64(st.Quarantined) })),
		gaugeFunc("modelgate_ledger_estimated_attempts", "Attempts of a crashed process settled with an estimate at startup.",
			stat(func(st ledger.Stats) float64 { return float64(st.Estimated) })),
	}
}

func age(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return time.Since(t).Seconds()
}

func one(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}
