package attempt

import (
	"net/http"
	"strconv"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider/health"
)

// observe adds the attempt, which was sent and has a response or an error, to what is
// remembered of its provider. What the client or the gateway ended is left out.
func observe(a *attempt, out *exchange.Response, err error) {
	recent, began := a.plan.record.Target.Health, a.account.began
	took := time.Since(began)
	seen := health.Attempt{Time: began.Add(took), Took: took}
	if err != nil {
		if f, ok := failureOf(err, seen.Time); ok {
			seen.Outcome = health.Failed
			recent.Add(seen)
			recent.SetFailure(f)
		}
		return
	}
	a.usable = true
	seen.Outcome, seen.Streamed = outcomeOf(out.Status), out.Events != nil
	recent.Add(seen)
	if seen.Outcome != health.Served && seen.Outcome != health.Rejected {
		recent.SetFailure(health.Failure{Time: seen.Time, Status: out.Status, Code: "status_" + strconv.Itoa(out.Status),
			Message: "the provider responded with status " + strconv.Itoa(out.Status)})
	}
}

// observeBroken adds that a stream that had begun broke.
func observeBroken(a *attempt, err error) {
	if a.plan.record.Target.Health == nil {
		return
	}
	if f, ok := failureOf(err, time.Now()); ok {
		a.plan.record.Target.Health.AddBroken(f)
	}
}

// outcomeOf returns the outcome of a status.
func outcomeOf(status int) health.Outcome {
	switch {
	case status < 400:
		return health.Served
	case status == http.StatusTooManyRequests:
		return health.RateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return health.Unauthorised
	case status >= 500, status == http.StatusRequestTimeout:
		return health.Failed
	}
	return health.Rejected
}

// failureOf returns the failure of an error, and false for one that the client or the
// gateway caused.
func failureOf(err error, now time.Time) (health.Failure, bool) {
	e := apierr.From(err)
	switch e.Kind {
	case apierr.UpstreamFailed, apierr.UpstreamTimeout, apierr.Timeout:
		return health.Failure{Time: now, Code: e.CodeOrDefault(), Message: e.Message}, true
	}
	return health.Failure{}, false
}
