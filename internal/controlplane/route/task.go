package route

import (
	"context"
	"errors"
	"time"
)

// Task is work that no request waits for. Last is true when the gateway stops and
// calls it no more.
type Task func(ctx context.Context, now time.Time, last bool) error

// EachMinute adds a task. Like adding a route it is for the start.
func (a *API) EachMinute(t Task) { a.minutely = append(a.minutely, t) }

// Minute runs the tasks. The server calls it each minute, and with last before it
// closes the database.
func (a *API) Minute(ctx context.Context, now time.Time, last bool) error {
	var errs []error
	for _, t := range a.minutely {
		errs = append(errs, t(ctx, now, last))
	}
	return errors.Join(errs...)
}
