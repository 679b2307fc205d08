package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Alert is an alert to be sent. It is stored in the transaction of the event it reports,
// and therefore once, however many gateways notice the event.
type Alert struct {
	// ID identifies the event: another alert with the id is not stored. Empty is the
	// id of the audit event; the number of such alerts about an object is limited.
	ID   string
	Type string
	Data json.RawMessage // its meaning is defined by the package alert

	// The rest is set from the audit event, or when the alert is claimed.
	Organisation string
	Workspace    string // id; empty for an object of the organisation
	ResourceType string
	ResourceID   string
	CreatedAt    time.Time
	Delivered    []string // destinations that have it
	Attempts     int      // including the current one
}

// alertsAnHour is the limit of alerts about one object in an hour. The counters of one
// policy may be as many as clients send values.
const alertsAnHour = 20

// alertsLeft returns how many alerts about an object may still be stored in the hour
// that ends at now.
func (q Queries) alertsLeft(ctx context.Context, resource string, now time.Time) (int, error) {
	const text = `
		SELECT COUNT(*)
		FROM alerts
		WHERE resource_id = $1 AND created_at > $2`
	n, err := sqlrow.Count(ctx, q.Reader, text, resource, now.Add(-time.Hour).UnixMilli())
	return max(alertsAnHour-n, 0), err
}

// addAlert stores the alert of an audit event.
func (tx *Tx) addAlert(ctx context.Context, a *Audit) error {
	const text = `
		INSERT INTO alerts (id, organisation_id, workspace_id, type, resource_type, resource_id, data, delivered, attempts, created_at, next_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, '[]', 0, $8, $8)
		ON CONFLICT (id) DO NOTHING`
	id, data := a.Alert.ID, a.Alert.Data
	if id == "" {
		id = a.ID
		left, err := tx.alertsLeft(ctx, a.ResourceID, a.Time)
		if err != nil || left == 0 {
			return err
		}
		if left == 1 {
			if data, err = markLast(data); err != nil {
				return err
			}
		}
	}
	return tx.exec(ctx, journal.Unpublished, "alerts", text, id, a.Organisation, a.Workspace, a.Alert.Type, a.ResourceType, a.ResourceID,
		string(data), millis(a.Time))
}

// markLast adds to the data of an alert that further ones are not sent.
func markLast(data json.RawMessage) (json.RawMessage, error) {
	fields := make(map[string]json.RawMessage)
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("reading the data of an alert: %w", err)
	}
	fields["further_alerts_suppressed"] = json.RawMessage("true")
	return json.Marshal(fields)
}

// ClaimAlerts returns at most most alerts that are due at now, of the oldest time, and
// keeps others from claiming them for the duration of lease.
func (db *DB) ClaimAlerts(ctx context.Context, now time.Time, lease time.Duration, most int) (claimed []Alert, err error) {
	const due = `
		SELECT id, organisation_id, workspace_id, type, resource_type, resource_id, data, delivered, attempts, created_at, next_at
		FROM alerts
		WHERE next_at <= $1
		ORDER BY next_at, id
		LIMIT $2`
	const claim = `
		UPDATE alerts
		SET next_at = $3, attempts = attempts + 1
		WHERE id = $1 AND next_at = $2`
	type row struct {
		Alert
		next time.Time
	}
	list, err := sqlrow.List(ctx, db.Reader, "alerts", due, func(r sqlrow.Scanner) (a row, err error) {
		var delivered json.RawMessage
		err = r.Scan(&a.ID, &a.Organisation, &a.Workspace, &a.Type, &a.ResourceType, &a.ResourceID, sqlrow.JSON(&a.Data), sqlrow.JSON(&delivered),
			&a.Attempts, sqlrow.Time(&a.CreatedAt), sqlrow.Time(&a.next))
		if err == nil {
			err = json.Unmarshal(delivered, &a.Delivered)
		}
		return a, err
	}, now.UnixMilli(), most)
	if err != nil {
		return nil, db.ClientError(err)
	}
	for _, a := range list {
		n, err := db.write.Exec(ctx, claim, a.ID, millis(a.next), millis(now.Add(lease)))
		if err != nil {
			return claimed, db.ClientError(fmt.Errorf("claiming an alert: %w", err))
		}
		if n > 0 { // otherwise another gateway was first
			a.Attempts++
			claimed = append(claimed, a.Alert)
		}
	}
	return claimed, nil
}

// PutAlert records which destinations have an alert, and when it is due again. A zero
// time ends it.
func (db *DB) PutAlert(ctx context.Context, id string, delivered []string, next time.Time) error {
	const put = `
		UPDATE alerts
		SET delivered = $2, next_at = $3
		WHERE id = $1`
	return db.ClientError(db.exec(ctx, "alerts", put, id, text(append([]string{}, delivered...)), millis(next)))
}

// PruneAlerts deletes the alerts from before a time that are not due.
func (db *DB) PruneAlerts(ctx context.Context, before time.Time) error {
	const text = `
		DELETE FROM alerts
		WHERE created_at < $1 AND next_at IS NULL`
	return db.ClientError(db.exec(ctx, "alerts", text, before.UnixMilli()))
}

// AlertRecipients returns the addresses of the owners and admins of an organisation, of
// the admins and managers of a workspace, and of a user, who may be empty. Users who are
// disabled or have left are not among them.
func (q Queries) AlertRecipients(ctx context.Context, organisation, workspace, user string) ([]string, error) {
	const text = `
		SELECT DISTINCT u.email
		FROM users u
		JOIN organisation_members o ON o.user_id = u.id
		LEFT JOIN workspace_members m ON m.user_id = u.id AND m.workspace_id = $2 AND m.role IN ('admin', 'manager')
		WHERE o.organisation_id = $1 AND u.status = 'active' AND o.status = 'active' AND (o.role IN ('owner', 'admin') OR m.user_id IS NOT NULL OR u.id = $3)
		ORDER BY u.email`
	return sqlrow.List(ctx, q.Reader, "recipients", text, func(r sqlrow.Scanner) (email string, err error) {
		return email, r.Scan(&email)
	}, organisation, workspace, user)
}
