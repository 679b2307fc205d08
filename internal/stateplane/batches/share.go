package batches

import (
	"context"
	"sync"

	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// budgetShare is what budgets keep for the lines of a batch that were not handed out. A line
// reserves itself when it is sent, so its share ends then: at once in this process, and in
// the database, which other nodes read, with the next change of the batch. It is safe for
// concurrent use.
type budgetShare struct {
	mu     sync.Mutex
	handed int // lines that were handed out, or may have been by other nodes; guarded by mu
	stored int // the same when the share was last stored; guarded by mu
}

// open begins with the lines that were announced before.
func (s *budgetShare) open(w *work) { s.handed, s.stored = w.Begun, -1 }

// close forgets what this process knows: another one may have the batch.
func (s *budgetShare) close(w *work) {
	if w.Budgets.Counters != nil {
		w.Budgets.Counters.PassOn(w.begin.id, nil)
	}
}

// hand ends the share of a line, which is handed out.
func (s *budgetShare) hand(w *work, number int) {
	if len(w.begin.Reserved) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handed = max(s.handed, number); s.stored >= 0 {
		s.passOn(w)
	}
}

// passOn tells the counters of this process which share has ended since it was stored. The
// caller holds s.mu.
func (s *budgetShare) passOn(w *work) {
	if w.Budgets.Counters == nil { // limits were turned off since
		return
	}
	parts := byCounter(w.begin.unused(s.stored, w.lines))
	for counter, n := range byCounter(w.begin.unused(s.handed, w.lines)) {
		parts[counter] -= n
	}
	w.Budgets.Counters.PassOn(w.begin.id, parts)
}

// list returns what is kept for the batch, by counter; nil for nothing.
func (s *budgetShare) list(w *work) map[string]int64 {
	if len(w.begin.Reserved) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return byCounter(w.begin.unused(s.handed, w.lines))
}

// change returns how many lines were handed out, and whether the share must be stored.
func (s *budgetShare) change(w *work) (handed int, changed bool) {
	if len(w.begin.Reserved) == 0 {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handed, s.handed != s.stored || !w.object.EndedAt.IsZero()
}

// store notes that the share was stored when some lines had been handed out.
func (s *budgetShare) store(ctx context.Context, w *work, handed int) {
	reloadHolds(ctx, w.Deps)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored = handed; w.lines > 0 {
		s.passOn(w)
	}
}

// left returns the share that is stored, after some lines were handed out.
func (w *work) left(handed int) []store.BudgetHold {
	if !w.object.EndedAt.IsZero() {
		return nil
	}
	return w.unused(handed, w.lines)
}

// unused returns what a batch has reserved for the lines that follow the first handed of all;
// zero lines is that none has been read.
func (d *details) unused(handed, lines int) (list []store.BudgetHold) {
	if lines == 0 {
		return d.Reserved
	}
	for _, h := range d.Reserved {
		if n := share(h.Amount, max(lines-handed, 0), lines); n > 0 {
			list = append(list, store.BudgetHold{Counter: h.Counter, Amount: n})
		}
	}
	return list
}

// byCounter returns holds by counter, nil for none.
func byCounter(list []store.BudgetHold) map[string]int64 {
	if len(list) == 0 {
		return nil
	}
	held := make(map[string]int64, len(list))
	for _, h := range list {
		held[h.Counter] = h.Amount
	}
	return held
}

// reloadHolds makes this node know what batches have reserved. If that fails, it learns of it
// a second later.
func reloadHolds(ctx context.Context, deps *kept.Deps) {
	if deps.Budgets.Counters == nil {
		return
	}
	if err := deps.Budgets.Counters.Reload(ctx); err != nil {
		deps.Logger.Debug("what batches have reserved of budgets was not read", "err", err.Error())
	}
}
