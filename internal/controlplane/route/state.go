package route

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/apierr"
)

// ifMatch is the header in which a request says what it read: the
// last_updated_at of the state that it is about to change.
const ifMatch = "If-Match"

// CheckIfMatch refuses a change of what was last updated at now: when the request
// read it, at read, before another change was kept, and when its If-Match names
// another state. Handlers of versioned routes call it inside of their change, with
// the error of reading the object there, which it returns if there is one.
func (c *Caller) CheckIfMatch(read, now time.Time, err error) error {
	if err != nil {
		return err
	}
	if read.Equal(now) && c.named(now) {
		return nil
	}
	return apierr.New(apierr.Conflict, "it was changed by another request (If-Match does not match); read it again and retry").WithParam(ifMatch)
}

// named reports whether the request's If-Match is for the state of a time, which
// may stand between quotes. None, or a star, is for any.
func (c *Caller) named(at time.Time) bool {
	text := strings.Trim(c.ifMatch, `"`)
	if text == "" || text == "*" {
		return true
	}
	shown, err := json.Marshal(Time(at))
	return err == nil && `"`+text+`"` == string(shown)
}

// SpendingTime bounds the wait until what was spent before a reset is counted.
const SpendingTime = 5 * time.Second

// AwaitSpending returns when everything that this gateway settled before is counted,
// so that a count which starts again does not begin with it. It must not be called
// inside a change, which counting waits for.
func (c *Caller) AwaitSpending(ctx context.Context) error {
	if c.api.Counted == nil {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, SpendingTime)
	defer cancel()
	if err := c.api.Counted(short); err != nil {
		return apierr.New(apierr.Unavailable, "usage can't be reset now: what was spent before is not counted yet; try again shortly").WithParam("reset_usage").WithCause(err)
	}
	return nil
}

// NextUpdateTime returns the time of an update made now to what was last updated before:
// no two states have the same.
func (c *Caller) NextUpdateTime(before time.Time) time.Time { return After(before, c.Now) }

// After is [Caller.NextUpdateTime] for changes that come by other ways than a route.
func After(before, now time.Time) time.Time {
	if now = now.Truncate(time.Millisecond); now.After(before) {
		return now
	}
	return before.Add(time.Millisecond)
}

// checkState refuses an If-Match where nothing would look at it.
func (r *Route) checkState(h http.Header) error {
	switch values := h[ifMatch]; {
	case len(values) > 1:
		return Invalid(ifMatch, "was sent %d times", len(values))
	case len(values) == 1 && r.Resource != "" && !r.Versioned:
		return Invalid(ifMatch, "is not taken by this route")
	}
	return nil
}

// stateParam is the header in the OpenAPI document.
func stateParam() *huma.Param {
	return &huma.Param{Name: ifMatch, In: "header", Description: "last_updated_at of the state that is changed; another one is refused with 409",
		Schema: &huma.Schema{Type: huma.TypeString}}
}
