package toolservers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// Sync reads what servers offer as jobs: when they are created, and once a day after that, so
// that a definition that has changed is seen without anybody asking.
type Sync struct {
	DB      *store.DB
	Probe   func(ctx context.Context, s *toolserver.Server) (*toolserver.Found, error)
	Secrets route.Sealer // nil opens none
	Now     func() time.Time
	Logger  *slog.Logger
}

// Pauses between readings of a server: after one that succeeded, and the shortest after one that
// failed.
const (
	syncPause  = 24 * time.Hour
	retryPause = 10 * time.Minute
)

// Numbers of servers that are read at a time: by a node, and of an organisation, so that one with
// many slow servers does not delay others.
const (
	maxSyncs    = 32
	maxOwnSyncs = 4
)

// Kind returns the kind of jobs that read servers.
func (s *Sync) Kind() jobs.Kind {
	return jobs.Kind{Name: store.JobToolSync, Run: s.run, AtOnce: maxSyncs, PerOrganisation: maxOwnSyncs,
		Lease: 2 * probeTime, MaxDelay: syncPause}
}

// run reads the server of a job. The job ends with the server.
func (s *Sync) run(ctx context.Context, j *jobs.Job) error {
	row, err := s.DB.ToolServerByID(ctx, j.Subject)
	if apierr.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return s.DB.ClientError(err)
	}
	i, err := s.DB.ToolIntegration(ctx, row.Organisation, row.Integration)
	if err != nil {
		return s.DB.ClientError(err)
	}
	has, err := s.DB.HasToolIntegration(ctx, i, row.Workspace)
	if err != nil {
		return s.DB.ClientError(err)
	}
	if !has || i.Status != store.Active || row.Status != store.Active || i.Auth == string(toolserver.AuthUser) {
		return jobs.Later(syncPause)
	}
	found, omitted, failed := ask(ctx, s.Probe, s.Secrets, &i, &row)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	read := reading{s.Now(), found, omitted, failed}
	good := row.CreatedAt // the last time that it was as it should be
	err = s.DB.Update(ctx, nil, func(tx *store.Tx) error {
		syncs, err := tx.ToolSyncs(ctx, row.ID)
		if err != nil {
			return err
		}
		if at := syncs[row.ID].SyncedAt; at.After(good) {
			good = at
		}
		return read.store(ctx, tx, row)
	})
	switch {
	case apierr.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case failed == nil:
		return jobs.Later(syncPause)
	}
	s.Logger.Info("reading a tool server failed", "server", row.ID, "err", problem(failed))
	if e, ok := errors.AsType[*apierr.Error](failed); ok && e.Kind != apierr.Unavailable {
		return jobs.Later(syncPause) // it was not asked
	}
	return jobs.Later(min(max(s.Now().Sub(good)/4, retryPause), syncPause)) // less and less often
}
