package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"modelgate/internal/storage/sqlrow"
)

// AuditPruning selects the rows to remove from the audit log.
type AuditPruning struct {
	// Age is the maximum age of rows. Complete days (UTC) are removed, so rows stay up
	// to a day longer. Zero keeps all.
	Age time.Duration

	// Bytes is the approximate size to which the rows of all organisations are reduced.
	// The largest logs lose rows first. Zero keeps all.
	Bytes int64

	// Now is the time from which ages are computed.
	Now time.Time

	// Destinations are the log's destinations: rows are kept until all of them have
	// received them.
	Destinations []string

	Signer   Signer // nil does not sign removals
	Operator bool   // an operator's command, not the gateway itself
	Force    bool   // remove rows even if the chain is broken
	DryRun   bool   // change nothing
}

// AuditPruned is the number and size of removed rows.
type AuditPruned struct{ Rows, Bytes int64 }

// PruneAudits removes the oldest rows of each organisation as p says. Each transaction
// removes a limited number of rows and records the removal in the same chain. If the
// oldest rows of an organisation were modified, they are kept as evidence, and the
// other organisations are still pruned.
func (db *DB) PruneAudits(ctx context.Context, p AuditPruning) (sum AuditPruned, err error) {
	if db.mute || !db.ready.Load() {
		return sum, nil
	}
	sizes, err := db.auditSizes(ctx)
	if err != nil {
		return sum, db.ClientError(err)
	}
	var failed []string
	share := auditShare(sizes, p.Bytes)
	for _, organisation := range slices.Sorted(maps.Keys(sizes)) {
		excess := sizes[organisation] - share
		for ctx.Err() == nil {
			n, more, err := db.pruneAudit(ctx, &p, organisation, excess)
			if err != nil {
				failed = append(failed, fmt.Sprintf("organisation %s: %v", organisation, err))
			}
			sum.Rows += n.Rows
			sum.Bytes += n.Bytes
			if excess -= n.Bytes; !more {
				break
			}
		}
	}
	if failed != nil {
		return sum, errors.New(strings.Join(failed, "; "))
	}
	return sum, ctx.Err()
}

// auditSizes returns the approximate size of each organisation's rows.
func (q Queries) auditSizes(ctx context.Context) (map[string]int64, error) {
	const text = `
		SELECT organisation_id, CAST(SUM(` + auditSize + `) AS BIGINT)
		FROM audit_logs
		GROUP BY organisation_id`
	sizes := make(map[string]int64)
	_, err := sqlrow.List(ctx, q.Reader, "the audit log", text, func(r sqlrow.Scanner) (_ struct{}, err error) {
		var organisation string
		var n int64
		err = r.Scan(&organisation, &n)
		sizes[organisation] = n
		return struct{}{}, err
	})
	return sizes, err
}

// AuditGrowth returns the approximate number of bytes added to the audit log since the
// sequences in seen, by organisation, and updates seen.
func (db *DB) AuditGrowth(ctx context.Context, seen map[string]int64) (grown int64, err error) {
	const (
		latest = `
		SELECT organisation_id, sequence
		FROM audit_heads`
		size = `
		SELECT CAST(COALESCE(SUM(` + auditSize + `), 0) AS BIGINT)
		FROM audit_logs
		WHERE organisation_id = $1 AND sequence > $2`
	)
	heads, err := sqlrow.List(ctx, db.Reader, "the audit log", latest, func(r sqlrow.Scanner) (h AuditHead, err error) {
		return h, r.Scan(&h.Organisation, &h.Sequence)
	})
	for _, h := range heads {
		if h.Sequence <= seen[h.Organisation] {
			continue
		}
		var n int64
		if err := db.Reader.QueryRowContext(ctx, size, h.Organisation, seen[h.Organisation]).Scan(&n); err != nil {
			return grown, db.ClientError(fmt.Errorf("reading the size of the audit log: %w", err))
		}
		grown, seen[h.Organisation] = grown+n, h.Sequence
	}
	return grown, db.ClientError(err)
}

// auditRowBytes is the size of a row on disk in addition to its text: numbers, three
// index entries that repeat ids, and unused page space.
const auditRowBytes = 600

// auditSize is the SQL form of [Audit.size]. It does not read long texts.
const auditSize = `600 + OCTET_LENGTH(uri) + OCTET_LENGTH(query_params) + OCTET_LENGTH(request_headers) + OCTET_LENGTH(request_body) +
			OCTET_LENGTH(user_id) + OCTET_LENGTH(resource_id)`

// size returns the approximate size of a row. Short fields are part of auditRowBytes.
func (a *Audit) size() int64 {
	return auditRowBytes + int64(len(a.URI)+len(a.QueryParams)+len(a.RequestHeaders)+len(a.RequestBody)+len(a.UserID)+len(a.ResourceID))
}

// auditShare returns the limit for each organisation's log that keeps the total within
// limit. Space that small logs do not use is available to large ones. A log above its
// limit is cut to 31/32 of it, so that it is not pruned again after each row.
func auditShare(sizes map[string]int64, limit int64) int64 {
	total := int64(0)
	for _, n := range sizes {
		total += n
	}
	if limit <= 0 || total <= limit {
		return math.MaxInt64
	}
	rest := limit - limit/32
	for i, n := range slices.Sorted(maps.Values(sizes)) {
		share := rest / int64(len(sizes)-i)
		if n > share {
			return share
		}
		rest -= n
	}
	return math.MaxInt64
}

