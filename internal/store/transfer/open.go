package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"modelgate/internal/records/logstore"
	"modelgate/internal/storage/postgres"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/storage/tabledata"
	"modelgate/internal/store"
)

// logSchema is the schema of the log in PostgreSQL.
const logSchema = "modelgate_logs"

// snapshot is a consistent view of the databases of a place. Its parts are as of the same
// moment if both are in one database, otherwise within milliseconds.
type snapshot struct {
	contents
	open []tabledata.DB
}

func (s *snapshot) close() error {
	var errs []error
	for _, db := range s.open {
		errs = append(errs, db.Close())
	}
	return errors.Join(errs...)
}

// openSnapshot opens the databases of a place for reading.
func openSnapshot(ctx context.Context, p Place, u tabledata.Use) (s *snapshot, err error) {
	s = new(snapshot)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	control, err := s.openControl(ctx, p, u)
	if err != nil {
		return s, err
	}
	log, err := s.openLog(ctx, p, control, u)
	if err != nil {
		return s, err
	}
	if u == tabledata.Lock {
		for _, db := range []tabledata.DB{control, log} {
			if err := refuseGateways(ctx, db); err != nil {
				return s, err
			}
		}
	}
	return s, s.read(ctx, control, log)
}

// openControl opens the database of the control plane.
func (s *snapshot) openControl(ctx context.Context, p Place, u tabledata.Use) (tabledata.DB, error) {
	if postgres.IsAddress(p.Control) {
		return s.openServer(ctx, p.Control, p.Options.Postgres(), "")
	}
	return s.openFile(ctx, filePath(p.Control), u)
}

// openLog opens the database of the log, nil if there is none. The log in the database of the
// control plane is as of the same moment.
func (s *snapshot) openLog(ctx context.Context, p Place, control tabledata.DB, u tabledata.Use) (tabledata.DB, error) {
	server, ok := control.(*tabledata.Server)
	switch {
	case ok && p.Log.URL == p.Control:
		return server.SelectSchema(logSchema), nil
	case p.Log.URL != "":
		return s.openServer(ctx, p.Log.URL, p.Log.Postgres, logSchema)
	case exists(p.Log.Path):
		return s.openFile(ctx, p.Log.Path, u)
	}
	return nil, nil
}

// filePath returns the path in the address of a file.
func filePath(address string) string { return strings.TrimPrefix(address, "file:") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// openServer begins a snapshot on a connection to PostgreSQL.
func (s *snapshot) openServer(ctx context.Context, address string, o postgres.Options, schema string) (tabledata.DB, error) {
	db, err := connect(ctx, address, o, schema)
	if err != nil {
		return nil, err
	}
	s.open = append(s.open, db)
	return db, db.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1`)
}

// connect connects to a schema of a PostgreSQL database.
func connect(ctx context.Context, address string, o postgres.Options, schema string) (*tabledata.Server, error) {
	at, err := postgres.ParseServer(address, o)
	if err != nil {
		return nil, err
	}
	return tabledata.Connect(ctx, at, schema)
}

// openFile opens an SQLite file, which must exist.
func (s *snapshot) openFile(ctx context.Context, path string, u tabledata.Use) (tabledata.DB, error) {
	db, err := tabledata.OpenFile(ctx, path, u)
	if sqlite.IsBusy(err) {
		err = fmt.Errorf("%w; stop the gateway that uses it", err)
	}
	if err == nil {
		s.open = append(s.open, db)
	}
	return db, err
}

// refuseGateways returns an error if a gateway uses a PostgreSQL database. Every gateway
// has a connection on which it listens. SQLite files are locked instead.
func refuseGateways(ctx context.Context, db tabledata.DB) error {
	const q = `DO $$ BEGIN
		IF EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'LISTEN "modelgate%') THEN
			RAISE EXCEPTION 'in use';
		END IF;
	END $$`
	if _, ok := db.(*tabledata.Server); !ok {
		return nil
	}
	err := db.Exec(ctx, q)
	if postgres.Code(err) == "P0001" {
		return errors.New("a gateway uses the PostgreSQL database; stop all gateways first")
	}
	return err
}

// read finds the tables of a place.
func (s *snapshot) read(ctx context.Context, control, log tabledata.DB) error {
	found, err := control.Tables(ctx)
	if err != nil {
		return err
	}
	if s.version, err = schemaVersion(ctx, control, found); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "modelgate-schema")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := newPristine(ctx, dir, s.version)
	if err != nil {
		return err
	}
	defer p.Close()
	if s.control, err = pick(p.tables, found); err != nil {
		return err
	}
	s.controlRows = control
	if log == nil {
		return nil
	}
	s.logRows = log
	known, err := logTables(ctx, dir)
	if err != nil {
		return err
	}
	if found, err = log.Tables(ctx); err != nil || len(found) == 0 {
		return err // the log has no tables yet
	}
	s.log, err = pick(known, found)
	return err
}

// pick returns the tables of found that are in known, in the order of known, all of which
// must be there.
func pick(known, found []tabledata.Table) (list []tabledata.Table, err error) {
	for _, t := range known {
		i := slices.IndexFunc(found, func(f tabledata.Table) bool { return f.Name == t.Name })
		if i < 0 {
			return nil, fmt.Errorf("the database has no table %s; start the gateway on it once, or restore it from a backup", t.Name)
		}
		list = append(list, found[i])
	}
	return list, nil
}

// logTables returns the tables of the log, as it creates them in a file in dir.
func logTables(ctx context.Context, dir string) ([]tabledata.Table, error) {
	path := dir + "/logs.db"
	if err := prepareLog(ctx, logstore.Options{Path: path}); err != nil {
		return nil, err
	}
	db, err := tabledata.OpenFile(ctx, path, tabledata.Writing)
	if err != nil {
		return nil, err
	}
	list, err := db.Tables(ctx)
	return list, errors.Join(err, db.Close())
}

// prepareLog creates the tables of a log.
func prepareLog(ctx context.Context, o logstore.Options) error {
	logs, err := logstore.Open(ctx, o)
	if err != nil {
		return err
	}
	return logs.Close(ctx)
}

// schemaVersion returns the number of migrations that were applied. Those that this program
// does not know are an error, because they may have added tables.
func schemaVersion(ctx context.Context, db tabledata.DB, found []tabledata.Table) (int, error) {
	all, err := store.Migrations()
	if err != nil {
		return 0, err
	}
	version := 0
	for _, t := range found {
		if !isHistory(t) {
			continue
		}
		err := eachRow(ctx, db, t, tabledata.Unordered, func(fields []byte) error {
			row, err := t.Values(fields)
			if err != nil {
				return err
			}
			n, _ := row["version"].(int64)
			if n < 1 || n > int64(len(all)) {
				return fmt.Errorf("the database has the migration %v of a newer modelgate; use that version", row["name"])
			}
			if row["checksum"] != all[n-1].Checksum {
				return fmt.Errorf("the database has the migration %v with other content than this program's", row["name"])
			}
			version = max(version, int(n))
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	if version == 0 {
		return 0, errNoTables
	}
	return version, nil
}

var errNoTables = errors.New("the database has no tables of modelgate; check the data folder (--data) or the address (DATABASE_URL)")
