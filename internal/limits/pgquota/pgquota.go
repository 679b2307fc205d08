// Package pgquota keeps counters of limits in PostgreSQL, for several gateways.
//
// A [Store] decides about all limits of a request in one statement, all or none,
// and sends settlements in the background. It guarantees that no limit is exceeded
// by reservations of any number of gateways. It is slower than Redis: requests
// with the same limit wait for each other's commit. Its tables are in a schema of
// their own, which the first start creates. It does not decide what happens while
// the database fails (see [quota.Breaker] and [quota.Guard]).
package pgquota

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"modelgate/internal/base/secret"
	"modelgate/internal/limits/quota"
	"modelgate/internal/storage/postgres"
)

const (
	openDeadline = 3 * time.Second
	preparePause = time.Second
	sweepPause   = 5 * time.Minute
	poolSize     = 8

	// session is the first statement of connections. What a crash of the server
	// may lose, half a second, is not worth a wait for its disk. A lock that a
	// request waits for longer than its deadline would be taken for nobody.
	session = `SET synchronous_commit = off; SET lock_timeout = '1s'; SET statement_timeout = '5s'`
)

// Options configure a store.
type Options struct {
	URL      secret.String // postgres://
	Postgres postgres.Options
	Process  quota.Process
	Logger   *slog.Logger // nil is silent
}

// Store is a [quota.Store] in PostgreSQL.
type Store struct {
	*quota.Remote
	db      *sql.DB
	server  *postgres.Server
	process quota.Process
	logger  *slog.Logger
	missing chan struct{} // receives a token when the schema does not exist
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// Open returns a store. If the database is unavailable it is prepared later; if it
// lacks the right to create its schema, Open returns an error. The caller must
// call Close.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Postgres.Setting = "limits.counters.url or DATABASE_URL"
	at, err := postgres.ParseServer(o.URL.Reveal(), o.Postgres)
	if err != nil {
		return nil, err
	}
	s := &Store{db: at.Pool(poolSize, session), server: at, process: o.Process, logger: o.Logger, missing: make(chan struct{}, 1)}
	s.Remote = quota.NewRemote(quota.Calls{Reserve: s.reserve, Settle: s.send, Correct: s.sendCorrections}, o.Logger)
	reach, cancel := context.WithTimeout(ctx, openDeadline)
	err = s.prepare(reach)
	cancel()
	if err != nil && !postgres.IsUnavailable(err) {
		return nil, errors.Join(fmt.Errorf("database %s, for counters of limits: %w", s.server.Name, at.Explain(err)), s.db.Close())
	}
	if err != nil {
		o.Logger.Warn("database of limit counters unavailable; each limit's on_store_down applies", "database", s.server.Name,
			"err", at.Reason(err))
	}
	running, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.ended.Go(func() { s.maintain(running, err == nil) })
	s.Start()
	return s, nil
}

// prepare creates what does not exist.
func (s *Store) prepare(ctx context.Context) error {
	var ok bool
	if err := s.db.QueryRowContext(ctx, prepared).Scan(&ok); err != nil || ok {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, q := range [...]string{`SET LOCAL synchronous_commit = on`, lockSchema} {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	for _, q := range schema {
		if _, err := tx.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("creating the schema modelgate_limits: %w", err)
		}
	}
	return tx.Commit()
}

// maintain prepares the database until that succeeds, and then removes old
// counters.
func (s *Store) maintain(ctx context.Context, ready bool) {
	pause := preparePause
	if ready {
		pause = sweepPause
	}
	t := time.NewTicker(pause)
	defer t.Stop()
	for {
		dropped := false
		select {
		case <-ctx.Done():
			return
		case <-s.missing: // it was dropped, or an old backup was restored
			dropped = true
		case <-t.C:
		}
		reach, cancel := context.WithTimeout(ctx, openDeadline)
		err := s.prepare(reach)
		if err == nil && dropped { // nobody need send a request for the budgets to come back
			s.NoteEmptied()
		}
		if err == nil && ready {
			_, err = s.db.ExecContext(reach, sweep)
		}
		if err == nil && ready {
			_, err = s.db.ExecContext(reach, sweepBatches)
		}
		cancel()
		switch {
		case err == nil && !ready:
			ready = true
			t.Reset(sweepPause)
			s.logger.Info("database of limit counters available", "database", s.server.Name)
		case err != nil && !postgres.IsUnavailable(err) && ctx.Err() == nil:
			s.logger.Error("database of limit counters unusable", "database", s.server.Name, "err", s.server.Reason(err))
		}
	}
}

// Close sends the remaining settlements and disconnects.
func (s *Store) Close() {
	s.stop()
	s.ended.Wait()
	s.Stop()
	s.db.Close()
}

// MarkFilled records that the table has what the ledger has counted of all budgets.
func (s *Store) MarkFilled(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, fill); err != nil {
		s.note(err)
		return err
	}
	s.NoteFilled()
	return nil
}

