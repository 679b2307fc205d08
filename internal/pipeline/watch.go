package pipeline

import (
	"context"
	"errors"
	"io"
	"time"

	"modelgate/internal/upstream"
)

// attemptTimers is the clockwork of one attempt: the limits of its phases, and the
// request's own timeout, which ends once the answer can be checked.
type attemptTimers struct {
	dog    *upstream.Watchdog
	limit  time.Duration           // the request's own timeout; zero without one
	timer  *time.Timer             // of the limit; nil without one
	cancel context.CancelCauseFunc // ends the attempt; nil without a timeout
}

func (l *TargetHandler) startTimers(ctx context.Context, x *Exchange) attemptTimers {
	var w attemptTimers
	if limit := l.responseTimeout(x); limit > 0 {
		w.limit = limit
		ctx, w.cancel = context.WithCancelCause(ctx)
		end := w.cancel
		w.timer = time.AfterFunc(limit, func() {
			end(&upstream.TimeoutError{Phase: upstream.Total, Limit: limit})
		})
	}
	w.dog = upstream.NewWatchdog(ctx, l.Limits)
	return w
}

// responseTimeout is how long the attempt may take until its answer can be checked: its
// own timeout, or what is left of the exchange's budget. Zero means no limit.
func (l *TargetHandler) responseTimeout(x *Exchange) time.Duration {
	if x.AttemptDeadline.IsZero() {
		return l.Timeout
	}
	left := max(time.Until(x.AttemptDeadline), time.Millisecond)
	if l.Timeout > 0 {
		return min(l.Timeout, left)
	}
	return left
}

// isRequestTimeout reports whether f came of the request's own limit and not of the
// engine's.
func (w attemptTimers) isRequestTimeout(f error) bool {
	e, ok := errors.AsType[*upstream.TimeoutError](f)
	return ok && w.limit > 0 && e.Limit == w.limit
}

func (w attemptTimers) context() context.Context { return w.dog.Context() }

// stopRequestTimeout ends the request's own timeout.
func (w attemptTimers) stopRequestTimeout() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w attemptTimers) eventReceived() { w.dog.Phase(upstream.Idle) }

// stop ends the attempt and lets go of its clocks.
func (w attemptTimers) stop() {
	w.stopRequestTimeout()
	w.dog.Stop()
	if w.cancel != nil {
		w.cancel(nil)
	}
}

// uploads opens a body that streams through. Each read starts the wait for the
// answer's head again: a long upload is not a slow provider.
type uploads struct {
	x   *Exchange
	dog *upstream.Watchdog
}

// Open implements provider.Source.
func (u uploads) Open() (io.ReadCloser, error) { return &uploading{u.x, u.dog}, nil }

type uploading struct {
	x   *Exchange
	dog *upstream.Watchdog
}

func (u *uploading) Read(p []byte) (int, error) {
	// The flag is raised before the attempt is looked at: once an attempt has
	// ended, either nothing more is read for it or the body counts as spent.
	u.x.uploadRead.Store(true)
	if err := u.dog.Context().Err(); err != nil {
		return 0, err
	}
	n, err := u.x.Upload.Read(p)
	u.x.uploaded.Add(int64(n))
	u.dog.Restart()
	return n, err
}

// Close leaves the client's body open: an attempt that did not read it may be
// followed by another. The HTTP server closes it.
func (u *uploading) Close() error { return nil }
