package pipeline

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/catalog"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
	"modelgate/internal/quota"
	"modelgate/internal/reqlog"
)

// codeLimits is the error code of a request whose limits cannot be checked.
const codeLimits = "limits_unavailable"

// unknownOutput is the largest output, in tokens, that is assumed of a model
// without a known limit for a request that sets none.
const unknownOutput = 4096

// requestQuota holds what a request has reserved of the limits that count it
// once, however many attempts it makes. It is safe for concurrent use.
type requestQuota struct {
	mu      sync.Mutex
	counted []string          // counters that have the request; guarded by mu
	grants  []quota.Grant     // guarded by mu
	places  []quota.Grant     // in limits of requests in progress; guarded by mu
	by      uint16            // number of the last attempt that added to grants or places; guarded by mu
	log     []reqlog.LimitUse // guarded by mu
}

// record adds what an attempt reserved and used to the log.
func (q *requestQuota) record(l *quota.Limit, attempt uint16, reserved, used int64, refused bool) {
	if len(q.log) < reqlog.MaxLimits {
		q.log = append(q.log, reqlog.LimitUse{
			Attempt: int(attempt), Holder: l.Holder.Kind, ID: l.Holder.ID, Measure: l.Measure.String(), Unit: l.Unit(),
			Reserved: reserved, Used: used, Refused: refused,
		})
	}
}

// recordAll adds what an attempt settled to the log.
func (q *requestQuota) recordAll(grants []quota.Grant, attempt uint16, u quota.Use) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range grants {
		q.record(g.Limit, attempt, g.Amount, u.Of(g.Limit.Measure), false)
	}
}

