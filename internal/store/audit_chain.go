package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"modelgate/internal/storage/sqlrow"
)

// hashAfter returns the hash of a, given the hash of the previous row, which is empty
// for the first.
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

// AuditHead is the last row of an organisation's audit log.
type AuditHead struct {
	Organisation string `json:"organisation_id"`
	Sequence     int64  `json:"sequence"`
	Hash         string `json:"hash"`
}

// AuditChain is the result of verifying an organisation's audit log.
type AuditChain struct {
	AuditHead
	Removed *AuditRemoval // the latest removal of the oldest rows; nil for none
	Broken  string        // the first error in the chain; empty for none
}

// VerifyAudits verifies the hash chains of all organisations, sorted by organisation
// id. Known are heads recorded earlier, which the chains must still contain. If by is
// not nil it verifies the signatures of removals.
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

// auditHeads returns the heads of all organisations that have rows or a head, or are in
// known. A missing head has the sequence -1.
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

// verifyAudits verifies the chain of one organisation.
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

// checkRemoved returns the contradiction between a removal and rows known earlier,
// empty for none.
func (c *AuditChain) checkRemoved(known map[int64]string) string {
	if r := c.Removed; r != nil {
		for _, sequence := range slices.Sorted(maps.Keys(known)) {
			switch hash := known[sequence]; {
			case sequence == r.Sequence && hash != r.Hash:
				return fmt.Sprintf("row %d was removed and differed from the known row", sequence)
			case sequence > 0 && sequence <= r.Sequence && !r.checked:
				return fmt.Sprintf("known row %d was removed; to verify that the gateway removed it, give the master key", sequence)
			}
		}
	}
	return ""
}

// follow verifies the next row and returns what is wrong with it, empty for nothing.
func (c *AuditChain) follow(a *Audit, known map[int64]string) string {
	switch want := c.Sequence + 1; {
	case a.Sequence > want:
		return fmt.Sprintf("rows %d to %d are missing", want, a.Sequence-1)
	case a.Hash != a.hashAfter(c.Hash):
		return fmt.Sprintf("row %d (%s) was modified or does not follow the previous row", a.Sequence, a.ID)
	case known[a.Sequence] != "" && known[a.Sequence] != a.Hash:
		return fmt.Sprintf("row %d (%s) differs from the known row", a.Sequence, a.ID)
	}
	c.Sequence, c.Hash = a.Sequence, a.Hash
	return ""
}

// endChain verifies the end of a chain that began after the row start: no row is
// missing, and none is outside the chain.
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
		c.Broken = fmt.Sprintf("rows %d to %d are missing", c.Sequence+1, latest)
	case head.Sequence != c.Sequence || head.Hash != c.Hash:
		c.Broken = fmt.Sprintf("row %d is the last row, but the head of the chain differs", c.Sequence)
	case int64(n) != c.Sequence-start:
		c.Broken = fmt.Sprintf("there are %d rows but only %d are in the chain", n, c.Sequence-start)
	}
	return nil
}

// AuditsAfter returns up to limit rows of an organisation that follow a sequence, in
// order.
func (q Queries) AuditsAfter(ctx context.Context, organisation string, sequence int64, limit int) ([]Audit, error) {
	const text = `
		SELECT ` + auditColumns + `
		FROM audit_logs
		WHERE organisation_id = $1 AND sequence > $2
		ORDER BY sequence
		LIMIT $3`
	return sqlrow.List(ctx, q.Reader, "the audit log", text, scanAudit, organisation, sequence, limit)
}
