package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"modelgate/internal/storage/sqlrow"
)

// UnsentAudits returns the position up to which each organisation's audit log was sent
// to a destination, for organisations with unsent rows.
func (q Queries) UnsentAudits(ctx context.Context, destination string) ([]AuditHead, error) {
	const text = `
		SELECT h.organisation_id, COALESCE(m.sequence, 0)
		FROM audit_heads h
		LEFT JOIN audit_marks m ON m.organisation_id = h.organisation_id AND m.destination = $1
		WHERE h.sequence > COALESCE(m.sequence, 0)
		ORDER BY h.organisation_id`
	return sqlrow.List(ctx, q.Reader, "the audit log", text, func(r sqlrow.Scanner) (h AuditHead, err error) {
		return h, r.Scan(&h.Organisation, &h.Sequence)
	}, destination)
}

// HoldAuditSender makes a node the only sender to a destination for the duration of
// lease. It reports false if another node is the sender.
func (db *DB) HoldAuditSender(ctx context.Context, destination, node string, now time.Time, lease time.Duration) (bool, error) {
	const text = `
		INSERT INTO audit_senders (destination, node, lease_until)
		VALUES ($1, $2, $3)
		ON CONFLICT (destination) DO UPDATE SET node = $2, lease_until = $3
		WHERE audit_senders.node = $2 OR audit_senders.lease_until < $4`
	n, err := db.write.Exec(ctx, text, destination, node, millis(now.Add(lease)), now.UnixMilli())
	if err != nil {
		return false, db.ClientError(fmt.Errorf("leasing the audit log sender: %w", err))
	}
	return n > 0, nil
}

// MarkAuditsSent records that the destination has received the rows up to a sequence.
func (db *DB) MarkAuditsSent(ctx context.Context, destination string, upTo AuditHead) error {
	const text = `
		INSERT INTO audit_marks (destination, organisation_id, sequence)
		VALUES ($1, $2, $3)
		ON CONFLICT (destination, organisation_id) DO UPDATE SET sequence = $3
		WHERE audit_marks.sequence < $3`
	if _, err := db.write.Exec(ctx, text, destination, upTo.Organisation, upTo.Sequence); err != nil {
		return db.ClientError(fmt.Errorf("recording sent audit rows: %w", err))
	}
	return nil
}

// auditsReceived returns the position up to which all destinations have received an
// organisation's audit log. Without destinations it is the end.
func (q Queries) auditsReceived(ctx context.Context, organisation string, destinations []string) (int64, error) {
	const text = `
		SELECT COALESCE(MAX(sequence), 0)
		FROM audit_marks
		WHERE destination = $1 AND organisation_id = $2`
	upTo := int64(math.MaxInt64)
	for _, d := range destinations {
		var mark int64
		if err := q.Reader.QueryRowContext(ctx, text, d, organisation).Scan(&mark); err != nil {
			return 0, fmt.Errorf("reading the position of sent audit rows: %w", err)
		}
		upTo = min(upTo, mark)
	}
	return upTo, nil
}
