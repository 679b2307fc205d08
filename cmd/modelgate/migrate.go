package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	"modelgate/internal/store"
)

// databaseFlags are the flags for the control plane's database.
type databaseFlags struct {
	data               *string
	url                *string
	ssl, ca, cert, key *string
}

func newDatabaseFlags(f *flags) databaseFlags {
	return databaseFlags{data: f.text("data", "MODELGATE_DATA", "data", "`folder` of the databases")}.withAddress(f)
}

// withAddress adds the flags for a database outside the data folder.
func (d databaseFlags) withAddress(f *flags) databaseFlags {
	d.url = f.text("database-url", "DATABASE_URL", "",
		"`address` of the control plane's database, for example postgres://user:password@host:5432/name; defaults to a file in the data folder")
	d.ssl = f.text("db-ssl", "DB_SSL", "",
		"`mode` of encryption: DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY or CLOUD_A_BUNDLE; defaults to sslmode of the address, otherwise PREFERRED")
	d.ca = f.text("db-ssl-ca", "DB_SSL_CA", "", "`file` or PEM text with the authorities that sign the server's certificate")
	d.cert = f.text("db-ssl-cert", "DB_SSL_CERT", "", "`file` or PEM text with the client's own certificate")
	d.key = f.text("db-ssl-key", "DB_SSL_KEY", "", "`file` or PEM text with the key of the client's certificate")
	return d
}

// logsFlag adds the flag for the log's database.
func logsFlag(f *flags) *string {
	return f.text("logs-database-url", "MODELGATE_LOGS_DATABASE_URL", "",
		"`address` of the log's PostgreSQL database, or \"file\" for the data folder; defaults to the control plane's database if that is PostgreSQL, otherwise the data folder")
}

// address returns the address of the database and its options.
func (d databaseFlags) address() (string, store.Options) {
	return server.DatabaseAddress(*d.data, secret.New(*d.url)), store.Options{SSL: *d.ssl, CA: *d.ca, Cert: *d.cert, Key: *d.key}
}

// open opens the database and applies pending migrations.
func (d databaseFlags) open(ctx context.Context) (*store.DB, error) {
	dsn, o := d.address()
	return store.Open(ctx, dsn, o)
}

func migrate(p *program) *cobra.Command {
	f := p.flags("migrate",
		"Applies pending migrations to the control plane's database, as every start does, and prints them.\nSeveral processes may run it at the same time.",
		`modelgate migrate --dry-run
modelgate migrate --database-url postgres://modelgate@db.example.com/modelgate`)
	d := newDatabaseFlags(f)
	dry := f.Bool("dry-run", false, "change nothing and list the pending migrations")
	return f.run(func(ctx context.Context) error {
		dsn, o := d.address()
		if path, ok := strings.CutPrefix(dsn, "file:"); *dry && ok {
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("database %s does not exist yet; run without --dry-run to create it", path)
			}
		}
		if err := os.MkdirAll(*d.data, 0o700); err != nil {
			return fmt.Errorf("creating the data folder: %w", err)
		}
		db, err := store.Connect(ctx, dsn, o)
		if err != nil {
			return err
		}
		defer db.Close()
		work, done := db.Migrate, "applied"
		if *dry {
			work, done = db.Missing, "missing"
		}
		names, err := work(ctx)
		for _, name := range names {
			fmt.Fprintln(p.out, done, name)
		}
		if err == nil && len(names) == 0 {
			fmt.Fprintf(p.out, "database %s is up to date\n", db.Name())
		}
		return err
	})
}
