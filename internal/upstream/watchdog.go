package upstream

import (
	"context"
	"math"
	"sync"
	"time"
)

// Timeouts of one attempt. Zero means none.
type Timeouts struct {
	Header     time.Duration // from sending until the response's header
	FirstEvent time.Duration // from the header to the first event of a stream
	Idle       time.Duration // between events
	Total      time.Duration // the whole attempt
}

// Phase is a part of an attempt that has its own limit.
type Phase uint8

// The phases in their order. Total is reported by Expired and never entered.
const (
	Header Phase = iota
	FirstEvent
	Idle
	Total
)

var phaseNames = [...]string{"header", "first event", "idle", "total"}

// String returns the phase's name.
func (p Phase) String() string { return phaseNames[p] }

// TimeoutError is the cause of a context that a Watchdog ended.
type TimeoutError struct {
	Phase Phase
	Limit time.Duration
}

// Error names the limit and its length.
func (e *TimeoutError) Error() string { return e.Phase.String() + " timeout of " + e.Limit.String() }

// Timeout reports true, as net.Error does.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary reports false, as net.Error wants it.
func (e *TimeoutError) Temporary() bool { return false }

func (e *TimeoutError) kind() FailureKind { return HeaderTimeout + FailureKind(e.Phase) }

// never is a deadline that does not come.
const never = time.Duration(math.MaxInt64)

// Watchdog ends an attempt whose current phase lasts too long, by cancelling
// its context with a *TimeoutError as the cause. It begins in phase Header.
// It costs one timer and no goroutine, and entering a phase is two clock reads
// at most: the timer is left to fire early and then sets itself again. It is
// safe for concurrent use.
type Watchdog struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limits Timeouts
	start  time.Time

	mu      sync.Mutex
	timer   *time.Timer   // guarded by mu, as is all below; nil until something is limited
	armed   time.Duration // when timer fires; never while it does not run
	phase   Phase
	due     time.Duration // end of the phase; times are since start
	total   time.Duration // end of the attempt
	paused  bool
	since   time.Duration // when the pause began
	expired *TimeoutError
	stopped bool
}

// NewWatchdog derives a context from parent that t limits. The caller calls Stop
// when the attempt is over, its body read included.
func NewWatchdog(parent context.Context, t Timeouts) *Watchdog {
	ctx, cancel := context.WithCancelCause(parent)
	w := &Watchdog{ctx: ctx, cancel: cancel, limits: t, start: time.Now(), armed: never}
	w.due = after(0, t.Header)
	w.total = after(0, t.Total)
	w.arm(0)
	return w
}

// Context returns the context of the attempt. context.Cause tells which limit
// ended it.
func (w *Watchdog) Context() context.Context { return w.ctx }

// Phase enters p and starts its clock. Entering Idle again says that an event
// came. A pause ends.
func (w *Watchdog) Phase(p Phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.start)
	w.phase, w.paused = p, false
	w.due = after(now, w.limit(p))
	w.arm(now)
}

// Restart starts the clock of the current phase again: something moved.
func (w *Watchdog) Restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.start)
	w.due = after(now, w.limit(w.phase))
	w.arm(now)
}

// Pause stops the clock of the current phase while the client is slow to
// read. The total limit goes on. A second Pause changes nothing.
func (w *Watchdog) Pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused {
		return
	}
	w.paused, w.since = true, time.Since(w.start)
}

// Resume lets the clock go on from where Pause stopped it. Without a Pause it
// changes nothing.
func (w *Watchdog) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.paused {
		return
	}
	now := time.Since(w.start)
	w.paused = false
	if w.due != never {
		w.due += now - w.since
	}
	w.arm(now)
}

// Stop ends the watch and cancels the context. Only the first call counts.
func (w *Watchdog) Stop() {
	w.mu.Lock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.cancel(context.Canceled)
}

// Expired returns the phase whose limit ended the attempt, and whether one did.
// An attempt that ended otherwise, by its parent above all, has not expired.
func (w *Watchdog) Expired() (Phase, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expired == nil {
		return 0, false
	}
	return w.expired.Phase, true
}

func (w *Watchdog) limit(p Phase) time.Duration {
	switch p {
	case Header:
		return w.limits.Header
	case FirstEvent:
		return w.limits.FirstEvent
	case Idle:
		return w.limits.Idle
	}
	return 0
}

// next returns the earliest deadline and the phase it belongs to.
func (w *Watchdog) next() (time.Duration, Phase) {
	if w.paused || w.due >= w.total {
		return w.total, Total
	}
	return w.due, w.phase
}

// arm makes sure the timer fires no later than the next deadline. One that
// fires earlier is left alone, which is what makes Phase cheap.
func (w *Watchdog) arm(now time.Duration) {
	due, _ := w.next()
	if due >= w.armed || w.stopped || w.expired != nil {
		return
	}
	w.armed = due
	if w.timer == nil {
		w.timer = time.AfterFunc(due-now, w.fire)
		return
	}
	w.timer.Reset(due - now)
}

// fire runs on the timer: it ends the attempt or sleeps until the deadline
// that has moved in the meantime.
func (w *Watchdog) fire() {
	if e := w.judge(); e != nil {
		w.cancel(e)
	}
}

func (w *Watchdog) judge() *TimeoutError {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.expired != nil || w.ctx.Err() != nil {
		return nil
	}
	now := time.Since(w.start)
	w.armed = never
	due, phase := w.next()
	if now < due {
		w.arm(now)
		return nil
	}
	w.expired = &TimeoutError{Phase: phase, Limit: w.limit(phase)}
	if phase == Total {
		w.expired.Limit = w.limits.Total
	}
	return w.expired
}

// after returns t+limit. A zero limit, and a sum past the end of time, is never.
func after(t, limit time.Duration) time.Duration {
	if limit <= 0 || t > never-limit {
		return never
	}
	return t + limit
}
