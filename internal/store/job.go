package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// States of a [Job]. A failed job ended with an error that another try would not change;
// a dead job has used up its tries.
const (
	JobQueued    = "queued"
	JobRunning   = "running"
	JobDone      = "done"
	JobFailed    = "failed"
	JobDead      = "dead"
	JobCancelled = "cancelled"
)

// Kinds of jobs. The subject is the export or the object that they work on.
const (
	JobExport    = "export"      // writes an export
	JobBatch     = "batch"       // runs a batch of the gateway
	JobBatchPoll = "batch-poll"  // follows a batch of a provider
	JobTuning    = "fine-tuning" // follows a fine-tuning job of a provider
	JobRemoval   = "removal"     // deletes an object where it is kept
	JobCall      = "call"        // counts what a realtime call uses
	JobToolSync  = "mcp-sync"    // reads what an MCP server offers
)

// Job is work that a node does in the background.
type Job struct {
	ID           string
	Kind         string
	Subject      string // id of the object that it works on; one job for each subject of a kind
	Organisation string
	Workspace    string // id; empty for the whole organisation
	State        string

	Node     string // that runs it, or ran it last
	Token    int64  // rises with each claim
	Renewals int64  // of the current claim
	Tries    int64  // begun, including the current one
	Failure  string // of the last try, without secrets

	Progress int64
	Total    *int64 // of Progress; nil if unknown

	NextAt    time.Time // when it is due, if it is queued
	CreatedAt time.Time
	StartedAt time.Time // of the last try
	RenewedAt time.Time // when the node that runs it was last heard of
	EndedAt   time.Time
}

// Ended reports whether no node runs the job any more.
func (j *Job) Ended() bool { return j.State != JobQueued && j.State != JobRunning }

var jobTable = table[Job]{
	name: "jobs", row: "job", order: "id DESC", fixed: "id kind subject_id organisation_id workspace_id created_at",
	columns: func(j *Job) []column {
		return []column{
			{"id", &j.ID}, {"kind", &j.Kind}, {"subject_id", &j.Subject}, {"organisation_id", &j.Organisation}, {"workspace_id", &j.Workspace},
			{"state", &j.State}, {"node", &j.Node}, {"token", &j.Token}, {"renewals", &j.Renewals}, {"tries", &j.Tries}, {"failure", &j.Failure},
			{"progress", &j.Progress}, {"total", &j.Total}, {"next_at", &j.NextAt}, {"created_at", &j.CreatedAt}, {"started_at", &j.StartedAt},
			{"renewed_at", &j.RenewedAt}, {"ended_at", &j.EndedAt},
		}
	},
}

// followers write the state of a job to its subject, by kind, in the transaction that
// changes the state.
var followers = map[string]func(ctx context.Context, tx *Tx, j *Job) error{
	JobExport:    followExport,
	JobBatch:     followBatch,
	JobBatchPoll: followBatch,
	JobResponse:  followResponse,
	JobWebhook:   followWebhook,
}

// JobQuery filters jobs. Empty fields filter nothing, except for Organisation.
type JobQuery struct {
	Organisation string
	Workspace    string // id
	Kind, State  string
}

