package logstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// rowTable is a table of rows that requests add one by one.
type rowTable struct {
	name  string
	bytes string // expression of the size of a row, with its share of the indexes
}

// rowTables are the tables whose rows each may take 1/rowShare of [Retention.Bytes].
var rowTables = [...]rowTable{
	{"feedback", `300 + OCTET_LENGTH(metadata) + COALESCE(OCTET_LENGTH(structures), 0) + 2 * OCTET_LENGTH(trace_id) + OCTET_LENGTH(service) + OCTET_LENGTH(model)`},
	{"guard_results", `400 + 2 * OCTET_LENGTH(guardrail) + OCTET_LENGTH(labelled_by)`},
}

const rowShare = 8

// Limits of the metadata of feedback. Longer texts are cut and further members left out.
const (
	maxFeedbackMetadata = 64
	maxFeedbackText     = 512 // characters of a name or a value
)

// rowGrowth counts the bytes of rows that were added since the tables were measured. The
// zero value means that they were never measured.
type rowGrowth struct {
	measured atomic.Bool
	bytes    atomic.Int64
}

// due reports whether the tables may be larger than share, and begins to count again.
func (g *rowGrowth) due(share int64) bool {
	if g.measured.Load() && g.bytes.Load() < share/16 {
		return false
	}
	g.bytes.Store(0)
	g.measured.Store(true)
	return true
}

// addRows counts the bytes of rows, and triggers pruning when they are many.
func (s *Store) addRows(bytes int64) {
	before := s.rows.bytes.Add(bytes) - bytes
	if before/pruneAfter == (before+bytes)/pruneAfter {
		return
	}
	select {
	case s.grown <- struct{}{}:
	default:
	}
}

// pruneRowsBySize removes the oldest rows of the organisation that has most, until each
// table is within its share.
func (s *Store) pruneRowsBySize(ctx context.Context, r Retention) error {
	share := r.Bytes / rowShare
	if r.Bytes <= 0 || !s.rows.due(share) {
		return nil
	}
	for _, t := range rowTables {
		sizes, err := s.keeper.rowSizes(ctx, t)
		if err != nil {
			return err
		}
		for {
			var total int64
			largest := ""
			for organisation, size := range sizes {
				if total += size; largest == "" || size > sizes[largest] {
					largest = organisation
				}
			}
			if total <= share {
				break
			}
			removed, err := s.keeper.dropOldestRows(ctx, t, largest, rowsToDrop(total-share))
			if err != nil {
				return err
			}
			if sizes[largest] -= removed; removed == 0 {
				delete(sizes, largest) // another process removed them
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(prunePause):
			}
		}
	}
	return nil
}

// rowsToDrop returns the number of rows that one step removes: few when little is too
// much, as rows have up to 70 KB.
func rowsToDrop(excess int64) int { return int(min(max(excess/2048, 10), rowsAtOnce)) }

// rowSizes returns the bytes of the rows of each organisation.
func (t *tables) rowSizes(ctx context.Context, of rowTable) (map[string]int64, error) {
	if err := t.create(ctx); err != nil {
		return nil, err
	}
	rows, err := t.read.QueryContext(ctx, `
		SELECT organisation, SUM(`+of.bytes+`)
		FROM `+of.name+`
		GROUP BY organisation`)
	if err != nil {
		return nil, t.noteFailure(fmt.Errorf("measuring %s: %w", of.name, err))
	}
	defer rows.Close()
	sizes := make(map[string]int64)
	for rows.Next() {
		var organisation string
		var size int64
		if err := rows.Scan(&organisation, &size); err != nil {
			return nil, err
		}
		sizes[organisation] = size
	}
	return sizes, t.noteFailure(rows.Err())
}

// dropOldestRows removes up to limit rows of an organisation, and returns their size.
func (t *tables) dropOldestRows(ctx context.Context, of rowTable, organisation string, limit int) (removed int64, err error) {
	q := `
		DELETE FROM ` + of.name + `
		WHERE id IN (
			SELECT id
			FROM ` + of.name + `
			WHERE organisation = $1
			ORDER BY created_at, id
			LIMIT $2
		)
		RETURNING ` + of.bytes
	rows, err := t.write.QueryContext(ctx, q, organisation, limit)
	if err != nil {
		return 0, t.noteFailure(fmt.Errorf("removing rows of %s: %w", of.name, err))
	}
	defer rows.Close()
	for rows.Next() {
		var size int64
		if err := rows.Scan(&size); err != nil {
			return 0, err
		}
		removed += size
	}
	return removed, t.noteFailure(rows.Err())
}

// limitMetadata returns metadata within its limits, and its size.
func limitMetadata(m map[string]string) (limited map[string]string, size int64) {
	limited = make(map[string]string, min(len(m), maxFeedbackMetadata))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if len(limited) == maxFeedbackMetadata {
			break
		}
		value := cutText(m[name])
		name = cutText(name)
		limited[name] = value
		size += int64(len(name) + len(value))
	}
	return limited, size
}

// cutText returns the first maxFeedbackText characters of s.
func cutText(s string) string {
	if utf8.RuneCountInString(s) <= maxFeedbackText {
		return s
	}
	return string([]rune(s)[:maxFeedbackText])
}
