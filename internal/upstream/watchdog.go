package upstream

import (
	"context"
	"math"
	"sync"
	"time"
)

// Timeouts of one attempt. Zero means none.
type Timeouts struct {
	Header     time.Duration // from sending to the response's headers
	FirstEvent time.Duration // from the headers to the first event of a stream
	Idle       time.Duration // between events
	Total      time.Duration // the complete attempt
}

// Phase is a part of an attempt with its own timeout.
type Phase uint8

// Phases in order. Total is only returned by Expired.
const (
	Header Phase = iota
	FirstEvent
	Idle
	Total
)

var phaseNames = [...]string{"header", "first event", "idle", "total"}

// String returns the phase's name.
func (p Phase) String() string { return phaseNames[p] }

// TimeoutError is the cause of a context that a Watchdog cancelled.
type TimeoutError struct {
	Phase Phase
	Limit time.Duration
}

// Error names the timeout and its length.
func (e *TimeoutError) Error() string { return e.Phase.String() + " timeout of " + e.Limit.String() }

// Timeout returns true, as in net.Error.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary returns false; net.Error requires it.
func (e *TimeoutError) Temporary() bool { return false }

func (e *TimeoutError) kind() FailureKind { return HeaderTimeout + FailureKind(e.Phase) }

// never is a deadline that is not reached.
const never = time.Duration(math.MaxInt64)

// Watchdog ends an attempt whose current phase takes too long, by cancelling
// its context with a *TimeoutError as the cause. It begins in phase Header. It
// needs one timer and no goroutine, and entering a phase costs at most two
// clock reads: the timer may fire early and then resets itself. It is safe for
// concurrent use.
type Watchdog struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limits Timeouts
	start  time.Time

	mu      sync.Mutex
	timer   *time.Timer   // guarded by mu, as are the fields below; nil until there is a timeout
	armed   time.Duration // when the timer fires; never if it does not run
	phase   Phase
	due     time.Duration // end of the phase; times are relative to start
	total   time.Duration // end of the attempt
	paused  bool
	since   time.Duration // when the pause began
	expired *TimeoutError
	stopped bool
}

// NewWatchdog returns a watchdog whose context is derived from parent. The
// caller must call Stop when the attempt is over, including the reading of its
// body.
func NewWatchdog(parent context.Context, t Timeouts) *Watchdog {
	ctx, cancel := context.WithCancelCause(parent)
	w := &Watchdog{ctx: ctx, cancel: cancel, limits: t, start: time.Now(), armed: never}
	w.due = after(0, t.Header)
	w.total = after(0, t.Total)
	w.arm(0)
	return w
}

// Context returns the context of the attempt. context.Cause returns the timeout
// that ended it.
func (w *Watchdog) Context() context.Context { return w.ctx }

// Phase enters p and starts its clock. Entering Idle again means that an event
// arrived. A pause ends. It does nothing if w is nil, as Pause and Resume do.
func (w *Watchdog) Phase(p Phase) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.start)
	w.phase, w.paused = p, false
	w.due = after(now, w.limit(p))
	w.arm(now)
}

// Restart restarts the clock of the current phase, because there was progress.
func (w *Watchdog) Restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.start)
	w.due = after(now, w.limit(w.phase))
	w.arm(now)
}

// Pause stops the clock of the current phase while the client reads slowly. The
// total timeout continues. A second Pause does nothing.
func (w *Watchdog) Pause() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused {
		return
	}
	w.paused, w.since = true, time.Since(w.start)
}

// Resume continues the clock from where Pause stopped it. Without a Pause it
// does nothing.
func (w *Watchdog) Resume() {
	if w == nil {
		return
	}
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

// Stop stops the timer and cancels the context. Further calls do nothing.
func (w *Watchdog) Stop() {
	w.mu.Lock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.cancel(context.Canceled)
}

// Expired returns the phase whose timeout ended the attempt, and whether one
// did. It returns false for an attempt that ended for another reason, usually
// by its parent context.
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

// arm makes sure that the timer fires no later than the next deadline. A timer
// that fires earlier is not changed, which makes Phase cheap.
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

// fire runs when the timer fires: it ends the attempt, or sets the timer to the
// deadline, which may have moved.
func (w *Watchdog) fire() {
	if e := w.expire(); e != nil {
		w.cancel(e)
	}
}

// expire returns the timeout that is due, or nil after setting the timer again.
func (w *Watchdog) expire() *TimeoutError {
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

// after returns t+limit. For a zero limit, and a sum that overflows, it returns
// never.
func after(t, limit time.Duration) time.Duration {
	if limit <= 0 || t > never-limit {
		return never
	}
	return t + limit
}