// rowName returns the name of a counter in the table. Names hold values that
// clients send: what PostgreSQL does not store as text, or cannot index, is hashed.
// https://www.postgresql.org/docs/current/datatype-character.html
func rowName(counter string) string {
	if len(counter) <= longestName && utf8.ValidString(counter) && !strings.Contains(counter, "\x00") {
		return counter
	}
	sum := sha256.Sum256([]byte(counter))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// longestName is far below a third of a page, the limit of an index.
const longestName = 1000

// errLate is the error of a reservation that the database got to after its
// deadline, and did not make.
var errLate = errors.New("the database was too slow")

// reserve calls the function. A claim of nothing changes nothing.
func (s *Store) reserve(ctx context.Context, latest int64, now time.Time, claims []quota.Claim) (quota.Verdict, error) {
	names := make([]string, len(claims))
	var columns [8][]int64
	for i := range columns {
		columns[i] = make([]int64, len(claims))
	}
	for i, c := range claims {
		names[i] = rowName(c.Limit.Counter)
		for j, n := range c.Numbers(now) {
			columns[j][i] = n
		}
	}
	args := []any{latest, quota.GenerationAt(now), names}
	for _, column := range columns {
		args = append(args, column)
	}
	var text string
	sent := time.Now()
	err := s.db.QueryRowContext(ctx, `SELECT modelgate_limits.reserve_4($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, args...).Scan(&text)
	if err != nil {
		s.note(err)
		return quota.Verdict{}, err
	}
	return s.parse(text, sent, claims)
}

// note prepares the database again if its schema is missing.
func (s *Store) note(err error) {
	switch postgres.Code(err) {
	case "3F000", "42P01", "42883": // no such schema, table or function
		select {
		case s.missing <- struct{}{}:
		default:
		}
	}
}

// parse reads a reply to a call that was sent at a time.
func (s *Store) parse(text string, sent time.Time, claims []quota.Claim) (quota.Verdict, error) {
	fields := strings.Fields(text)
	list := make([]int64, len(fields))
	for i, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return quota.Verdict{}, err
		}
		list[i] = n
	}
	if n := len(list); n != 1 && n != 3+quota.StateNumbers*len(claims) {
		return quota.Verdict{}, fmt.Errorf("the database answered %d numbers to %d limits", n, len(claims))
	}
	s.Clock.Observe(sent, time.Now(), time.UnixMicro(list[0]))
	if len(list) == 1 {
		return quota.Verdict{}, errLate
	}
	if list[2] == 0 {
		s.NoteEmptied()
	}
	return quota.ParseVerdict(list[1], list[3:], claims), nil
}

// send sends a batch of settlements.
func (s *Store) send(ctx context.Context, batch []quota.Settlement) error {
	names, budgets := make([]string, len(batch)), make([]bool, len(batch))
	var columns [7][]int64
	for i := range columns {
		columns[i] = make([]int64, len(batch))
	}
	for i, k := range batch {
		names[i], budgets[i] = rowName(k.Counter), k.Budget
		for j, n := range [...]int64{k.Window, k.Lease, k.Generation, k.Held, k.Used, k.Counted, k.Lifetime.Milliseconds()} {
			columns[j][i] = n
		}
	}
	args := []any{s.process.String(), names, budgets}
	for _, column := range columns {
		args = append(args, column)
	}
	_, err := s.db.ExecContext(ctx, `SELECT modelgate_limits.settle_3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, args...)
	return err
}

// sendCorrections sends a batch of corrections.
func (s *Store) sendCorrections(ctx context.Context, batch int64, list []quota.Correction) error {
	names, earlier := make([]string, len(list)), make([]bool, len(list))
	totals, settled := make([]int64, len(list)), make([]int64, len(list))
	for i, k := range list {
		names[i], totals[i], settled[i], earlier[i] = rowName(k.Counter), k.Total, k.Settled, k.Earlier
	}
	_, err := s.db.ExecContext(ctx, `SELECT modelgate_limits.correct_3($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		s.process.String(), s.process.Prefix(), names, totals, settled, earlier, quota.BudgetLifetime.Milliseconds(), batch,
		quota.BatchLifetime.Milliseconds())
	if err != nil {
		s.note(err)
	}
	return err
}
