package logstore

import (
	"context"
	"sync"

	"modelgate/internal/reqlog"
)

// queue holds recorded entries until the writer takes all of them at once. The
// writer is woken for the first entry, to start its clock, and for a full
// batch; in between an entry costs its caller one lock and no wake-up.
type queue struct {
	size  int // entries that fit, beside what bodies take
	batch int // entries that make the writer hurry

	wake chan struct{} // holds one: first entry, full batch, flush or end

	mu       sync.Mutex
	waiting  []*reqlog.Entry // guarded by mu
	bytes    int             // guarded by mu; of the bodies of waiting
	room     chan struct{}   // guarded by mu; closed when the writer took the queue; nil when no one waits
	progress chan struct{}   // guarded by mu; closed after each batch; nil when no one waits
	hurry    bool            // guarded by mu; do not wait for more
	closed   bool            // guarded by mu
	accepted uint64          // guarded by mu; entries taken in
	settled  uint64          // guarded by mu; of those, written or lost
	stats    Stats           // guarded by mu
}

// What the bodies of waiting entries may take, beside as much in the batch that is
// being written, and how much of it makes the writer hurry, in bytes.
const (
	queueBytes = 8 << 20
	batchBytes = 2 << 20
)

func (q *queue) init(size, batch int) {
	q.size, q.batch = size, batch
	q.wake = make(chan struct{}, 1)
	q.waiting = make([]*reqlog.Entry, 0, size)
}

// Record queues e, which must not change any more. It waits for room until ctx
// ends and does not look at ctx when there is room. An entry that could not be
// queued is counted in [Stats].Lost.
func (q *queue) Record(ctx context.Context, e *reqlog.Entry) {
	for {
		room, ok := q.offer(e)
		if ok {
			return
		}
		select {
		case <-room:
		case <-ctx.Done():
			q.lose()
			return
		}
	}
}

// offer queues e, or returns what is closed when there may be room. A closed
// queue loses e.
func (q *queue) offer(e *reqlog.Entry) (room <-chan struct{}, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.stats.Lost++
		return nil, true
	}
	n := e.Bodies.Len()
	if len(q.waiting) >= q.size || q.bytes > 0 && q.bytes+n > queueBytes {
		if q.room == nil {
			q.room = make(chan struct{})
		}
		return q.room, false
	}
	q.waiting = append(q.waiting, e)
	q.bytes += n
	q.accepted++
	if n := len(q.waiting); n == 1 || n == q.batch || q.bytes >= batchBytes {
		q.ring()
	}
	return nil, true
}

func (q *queue) lose() {
	q.mu.Lock()
	q.stats.Lost++
	q.mu.Unlock()
}

// ring wakes the writer, now or when it next looks.
func (q *queue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// due reports whether entries wait, and whether they should be written without
// waiting for more.
func (q *queue) due() (waiting, now, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.waiting)
	return n > 0, n >= q.batch || q.bytes >= batchBytes || q.hurry || q.closed, q.closed
}

// take returns all that waits and leaves spare, emptied, for what comes.
func (q *queue) take(spare []*reqlog.Entry) []*reqlog.Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.waiting
	q.waiting, q.bytes = spare[:0], 0
	q.hurry = false
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
	return taken
}

// finishBatch counts a batch that was written, or lost when written is false.
func (q *queue) finishBatch(n int, written bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settled += uint64(n)
	if written {
		q.stats.Written += uint64(n)
		q.stats.Batches++
		q.stats.LastError = ""
	} else {
		q.stats.Lost += uint64(n)
	}
	if q.progress != nil {
		close(q.progress)
		q.progress = nil
	}
}

func (q *queue) pruned(p Pruned) {
	q.mu.Lock()
	q.stats.Pruned += uint64(p.Entries)
	q.mu.Unlock()
}

func (q *queue) failing(err error) {
	q.mu.Lock()
	q.stats.LastError = err.Error()
	q.mu.Unlock()
}

// Flush waits until all that was recorded before the call can be read, or was
// lost, or ctx ends.
func (q *queue) Flush(ctx context.Context) error {
	q.mu.Lock()
	target := q.accepted
	q.mu.Unlock()
	for {
		progress, done := q.reached(target)
		if done {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (q *queue) reached(target uint64) (progress <-chan struct{}, done bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.settled >= target {
		return nil, true
	}
	if q.progress == nil {
		q.progress = make(chan struct{})
	}
	q.hurry = true
	q.ring()
	return q.progress, false
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
	q.ring()
}

func (q *queue) state() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Depth = int(q.accepted - q.settled)
	return s
}
