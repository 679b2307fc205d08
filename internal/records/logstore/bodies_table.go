package logstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"

	"modelgate/internal/records/reqlog"
)

// packedBodies are the bodies of an entry in stored form.
type packedBodies struct {
	id   reqlog.ID
	data []byte
}

// packBodies encodes the bodies of a batch.
func packBodies(batch []*reqlog.Entry) (list []packedBodies) {
	for _, e := range batch {
		if b := bodiesOf(e); b != nil {
			list = append(list, packedBodies{e.ID, appendBodies(nil, b, tableRaw)})
		}
	}
	return list
}

// bodiesAtOnce is the number of bodies that one statement writes or reads. Fewer are
// written one by one.
const bodiesAtOnce = 32

const (
	insertBodies = `
		INSERT INTO bodies (id, data)
		VALUES `
	keepThere = `
		ON CONFLICT (id) DO NOTHING`
)

var (
	insertOne  = insertBodies + "($1, $2)" + keepThere
	insertMany = insertBodies + pairs(bodiesAtOnce) + keepThere
)

// pairs returns the placeholders of n rows.
func pairs(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("($%d, $%d)", 2*i+1, 2*i+2))
	}
	return strings.Join(list, ", ")
}

// addBodies writes the bodies of a batch in the transaction that writes its entries.
// Bodies of an entry that was already recorded are not replaced.
func addBodies(ctx context.Context, tx *sql.Tx, list []packedBodies) error {
	for part := range slices.Chunk(list, bodiesAtOnce) {
		text, n := insertMany, len(part)
		if n < bodiesAtOnce {
			text, n = insertOne, 1
		}
		for rows := range slices.Chunk(part, n) {
			args := make([]any, 0, 2*n)
			for i := range rows {
				args = append(args, rows[i].id[:], rows[i].data)
			}
			if _, err := tx.ExecContext(ctx, text, args...); err != nil {
				return fmt.Errorf("writing the bodies of a batch: %w", err)
			}
		}
	}
	return nil
}

// selectBodies also contains the range of the ids, which excludes partitions.
var selectBodies = `
	SELECT id, data
	FROM bodies
	WHERE id >= $1 AND id <= $2 AND id IN (` + numbers(3, bodiesAtOnce) + `)
	ORDER BY id DESC`

// numbers returns n placeholders numbered from first.
func numbers(first, n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("$%d", first+i))
	}
	return strings.Join(list, ", ")
}

func (t *tables) bodies(ctx context.Context, ids []reqlog.ID) iter.Seq2[packedBodies, error] {
	return func(yield func(packedBodies, error) bool) {
		if err := t.create(ctx); err != nil {
			yield(packedBodies{}, err)
			return
		}
		for part := range slices.Chunk(ids, bodiesAtOnce) {
			for p, err := range fresh(t.cut, t.someBodies(ctx, part)) {
				if !yield(p, t.noteFailure(err)) || err != nil {
					return
				}
			}
		}
	}
}

// someBodies yields the bodies of at most bodiesAtOnce ids.
func (t *tables) someBodies(ctx context.Context, ids []reqlog.ID) iter.Seq2[packedBodies, error] {
	return func(yield func(packedBodies, error) bool) {
		last := len(ids) - 1
		args := []any{ids[last][:], ids[0][:]}
		for i := range bodiesAtOnce {
			args = append(args, ids[min(i, last)][:])
		}
		rows, err := t.read.QueryContext(ctx, selectBodies, args...)
		if err != nil {
			yield(packedBodies{}, err)
			return
		}
		defer rows.Close()
		var id, data sql.RawBytes
		for rows.Next() {
			var p packedBodies
			err := rows.Scan(&id, &data)
			copy(p.id[:], id)
			p.data = data
			if !yield(p, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(packedBodies{}, err)
		}
	}
}

// ReadBodies sets the bodies of entries that were read from the store, if they are stored.
// It holds all of them in memory, up to 4 MB each, so limit the number of entries.
// Damaged bodies are skipped.
func (s *Store) ReadBodies(ctx context.Context, entries []*reqlog.Entry) error {
	var full []*reqlog.Entry
	for _, e := range entries {
		if e.Level == reqlog.LevelFull && e.Bodies == nil {
			full = append(full, e)
		}
	}
	slices.SortFunc(full, func(a, b *reqlog.Entry) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	ids := make([]reqlog.ID, len(full))
	for i, e := range full {
		ids[i] = e.ID
	}
	for p, err := range s.keeper.bodies(ctx, ids) {
		if err != nil {
			return s.reading(fmt.Errorf("reading bodies of log entries: %w", err))
		}
		b, err := parseBodies(p.data)
		if err != nil {
			s.damaged(block{last: p.id, first: p.id, entries: 1}, err)
			continue
		}
		for ; len(full) > 0 && !less(full[0].ID, p.id); full = full[1:] {
			if full[0].ID == p.id {
				full[0].Bodies = b
			}
		}
	}
	return nil
}
