// Package metering enforces limits on a request: admission checks those that need no
// call, each attempt reserves what it may use and settles what it used, a stream reserves
// more or is ended, and the end of the request settles what counts it once.
//
// It guarantees that what was reserved is settled once, whatever happens to the attempt, and
// that an error names the limit that refuses. Counting is the job of package quota. What an
// attempt may use is known to the [Attempt] alone.
package metering

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
)

// CheckRates returns an error if the first limit of the request that refuses the request is
// one of requests in a window, and counters know that without a call. It reserves
// nothing; attempts check the rest.
func CheckRates(r *exchange.Request, counters quota.Store, t *exchange.Trail) error {
	known, ok := counters.(quota.Peeker)
	if !ok || len(r.Limiting.Limits) == 0 {
		return nil
	}
	now := time.Now()
	v := quota.Verdict{Refused: -1}
	var claims []quota.Claim
	for _, l := range r.Limiting.Limits {
		if !countsFor(r, l) {
			continue
		}
		s, is := known.Peek(now, l)
		full := is && s.Left(l) < 1
		switch first := len(claims) == 0; {
		case first && (!is || l.Stop || full && (l.Measure != quota.Requests || l.Window == 0)):
			return nil // l may refuse the request, or does so with a budget's error
		case !full:
			continue
		}
		claims, v.States, v.Refused = append(claims, quota.Claim{Limit: l, Amount: 1, Least: 1}), append(v.States, s), 0
	}
	if v.Refused < 0 {
		return nil
	}
	t.Bill().Quota.Refuse(claims)
	return limitError(r, claims, v, now)
}

// CheckSession returns an error if a policy refuses the request because of its
// history or the time of its session, or that of a limit of the client, which is checked
// before policies.
func CheckSession(ctx context.Context, r *exchange.Request, counters quota.Store, t *exchange.Trail) error {
	if r.Limiting.Facts == nil || !r.Limiting.Policies.Governs(r.Limiting.Facts) {
		return nil
	}
	var body []byte
	if r.Received.Doc != nil {
		body = r.Received.Doc.Bytes()
	}
	err := r.Limiting.Policies.CheckSession(ctx, counters, r.Limiting.Facts, body, r.DryRun)
	if err == nil {
		return nil
	}
	if earlier := checkRoom(ctx, r, counters, t, r.Limiting.Limits); earlier != nil {
		return earlier
	}
	return err
}

// CountRequest settles what the request itself has reserved: it counts unless no
// provider has received it, or it failed through no fault of the client. It remains in
// progress.
func CountRequest(t *exchange.Trail, store quota.Store, res *exchange.Response, err error) {
	q := &t.Bill().Quota
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if len(q.Grants) == 0 {
		return
	}
	failed := false
	if err != nil {
		e := apierr.From(err)
		failed = e.Kind == apierr.ClientGone || providerFault(e.Status())
	} else if res != nil {
		failed = providerFault(res.Status)
	}
	u := quota.Use{Requests: 1}
	if q.Sent.Load() == 0 || failed && !q.Abandoned {
		u.Requests = 0
	}
	store.Settle(time.Now(), q.Grants, u)
	for _, g := range q.Grants {
		q.Record(g.Limit, q.By, g.Amount, u.Of(g.Limit.Measure), false)
	}
	q.Grants = nil
}

// EndRequest ends the place of the request in limits of requests in progress.
func EndRequest(t *exchange.Trail, store quota.Store) {
	q := &t.Bill().Quota
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if len(q.Places) == 0 {
		return
	}
	store.Settle(time.Now(), q.Places, quota.Use{})
	for _, g := range q.Places {
		q.Record(g.Limit, q.By, g.Amount, 0, false)
	}
	q.Places = nil
}
