// Package postgres reaches PostgreSQL databases the one way this program does.
//
// A [Server] is what an address and its options say; it need not be up. Its
// connections are encrypted as the options want, and what it says is sorted into
// conflicts and a database that is away. No error holds the address, which may
// have a password in it. Tables and their migrations are the job of the stores.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Options are how a database is reached.
type Options struct {
	// SSL is DISABLED, PREFERRED (the default), REQUIRED, VERIFY_CA,
	// VERIFY_IDENTITY or CLOUD_A_BUNDLE, as DB_SSL in the environment says.
	SSL string
	// CA, Cert and Key are PEM texts or paths of files: the authority for the
	// modes that verify, and the client's own certificate. Both or none of Cert
	// and Key are given.
	CA, Cert, Key string
	// Connections is the limit of each pool. Zero leaves each at its own.
	Connections int
	// Setting is where the address is set, for messages. Empty means DATABASE_URL.
	Setting string
}

// Server is a database and how it is reached. It is safe for concurrent use.
type Server struct {
	// Name is what the database is called in messages, without its password.
	Name string

	config  *pgx.ConnConfig
	setting string // that has the address, for messages
	limit   int    // of each pool; zero for none

	pooled bool            // a pooler gives connections to transactions
	direct *pgx.ConnConfig // past the pooler; nil if there is no way, or no pooler
}

// Parameters of addresses that are not the server's.
const (
	poolMode   = "pool_mode" // of a pooler in front of the server: session or transaction
	directHost = "direct"    // host:port of the server itself
)

// IsAddress reports whether dsn is the address of a PostgreSQL database.
func IsAddress(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// ParseServer returns the server at dsn, a "postgres://" address. Nothing is connected.
func ParseServer(dsn string, o Options) (*Server, error) {
	setting := cmp.Or(o.Setting, "DATABASE_URL")
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("database: the address in %s cannot be read; it must have the form postgres://user:password@host:5432/name",
			setting)
	}
	s := &Server{Name: fmt.Sprintf("%s at %s", cfg.Database, cfg.Host), config: cfg, setting: setting, limit: o.Connections}
	if err := s.readPooler(dsn, o); err != nil {
		return nil, err
	}
	if o.SSL != "" || !strings.Contains(dsn, "sslmode=") {
		if err := o.secure(cfg); err != nil {
			return nil, fmt.Errorf("database %s: %w", s.Name, err)
		}
	}
	cfg.ConnectTimeout = 10 * time.Second
	if cfg.RuntimeParams["application_name"] == "" { // neither in the address nor in PGAPPNAME
		cfg.RuntimeParams["application_name"] = "modelgate"
	}
	return s, nil
}

// readPooler reads the parameters about a pooler, and removes them from what the server gets.
func (s *Server) readPooler(dsn string, o Options) error {
	mode, direct := s.config.RuntimeParams[poolMode], s.config.RuntimeParams[directHost]
	delete(s.config.RuntimeParams, poolMode)
	delete(s.config.RuntimeParams, directHost)
	switch {
	case mode != "" && mode != "session" && mode != "transaction":
		return fmt.Errorf("database: %s in %s must be session or transaction, not %.20q", poolMode, s.setting, mode)
	case mode != "transaction" && direct != "":
		return fmt.Errorf("database: %s in %s is used with %s=transaction only; leave it out", directHost, s.setting, poolMode)
	case mode != "transaction":
		return nil
	}
	s.pooled = true
	// A prepared statement belongs to a session; a description does not.
	s.config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	if direct == "" {
		return nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return fmt.Errorf("database: the address in %s cannot be read", s.setting)
	}
	if _, port, err := net.SplitHostPort(direct); err != nil || port == "" {
		return fmt.Errorf("database: %s in %s must be host:port of the server itself, not %.100q", directHost, s.setting, direct)
	}
	query := u.Query()
	query.Del(poolMode)
	query.Del(directHost)
	u.Host, u.RawQuery = direct, query.Encode()
	own, err := ParseServer(u.String(), o)
	if err != nil {
		return err
	}
	s.direct = own.config
	return nil
}

// CanListen reports whether notifications arrive at the connections of [Server.Connect].
func (s *Server) CanListen() bool { return !s.pooled || s.direct != nil }

// PoolSize returns the number of connections of [Server.Pool]: size, and at most the limit of
// the options. Size zero means the limit, or else 12.
func (o Options) PoolSize(size int) int {
	limit := cmp.Or(o.Connections, cmp.Or(size, 12))
	return min(cmp.Or(size, limit), limit)
}

// Pool returns a pool of at most size connections, as [Options.PoolSize] says. Session has
// statements of the form SET name = value that apply to all that is done with it.
func (s *Server) Pool(size int, session string) *sql.DB {
	size = Options{Connections: s.limit}.PoolSize(size)
	var db *sql.DB
	if s.pooled {
		db = sql.OpenDB(pooledConnector{stdlib.GetConnector(*s.config, stdlib.OptionShouldPing(probeIdle)), localSettings(session)})
	} else {
		db = stdlib.OpenDB(*s.config, stdlib.OptionShouldPing(probeIdle), stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, session)
			return err
		}))
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

// probeIdle reports that a connection must be tested before use if it was idle: after a
// restart of the server all connections of a pool are dead, and a query tries at most two.
func probeIdle(_ context.Context, p stdlib.ShouldPingParams) bool {
	return p.IdleDuration > 20*time.Millisecond
}

// Connect returns a new connection outside of any pool, past a pooler if the address says how.
func (s *Server) Connect(ctx context.Context) (*pgx.Conn, error) {
	if s.direct != nil {
		return pgx.ConnectConfig(ctx, s.direct.Copy())
	}
	return pgx.ConnectConfig(ctx, s.config.Copy())
}

// Code returns what the server calls err by, empty when err is not its own.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func Code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// IsConflict reports a row that is at odds with another: something refers to it
// (23001, 23503), or it exists (23505). A row that is wrong by itself, such as one
// that lacks a value, is a mistake of the program.
func IsConflict(err error) bool {
	code := Code(err)
	return code == "23001" || code == "23503" || code == "23505"
}

// IsUnavailable reports a database that can't be reached or written to now: no
// connection (08), a change that was sacrificed to others (40), out of resources
// (53), a lock that is held for too long (55P03), stopped by an operator (57),
// failing disks (58), or read-only (25006).
func IsUnavailable(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || pgconn.SafeToRetry(err) {
		return true // whatever the server said of it, a wrong password too
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code[:min(2, len(e.Code))] {
		case "08", "40", "53", "57", "58":
			return true
		}
		return e.Code == "25006" || e.Code == "55P03"
	}
	for _, cut := range []error{driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded} {
		if errors.Is(err, cut) {
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network
}

// IsConnectionLost reports that a connection which was there has ended, so that the next may do
// better: the server was stopped (57P01, 57P02), or says nothing any more.
func IsConnectionLost(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return false
	}
	if code := Code(err); code != "" {
		return code == "57P01" || code == "57P02"
	}
	for _, cut := range []error{driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, cut) {
			return true
		}
	}
	return false
}