// Jobs returns a page of jobs, newest first, and the number of all matches.
func (q Queries) Jobs(ctx context.Context, x JobQuery, p Page) (list []Job, total int, err error) {
	return jobTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND ($3 = '' OR kind = $3) AND ($4 = '' OR state = $4)`,
		x.Organisation, x.Workspace, x.Kind, x.State)
}

// Job returns the job with this id.
func (q Queries) Job(ctx context.Context, id string) (Job, error) {
	return jobTable.one(ctx, q.Reader, `
		WHERE id = $1`, id)
}

// JobOf returns the job of a kind for a subject.
func (q Queries) JobOf(ctx context.Context, kind, subject string) (Job, error) {
	return jobTable.one(ctx, q.Reader, `
		WHERE kind = $1 AND subject_id = $2`, kind, subject)
}

// DueQuery says which jobs are due.
type DueQuery struct {
	Kind string
	Now  time.Time
	// Latest is the last time that a job can have. One with a later time is due as well: the
	// clock that it was written by was wrong.
	Latest time.Time
	Limit  int
	// PerOrganisation is how many jobs of an organisation may run at a time. Zero is any number.
	PerOrganisation int
}

// dueQuery has first those that are due first. dueInTurns has first those of organisations of
// which the fewest jobs run, then of those of which none was begun for the longest time, and no more
// of each than may run.
const (
	dueQuery = `
		WHERE state = 'queued' AND kind = $1 AND (next_at <= $2 OR next_at > $3)
		ORDER BY next_at, id
		LIMIT $4`
	dueInTurns = `
		JOIN (
			SELECT d.id AS due_id, COALESCE(r.running, 0) + ROW_NUMBER() OVER (PARTITION BY d.organisation_id ORDER BY d.next_at, d.id) AS turn,
				COALESCE(r.begun, 0) AS begun
			FROM jobs d
			LEFT JOIN (
				SELECT organisation_id, SUM(CASE WHEN state = 'running' THEN 1 ELSE 0 END) AS running, MAX(started_at) AS begun
				FROM jobs
				WHERE kind = $1 AND started_at IS NOT NULL
				GROUP BY organisation_id
			) r ON r.organisation_id = d.organisation_id
			WHERE d.state = 'queued' AND d.kind = $1 AND (d.next_at <= $2 OR d.next_at > $3)
		) due ON due_id = id
		WHERE turn <= $5
		ORDER BY turn, begun, next_at, id
		LIMIT $4`
)

// DueJobs returns the first queued jobs of a kind that are due, and that may run now.
func (db *DB) DueJobs(ctx context.Context, q DueQuery) ([]Job, error) {
	if !db.ready.Load() {
		return nil, unavailableError(nil)
	}
	text, args := dueQuery, []any{q.Kind, millis(q.Now), millis(q.Latest), q.Limit}
	if q.PerOrganisation > 0 {
		text, args = dueInTurns, append(args, q.PerOrganisation)
	}
	list, err := jobTable.list(ctx, db.read, text, args...)
	return list, db.ClientError(err)
}

// RunningJobs returns the running jobs of a kind.
func (db *DB) RunningJobs(ctx context.Context, kind string) ([]Job, error) {
	if !db.ready.Load() {
		return nil, unavailableError(nil)
	}
	list, err := jobTable.list(ctx, db.read, `
		WHERE state = 'running' AND kind = $1`, kind)
	return list, db.ClientError(err)
}

// JobCount is the number of jobs of a kind in a state.
type JobCount struct {
	Kind, State string
	Count       int64
	Due         time.Time // when the first of them is due; zero if none is queued
}

// CountJobs counts the jobs of all organisations.
func (db *DB) CountJobs(ctx context.Context) ([]JobCount, error) {
	const text = `
		SELECT kind, state, COUNT(*), MIN(CASE WHEN state = 'queued' THEN next_at END)
		FROM jobs
		GROUP BY kind, state`
	list, err := sqlrow.List(ctx, db.read, "jobs", text, func(r sqlrow.Scanner) (c JobCount, err error) {
		err = r.Scan(&c.Kind, &c.State, &c.Count, sqlrow.Time(&c.Due))
		return c, err
	})
	return list, db.ClientError(err)
}

// AddJob queues a job.
func (tx *Tx) AddJob(ctx context.Context, j Job) error {
	j.State = JobQueued
	return jobTable.insert(ctx, tx, j)
}

// HastenJob makes a queued job due now. Another one stays as it is.
func (tx *Tx) HastenJob(ctx context.Context, kind, subject string, now time.Time) error {
	const stmt = `
		UPDATE jobs
		SET next_at = $3
		WHERE kind = $1 AND subject_id = $2 AND state = 'queued' AND next_at > $3`
	return tx.exec(ctx, journal.Unpublished, "jobs", stmt, kind, subject, millis(now))
}

// ErrJobMoved is the cause of the error of [Tx.MoveJob] for a job that is no longer as it
// was read.
var ErrJobMoved = errors.New("the job is in another state")

// MoveJob changes a job from was, as it was read, to next, together with effects on other
// rows; nil is none. It reports false, without an effect, if the job is no longer as it
// was read: another node has claimed it, or its state has changed. A claim of a running
// job also requires that its node has not renewed it. It makes no revision.
func (db *DB) MoveJob(ctx context.Context, was, next Job, effects func(*Tx) error) (moved bool, err error) {
	if !db.ready.Load() {
		return false, unavailableError(nil)
	}
	err = db.transact(ctx, func(tx *Tx) error {
		if err := tx.MoveJob(ctx, was, next); err != nil || effects == nil {
			return err
		}
		return effects(tx)
	})
	if errors.Is(err, ErrJobMoved) {
		return false, nil
	}
	return err == nil, db.ClientError(err)
}

// MoveJob is [DB.MoveJob] in a transaction with other changes. If the job is no longer as
// it was read, it returns an *apierr.Error of kind Conflict.
func (tx *Tx) MoveJob(ctx context.Context, was, next Job) error {
	renewals := int64(-1)
	if next.Token != was.Token {
		renewals = was.Renewals
	}
	moved, err := jobTable.updateIf(ctx, tx, next, `token = $2 AND state = $3 AND ($4 < 0 OR renewals = $4)`, was.Token, was.State, renewals)
	if err != nil {
		return err
	}
	if !moved {
		return apierr.New(apierr.Conflict, "the state of the job has just changed; read it again").WithCause(ErrJobMoved)
	}
	if follow := followers[next.Kind]; follow != nil && next.State != was.State {
		return follow(ctx, tx, &next)
	}
	return nil
}

// followExport writes the state of its job to an export. A node that ends an export
// writes more than the state; see [Tx.FinishExport].
func followExport(ctx context.Context, tx *Tx, j *Job) error {
	const again = `
		UPDATE exports
		SET status = 'in_progress', failure = '', row_count = 0, byte_count = 0, claimed_by = '', lease_until = NULL, ended_at = NULL
		WHERE id = $1 AND status IN ('in_progress', 'failed')`
	const end = `
		UPDATE exports
		SET status = $2, failure = $3, file = '', lease_until = NULL, ended_at = $4, updated_at = $4
		WHERE id = $1 AND status = 'in_progress'`
	switch j.State {
	case JobQueued:
		return tx.exec(ctx, journal.Unpublished, "exports", again, j.Subject)
	case JobFailed, JobDead:
		return tx.exec(ctx, journal.Unpublished, "exports", end, j.Subject, ExportFailed, j.Failure, millis(j.EndedAt))
	case JobCancelled:
		return tx.exec(ctx, journal.Unpublished, "exports", end, j.Subject, ExportStopped, "", millis(j.EndedAt))
	}
	return nil
}

// followBatch ends a batch whose job has ended without an end of the batch.
func followBatch(ctx context.Context, tx *Tx, j *Job) error {
	const stmt = `
		UPDATE objects
		SET state = 'failed', ended_at = $2, updated_at = $2, version = version + 1
		WHERE id = $1 AND ended_at IS NULL`
	switch j.State {
	case JobFailed, JobDead, JobCancelled:
	default:
		return nil
	}
	n, err := tx.change.Exec(ctx, journal.Unpublished, stmt, j.Subject, millis(j.EndedAt))
	if err != nil {
		return fmt.Errorf("writing the end of a batch: %w", err)
	}
	if n == 0 {
		return nil
	}
	if err := tx.SetBudgetHolds(ctx, j.Subject, nil); err != nil {
		return err
	}
	o, err := tx.ObjectByID(ctx, j.Subject)
	if err != nil {
		return err
	}
	return tx.EmitEvent(ctx, Event{
		Organisation: o.Organisation, Workspace: o.Workspace, Type: "batch.failed", Object: o.ShownID(), Time: j.EndedAt,
	})
}
