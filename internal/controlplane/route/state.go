package route

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/base/apierr"
)

// ifMatch is the header that names the state to be changed: its last_updated_at.
const ifMatch = "If-Match"

// CheckIfMatch returns a conflict if an object that the request read when it was
// updated at read was updated at now by another change, and an error with status 412 if the
// request's If-Match names another state. Handlers of versioned routes call it in their
// transaction with the result of reading the object again; it returns err if that failed.
// https://www.rfc-editor.org/rfc/rfc9110#section-13.1.1
func (c *Caller) CheckIfMatch(read, now time.Time, err error) error {
	if err != nil {
		return err
	}
	switch {
	case !c.named(now):
		return apierr.New(apierr.StateChanged, "it was changed by another request (If-Match does not match); read it again and retry").WithParam(ifMatch)
	case !read.Equal(now):
		return apierr.New(apierr.Conflict, "it was changed by another request at the same time; read it again and retry")
	}
	return nil
}

// named reports whether the request's If-Match, with or without quotes, names the state
// of a time. An absent header or a star matches any state.
func (c *Caller) named(at time.Time) bool {
	text := strings.Trim(strings.TrimPrefix(c.ifMatch, "W/"), `"`) // proxies that compress weaken it
	if text == "" || text == "*" {
		return true
	}
	shown, err := json.Marshal(Time(at))
	return err == nil && `"`+text+`"` == string(shown)
}

// SpendingTime limits the wait for earlier spend to be counted before a reset.
const SpendingTime = 5 * time.Second

// AwaitSpending returns when all earlier settlements of this gateway are counted, so
// that none of them falls into the period after a reset. It must not be called in a
// transaction, which counting waits for.
func (c *Caller) AwaitSpending(ctx context.Context) error {
	if c.api.AwaitSpending == nil {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, SpendingTime)
	defer cancel()
	if err := c.api.AwaitSpending(short); err != nil {
		return apierr.New(apierr.Unavailable, "usage cannot be reset while earlier spend is still being counted; try again shortly").WithParam("reset_usage").WithCause(err)
	}
	return nil
}

// NextUpdateTime returns the time of an update made now of an object last updated at
// before. No two states have the same time.
func (c *Caller) NextUpdateTime(before time.Time) time.Time {
	if now := c.Now.Truncate(time.Millisecond); now.After(before) {
		return now
	}
	return before.Add(time.Millisecond)
}

// checkState returns an error for an If-Match on a route that does not check it.
func (r *Route) checkState(h http.Header) error {
	switch values := h[ifMatch]; {
	case len(values) > 1:
		return Invalid(ifMatch, "was sent %d times", len(values))
	case len(values) == 1 && r.Resource != "" && !r.Versioned && r.protocol == nil:
		return Invalid(ifMatch, "is not supported by this route")
	}
	return nil
}

// stateParam returns the header's entry in the OpenAPI document.
func stateParam() *huma.Param {
	return &huma.Param{Name: ifMatch, In: "header", Description: "last_updated_at of the state to change; if the object has changed since, the request is rejected with 412",
		Schema: &huma.Schema{Type: huma.TypeString}}
}