// reserve reserves what the attempt may use of all limits that apply to it, and the
// request itself of those that do not have it yet.
func (acc *attemptAccount) reserve(ctx context.Context) error {
	store, r := acc.of.handler.Quota, acc.of.request
	if store == nil || len(r.Limits)+len(acc.of.Target.Quota) == 0 && r.Facts == nil {
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
		return acc.limitError(claims, v, now)
	}
	for _, g := range v.Grants {
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

// countsRequest reports whether l counts requests of clients.
func countsRequest(l *quota.Limit) bool { return countsOne(l) && !l.PerAttempt }

// countsOne reports whether l counts requests, not what they use.
func countsOne(l *quota.Limit) bool {
	return l.Measure == quota.Requests || l.Measure == quota.Concurrent
}

// claims appends what the attempt claims, in the order in which limits are
// checked: those of the key and its user, of the workspace, of the provider, of
// policies. Counted are the counters that have the request already.
func (acc *attemptAccount) claims(dst []quota.Claim, counted []string, now time.Time) []quota.Claim {
	var e useEstimate
	for _, list := range [...][]*quota.Limit{acc.of.request.Limits, acc.of.Target.Quota, acc.of.policyLimits(now)} {
		for _, l := range list {
			switch {
			case !countsOne(l) && !acc.sent.uses():
			case !countsOne(l):
				dst = append(dst, e.claim(acc, l))
			case l.PerAttempt || !slices.Contains(counted, l.Counter):
				dst = append(dst, quota.Claim{Limit: l, Amount: 1, Least: 1})
			}
		}
	}
	return dst
}

// policyLimits returns the limits of the policies that apply to the attempt.
func (a *Attempt) policyLimits(now time.Time) []*quota.Limit {
	if a.request.Facts == nil {
		return nil
	}
	f := *a.request.Facts
	f.Time, f.Provider, f.Slug = now, a.Target.ID, a.Target.Slug
	if a.Prompt.Slug != "" {
		f.Prompt = a.Prompt.Slug
	}
	if a.Model != a.request.Model { // a config or a saved prompt chose it
		f.Model = a.Model
	}
	return a.request.Policies.Match(nil, &f)
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

// useEstimate is what an attempt may use at most. It is made when a limit needs
// it.
type useEstimate struct {
	made  bool
	total quota.Use // with the largest output
}

func (e *useEstimate) make(acc *attemptAccount) {
	e.made = true
	doc := acc.of.sentDoc()
	u := llm.Usage{Known: true, Input: acc.sent.largestInput(), Output: acc.of.largestOutput(doc)}
	if doc != acc.of.request.Doc {
		u.Input = max(u.Input, jsonTokens(doc.Bytes()))
	}
	e.total = acc.use(u)
}

// claim returns the claim of l. Of a limit that lets responses finish it takes
// what is left. A limit that is never exceeded must have room for the largest
// response.
func (e *useEstimate) claim(acc *attemptAccount, l *quota.Limit) quota.Claim {
	if !e.made {
		e.make(acc)
	}
	c := quota.Claim{Limit: l, Amount: max(e.total.Of(l.Measure), 1), Least: 1}
	if l.Stop {
		c.Least = c.Amount
	}
	return c
}

// use returns what u counts for in the ledger.
func (acc *attemptAccount) use(u llm.Usage) quota.Use {
	s := reqlog.Settlement{Outcome: reqlog.Answered, Usage: u}
	s.Cost, _, s.Priced = acc.cost(u, "", catalog.Standard)
	return useOf(&s)
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

// largestInput returns an estimate of the input of a request that has not been
// sent.
func (s *sentRequest) largestInput() int64 {
	if s.upload != nil {
		return perUnit(max(s.size, 0), mediaBytes)
	}
	return s.tokens()
}

// sentDoc returns the body with the edits of the saved prompt and the config, before
// it is translated. Nil is a body that is not JSON.
func (a *Attempt) sentDoc() *jsonedit.Doc {
	if a.request.Doc == nil || !a.editsBody() && len(a.request.Edits) == 0 {
		return a.request.Doc
	}
	doc, err := a.applyConfigParams()
	if err != nil {
		return a.request.Doc // building the request returns the error
	}
	return doc
}

// largestOutput returns the largest output of the attempt in tokens: what the body
// allows, or else the model.
func (a *Attempt) largestOutput(doc *jsonedit.Doc) int64 {
	switch op := a.request.Operation; {
	case writesNothing(op), op == api.Files, op == api.Batches, op == api.FineTuning:
		return 0
	}
	n := outputLimit(doc)
	if n == 0 {
		n = unknownOutput
		if rule := a.Target.Rule(a.Model); rule != nil && rule.MaxOutput > 0 {
			n = int64(rule.MaxOutput)
		}
	}
	return n * responsesOf(doc)
}

// settleQuota replaces the reservations of the attempt by what it used: nothing if it
// was not sent.
func (acc *attemptAccount) settleQuota(u quota.Use) {
	if len(acc.grants) > 0 {
		acc.of.handler.Quota.Settle(time.Now(), acc.grants, u)
		acc.bill.quota.recordAll(acc.grants, acc.number, u)
		acc.grants = nil
	}
}

// CheckSession returns an error if a policy refuses the request because of its
// history or the time of its session.
func (r *Request) CheckSession(ctx context.Context, counters quota.Store) error {
	if r.Facts == nil || !r.Policies.Governs(r.Facts) {
		return nil
	}
	var body []byte
	if r.Doc != nil {
		body = r.Doc.Bytes()
	}
	return r.Policies.CheckSession(ctx, counters, r.Facts, body, r.DryRun)
}

// CountRequest settles what the request itself has reserved: it counts unless it
// failed through no fault of the client. It remains in progress.
func (t *Trail) CountRequest(store quota.Store, res *Response, err error) {
	q := &t.bill().quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.grants) == 0 {
		return
	}
	status := 0
	if err != nil {
		status = apierr.From(err).Status()
	} else if res != nil {
		status = res.Status
	}
	u := quota.Use{Requests: 1}
	if providerFault(status) {
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
