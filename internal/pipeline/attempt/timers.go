package attempt

import (
	"context"
	"errors"
	"io"
	"time"

	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/upstream"
)

// attemptTimers holds the timers of one attempt: the limits of its phases, and
// the request's own timeout, which ends once the response is usable.
type attemptTimers struct {
	dog    *upstream.Watchdog
	limit  time.Duration           // the request's own timeout; zero if none
	timer  *time.Timer             // of the limit; nil if none
	cancel context.CancelCauseFunc // ends the attempt; nil if there is no timeout
}

// startTimers starts the timers of the attempt, which ends with ctx.
func (p *plan) startTimers(ctx context.Context) {
	w := &p.timers
	if limit := p.handler.responseTimeout(p.request); limit > 0 {
		w.limit = limit
		ctx, w.cancel = context.WithCancelCause(ctx)
		end := w.cancel
		w.timer = time.AfterFunc(limit, func() {
			end(&upstream.TimeoutError{Phase: upstream.Total, Limit: limit})
		})
	}
	w.dog = upstream.NewWatchdog(ctx, p.handler.Engine.Limits)
}

// responseTimeout returns how long to wait for a usable response: the target's
// timeout or the time to AttemptDeadline, whichever is shorter. Zero means no limit.
func (h *TargetHandler) responseTimeout(r *exchange.Request) time.Duration {
	if r.AttemptDeadline.IsZero() {
		return h.Timeout
	}
	left := max(time.Until(r.AttemptDeadline), time.Millisecond)
	if h.Timeout > 0 {
		return min(h.Timeout, left)
	}
	return left
}

// isRequestTimeout reports whether f was caused by the request's own timeout
// rather than the engine's.
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

// stop ends the attempt and stops its timers.
func (w attemptTimers) stop() {
	w.stopRequestTimeout()
	w.dog.Stop()
	if w.cancel != nil {
		w.cancel(nil)
	}
}

// uploads opens a body that streams through. Each read restarts the timeout of
// the response headers: a long upload does not mean a slow provider.
type uploads struct {
	up   *exchange.Upload
	rows func(io.Reader) io.Reader // checks the rows of files; nil does not
	dog  *upstream.Watchdog
}

// Open implements provider.Source.
func (u uploads) Open() (io.ReadCloser, error) {
	body := u.up.Body
	if u.rows != nil {
		body = u.rows(body)
	}
	return &uploading{u.up, body, u.dog}, nil
}

type uploading struct {
	up   *exchange.Upload
	body io.Reader
	dog  *upstream.Watchdog
}

func (u *uploading) Read(p []byte) (int, error) {
	// The flag is set before the attempt is checked: once an attempt has ended,
	// either nothing more is read for it or the body counts as consumed.
	u.up.Started.Store(true)
	if err := u.dog.Context().Err(); err != nil {
		return 0, err
	}
	n, err := u.body.Read(p)
	u.up.Sent.Add(int64(n))
	u.dog.Restart()
	return n, err
}

// Close does not close the client's body, since another attempt may use it if
// this one did not read it. The HTTP server closes it.
func (u *uploading) Close() error { return nil }
