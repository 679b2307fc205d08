package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"modelgate/internal/sqlrow"
)

// hashAfter returns the hash of the row that follows one with the hash before,
// which is empty for the first.
func (a *Audit) hashAfter(before string) string {
	h := sha256.New()
	for _, field := range [...]string{
		"modelgate audit v1", before, strconv.FormatInt(a.Sequence, 10), a.ID, a.Organisation, a.Workspace,
		strconv.FormatInt(a.Time.UnixMilli(), 10), a.Method, a.URI, a.QueryParams, a.RequestHeaders, a.RequestBody, a.RequestID,
		a.UserID, a.UserType, strconv.Itoa(a.Status), a.ResourceType, a.ResourceID, a.Action, a.ClientIP, a.Host,
	} {
		fmt.Fprintf(h, "%d:%s", len(field), field)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// AuditHead is the latest row of an organisation's audit log.
type AuditHead struct {
	Organisation string `json:"organisation_id"`
	Sequence     int64  `json:"sequence"`
	Hash         string `json:"hash"`
}

// AuditChain is the result of verifying an organisation's audit log.
type AuditChain struct {
	AuditHead
	Removed *AuditRemoval // the latest removal of its oldest rows; nil for none
	Broken  string        // what is wrong with the first row that is not as it was written; empty for nothing
}

// VerifyAudits checks the audit logs of all organisations, in the order of their
// ids, against their hashes, and against heads that were known before. Signatures
// of removals are checked by a signer, if there is one.
func (db *DB) VerifyAudits(ctx context.Context, known []AuditHead, by Signer) (list []AuditChain, err error) {
	err = db.View(ctx, func(q Queries) error {
		heads, err := q.auditHeads(ctx, known)
		if err != nil {
			return err
		}
		for _, head := range heads {
			c, err := q.verifyAudits(ctx, head, known, by)
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return nil
	})
	return list, err
}

// auditHeads returns the heads of all organisations that have rows, a head, or
// had one before. A sequence of -1 stands for a head that is missing.
func (q Queries) auditHeads(ctx context.Context, known []AuditHead) ([]AuditHead, error) {
	const text = `
		SELECT o.id, COALESCE(h.sequence, -1), COALESCE(h.hash, '')
		FROM (SELECT organisation_id AS id FROM audit_heads UNION SELECT organisation_id FROM audit_logs) o
		LEFT JOIN audit_heads h ON h.organisation_id = o.id
		ORDER BY o.id`
	heads, err := sqlrow.List(ctx, q.Reader, "the audit log", text, func(r sqlrow.Scanner) (h AuditHead, err error) {
		return h, r.Scan(&h.Organisation, &h.Sequence, &h.Hash)
	})
	found := make(map[string]bool, len(heads))
	for _, h := range heads {
		found[h.Organisation] = true
	}
	for _, k := range known {
		if !found[k.Organisation] {
			heads = append(heads, AuditHead{Organisation: k.Organisation, Sequence: -1})
			found[k.Organisation] = true
		}
	}
	return heads, err
}

const auditPage = 200

// verifyAudits follows the chain of one organisation.
func (q Queries) verifyAudits(ctx context.Context, head AuditHead, known []AuditHead, by Signer) (AuditChain, error) {
	c, err := q.startChain(ctx, head.Organisation, by)
	if err != nil || c.Broken != "" {
		return c, err
	}
	before := make(map[int64]string)
	for _, k := range known {
		if k.Organisation == head.Organisation {
			before[k.Sequence] = k.Hash
		}
	}
	if c.Broken = c.checkRemoved(before); c.Broken != "" {
		return c, nil
	}
	start := c.Sequence
	for {
		list, err := q.AuditsAfter(ctx, head.Organisation, c.Sequence, auditPage)
		if err != nil {
			return c, err
		}
		for i := range list {
			if c.Broken = c.follow(&list[i], before); c.Broken != "" {
				return c, nil
			}
		}
		if len(list) < auditPage {
			break
		}
	}
	err = q.endChain(ctx, &c, start, head, before)
	return c, err
}

// checkRemoved returns what is wrong with a removal in view of rows that were
// known before.
func (c *AuditChain) checkRemoved(known map[int64]string) string {
	if r := c.Removed; r != nil {
		for _, sequence := range slices.Sorted(maps.Keys(known)) {
			switch hash := known[sequence]; {
			case sequence == r.Sequence && hash != r.Hash:
				return fmt.Sprintf("row %d was removed, and was another than the one that was known", sequence)
			case sequence > 0 && sequence <= r.Sequence && !r.checked:
				return fmt.Sprintf("row %d, which was known, was removed, and only a valid signature shows that the gateway did so; give the master key", sequence)
			}
		}
	}
	return ""
}

// follow goes on to a row and returns what is wrong with it.
func (c *AuditChain) follow(a *Audit, known map[int64]string) string {
	switch want := c.Sequence + 1; {
	case a.Sequence > want:
		return fmt.Sprintf("row %d is missing, as are those up to %d", want, a.Sequence-1)
	case a.Hash != a.hashAfter(c.Hash):
		return fmt.Sprintf("row %d (%s) is not as it was written, or does not follow the row before it", a.Sequence, a.ID)
	case known[a.Sequence] != "" && known[a.Sequence] != a.Hash:
		return fmt.Sprintf("row %d (%s) is another than the one that was known", a.Sequence, a.ID)
	}
	c.Sequence, c.Hash = a.Sequence, a.Hash
	return ""
}

// endChain checks that nothing is missing at the end of a chain that began after
// the row start, and that no row is outside of it.
func (q Queries) endChain(ctx context.Context, c *AuditChain, start int64, head AuditHead, known map[int64]string) error {
	const text = `
		SELECT COUNT(*)
		FROM audit_logs
		WHERE organisation_id = $1`
	n, err := sqlrow.Count(ctx, q.Reader, text, head.Organisation)
	if err != nil {
		return err
	}
	latest := head.Sequence
	for sequence := range known {
		latest = max(latest, sequence)
	}
	switch {
	case latest > c.Sequence:
		c.Broken = fmt.Sprintf("row %d is missing, as are those up to %d", c.Sequence+1, latest)
	case head.Sequence != c.Sequence || head.Hash != c.Hash:
		c.Broken = fmt.Sprintf("row %d is the last, and the head of the chain is another", c.Sequence)
	case int64(n) != c.Sequence-start:
		c.Broken = fmt.Sprintf("there are %d rows and %d are in the chain", n, c.Sequence-start)
	}
	return nil
}

// AuditsAfter returns rows of an organisation behind a sequence in their order.
func (q Queries) AuditsAfter(ctx context.Context, organisation string, sequence int64, limit int) ([]Audit, error) {
	const text = `
		SELECT ` + auditColumns + `
		FROM audit_logs
		WHERE organisation_id = $1 AND sequence > $2
		ORDER BY sequence
		LIMIT $3`
	return sqlrow.List(ctx, q.Reader, "the audit log", text, scanAudit, organisation, sequence, limit)
}
