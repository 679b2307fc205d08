package pipeline

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/records/reqlog"
)

// Serve passes an admitted request to its tree of targets. Its session is checked
// before anything costs money or time. Each attempt reserves what it may use and settles
// it; the request itself counts once, whatever number of attempts it takes, and not if
// there was none. One that panics counts.
func (e *Engine) Serve(ctx context.Context, r *exchange.Request, t *exchange.Trail) (res *exchange.Response, err error) {
	if e.Quota == nil {
		return r.Routing.Handle(ctx, r, t)
	}
	if err := checkSession(ctx, r, e.Quota, t); err != nil {
		return nil, err
	}
	defer func() { CountRequest(t, e.Quota, res, err) }()
	return r.Routing.Handle(ctx, r, t)
}

// recordUse adds what an attempt settled to the log.
func recordUse(q *exchange.RequestQuota, acc *attemptAccount, u quota.Use) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for _, g := range acc.grants {
		q.Record(g.Limit, acc.number, acc.reserved(g), u.Of(g.Limit.Measure), g.Limit == acc.endedBy)
	}
}

// reserve reserves what the attempt may use of all limits that apply to it, and the
// request itself of those that do not have it yet.
func (acc *attemptAccount) reserve(ctx context.Context) error {
	store, r := acc.attempt.handler.Quota, acc.attempt.request
	if store == nil || len(r.Limiting.Limits)+len(acc.attempt.record.Target.Quota) == 0 && r.Limiting.Facts == nil {
		return nil
	}
	q := &acc.bill.Quota
	q.Mu.Lock()
	defer q.Mu.Unlock()
	now := time.Now()
	var room [8]quota.Claim
	claims := acc.claims(room[:0], q.Counted, now)
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
				q.Record(c.Limit, acc.number, 0, 0, true)
			}
		}
		return limitError(r, claims, v, now)
	}
	makeRoom(q, acc, v.Grants)
	for _, g := range v.Grants {
		acc.mayEndStream = acc.mayEndStream || g.Limit.Stop
		if !countsRequest(g.Limit) {
			acc.grants = append(acc.grants, g)
			continue
		}
		q.Counted, q.By = append(q.Counted, g.Limit.Counter), acc.number
		if g.Limit.Measure == quota.Concurrent {
			q.Places = append(q.Places, g)
		} else {
			q.Grants = append(q.Grants, g)
		}
	}
	return nil
}

// makeRoom makes room for grants and their rows in the log, each list at once.
func makeRoom(q *exchange.RequestQuota, acc *attemptAccount, grants []quota.Grant) {
	ofRequest := 0
	for _, g := range grants {
		if countsRequest(g.Limit) {
			ofRequest++
		}
	}
	q.Log = slices.Grow(q.Log, len(grants))
	q.Counted, q.Grants = slices.Grow(q.Counted, ofRequest), slices.Grow(q.Grants, ofRequest)
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
	recordUse(&acc.bill.Quota, acc, u)
	acc.grants, acc.extended = nil, nil
}

// CheckRates returns an error if the first limit in r.Limits that refuses the request is
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

// checkSession returns an error if a policy refuses the request because of its
// history or the time of its session, or that of a limit of the client, which is checked
// before policies.
func checkSession(ctx context.Context, r *exchange.Request, counters quota.Store, t *exchange.Trail) error {
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
