package metering

import (
	"context"
	"slices"
	"strings"
	"time"

	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
)

// Attempt is what is known of an attempt before it is sent.
type Attempt interface {
	// Uses reports whether it may use any of a measure that is not a number of requests:
	// tokens or money.
	Uses(m quota.Measure) bool
	// EndsEarly reports whether the gateway can end the response before the provider
	// does.
	EndsEarly() bool
	// Estimate returns what the attempt may use. It is called once, when a limit needs it.
	Estimate() Estimate
	// Extension returns the use for which more is reserved of a limit that a stream has
	// used up.
	Extension() quota.Use
}

// Estimate is what an attempt may use.
type Estimate struct {
	Least   quota.Use // with the shortest output
	Most    quota.Use // with the largest output
	Guessed bool      // the largest output is unknown
}

// Reservation is what one attempt has reserved of limits. Its exported fields are set
// before its methods are called. It is not safe for concurrent use.
type Reservation struct {
	Store   quota.Store            // nil enforces no limits
	Request *exchange.Request      // with the limits of its client, and its policies
	Record  *exchange.Attempt      // whose provider has limits
	Also    []string               // further models that the sent request names
	Quota   *exchange.RequestQuota // of the request
	Number  uint16                 // of the attempt, from 1
	Local   bool                   // the gateway responds itself
	By      Attempt

	estimate  Estimate
	estimated bool
	grants    []quota.Grant
	extended  []quota.Grant // reserved of these limits during the response
	mayEnd    bool
	endedBy   *quota.Limit
}

