package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Events of [Queries.PolicyAlerts].
const (
	AlertThreshold = "threshold"
	AlertExhausted = "exhausted"
)

// PolicyAlerts returns the warnings that were recorded about a policy, by counter as in
// [Queries.PolicySpending] and event.
func (q Queries) PolicyAlerts(ctx context.Context, id string) (map[string]map[string]bool, error) {
	const text = `
		SELECT counter, event
		FROM policy_alerts
		WHERE policy_id = $1`
	out := make(map[string]map[string]bool)
	_, err := sqlrow.List(ctx, q.Reader, "alerts of policies", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var counter, event string
		err = r.Scan(&counter, &event)
		if out[counter] == nil {
			out[counter] = make(map[string]bool)
		}
		out[counter][event] = true
		return none, err
	}, id)
	return out, err
}

// PolicyGroups returns how many counters of a policy have counted spend in a period.
func (q Queries) PolicyGroups(ctx context.Context, id, period string) (n int, err error) {
	const text = `
		SELECT COUNT(*)
		FROM spending
		WHERE kind = 'policy' AND SUBSTR(id, 1, 36) = $1 AND SUBSTR(id, 1, $2) = $3`
	prefix := id + "/" + period + "/"
	if err := q.Reader.QueryRowContext(ctx, text, id, len(prefix), prefix).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the groups of a policy: %w", err)
	}
	return n, nil
}

// PolicyWarning is a warning about a counter of a policy.
type PolicyWarning struct {
	Policy  string // id
	Counter string // period, generation and value key, as in [Queries.PolicySpending]
	Event   string // AlertThreshold or AlertExhausted
	// Most is how many warnings of the event the policy may have in the period. Zero is
	// any number.
	Most int
}

// ErrTooManyWarnings is returned for a warning beyond [PolicyWarning.Most].
var ErrTooManyWarnings = errors.New("the policy has too many warnings in this period")

// RecordPolicyAlert records a warning about a counter of a policy with its audit event,
// and reports whether it was not recorded before.
func (db *DB) RecordPolicyAlert(ctx context.Context, w PolicyWarning, a *Audit) (recorded bool, err error) {
	const text = `
		INSERT INTO policy_alerts (policy_id, counter, event, created_at)
		VALUES ($1, $2, $3, $4)
		ON CONFLICT (policy_id, counter, event) DO NOTHING`
	err = db.transact(ctx, func(tx *Tx) error {
		n, err := tx.change.Exec(ctx, journal.Unpublished, text, w.Policy, w.Counter, w.Event, millis(a.Time))
		if recorded = n > 0; err != nil || !recorded {
			return err
		}
		if err := tx.checkWarnings(ctx, w); err != nil {
			return err
		}
		return tx.Note(ctx, a)
	})
	if errors.Is(err, ErrTooManyWarnings) {
		return false, ErrTooManyWarnings
	}
	return recorded && err == nil, db.ClientError(err)
}

// checkWarnings returns ErrTooManyWarnings if there are more warnings than w allows,
// which is one of them.
func (tx *Tx) checkWarnings(ctx context.Context, w PolicyWarning) error {
	const text = `
		SELECT COUNT(*)
		FROM policy_alerts
		WHERE policy_id = $1 AND event = $2 AND SUBSTR(counter, 1, $3) = $4`
	if w.Most == 0 {
		return nil
	}
	period, _, _ := strings.Cut(w.Counter, "/")
	var n int
	if err := tx.Reader.QueryRowContext(ctx, text, w.Policy, w.Event, len(period)+1, period+"/").Scan(&n); err != nil {
		return fmt.Errorf("counting the warnings about a policy: %w", err)
	}
	if n > w.Most {
		return ErrTooManyWarnings
	}
	return nil
}

// ClearPolicyAlerts makes the warnings about a policy due again.
func (tx *Tx) ClearPolicyAlerts(ctx context.Context, id string) error {
	const text = `
		DELETE FROM policy_alerts
		WHERE policy_id = $1`
	return tx.exec(ctx, journal.Unpublished, "alerts of policies", text, id)
}
