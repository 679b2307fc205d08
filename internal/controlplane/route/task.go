package route

import (
	"context"
	"errors"
	"time"
)

// Task is background work. Last is true for the final call, when the gateway stops.
type Task func(ctx context.Context, now time.Time, last bool) error

// EachMinute adds a task. It must be called before serving.
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