// Reserve reserves what the attempt may use of all limits that apply to it, and the
// request itself of those that do not have it yet.
func (v *Reservation) Reserve(ctx context.Context) error {
	limiting, q := &v.Request.Limiting, v.Quota
	if v.Store == nil || len(limiting.Limits)+len(v.Record.Target.Quota) == 0 && limiting.Facts == nil {
		return nil
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	now := time.Now()
	var room [8]quota.Claim
	claims := v.claims(room[:0], q.Counted, now)
	if len(claims) == 0 {
		return nil
	}
	verdict, err := v.Store.Reserve(ctx, now, claims)
	if err != nil {
		return limitsUnavailable(err)
	}
	if verdict.Refused >= 0 {
		for i, c := range claims {
			if verdict.States[i].Left(c.Limit) < c.Least {
				q.Record(c.Limit, v.Number, 0, 0, true)
			}
		}
		return limitError(v.Request, claims, verdict, now)
	}
	v.makeRoom(verdict.Grants)
	for _, g := range verdict.Grants {
		v.mayEnd = v.mayEnd || g.Limit.Stop
		if !countsRequest(g.Limit) {
			v.grants = append(v.grants, g)
			continue
		}
		q.Counted, q.By = append(q.Counted, g.Limit.Counter), v.Number
		if g.Limit.Measure == quota.Concurrent {
			q.Places = append(q.Places, g)
		} else {
			q.Grants = append(q.Grants, g)
		}
	}
	return nil
}

// makeRoom makes room for grants and their rows in the log, each list at once.
func (v *Reservation) makeRoom(grants []quota.Grant) {
	q, ofRequest := v.Quota, 0
	for _, g := range grants {
		if countsRequest(g.Limit) {
			ofRequest++
		}
	}
	q.Log = slices.Grow(q.Log, len(grants))
	q.Counted, q.Grants = slices.Grow(q.Counted, ofRequest), slices.Grow(q.Grants, ofRequest)
	v.grants = slices.Grow(v.grants, len(grants)-ofRequest)
}

// claims appends what the attempt claims, in the order in which limits are
// checked: those of the key and its user, of the workspace, of the provider, of
// policies. Counted are the counters that have the request already.
func (v *Reservation) claims(dst []quota.Claim, counted []string, now time.Time) []quota.Claim {
	for _, list := range [...][]*quota.Limit{v.Request.Limiting.Limits, v.Record.Target.Quota, v.policyLimits(now)} {
		for _, l := range list {
			switch {
			case !countsOne(l) && !v.By.Uses(l.Measure), l.PerAttempt && v.Local:
			case !countsOne(l):
				dst = append(dst, v.claim(l))
			case l.PerAttempt || !slices.Contains(counted, l.Counter):
				dst = append(dst, quota.Claim{Limit: l, Amount: 1, Least: 1, Own: v.ownPart(l)})
			}
		}
	}
	return dst
}

// claim returns the claim of l. Of a limit that lets responses finish it takes
// what is left. A limit that is never exceeded must have room for the largest
// response, or for the beginning of a stream, which it can end.
func (v *Reservation) claim(l *quota.Limit) quota.Claim {
	if !v.estimated {
		v.estimate, v.estimated = v.By.Estimate(), true
	}
	c := quota.Claim{Limit: l, Amount: max(v.estimate.Most.Of(l.Measure), 1), Least: 1, Own: v.ownPart(l)}
	switch {
	case l.Stop && v.By.EndsEarly():
		c.Least = max(v.estimate.Least.Of(l.Measure), 1)
	case l.Stop:
		c.Least = c.Amount
	}
	return c
}

// ownPart returns what is kept of a limit for the batch that the request is a line of.
func (v *Reservation) ownPart(l *quota.Limit) int64 {
	if b := v.Request.Limiting.Batch; b != nil {
		return b.Kept[l.Counter]
	}
	return 0
}

// policyLimits returns the limits of the policies that apply to the attempt.
func (v *Reservation) policyLimits(now time.Time) []*quota.Limit {
	if v.Request.Limiting.Facts == nil {
		return nil
	}
	f := *v.Request.Limiting.Facts
	f.Time, f.Provider, f.Slug = now, v.Record.Target.ID, v.Record.Target.Slug
	if v.Record.Prompt.Slug != "" {
		f.Prompt = v.Record.Prompt.Slug
	}
	if v.Record.Model != v.Request.Model { // a config or a saved prompt chose it
		f.Model = v.Record.Model
	}
	f.Also = slices.Concat(f.Also, v.Also)
	return v.Request.Limiting.Policies.Match(make([]*quota.Limit, 0, 4), &f)
}

// policyCounter is the prefix of the counters of policies.
const policyCounter = "policy/"

// PolicyCounters returns the budgets of policies that the attempt counts for in the
// ledger.
func (v *Reservation) PolicyCounters() (names []string) {
	for _, g := range v.grants {
		if name, ok := strings.CutPrefix(g.Limit.Counter, policyCounter); ok && g.Limit.Window == 0 {
			names = append(names, name)
		}
	}
	return names
}

// ignored is the multiple of the largest use at which a stream shows that its
// provider ignores the limit of output tokens. Below it the provider is trusted to
// keep the limit, since the tokens counted here are estimates.
const ignored = 2

// Extend reports whether less than the reservations of limits that end responses
// is used, and otherwise whether more could be reserved.
func (v *Reservation) Extend(ctx context.Context, used quota.Use) bool {
	var claims []quota.Claim
	for _, g := range v.grants {
		reserved, use := v.reserved(g), used.Of(g.Limit.Measure)
		most := v.estimate.Most.Of(g.Limit.Measure)
		covered := reserved
		if reserved >= most && !v.estimate.Guessed && len(v.extended) == 0 {
			covered *= ignored
		}
		if !g.Limit.Stop || use < covered {
			continue
		}
		more := v.By.Extension().Of(g.Limit.Measure)
		least := use - reserved + 1
		claims = append(claims, quota.Claim{
			Limit: g.Limit, Least: least, Amount: max(least, more, most-reserved),
		})
	}
	if len(claims) == 0 {
		return true
	}
	verdict, err := v.Store.Reserve(context.WithoutCancel(ctx), time.Now(), claims)
	if err != nil || verdict.Refused >= 0 {
		v.endedBy = claims[max(verdict.Refused, 0)].Limit
		return false
	}
	v.extended = append(v.extended, verdict.Grants...)
	return true
}

// reserved returns what the attempt has reserved of the limit of g.
func (v *Reservation) reserved(g quota.Grant) int64 {
	n := g.Amount
	for _, more := range v.extended {
		if more.Limit == g.Limit {
			n += more.Amount
		}
	}
	return n
}

// Settle replaces the reservations of the attempt by what it used: nothing if it
// was not sent.
func (v *Reservation) Settle(u quota.Use) {
	if len(v.grants) == 0 {
		return
	}
	now := time.Now()
	v.Store.Settle(now, v.grants, u)
	if len(v.extended) > 0 {
		v.Store.Settle(now, v.extended, quota.Use{}) // the use is in the first grants
	}
	v.record(u)
	v.grants, v.extended = nil, nil
}

// record adds what the attempt settled to the log.
func (v *Reservation) record(u quota.Use) {
	v.Quota.Mu.Lock()
	defer v.Quota.Mu.Unlock()
	for _, g := range v.grants {
		v.Quota.Record(g.Limit, v.Number, v.reserved(g), u.Of(g.Limit.Measure), g.Limit == v.endedBy)
	}
}

// MayEndStream reports whether a limit may have to end the response.
func (v *Reservation) MayEndStream() bool { return v.mayEnd }

// Check returns an error if a limit would refuse the attempt now. It reserves nothing.
func (v *Reservation) Check(ctx context.Context) error {
	limiting, q := &v.Request.Limiting, v.Quota
	if v.Store == nil || len(limiting.Limits)+len(v.Record.Target.Quota) == 0 && limiting.Facts == nil {
		return nil
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	now := time.Now()
	claims := v.claims(nil, q.Counted, now)
	limits := make([]*quota.Limit, len(claims))
	for i, c := range claims {
		limits[i] = c.Limit
	}
	states, err := v.Store.Read(ctx, now, limits)
	if err != nil {
		return limitsUnavailable(err)
	}
	for i, c := range claims {
		if states[i].Left(c.Limit) < c.Least {
			q.Record(c.Limit, v.Number, 0, 0, true)
			return limitError(v.Request, claims, quota.Verdict{States: states, Refused: i}, now)
		}
	}
	return nil
}

// Preview returns the limits of the attempt as they are now. It reserves nothing.
func (v *Reservation) Preview(ctx context.Context) ([]exchange.LimitState, error) {
	if v.Store == nil {
		return nil, nil
	}
	now := time.Now()
	claims := v.claims(nil, nil, now)
	limits := make([]*quota.Limit, len(claims))
	for i, c := range claims {
		limits[i] = c.Limit
	}
	states, err := v.Store.Read(ctx, now, limits)
	if err != nil {
		return nil, limitsUnavailable(err)
	}
	out := make([]exchange.LimitState, len(claims))
	for i, c := range claims {
		left := states[i].Left(c.Limit)
		out[i] = exchange.LimitState{Limit: c.Limit, State: states[i], Amount: c.Amount,
			Claimed: min(c.Amount, max(left, c.Least)), Fits: left >= c.Least}
	}
	return out, nil
}
