package logstore

import (
	"context"
	"errors"
	"iter"
	"time"

	"modelgate/internal/records/reqlog"
)

// backend stores blocks. It is a large interface, but no method knows SQL, so a column
// store can implement it. All methods except keep and fold, which only the writer
// calls, are safe for concurrent use.
type backend interface {
	// keep stores a batch encoded by the writer, completely or not at all. A batch that
	// is already stored, because the response to an earlier try was lost, is not stored
	// again.
	keep(ctx context.Context, w *batchWriter) error

	// blocks yields the blocks that may contain ids in [from, before), newest last id
	// first.
	blocks(ctx context.Context, from, before reqlog.ID) iter.Seq2[block, error]

	// bodies yields the stored bodies of ids, which must be in descending order, in the
	// same order. A value is valid until the next.
	bodies(ctx context.Context, ids []reqlog.ID) iter.Seq2[packedBodies, error]

	// rollups yields the rollups of an organisation that begin in [from, before), which
	// must be full minutes, and those of the hours that contain them.
	rollups(ctx context.Context, organisation string, from, before int64) iter.Seq2[rollup, error]

	// fold merges some rollups of short periods into longer ones, and reports whether
	// there may be more. Only the writer calls it.
	fold(ctx context.Context, now time.Time) (more bool, err error)

	// prune removes a small part of what r does not retain, and reports whether there
	// is more.
	prune(ctx context.Context, r Retention, now time.Time) (p Pruned, more bool, err error)

	// prunable returns everything that prune would remove.
	prunable(ctx context.Context, r Retention, now time.Time) (Pruned, error)

	// dropSums removes up to limit rollups of periods that began before before, and
	// returns their number. countSums returns how many there are.
	dropSums(ctx context.Context, before int64, limit int) (int64, error)
	countSums(ctx context.Context, before int64) (int64, error)

	feedbackBackend
	guardResultBackend

	// rowSizes returns the bytes of the rows of each organisation. dropOldestRows
	// removes up to limit of the oldest rows of one, and returns their bytes.
	rowSizes(ctx context.Context, of rowTable) (map[string]int64, error)
	dropOldestRows(ctx context.Context, of rowTable, organisation string, limit int) (int64, error)

	// sync returns when everything stored survives a power failure.
	sync(ctx context.Context) error

	// isUnavailable reports whether err means that the database is unavailable.
	isUnavailable(err error) bool

	close() error
}

// block is the unit of storage: entries whose ids are in one time slot.
type block struct {
	last, first reqlog.ID
	serial      int64 // distinguishes blocks with the same last id
	entries     int
	data        []byte
}

// errBatchStored ends storing a batch that is already stored.
var errBatchStored = errors.New("the batch is already stored")
