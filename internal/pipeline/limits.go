package pipeline

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
)

// codeLimits is the error code of a request whose limits cannot be checked.
const codeLimits = "limits_unavailable"

// Serve passes an admitted request to its tree of targets. Its session is checked
// before anything costs money or time. Each attempt reserves what it may use and settles
// it; the request itself counts once, whatever number of attempts it takes, and not if
// there was none. One that panics counts.
func (e *Engine) Serve(ctx context.Context, r *Request, t *Trail) (res *Response, err error) {
	if e.Quota == nil {
		return r.Routing.Handle(ctx, r, t)
	}
	if err := r.checkSession(ctx, e.Quota, t); err != nil {
		return nil, err
	}
	defer func() { t.CountRequest(e.Quota, res, err) }()
	return r.Routing.Handle(ctx, r, t)
}

// recordAll adds what an attempt settled to the log.
func (q *requestQuota) recordAll(acc *attemptAccount, u quota.Use) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range acc.grants {
		q.record(g.Limit, acc.number, acc.reserved(g), u.Of(g.Limit.Measure), g.Limit == acc.endedBy)
	}
}

// reserve reserves what the attempt may use of all limits that apply to it, and the
// request itself of those that do not have it yet.
func (acc *attemptAccount) reserve(ctx context.Context) error {
	store, r := acc.attempt.handler.Quota, acc.attempt.request
	if store == nil || len(r.Limiting.Limits)+len(acc.attempt.record.Target.Quota) == 0 && r.Limiting.Facts == nil {
		return nil
	}
	q := &acc.bill.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	var room [8]quota.Claim
	claims := acc.claims(room[:0], q.counted, now)
	if len(claims) == 0 {
		return nil
	}
	v, err := store.Reserve(ctx, now, claims)
	if err != nil {
		return limitsUnavailable(err)
	}
	if v.Refused >= 0 {
		for i, c := range claims {
			if v.States[i].Left(c.Limit) < c.Least {
				q.record(c.Limit, acc.number, 0, 0, true)
			}
		}
		return r.limitError(claims, v, now)
	}
	q.makeRoom(acc, v.Grants)
	for _, g := range v.Grants {
		acc.mayEndStream = acc.mayEndStream || g.Limit.Stop
		if !countsRequest(g.Limit) {
			acc.grants = append(acc.grants, g)
			continue
		}
		q.counted, q.by = append(q.counted, g.Limit.Counter), acc.number
		if g.Limit.Measure == quota.Concurrent {
			q.places = append(q.places, g)
		} else {
			q.grants = append(q.grants, g)
		}
	}
	return nil
}

// makeRoom makes room for grants and their rows in the log, each list at once.
func (q *requestQuota) makeRoom(acc *attemptAccount, grants []quota.Grant) {
	ofRequest := 0
	for _, g := range grants {
		if countsRequest(g.Limit) {
			ofRequest++
		}
	}
	q.log = slices.Grow(q.log, len(grants))
	q.counted, q.grants = slices.Grow(q.counted, ofRequest), slices.Grow(q.grants, ofRequest)
	acc.grants = slices.Grow(acc.grants, len(grants)-ofRequest)
}

// countsRequest reports whether l counts requests of clients.
func countsRequest(l *quota.Limit) bool { return countsOne(l) && !l.PerAttempt }

// countsOne reports whether l counts requests, not what they use.
func countsOne(l *quota.Limit) bool {
	return l.Measure == quota.Requests || l.Measure == quota.Concurrent
}

// policyLimits returns the limits of the policies that apply to the attempt.
func (a *attempt) policyLimits(now time.Time) []*quota.Limit {
	if a.request.Limiting.Facts == nil {
		return nil
	}
	f := *a.request.Limiting.Facts
	f.Time, f.Provider, f.Slug = now, a.record.Target.ID, a.record.Target.Slug
	if a.record.Prompt.Slug != "" {
		f.Prompt = a.record.Prompt.Slug
	}
	if a.record.Model != a.request.Model { // a config or a saved prompt chose it
		f.Model = a.record.Model
	}
	f.Also = slices.Concat(f.Also, a.also)
	return a.request.Limiting.Policies.Match(make([]*quota.Limit, 0, 4), &f)
}

