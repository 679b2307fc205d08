package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Options are how a PostgreSQL database is reached. SQLite takes none of them.
type Options struct {
	// SSL is DISABLED, PREFERRED (the default), REQUIRED, VERIFY_CA,
	// VERIFY_IDENTITY or CLOUD_A_BUNDLE, as DB_SSL in the environment says.
	SSL string
	// CA, Cert and Key are PEM texts or paths of files: the authority for the
	// modes that verify, and the client's own certificate. Both or none of Cert
	// and Key are given.
	CA, Cert, Key string

	// Connections bounds each of the two pools. Zero means 12.
	Connections int
}

func openPostgres(dsn string, o Options) (*DB, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("database: the postgres:// address can't be read; it has the form postgres://user:password@host:5432/name")
	}
	name := fmt.Sprintf("%s at %s", cfg.Database, cfg.Host)
	if o.SSL != "" || !strings.Contains(dsn, "sslmode=") {
		if err := o.secure(cfg); err != nil {
			return nil, fmt.Errorf("database %s: %w", name, err)
		}
	}
	cfg.ConnectTimeout = 10 * time.Second
	db := &DB{
		engine: engine{
			name: name, lock: lockMigrations, notify: notifyChange, conflict: pgConflict, away: pgAway, reason: pgReason,
			listen: func(ctx context.Context, changed func()) error { return pgListen(ctx, cfg, changed) },
		},
		// A process that stopped within a change must not hold up all others.
		write: pgPool(cfg, o.Connections, `SET idle_in_transaction_session_timeout = '30s'`),
	}
	read := pgPool(cfg, o.Connections, `SET default_transaction_read_only = on`)
	db.Queries = Queries{read}
	db.close = func() error { return errors.Join(read.Close(), db.write.Close()) }
	return db, nil
}

// pgPool returns a pool of connections, each of which begins with the statement
// first.
func pgPool(cfg *pgx.ConnConfig, size int, first string) *sql.DB {
	if size == 0 {
		size = 12
	}
	db := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, first)
		return err
	}))
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

// lockMigrations lets one process migrate at a time. The number is our own.
const lockMigrations = `SELECT pg_advisory_xact_lock(7305011975)`

// notifyChange is sent by the server when the transaction is kept.
const notifyChange = `NOTIFY modelgate_revision`

// pgConflict reports a broken constraint: class 23 of the error codes.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func pgConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(e.Code, "23")
}

// pgAway reports a database that can't be reached or written to now: no
// connection (08), a change that was sacrificed to others (40), out of resources
// (53), a lock that is held for too long (55P03), stopped by an operator (57),
// failing disks (58), or read-only (25006).
func pgAway(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code[:min(2, len(e.Code))] {
		case "08", "40", "53", "57", "58":
			return true
		}
		return e.Code == "25006" || e.Code == "55P03"
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || pgconn.SafeToRetry(err) {
		return true
	}
	for _, cut := range []error{driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded} {
		if errors.Is(err, cut) {
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network
}

// pgReason is what went wrong, without the address, which may hold a password.
func pgReason(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Message
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Error()
	}
	return "no connection could be made; check the address, DB_SSL and that the server runs"
}

// secure sets how connections are encrypted, to each of the hosts that the
// address names.
func (o Options) secure(cfg *pgx.ConnConfig) error {
	mode := strings.ToUpper(strings.TrimSpace(o.SSL))
	var ways []*pgconn.FallbackConfig
	for _, at := range hosts(cfg) {
		encrypted, err := o.tls(at.Host, mode)
		if err != nil {
			return err
		}
		local := strings.HasPrefix(at.Host, "/") // a socket of this machine, which is never encrypted
		if !local && encrypted != nil {
			ways = append(ways, &pgconn.FallbackConfig{Host: at.Host, Port: at.Port, TLSConfig: encrypted})
		}
		if local || encrypted == nil || mode == "" || mode == "PREFERRED" {
			ways = append(ways, &pgconn.FallbackConfig{Host: at.Host, Port: at.Port})
		}
	}
	first := ways[0]
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = first.Host, first.Port, first.TLSConfig, ways[1:]
	return nil
}

// hosts returns the hosts that the address names, each once.
func hosts(cfg *pgx.ConnConfig) []pgconn.FallbackConfig {
	list := []pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port}}
	for _, f := range cfg.Fallbacks {
		if last := list[len(list)-1]; f.Host != last.Host || f.Port != last.Port {
			list = append(list, pgconn.FallbackConfig{Host: f.Host, Port: f.Port})
		}
	}
	return list
}

func (o Options) tls(host, mode string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if err := o.present(c); err != nil {
		return nil, err
	}
	switch mode {
	case "DISABLED":
		return nil, nil
	case "", "PREFERRED", "REQUIRED":
		c.InsecureSkipVerify = true // encryption without identity, as the modes say
		return c, nil
	case "VERIFY_CA", "VERIFY_IDENTITY":
	case "CLOUD_A_BUNDLE", "AMAZON RDS":
		if o.CA == "" {
			return nil, fmt.Errorf("DB_SSL %s needs the cloud's bundle of authorities in DB_SSL_CA; download it from the cloud", mode)
		}
	default:
		return nil, fmt.Errorf("DB_SSL is DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY or CLOUD_A_BUNDLE, not %.40q", o.SSL)
	}
	if o.CA != "" {
		pem, err := pemText("DB_SSL_CA", o.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("DB_SSL_CA holds no certificate in PEM form")
		}
	}
	if mode == "VERIFY_CA" {
		verifyChainOnly(c)
	}
	return c, nil
}

// verifyChainOnly checks the chain and leaves the name of the host unchecked.
func verifyChainOnly(c *tls.Config) {
	roots := c.RootCAs
	c.InsecureSkipVerify = true // replaced by the check below
	c.VerifyConnection = func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}

// present loads the client's own certificate.
func (o Options) present(c *tls.Config) error {
	if o.Cert == "" && o.Key == "" {
		return nil
	}
	if o.Cert == "" || o.Key == "" {
		return errors.New("DB_SSL_CERT and DB_SSL_KEY are given together or not at all")
	}
	cert, err := pemText("DB_SSL_CERT", o.Cert)
	if err != nil {
		return err
	}
	key, err := pemText("DB_SSL_KEY", o.Key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return errors.New("DB_SSL_CERT and DB_SSL_KEY are no certificate and its key in PEM form")
	}
	c.Certificates = []tls.Certificate{pair}
	return nil
}

// pemText returns a PEM text, which value holds or names the file of.
func pemText(name, value string) ([]byte, error) {
	if strings.Contains(value, "-----BEGIN") {
		return []byte(value), nil
	}
	text, err := os.ReadFile(value)
	if err != nil {
		return nil, fmt.Errorf("%s: the file can't be read: %w", name, err)
	}
	return text, nil
}
