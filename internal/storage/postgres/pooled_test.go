package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/storage/postgres"
	"modelgate/internal/testing/storetest"
)

func mustParse(t *testing.T, dsn string) *postgres.Server {
	t.Helper()
	s, err := postgres.ParseServer(dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustPool(t *testing.T, s *postgres.Server, session string) *sql.DB {
	t.Helper()
	db := s.Pool(8, session)
	t.Cleanup(func() { db.Close() })
	return db
}

// TestSettingsOfAPoolStayThereBehindAPooler uses three pools with other settings, whose
// statements PgBouncer mixes on two connections of the server.
func TestSettingsOfAPoolStayThereBehindAPooler(t *testing.T) {
	dsn := storetest.Postgres(t)
	storetest.Exec(t, dsn, `CREATE TABLE numbers (n BIGINT)`)
	storetest.Exec(t, dsn, `CREATE SCHEMA apart`)
	storetest.Exec(t, dsn, `CREATE TABLE apart.numbers (n BIGINT, text TEXT)`)
	s := mustParse(t, storetest.Bouncer(t, dsn))
	write := mustPool(t, s, `SET idle_in_transaction_session_timeout = '30s'`)
	read := mustPool(t, s, `SET default_transaction_read_only = on`)
	apart := mustPool(t, s, `SET search_path = apart; SET lock_timeout = '10s'`)
	ctx := t.Context()
	const each = 40
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for n := range each {
				if err := exerciseInTurn(ctx, write, read, apart, int64(i*each+n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for db, want := range map[*sql.DB]int{write: 6 * each, apart: 6 * each * 2} {
		var n int
		if err := db.QueryRowContext(ctx, `SELECT count(*) FROM numbers`).Scan(&n); err != nil || n != want {
			t.Errorf("%d numbers, %v; want %d", n, err, want)
		}
	}
	var timeout string
	if err := apart.QueryRowContext(ctx, `SELECT current_setting('lock_timeout')`).Scan(&timeout); err != nil || timeout != "10s" {
		t.Errorf("lock_timeout = %q, %v; want 10s", timeout, err)
	}
}

// exerciseInTurn writes and reads a number in each of the pools.
func exerciseInTurn(ctx context.Context, write, read, apart *sql.DB, n int64) error {
	if _, err := write.ExecContext(ctx, `INSERT INTO numbers (n) VALUES ($1)`, n); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	var got int64
	if err := read.QueryRowContext(ctx, `SELECT n FROM numbers WHERE n = $1`, n).Scan(&got); err != nil || got != n {
		return fmt.Errorf("reading %d: %d, %v", n, got, err)
	}
	if _, err := read.ExecContext(ctx, `INSERT INTO numbers (n) VALUES ($1)`, n); postgres.Code(err) != "25006" {
		return fmt.Errorf("writing in a pool for reading: %v, want 25006", err)
	}
	if _, err := apart.ExecContext(ctx, `INSERT INTO numbers (n, text) VALUES ($1, $2)`, n, "outside"); err != nil {
		return fmt.Errorf("writing in the other schema: %w", err)
	}
	tx, err := apart.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO numbers (n, text) VALUES ($1, $2)`, n, []byte("inside")); err != nil {
		return fmt.Errorf("writing in a transaction: %w", err)
	}
	return tx.Commit()
}

func TestStatementThatFailsLeavesNothingBehindAPooler(t *testing.T) {
	dsn := storetest.Postgres(t)
	storetest.Exec(t, dsn, `CREATE TABLE numbers (n BIGINT UNIQUE)`)
	db := mustPool(t, mustParse(t, storetest.Bouncer(t, dsn)), `SET lock_timeout = '10s'`)
	db.SetMaxOpenConns(1)
	for range 3 {
		if _, err := db.ExecContext(t.Context(), `INSERT INTO numbers (n) VALUES (1), (1)`); !postgres.IsConflict(err) {
			t.Fatalf("a conflict: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		rows, err := db.QueryContext(ended, `SELECT generate_series(1, 100000)`)
		if err != nil {
			t.Fatal(err)
		}
		rows.Next()
		cancel()
		rows.Close()
	}
	if _, err := db.Prepare(`SELECT 1`); err == nil {
		t.Error("a statement was prepared")
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO numbers (n) VALUES (1)`); err != nil {
		t.Errorf("after statements that failed: %v", err)
	}
	var n, open int
	const q = `SELECT (SELECT count(*) FROM numbers), (SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%' AND datname = current_database())`
	if err := db.QueryRowContext(t.Context(), q).Scan(&n, &open); err != nil || n != 1 || open != 0 {
		t.Errorf("%d numbers and %d open transactions, %v; want 1 and none", n, open, err)
	}
}

func TestConnectionsGoPastAPoolerByDirect(t *testing.T) {
	dsn := storetest.Postgres(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	through := storetest.Bouncer(t, dsn)
	if mustParse(t, through).CanListen() {
		t.Error("notifications would arrive through a pooler of transactions")
	}
	s := mustParse(t, through+"&direct="+u.Host)
	conn, err := s.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if at := fmt.Sprintf("%s:%d", conn.Config().Host, conn.Config().Port); at != u.Host || !s.CanListen() {
		t.Errorf("connected to %s, want %s", at, u.Host)
	}
	for params, says := range map[string]string{
		"pool_mode=statement":             `pool_mode in DATABASE_URL must be session or transaction, not "statement"`,
		"direct=h:5432":                   "direct in DATABASE_URL is used with pool_mode=transaction only",
		"pool_mode=session&direct=h:5432": "direct in DATABASE_URL is used with pool_mode=transaction only",
		"pool_mode=transaction&direct=h":  "must be host:port",
	} {
		_, err := postgres.ParseServer("postgres://u:hush@h/d?"+params, postgres.Options{})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %q", params, err, says)
		}
	}
	if s, err := postgres.ParseServer("postgres://u@h/d?pool_mode=session", postgres.Options{}); err != nil || !s.CanListen() {
		t.Errorf("pool_mode=session: %v; want what it is without", err)
	}
}

func TestPoolsHaveALimit(t *testing.T) {
	for _, tt := range []struct{ limit, size, want int }{{0, 0, 12}, {0, 8, 8}, {20, 0, 20}, {20, 8, 8}, {4, 0, 4}, {4, 8, 4}, {4, 2, 2}} {
		o := postgres.Options{Connections: tt.limit}
		if got := o.PoolSize(tt.size); got != tt.want {
			t.Errorf("PoolSize(%d) with the limit %d = %d, want %d", tt.size, tt.limit, got, tt.want)
		}
		s, err := postgres.ParseServer("postgres://u@h/d", o)
		if err != nil {
			t.Fatal(err)
		}
		db := s.Pool(tt.size, "")
		if got := db.Stats().MaxOpenConnections; got != tt.want {
			t.Errorf("a pool of %d with the limit %d has %d connections, want %d", tt.size, tt.limit, got, tt.want)
		}
		db.Close()
	}
}
