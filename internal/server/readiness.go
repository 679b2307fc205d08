package server

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"modelgate/internal/records/ledger"
)

// Times after which a part counts as failing.
const (
	stuckChange = 10 * time.Second // a change of the database
	staleEntry  = 30 * time.Second // an entry that waits to be written to the log
	stuckDisk   = time.Second      // a question about the room on it
)

// readiness reports to load balancers whether to send requests here, and which part fails. It
// reads memory, and the room on the disk.
func (s *Server) readiness(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "draining or not started\n")
		return
	}
	if reason := s.blocked(); reason != "" {
		s.reportBlocked(w, reason)
		return
	}
	if reason := s.degraded(); reason != "" { // other nodes are no better off
		io.WriteString(w, "ready, degraded: "+reason+"\n")
		return
	}
	io.WriteString(w, "ready\n")
}

// blocked returns why nothing can be recorded, empty if it can.
func (s *Server) blocked() string {
	if s.ledger == nil {
		return ""
	}
	full, hangs := s.space.ask(LedgerDir(s.Data))
	switch {
	case full:
		return "the disk of the data folder is full"
	case hangs:
		return "the disk of the data folder does not respond"
	case !s.ledger.Blocked():
		return ""
	case s.ledger.Stats().LastError != "":
		return "writing the ledger fails"
	}
	return "writing the ledger takes too long, or it has reached ledger.max_size"
}

// reportBlocked reports that nothing can be recorded, which rejects requests unless
// records may be dropped.
func (s *Server) reportBlocked(w http.ResponseWriter, reason string) {
	if ledger.FullPolicy(s.first.Ledger.OnFull) == ledger.DropRows {
		io.WriteString(w, "ready, degraded: the ledger can't be written ("+reason+"); requests are served without records\n")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, "not ready: the ledger can't be written ("+reason+"); model requests are rejected\n")
}

// degraded returns the part that fails while model requests are still served, empty for none.
func (s *Server) degraded() string {
	if s.away.Load() {
		return "the database can't be reached; requests are served from its last state"
	}
	if d := s.changeDelay(); d > stuckChange {
		return fmt.Sprintf("the database has accepted no change for %d seconds; requests are served from its last state", int(d.Seconds()))
	}
	if s.counters.unavailable() {
		return "the shared counters of limits can't be reached; each limit's on_store_down applies"
	}
	if s.ledger == nil || s.logs == nil {
		return ""
	}
	if s.logs.Stats().LastError != "" || age(s.ledger.Stats().Oldest) > staleEntry.Seconds() {
		return "the log can't be written; its entries wait in the ledger"
	}
	return ""
}

// changeDelay returns for how long the database has accepted no change.
func (s *Server) changeDelay() time.Duration {
	if s.store == nil {
		return 0
	}
	return s.store.ChangeDelay()
}

// spaceProbe asks whether a disk is full, without waiting for one that hangs. The zero value
// is ready. It is safe for concurrent use.
type spaceProbe struct {
	mu    sync.Mutex
	done  chan struct{} // of the question that is not answered yet; nil for none
	began time.Time     // of that question
	full  bool          // the last answer
}

// ask returns whether the disk of a folder is full, and whether it does not answer.
func (p *spaceProbe) ask(dir string) (full, hangs bool) {
	p.mu.Lock()
	if p.done == nil {
		p.done, p.began = make(chan struct{}), time.Now()
		go p.answer(dir, p.done)
	}
	done, left := p.done, stuckDisk-time.Since(p.began)
	p.mu.Unlock()
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		hangs = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.full && !hangs, hangs
}

func (p *spaceProbe) answer(dir string, done chan struct{}) {
	full := noSpace(dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full, p.done = full, nil
	close(done)
}
