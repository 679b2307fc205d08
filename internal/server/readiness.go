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

// problem is a part of the gateway that may fail.
type problem struct {
	name string // in modelgate_problem
	// reason returns the text of /ready, empty while the part works.
	reason func(s *Server) string
}

// blocking are the problems because of which nothing can be recorded, and degrading those
// with which model requests are served.
var (
	blocking = []problem{
		{"disk_full", func(s *Server) string { return s.diskProblem(true, "the disk of the data folder is full") }},
		{"disk_stuck", func(s *Server) string { return s.diskProblem(false, "the disk of the data folder does not respond") }},
		{"ledger", (*Server).ledgerProblem},
	}
	degrading = []problem{
		{"database", func(s *Server) string {
			return textIf(s.away.Load(), "the database can't be reached; requests are served from its last state")
		}},
		{"database_stuck", func(s *Server) string {
			d := s.changeDelay()
			return textIf(d > stuckChange, fmt.Sprintf("the database has accepted no change for %d seconds; requests are served from its last state", int(d.Seconds())))
		}},
		{"limit_counters", func(s *Server) string {
			return textIf(s.counters.unavailable(), "the shared counters of limits can't be reached; each limit's on_store_down applies")
		}},
		{"log", func(s *Server) string {
			fails := s.ledger != nil && s.logs != nil && (s.logs.Stats().LastError != "" || age(s.ledger.Stats().Oldest) > staleEntry.Seconds())
			return textIf(fails, "the log can't be written; its entries wait in the ledger")
		}},
	}
)

// textIf returns a text if a part fails, else nothing.
func textIf(fails bool, text string) string {
	if fails {
		return text
	}
	return ""
}

// first returns the text of the first problem of a list, empty for none.
func (s *Server) firstOf(list []problem) string {
	for _, p := range list {
		if reason := p.reason(s); reason != "" {
			return reason
		}
	}
	return ""
}

// blocked returns why nothing can be recorded, empty if it can.
func (s *Server) blocked() string { return s.firstOf(blocking) }

// degraded returns the part that fails while model requests are still served, empty for none.
func (s *Server) degraded() string { return s.firstOf(degrading) }

// diskProblem returns a text if the disk of the ledger is full, or does not respond.
func (s *Server) diskProblem(full bool, text string) string {
	if s.ledger == nil {
		return ""
	}
	disk, hangs := s.space.ask(LedgerDir(s.Data))
	if full {
		return textIf(!hangs && disk.full(), text)
	}
	return textIf(hangs, text)
}

// ledgerProblem returns why the ledger takes no records.
func (s *Server) ledgerProblem() string {
	switch {
	case s.ledger == nil || !s.ledger.Blocked():
		return ""
	case s.ledger.Stats().LastError != "":
		return "writing the ledger fails"
	}
	return "writing the ledger takes too long, or it has reached ledger.max_size"
}

// isReady reports whether /ready returns 200.
func (s *Server) isReady() bool {
	return s.ready.Load() && (s.dropsRecords() || s.blocked() == "")
}

// dropsRecords reports whether requests are served although nothing can be recorded.
func (s *Server) dropsRecords() bool {
	return ledger.FullPolicy(s.first.Ledger.OnFull) == ledger.DropRows
}

// reportBlocked reports that nothing can be recorded, which rejects requests unless
// records may be dropped.
func (s *Server) reportBlocked(w http.ResponseWriter, reason string) {
	if s.dropsRecords() {
		io.WriteString(w, "ready, degraded: the ledger can't be written ("+reason+"); requests are served without records\n")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, "not ready: the ledger can't be written ("+reason+"); model requests are rejected\n")
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
	disk  disk          // the last answer
}

// disk is the room on a disk in bytes. A size of zero means that it is unknown.
type disk struct{ free, size uint64 }

// full reports whether the disk is known to be full.
func (d disk) full() bool { return d.size > 0 && d.free == 0 }

// ask returns the room on the disk of a folder, and whether it does not answer.
func (p *spaceProbe) ask(dir string) (d disk, hangs bool) {
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
	return p.disk, hangs
}

func (p *spaceProbe) answer(dir string, done chan struct{}) {
	free, size := space(dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disk, p.done = disk{free, size}, nil
	close(done)
}
