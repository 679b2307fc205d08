package logstore

import (
	"context"
	"errors"
	"iter"
	"time"

	"modelgate/internal/reqlog"
)

// backend is where blocks are kept. It has more methods than an interface should,
// and none of them knows SQL: a store of columns can be one. All but keep and fold,
// which the writer alone calls, are safe for concurrent use.
type backend interface {
	// keep stores what the writer has encoded, all of it or nothing. A batch
	// that is there already, because the answer to an earlier try was lost, is
	// left as it is.
	keep(ctx context.Context, w *batchWriter) error

	// blocks gives those that may hold ids from from to before its end, the
	// newest first by their last id.
	blocks(ctx context.Context, from, before reqlog.ID) iter.Seq2[block, error]

	// bodies gives the bodies that are kept of these ids, which fall as what is
	// given does. It is valid until the next.
	bodies(ctx context.Context, ids []reqlog.ID) iter.Seq2[packedBodies, error]

	// rollups gives the sums of an organisation that begin from from on and
	// before before, which are whole minutes, and the hours that these are in.
	rollups(ctx context.Context, organisation string, from, before int64) iter.Seq2[rollup, error]

	// fold puts sums of short times together to those of long ones, some at a
	// time, and reports whether there may be more. The writer alone calls it.
	fold(ctx context.Context, now time.Time) (more bool, err error)

	// prune removes a small part of what r does not keep, and reports whether
	// there is more.
	prune(ctx context.Context, r Retention, now time.Time) (p Pruned, more bool, err error)

	// prunable returns what prune would remove in the end.
	prunable(ctx context.Context, r Retention, now time.Time) (Pruned, error)

	// dropSums removes up to limit sets of sums of times that began before before,
	// and returns how many. countSums returns how many there are.
	dropSums(ctx context.Context, before int64, limit int) (int64, error)
	countSums(ctx context.Context, before int64) (int64, error)

	feedbackBackend

	// sync returns when no power cut can take away what was kept.
	sync(ctx context.Context) error

	// away reports whether err says that nothing can be read or kept now.
	away(err error) bool

	close() error
}

// block is what is stored at once: entries whose ids lie in one slot of time.
type block struct {
	last, first reqlog.ID
	serial      int64 // tells apart what may share its last id
	entries     int
	data        []byte
}

// errBatchStored ends the keeping of a batch that is there already.
var errBatchStored = errors.New("the batch was kept before")
