package journal

import (
	"context"
	"errors"
	"sync"
	"time"
)

// failureAge is how long a failed change counts if no other follows.
const failureAge = 2 * time.Minute

// delay measures how long a database has accepted no change. The zero value is ready. It is
// safe for concurrent use.
type delay struct {
	mu      sync.Mutex
	next    int
	running map[int]time.Time // when changes in progress began
	failing time.Time         // when the first change began that failed since the last success; zero for none
	failed  time.Time         // when the last one failed
}

// begin adds a change in progress. The returned function ends it with the error that is then
// in *err, nil for success. A change that its caller cancelled says nothing.
func (d *delay) begin(err *error) (end func()) {
	began := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		d.running = make(map[int]time.Time)
	}
	id := d.next
	d.next++
	d.running[id] = began
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.running, id)
		switch {
		case *err == nil:
			d.failing = time.Time{}
		case errors.Is(*err, context.Canceled):
		default:
			d.failed = time.Now()
			if d.failing.IsZero() {
				d.failing = began
			}
		}
	}
}

// Delay returns for how long the oldest change has been waiting, or for how long all changes
// have failed because of the database, whichever is longer. Zero means that changes succeed.
func (db *DB) Delay() (longest time.Duration) {
	d := &db.delay
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, began := range d.running {
		longest = max(longest, time.Since(began))
	}
	if !d.failing.IsZero() && time.Since(d.failed) < failureAge {
		longest = max(longest, time.Since(d.failing))
	}
	return longest
}
