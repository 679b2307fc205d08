package logstore

import (
	"context"
	"sync"

	"modelgate/internal/records/reqlog"
)

// queue holds recorded entries until the writer takes all of them at once. The writer
// is woken for the first entry, to start its timer, and for a full batch; other entries
// cost their caller only a lock.
type queue struct {
	size  int // limit of entries, in addition to the limit of bodies
	batch int // number of entries that triggers a write

	wake chan struct{} // wakes the writer: first entry, full batch, flush or end

	mu       sync.Mutex
	waiting  []*reqlog.Entry // guarded by mu
	bytes    int             // size of the bodies of waiting; guarded by mu
	room     chan struct{}   // guarded by mu; closed when the writer takes the queue; nil if no one waits
	progress chan struct{}   // guarded by mu; closed after each batch; nil if no one waits
	hurry    bool            // guarded by mu; write without waiting for more
	closed   bool            // guarded by mu
	accepted uint64          // guarded by mu; entries accepted
	settled  uint64          // guarded by mu; accepted entries that were written or lost
	stats    Stats           // guarded by mu
}

// Limit of the bodies of queued entries, in addition to the batch being written, and
// the size that triggers a write, in bytes.
const (
	queueBytes = 8 << 20
	batchBytes = 2 << 20
)

func (q *queue) init(size, batch int) {
	q.size, q.batch = size, batch
	q.wake = make(chan struct{}, 1)
	q.waiting = make([]*reqlog.Entry, 0, size)
}

// Record queues e, which must not change any more. If the queue is full it waits until
// ctx ends; otherwise it ignores ctx. An entry that could not be queued is counted in
// [Stats].Lost.
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

// offer queues e, or returns a channel that is closed when there may be space. A closed
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

// ring wakes the writer, or has it continue at once when it is busy.
func (q *queue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// due reports whether entries are queued, and whether they should be written without
// waiting for more.
func (q *queue) due() (waiting, now, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.waiting)
	return n > 0, n >= q.batch || q.bytes >= batchBytes || q.hurry || q.closed, q.closed
}

// take returns all queued entries and uses spare, emptied, for the next ones.
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

// finishBatch counts a batch that was written, or lost if written is false.
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

// Flush waits until everything recorded before the call can be read or was lost, or ctx
// ends.
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