// policyCounter is the prefix of the counters of policies.
const policyCounter = "policy/"

// policyCounters returns the budgets of policies that the attempt counts for in the
// ledger.
func (acc *attemptAccount) policyCounters() (names []string) {
	for _, g := range acc.grants {
		if name, ok := strings.CutPrefix(g.Limit.Counter, policyCounter); ok && g.Limit.Window == 0 {
			names = append(names, name)
		}
	}
	return names
}

// useOf returns what a settlement counts for in the ledger.
func useOf(s *reqlog.Settlement) quota.Use {
	var sum reqlog.Spend
	sum.AddSettlement(s)
	u := quota.Use{Tokens: sum.Tokens, Cost: int64(sum.Cost)}
	if !failedByProvider(s) {
		u.Requests = 1
	}
	return u
}

// failedByProvider reports whether an attempt failed through no fault of the
// client, and therefore counts against no limit of requests.
func failedByProvider(s *reqlog.Settlement) bool {
	return s.Outcome == reqlog.Failed || s.Outcome == reqlog.Refused && providerFault(s.Status)
}

func providerFault(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// settleQuota replaces the reservations of the attempt by what it used: nothing if it
// was not sent.
func (acc *attemptAccount) settleQuota(u quota.Use) {
	if len(acc.grants) == 0 {
		return
	}
	store, now := acc.attempt.handler.Quota, time.Now()
	store.Settle(now, acc.grants, u)
	if len(acc.extended) > 0 {
		store.Settle(now, acc.extended, quota.Use{}) // the use is in the first grants
	}
	acc.bill.quota.recordAll(acc, u)
	acc.grants, acc.extended = nil, nil
}

// CheckRates returns an error if the first limit in r.Limits that refuses the request is
// one of requests in a window, and counters know that without a call. It reserves
// nothing; attempts check the rest.
func (r *Request) CheckRates(counters quota.Store, t *Trail) error {
	known, ok := counters.(quota.Peeker)
	if !ok || len(r.Limiting.Limits) == 0 {
		return nil
	}
	now := time.Now()
	v := quota.Verdict{Refused: -1}
	var claims []quota.Claim
	for _, l := range r.Limiting.Limits {
		if !r.countsFor(l) {
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
	t.bill().quota.refuse(claims)
	return r.limitError(claims, v, now)
}

// checkSession returns an error if a policy refuses the request because of its
// history or the time of its session, or that of a limit of the client, which is checked
// before policies.
func (r *Request) checkSession(ctx context.Context, counters quota.Store, t *Trail) error {
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
	if earlier := r.checkRoom(ctx, counters, t, r.Limiting.Limits); earlier != nil {
		return earlier
	}
	return err
}

// CountRequest settles what the request itself has reserved: it counts unless no
// provider has received it, or it failed through no fault of the client. It remains in
// progress.
func (t *Trail) CountRequest(store quota.Store, res *Response, err error) {
	q := &t.bill().quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.grants) == 0 {
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
	if q.sent.Load() == 0 || failed && !q.abandoned {
		u.Requests = 0
	}
	store.Settle(time.Now(), q.grants, u)
	for _, g := range q.grants {
		q.record(g.Limit, q.by, g.Amount, u.Of(g.Limit.Measure), false)
	}
	q.grants = nil
}

// EndRequest ends the place of the request in limits of requests in progress.
func (t *Trail) EndRequest(store quota.Store) {
	q := &t.bill().quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.places) == 0 {
		return
	}
	store.Settle(time.Now(), q.places, quota.Use{})
	for _, g := range q.places {
		q.record(g.Limit, q.by, g.Amount, 0, false)
	}
	q.places = nil
}
