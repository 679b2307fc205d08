package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/logstore"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/settings"
	"modelgate/internal/storage/postgres"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// openBox opens the master key, if there is one.
func (s *Server) openBox() (err error) {
	s.box, err = MasterBox(s.MasterKey, s.PreviousMasterKey)
	return err
}

// MasterBox returns the box of a master key, which also opens what the previous key
// sealed. Without a master key it is nil.
func MasterBox(master, previous secret.String) (*secret.Box, error) {
	switch {
	case !master.Empty():
		return secret.NewBox(master, previous)
	case !previous.Empty():
		return nil, errors.New("a previous master key is set but no master key; set MODELGATE_MASTER_KEY, --master-key-file or --master-key-command")
	}
	return nil, nil
}

// openData opens the databases and reads the stored state.
func (s *Server) openData(ctx context.Context, set *settings.Settings) (stored *publication.State, err error) {
	if err := s.openFolder(); err != nil {
		return nil, err
	}
	if err := s.openModules(); err != nil {
		return nil, err
	}
	s.DatabaseOptions.NoAudit = s.Off[route.AuditLogs]
	if s.store, err = store.Connect(ctx, DatabaseAddress(s.Data, s.Database), s.DatabaseOptions); err != nil {
		return nil, err
	}
	s.store.KeepReserve()
	s.ring = datakey.New(s.store, s.box)
	if stored, err = s.readStored(ctx); err != nil {
		return nil, err
	}
	if err := s.ring.Check(stored.DataKeys); err != nil {
		return nil, err
	}
	if stored, err = s.sealConfigs(ctx, stored); err != nil {
		return nil, err
	}
	address, err := LogsAddress(s.LogsDatabase, s.Database)
	if err != nil {
		return nil, err
	}
	o := LogsOptions(s.Data, address, s.DatabaseOptions)
	o.Queue, o.Logger, o.Retention = set.Log.Queue, s.Logger, Retention(set.Logs.Retention.Effective())
	s.logs, err = logstore.Open(ctx, o)
	return stored, err
}

// sealConfigs seals the credentials of configs stored before sealing existed, and
// returns the resulting state.
func (s *Server) sealConfigs(ctx context.Context, stored *publication.State) (*publication.State, error) {
	if !s.store.Ready() {
		return stored, nil
	}
	list, err := s.store.PlainConfigVersions(ctx)
	if err != nil || len(list) == 0 {
		return stored, err
	}
	if s.box == nil {
		s.Logger.Warn("saved configs contain unsealed credentials; set a master key and start again", "versions", len(list))
		return stored, nil
	}
	for _, v := range list {
		hidden, held, err := store.HideConfig(v.Text)
		if err != nil {
			return nil, fmt.Errorf("config version %s: %w", v.ID, err)
		}
		sealed, err := s.ring.Seal(ctx, v.Organisation, held.Text())
		if err != nil {
			return nil, fmt.Errorf("config version %s: %w", v.ID, err)
		}
		err = s.store.Update(ctx, nil, func(tx *store.Tx) error { return tx.SealConfigVersion(ctx, v.ID, hidden, sealed) })
		if err != nil {
			return nil, fmt.Errorf("config version %s: %w", v.ID, err)
		}
	}
	s.Logger.Info("credentials of saved configs sealed", "versions", len(list))
	return publication.Load(ctx, s.store, nil)
}

// LogRetention returns the retention of the log as text.
func (s *Server) LogRetention() string { return s.first.Logs.Retention.Effective().String() }

// AuditLogRetention returns the retention of the audit log as text.
func (s *Server) AuditLogRetention() string { return s.first.Audit.Retention.Effective().String() }

// Retention returns r in the form of the log. Fields that are not positive retain all.
func Retention(r settings.Retention) logstore.Retention {
	const day = 24 * time.Hour
	return logstore.Retention{
		Age: time.Duration(max(r.Days, 0)) * day, Bytes: int64(r.Bytes),
		BodiesAge: time.Duration(max(r.BodiesDays, 0)) * day, Sums: time.Duration(max(r.SumsDays, 0)) * day,
	}
}

// LogsAddress returns the address of the PostgreSQL database of the log, empty for the
// file in the data folder. If configured is empty it is the control plane's database if that
// is PostgreSQL, so that several nodes share one log; "file" always means the file.
func LogsAddress(configured, control secret.String) (secret.String, error) {
	switch {
	case configured.Reveal() == "file":
		return secret.String{}, nil
	case postgres.IsAddress(configured.Reveal()):
		return configured, nil
	case !configured.Empty():
		return configured, errors.New("the log database (MODELGATE_LOGS_DATABASE_URL) must be a postgres:// address or file")
	case postgres.IsAddress(control.Reveal()):
		return control, nil
	}
	return secret.String{}, nil
}

// LogsOptions returns the options for opening the log of a data folder. Address is a
// result of [LogsAddress].
func LogsOptions(data string, address secret.String, o store.Options) logstore.Options {
	return logstore.Options{Path: filepath.Join(data, "logs.db"), URL: address.Reveal(), Postgres: o.Postgres()}
}

// DatabaseAddress returns the address of the control plane's database: the given one,
// otherwise the file in the data folder.
func DatabaseAddress(data string, given secret.String) string {
	if given.Empty() {
		return "file:" + filepath.Join(data, "modelgate.db")
	}
	return given.Reveal()
}

// migrate brings the tables up to date. On a shared database it logs that it did, because
// nodes of earlier versions may still run.
func (s *Server) migrate(ctx context.Context) error {
	applied, err := s.store.Migrate(ctx)
	if len(applied) > 0 && s.store.Remote() && !strings.HasPrefix(applied[0], "0001_") {
		s.Logger.Info("tables updated; until every node runs this version, older nodes ignore its new options", "migrations", strings.Join(applied, " "))
	}
	return err
}

// readStored reads the initial state from the database, or from the state copy if the
// database is unavailable.
func (s *Server) readStored(ctx context.Context) (*publication.State, error) {
	reach, cancel := context.WithTimeout(ctx, migrating)
	defer cancel()
	err := s.migrate(reach)
	if err == nil {
		return publication.Load(ctx, s.store, nil)
	}
	if !unavailable(err) || !s.store.Remote() {
		return nil, err
	}
	if s.box == nil {
		return nil, fmt.Errorf("%w; with a master key the gateway keeps a copy of its state and starts without it", err)
	}
	stored, why := readCopy(filepath.Join(s.Data, copyName), s.box, s.store.Name())
	if why != nil {
		return nil, fmt.Errorf("%w; %w", err, why)
	}
	s.away.Store(true)
	s.Logger.Warn("database unavailable; serving the state copy read-only", "err", err.Error(), "revision", stored.Revision)
	return stored, nil
}
