package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"modelgate/internal/base/oserr"
	"modelgate/internal/base/secret"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/server"
	"modelgate/internal/storage/postgres"
	"modelgate/internal/store"
	"modelgate/internal/store/transfer"
)

// databaseFlags are the flags for the control plane's database.
type databaseFlags struct {
	data               *string
	url                *string
	ssl, ca, cert, key *string
	connections        *poolLimit
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
	d.connections = new(poolLimit)
	f.Var(d.connections, "db-connections",
		"at most `N` connections in each pool, 2 to 1000; defaults to 12, or 8 for the log and the counters of limits"+environmentNote("DB_CONNECTIONS"))
	f.Lookup("db-connections").Annotations = map[string][]string{environmentOf: {"DB_CONNECTIONS"}}
	return d
}

// poolLimit is the limit of connections in a pool. Zero is the default. It implements
// pflag.Value.
type poolLimit int

// String implements pflag.Value.
func (l *poolLimit) String() string {
	if *l == 0 {
		return ""
	}
	return strconv.Itoa(int(*l))
}

// Set implements pflag.Value. With one connection, a pool could not serve a request while
// another waits for the database.
func (l *poolLimit) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 || n > 1000 {
		return errors.New("must be a number from 2 to 1000")
	}
	*l = poolLimit(n)
	return nil
}

// Type implements pflag.Value.
func (l *poolLimit) Type() string { return poolLimitType }

const poolLimitType = "connections"

// logsFlag adds the flag for the log's database.
func logsFlag(f *flags) *string {
	return f.text("logs-database-url", "MODELGATE_LOGS_DATABASE_URL", "",
		"`address` of the log's PostgreSQL database, or \"file\" for the data folder; defaults to the control plane's database if that is PostgreSQL, otherwise the data folder")
}

// address returns the address of the database and its options.
func (d databaseFlags) address() (string, store.Options) {
	o := store.Options{SSL: *d.ssl, CA: *d.ca, Cert: *d.cert, Key: *d.key, Connections: int(*d.connections)}
	return server.DatabaseAddress(*d.data, secret.New(*d.url)), o
}

// open opens the database and applies pending migrations.
func (d databaseFlags) open(ctx context.Context) (*store.DB, error) {
	dsn, o := d.address()
	return store.Open(ctx, dsn, o)
}

func migrate(p *program) *cobra.Command {
	f := p.flags("migrate",
		"Applies pending migrations to the control plane's database, as every start does, and prints them.\nSeveral processes may run it at the same time.\n\n"+
			"With --from and --to, it copies all data of one kind of database to the other, and verifies the copy. Stop the\n"+
			"gateways first. It can be interrupted and run again.",
		`modelgate migrate --dry-run
modelgate migrate --database-url postgres://modelgate@db.example.com/modelgate
modelgate migrate --from sqlite --to postgres --data data`)
	d, m := newDatabaseFlags(f), newMasterFlags(f)
	logs := logsFlag(f)
	from := f.String("from", "", "`place` to copy from: sqlite (the data folder), a folder, postgres (the database of --database-url), or an address")
	to := f.String("to", "", "`place` to copy to, like --from")
	dry := f.Bool("dry-run", false, "change nothing, and list the pending migrations, or what would be copied")
	return f.run(func(ctx context.Context) error {
		switch {
		case *from == "" && *to == "":
			return p.applyMigrations(ctx, d, *dry)
		case *from == "" || *to == "":
			return usage("--from and --to are required together")
		}
		source, err := d.side(*from, *logs)
		if err != nil {
			return err
		}
		target, err := d.side(*to, *logs)
		if err != nil {
			return err
		}
		if postgres.IsAddress(source.Control) == postgres.IsAddress(target.Control) {
			return usage("--from and --to must be databases of two kinds: sqlite and postgres; to copy a database of the same kind, use modelgate backup and restore")
		}
		master, previous, err := m.read(ctx, p)
		if err != nil {
			return err
		}
		box, err := server.MasterBox(master, previous)
		if err != nil {
			return err
		}
		return p.copyData(ctx, source, target, box, *dry)
	})
}

// side returns the place that --from or --to names.
func (d databaseFlags) side(name, logs string) (transfer.Place, error) {
	one := d
	switch folder, address := *d.data, ""; {
	case name == "postgres" && *d.url == "":
		return transfer.Place{}, usage("postgres needs the address of the database in DATABASE_URL or --database-url")
	case name == "postgres":
	case postgres.IsAddress(name):
		one.url = &name
	case name == "sqlite", !strings.Contains(name, "://"):
		if name != "sqlite" {
			folder = strings.TrimPrefix(name, "file:")
		}
		if info, err := os.Stat(folder); err == nil && !info.IsDir() {
			if filepath.Base(folder) != "modelgate.db" {
				return transfer.Place{}, usage("%s is a file; name the data folder with modelgate.db and logs.db", folder)
			}
			folder = filepath.Dir(folder)
		}
		one.data, one.url, logs = &folder, &address, "file"
	default:
		return transfer.Place{}, usage("%q is unsupported; use sqlite, a folder, postgres or a postgres:// address", name)
	}
	return one.place(logs)
}

// copyData copies one place to another.
func (p *program) copyData(ctx context.Context, from, to transfer.Place, box *secret.Box, dry bool) error {
	defer debug.SetGCPercent(debug.SetGCPercent(smallHeap))
	for _, data := range []string{from.Data, to.Data} {
		unlock, err := server.LockFolder(data)
		if err != nil {
			return err
		}
		defer unlock()
		if from.Data == to.Data {
			break
		}
	}
	if err := checkMasterKey(ctx, from, box); err != nil {
		return err
	}
	if !dry {
		if err := os.MkdirAll(to.Data, 0o700); err != nil {
			return fmt.Errorf("creating the data folder: %w", oserr.File(err))
		}
	}
	totals, err := transfer.Migrate(ctx, from, to, transfer.MigrateOptions{DryRun: dry, Progress: p.progress()})
	if err != nil {
		return err
	}
	p.printTotals(totals)
	if dry {
		fmt.Fprintln(p.out, "nothing was changed")
		return nil
	}
	fmt.Fprintln(p.out, "copied and verified. Start the gateway with the new database, the same data folder and the same master key.")
	return nil
}

// checkMasterKey returns an error unless the master key opens the data keys of a place.
func checkMasterKey(ctx context.Context, from transfer.Place, box *secret.Box) error {
	if path, ok := strings.CutPrefix(from.Control, "file:"); ok {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("database %s: %w", path, oserr.File(err))
		}
	}
	db, err := store.Connect(ctx, from.Control, from.Options)
	if err != nil {
		return err
	}
	defer db.Close()
	list, err := db.Organisations(ctx)
	if err != nil {
		return fmt.Errorf("database %s: %w", db.Name(), err)
	}
	wrapped := make(map[string]string)
	for _, o := range list {
		if o.DataKey != "" {
			wrapped[o.ID] = o.DataKey
		}
	}
	return datakey.New(db, box).Check(wrapped)
}

// applyMigrations applies the pending migrations, or lists them.
func (p *program) applyMigrations(ctx context.Context, d databaseFlags, dry bool) error {
	dsn, o := d.address()
	if path, ok := strings.CutPrefix(dsn, "file:"); dry && ok {
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
	if dry {
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
}
