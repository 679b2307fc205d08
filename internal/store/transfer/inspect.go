package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"

	"modelgate/internal/records/logstore"
	"modelgate/internal/storage/postgres"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/storage/tabledata"
)

// inspect returns what a place has, empty if nothing. A gateway that uses it is an error.
func inspect(ctx context.Context, p Place) (used string, err error) {
	s := new(snapshot)
	defer func() { err = errors.Join(err, s.close()) }()
	db, err := s.openTarget(ctx, p)
	if err == nil && db != nil {
		used, err = usesControl(ctx, db)
	}
	if err == nil && used == "" {
		used, err = usesLog(ctx, s, p.Log)
	}
	if sqlite.IsDamaged(err) {
		return "a database file of the target is damaged", nil
	}
	return used, err
}

// openTarget opens the database of a control plane that may be written to, nil if there is
// no file. A gateway that uses it is an error.
func (s *snapshot) openTarget(ctx context.Context, p Place) (tabledata.DB, error) {
	if !postgres.IsAddress(p.Control) && !exists(filePath(p.Control)) {
		return nil, nil
	}
	db, err := s.openControl(ctx, p, tabledata.Lock)
	if err != nil {
		return nil, err
	}
	return db, refuseGateways(ctx, db)
}

// usesControl returns what a control plane's database has, empty if nothing.
func usesControl(ctx context.Context, db tabledata.DB) (string, error) {
	const used = "the target has a control plane"
	found, err := db.Tables(ctx)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", nil
	}
	version, err := schemaVersion(ctx, db, found)
	if errors.Is(err, errNoTables) {
		return "", nil
	}
	if err != nil {
		return "the target has tables that this program does not know: " + err.Error(), nil
	}
	dir, err := os.MkdirTemp("", "modelgate-schema")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	p, err := newPristine(ctx, dir, version)
	if err != nil {
		return "", err
	}
	defer p.Close()
	if empty, err := p.isUnchanged(ctx, db); empty || err != nil {
		return "", err
	}
	return used, nil
}

// usesLog returns what a log has, empty if nothing.
func usesLog(ctx context.Context, s *snapshot, o logstore.Options) (string, error) {
	var db tabledata.DB
	var err error
	switch {
	case o.URL != "":
		db, err = s.openServer(ctx, o.URL, o.Postgres, logSchema)
	case exists(o.Path):
		db, err = s.openFile(ctx, o.Path, tabledata.Snapshot)
	default:
		return "", nil
	}
	if err != nil {
		return "", err
	}
	found, err := db.Tables(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range found {
		if t.Name == "format" {
			continue
		}
		if n, err := sum(ctx, db, t, nil); err != nil || n.Rows > 0 {
			return fmt.Sprintf("the log of the target has %s", t.Name), err
		}
	}
	return "", nil
}
