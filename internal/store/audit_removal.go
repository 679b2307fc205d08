package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// AuditRemoval records that the oldest rows of an organisation's audit log were
// removed. It is the body of a row added to the same chain in the same transaction,
// which protects it as well as any other row. The chain continues from Hash.
type AuditRemoval struct {
	Sequence int64     `json:"sequence"` // of the last removed row
	Hash     string    `json:"hash"`     // of that row
	Time     time.Time `json:"created_at"`
	Rows     int64     `json:"rows"`   // number of removed rows
	Reason   string    `json:"reason"` // days or bytes

	// Forced removals were made by an operator although rows had been modified.
	Forced bool `json:"forced,omitempty"`

	// Signature is made with the organisation's data key; empty if the gateway has no
	// master key.
	Signature string `json:"signature,omitempty"`

	checked bool // the signature was verified
}

// Resource and action of the row of a removal. No route has this action.
const (
	auditRemovalType   = "audit_log"
	auditRemovalAction = "prune"
)

// Signer signs texts with keys that are not in the database. It is nil without a master
// key.
type Signer interface {
	Sign(ctx context.Context, organisation, text string) (string, error)
	Verify(ctx context.Context, organisation, text, signature string) (bool, error)
}

// body returns the stored form of r.
func (r *AuditRemoval) body() (string, error) {
	b, err := json.Marshal(r)
	return string(b), err
}

// text returns the text to sign.
func (r AuditRemoval) text() (string, error) {
	r.Signature = ""
	body, err := r.body()
	return "modelgate audit removal v1 " + body, err
}

// sign sets the signature.
func (r *AuditRemoval) sign(ctx context.Context, organisation string, by Signer) (err error) {
	if by == nil {
		return nil
	}
	text, err := r.text()
	if err != nil {
		return err
	}
	r.Signature, err = by.Sign(ctx, organisation, text)
	return err
}

// check verifies the signature and returns what is wrong with it, empty for nothing.
// Without a signer it verifies nothing.
func (r *AuditRemoval) check(ctx context.Context, organisation string, by Signer) (wrong string, err error) {
	switch {
	case by == nil:
		return "", nil
	case r.Signature == "":
		return fmt.Sprintf("the removal of rows 1 to %d is not signed", r.Sequence), nil
	}
	text, err := r.text()
	if err != nil {
		return "", err
	}
	r.checked, err = by.Verify(ctx, organisation, text, r.Signature)
	if err == nil && !r.checked {
		wrong = fmt.Sprintf("the removal of rows 1 to %d has a wrong signature", r.Sequence)
	}
	return wrong, err
}

// String describes the removal for an operator.
func (r *AuditRemoval) String() string {
	note := "not signed"
	switch {
	case r.Forced:
		note = "forced by an operator"
	case r.checked:
		note = "signature valid"
	case r.Signature != "":
		note = "signature not verified without the master key"
	}
	return fmt.Sprintf("rows 1 to %d, up to %s, were removed (%s; %s)", r.Sequence, r.Time.UTC().Format(time.RFC3339), r.Reason, note)
}

// startChain returns the chain of an organisation before its first row. If rows were
// removed, it continues from the latest removal.
func (q Queries) startChain(ctx context.Context, organisation string, by Signer) (AuditChain, error) {
	c := AuditChain{AuditHead: AuditHead{Organisation: organisation}}
	first, err := q.firstAudit(ctx, organisation)
	if err != nil || first <= 1 {
		return c, err
	}
	const text = `
		SELECT request_body
		FROM audit_logs
		WHERE organisation_id = $1 AND resource_type = $2 AND action = $3
		ORDER BY sequence DESC
		LIMIT 1`
	list, err := sqlrow.List(ctx, q.Reader, "the audit log", text, func(r sqlrow.Scanner) (body string, err error) {
		return body, r.Scan(&body)
	}, organisation, auditRemovalType, auditRemovalAction)
	if err != nil || len(list) == 0 {
		return c, err // the first rows are missing
	}
	r := new(AuditRemoval)
	if json.Unmarshal([]byte(list[0]), r) != nil {
		return c, nil // likewise: this is not a valid removal
	}
	c.Removed, c.Sequence, c.Hash = r, r.Sequence, r.Hash
	c.Broken, err = r.check(ctx, organisation, by)
	return c, err
}

// firstAudit returns the lowest sequence of an organisation, zero if it has no rows.
func (q Queries) firstAudit(ctx context.Context, organisation string) (first int64, err error) {
	const text = `
		SELECT COALESCE(MIN(sequence), 0)
		FROM audit_logs
		WHERE organisation_id = $1`
	if err = q.Reader.QueryRowContext(ctx, text, organisation).Scan(&first); err != nil {
		return 0, fmt.Errorf("reading the audit log: %w", err)
	}
	return first, nil
}

// removeAudits removes the rows from first to a removal and adds the removal's row in
// one transaction. It reports false if another process was faster.
func (db *DB) removeAudits(ctx context.Context, first int64, r *AuditRemoval, row *Audit) (done bool, err error) {
	const text = `
		DELETE FROM audit_logs
		WHERE organisation_id = $1 AND sequence <= $2`
	err = db.transact(ctx, func(tx *Tx) error {
		if err := tx.addAudit(ctx, row); err != nil { // first, because it takes the lock that others wait for
			return err
		}
		switch now, err := tx.firstAudit(ctx, row.Organisation); {
		case err != nil:
			return err
		case now != first:
			return errOvertaken
		}
		n, err := tx.change.Exec(ctx, journal.Unpublished, text, row.Organisation, r.Sequence)
		if err != nil {
			return fmt.Errorf("removing rows of the audit log: %w", err)
		}
		if n != r.Rows && !r.Forced {
			err = fmt.Errorf("removing rows of the audit log: %d rows up to %d, not %d", n, r.Sequence, r.Rows)
		}
		return err
	})
	if errors.Is(err, errOvertaken) {
		return false, nil
	}
	return err == nil, db.ClientError(err)
}

var errOvertaken = errors.New("another process has removed rows concurrently")
