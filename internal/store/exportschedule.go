package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// States of an [ExportSchedule]. A stopped one has lost a right that it needs.
const (
	ScheduleActive  = "active"
	SchedulePaused  = "paused"
	ScheduleStopped = "stopped"
)

// ExportSchedule is a rule by which the gateway starts exports by itself, each of one complete
// period.
type ExportSchedule struct {
	ID           string
	Organisation string
	Name         string
	Workspaces   []string // ids; nil for all that are active when an export is started
	Every        string   // hour, day, week or month
	Zone         string   // IANA name of the time zone of periods
	Format       string
	Filters      json.RawMessage // without times
	Requested    []string
	Status       string
	Reason       string // why it was stopped

	// KeyID and UserID are who made it, whose rights each run has. A session has no key, and
	// a service key no user.
	KeyID, UserID string

	From      time.Time // beginning of the next period
	NextAt    time.Time // when the export of that period is started
	LastRunAt time.Time // zero before the first run
	CreatedAt time.Time
	UpdatedAt time.Time
}

var exportScheduleTable = table[ExportSchedule]{
	name: "export_schedules", row: "export schedule", order: "id DESC", fixed: "id organisation_id",
	columns: func(s *ExportSchedule) []column {
		return []column{
			{"id", &s.ID}, {"organisation_id", &s.Organisation}, {"name", &s.Name}, {"workspaces", nullable(&s.Workspaces)},
			{"every", &s.Every}, {"zone", &s.Zone}, {"format", &s.Format}, {"filters", nullable(&s.Filters)},
			{"requested", nullable(&s.Requested)}, {"status", &s.Status}, {"reason", &s.Reason}, {"key_id", &s.KeyID}, {"user_id", &s.UserID},
			{"period_from", &s.From}, {"next_at", &s.NextAt}, {"last_run_at", &s.LastRunAt}, {"created_at", &s.CreatedAt},
			{"updated_at", &s.UpdatedAt},
		}
	},
}

// ExportSchedules returns a page of the schedules of an organisation, newest first, and the number
// of all. A key or user restricts them to those that it made; empty ones do not.
func (q Queries) ExportSchedules(ctx context.Context, organisation, key, user string, p Page) (
	list []ExportSchedule, total int, err error) {
	return exportScheduleTable.page(ctx, q.Reader, p, `
		WHERE organisation_id = $1 AND ($2 = '' OR key_id = $2) AND ($3 = '' OR user_id = $3)`, organisation, key, user)
}

// ExportSchedule returns the schedule with this id.
func (q Queries) ExportSchedule(ctx context.Context, id string) (ExportSchedule, error) {
	return exportScheduleTable.one(ctx, q.Reader, `
		WHERE id = $1`, id)
}

// DueExportSchedules returns some active schedules whose next export is due, those due first
// before others. Organisations take turns, so that none waits for the schedules of another.
func (q Queries) DueExportSchedules(ctx context.Context, now time.Time) ([]ExportSchedule, error) {
	return exportScheduleTable.list(ctx, q.Reader, `
		WHERE status = 'active' AND next_at <= $1
		ORDER BY ROW_NUMBER() OVER (PARTITION BY organisation_id ORDER BY next_at, id), next_at, id
		LIMIT 20`, now.UnixMilli())
}

// CountStoppedExportSchedules counts the stopped schedules of all organisations.
func (q Queries) CountStoppedExportSchedules(ctx context.Context) (int, error) {
	const text = `
		SELECT COUNT(*)
		FROM export_schedules
		WHERE status = 'stopped'`
	return sqlrow.Count(ctx, q.Reader, text)
}

// CreateExportSchedule stores a schedule.
func (tx *Tx) CreateExportSchedule(ctx context.Context, s ExportSchedule) error {
	return exportScheduleTable.insert(ctx, tx, s)
}

// UpdateExportSchedule replaces the schedule with s's id.
func (tx *Tx) UpdateExportSchedule(ctx context.Context, s ExportSchedule) error {
	return exportScheduleTable.update(ctx, tx, s)
}

// CheckExportScheduleDue returns an error unless the schedule with this id is still active and its
// next export due at this time. Otherwise another node has started that export, and it is not found.
func (tx *Tx) CheckExportScheduleDue(ctx context.Context, id string, nextAt time.Time) error {
	s, err := tx.ExportSchedule(ctx, id)
	if err == nil && (s.Status != ScheduleActive || !s.NextAt.Equal(nextAt)) {
		err = apierr.New(apierr.NotFound, "the export is started already")
	}
	return err
}

// DeleteExportSchedule deletes a schedule. Its exports remain.
func (tx *Tx) DeleteExportSchedule(ctx context.Context, id string) error {
	const text = `
		DELETE FROM export_schedules
		WHERE id = $1`
	return tx.write(ctx, journal.Unpublished, "export schedule", text, id)
}
