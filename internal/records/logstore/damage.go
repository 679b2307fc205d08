package logstore

import (
	"sync"

	"modelgate/internal/records/reqlog"
)

// damage records damaged blocks. Each is counted and logged once.
type damage struct {
	mu    sync.Mutex
	known map[blockKey]struct{} // guarded by mu
}

type blockKey struct {
	last   reqlog.ID
	serial int64
}

// most is the number of damaged blocks that are logged.
const most = 10_000

// first reports whether b was not recorded before, and records it.
func (d *damage) first(b block) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := blockKey{b.last, b.serial}
	if _, ok := d.known[key]; ok || len(d.known) >= most {
		return false
	}
	if d.known == nil {
		d.known = make(map[blockKey]struct{})
	}
	d.known[key] = struct{}{}
	return true
}

func (d *damage) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.known)
}

// damaged records that b cannot be read completely; the unreadable part is skipped.
func (s *Store) damaged(b block, err error) {
	if s.damage.first(b) {
		s.log.Error("skipping damaged log entries", "newest", b.last.String(), "serial", b.serial, "entries", b.entries, "err", err)
	}
}

// Stats returns the current statistics of the store.
func (s *Store) Stats() Stats {
	st := s.queue.state()
	st.Damaged = s.damage.count()
	return st
}