// Limits of one transaction.
const (
	auditRemovalRows  = 5000
	auditRemovalBytes = 16 << 20
)

// pruneAudit removes rows of one organisation in one transaction. It reports whether
// more rows must be removed.
func (db *DB) pruneAudit(ctx context.Context, p *AuditPruning, organisation string, excess int64) (n AuditPruned, more bool, err error) {
	w := &auditWalk{AuditPruning: p, excess: excess}
	err = db.View(ctx, func(q Queries) error { return w.run(ctx, q, organisation) })
	if err != nil || w.removal.Rows == 0 {
		return n, false, err
	}
	n = AuditPruned{w.removal.Rows, w.bytes}
	if p.DryRun {
		return n, false, nil
	}
	if err := w.removal.sign(ctx, organisation, p.Signer); err != nil {
		return AuditPruned{}, false, err
	}
	row, err := p.row(organisation, &w.removal)
	if err != nil {
		return AuditPruned{}, false, err
	}
	done, err := db.removeAudits(ctx, w.first, &w.removal, row)
	if err != nil || !done {
		return AuditPruned{}, false, err
	}
	return n, w.more, nil
}

// row returns the row that records a removal.
func (p *AuditPruning) row(organisation string, r *AuditRemoval) (a *Audit, err error) {
	a = OperatorAudit(organisation, "audit prune", nil)
	if !p.Operator {
		a.Method, a.URI, a.Host, a.UserType, a.UserID = "GATEWAY", "", "", "gateway", cmp.Or(a.Host, "unknown")
	}
	a.ResourceType, a.Action = auditRemovalType, auditRemovalAction
	a.RequestBody, err = r.body()
	return a, err
}

// auditWalk collects the rows that one transaction removes.
type auditWalk struct {
	*AuditPruning
	excess int64 // bytes to remove regardless of age; not positive for none

	first   int64 // sequence of the first row
	bytes   int64
	removal AuditRemoval
	more    bool // stopped at the limit of one transaction
}

// run verifies the chain from its first row through the rows to remove. A modified row
// is an error, unless the removal is forced.
func (w *auditWalk) run(ctx context.Context, q Queries, organisation string) error {
	c, err := q.startChain(ctx, organisation, w.Signer)
	if err != nil {
		return err
	}
	if w.first, err = q.firstAudit(ctx, organisation); err != nil {
		return err
	}
	if err := w.checkSigner(ctx, q, organisation); err != nil {
		return err
	}
	received, err := q.auditsReceived(ctx, organisation, w.Destinations)
	if err != nil {
		return err
	}
	if err := w.accept(c.Broken); err != nil {
		return err
	}
	if c.Broken != "" {
		c.Sequence = w.first - 1
	}
	for {
		list, err := q.AuditsAfter(ctx, organisation, c.Sequence, auditPage)
		for i := range list {
			a := &list[i]
			reason := w.reason(a)
			if w.more = w.full() && reason != ""; w.more || reason == "" || a.Sequence > received {
				return nil
			}
			if err := w.accept(c.follow(a, nil)); err != nil {
				return err
			}
			c.Sequence, c.Hash = a.Sequence, a.Hash
			w.bytes += a.size()
			w.removal.Sequence, w.removal.Hash, w.removal.Time = a.Sequence, a.Hash, a.Time.UTC()
			w.removal.Rows, w.removal.Reason = w.removal.Rows+1, reason
		}
		if err != nil || len(list) < auditPage {
			return err
		}
	}
}

// checkSigner returns an error for an unsigned removal if the organisation has a data
// key, and therefore the installation a master key, because verification would fail.
func (w *auditWalk) checkSigner(ctx context.Context, q Queries, organisation string) error {
	const text = `
		SELECT COUNT(*)
		FROM organisations
		WHERE id = $1 AND data_key <> ''`
	if w.Signer != nil {
		return nil
	}
	n, err := sqlrow.Count(ctx, q.Reader, text, organisation)
	if err == nil && n > 0 {
		err = errors.New("the removal of audit rows must be signed; give the master key")
	}
	return err
}

// reason returns why a row is removed, empty if it is kept.
func (w *auditWalk) reason(a *Audit) string {
	switch {
	case w.Age > 0 && a.Time.Before(w.Now.Add(-w.Age).Truncate(24*time.Hour)):
		return "days"
	case w.bytes < w.excess:
		return "bytes"
	}
	return ""
}

// full reports whether the transaction has reached its limit. A dry run has none.
func (w *auditWalk) full() bool {
	return !w.DryRun && (w.removal.Rows >= auditRemovalRows || w.bytes >= auditRemovalBytes)
}

// accept returns wrong as an error, unless it is empty or the removal is forced.
func (w *auditWalk) accept(wrong string) error {
	if wrong == "" {
		return nil
	}
	if w.removal.Forced = w.Force; !w.Force {
		return fmt.Errorf("%s; see modelgate audit verify", wrong)
	}
	return nil
}
