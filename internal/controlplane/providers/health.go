package providers

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/health"
	"modelgate/internal/store"
)

// defaultPeriod is the period of a report if the request names none.
const defaultPeriod = 15 * time.Minute

// Times are percentiles of times in milliseconds.
type Times struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
}

// Failure is the last failure of a provider.
type Failure struct {
	Time    route.Time `json:"at"`
	Status  *int       `json:"status" doc:"Of the response, null without one"`
	Code    string     `json:"code"`
	Message string     `json:"message"`
}

// Circuit is a circuit breaker that is not closed, or a target that is left alone.
type Circuit struct {
	Target string     `json:"target" doc:"JSON path in its config"`
	State  string     `json:"state" enum:"open,half_open,cooling_down"`
	Until  route.Time `json:"until" doc:"Null if the next request decides"`
}

// Health is what one node saw of a provider.
type Health struct {
	State  string     `json:"state" enum:"idle,up,degraded,open"`
	Fault  *string    `json:"fault" doc:"Why requests cannot use the provider; null if they can"`
	Node   string     `json:"node" doc:"That saw it; others have their own"`
	From   route.Time `json:"from" doc:"Since when attempts are counted, to five minutes"`
	Counts struct {
		Attempts     int64 `json:"attempts"`
		Served       int64 `json:"served"`
		Failed       int64 `json:"failed" doc:"Without a usable response, or with status 408, 500 or higher"`
		RateLimited  int64 `json:"rate_limited" doc:"With status 429"`
		Unauthorised int64 `json:"unauthorised" doc:"With status 401 or 403"`
		Rejected     int64 `json:"rejected" doc:"With another error status, which is about the request"`
		Broken       int64 `json:"broken" doc:"Streams that were served and then broke off"`
	} `json:"counts"`
	ErrorRate   *float64                `json:"error_rate" doc:"Fraction of attempts, without rejected ones; null without attempts"`
	SuccessRate *float64                `json:"success_rate"`
	Latency     *Times                  `json:"latency_ms" doc:"Of responses that do not stream, until they were complete"`
	FirstToken  *Times                  `json:"first_token_ms" doc:"Of streams, until the first event"`
	LastError   *Failure                `json:"last_error" doc:"At any time since the node started"`
	LeftAlone   route.Time              `json:"left_alone_until" doc:"Before which the provider asked not to be called, or a circuit is open; null if never"`
	Circuits    []Circuit               `json:"circuits"`
	RateLimits  []credentials.RateLimit `json:"rate_limits" doc:"In the headers of the latest responses"`
}

type healthInput struct {
	Named
	From time.Time `query:"from" doc:"A time such as 2006-01-02T15:04:05Z or 30m, an hour ago at most; defaults to 15 minutes ago"`
}

func (o Routes) health(ctx context.Context, c *route.Caller, in *healthInput) (*Health, error) {
	from := c.Now.Add(-defaultPeriod)
	if !in.From.IsZero() {
		if from = in.From; from.After(c.Now) {
			return nil, route.Invalid("from", "must not be in the future")
		}
	}
	row, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	return o.report(row, from, c.Now), nil
}

// report returns what was seen of a provider.
func (o Routes) report(row store.Provider, from, now time.Time) *Health {
	var seen *health.Recent
	out := &Health{Node: o.Node, Circuits: []Circuit{}}
	if o.Health != nil {
		var fault error
		if seen, fault = o.Health(row.Workspace, row.Slug); fault != nil {
			out.Fault = &apierr.From(fault).Message
		}
	}
	r := seen.Report(from, now)
	out.State, out.From = string(r.State(now)), route.Time(r.From)
	n := &out.Counts
	n.Attempts, n.Served, n.Failed, n.RateLimited = r.Attempts, r.Served, r.Failed, r.RateLimited
	n.Unauthorised, n.Rejected, n.Broken = r.Unauthorised, r.Rejected, r.Broken
	if rate, ok := r.ErrorRate(); ok {
		rest := 1 - rate
		out.ErrorRate, out.SuccessRate = &rate, &rest
	}
	out.Latency, out.FirstToken, out.LastError = toTimes(r.Complete), toTimes(r.First), toFailure(r.LastFailure)
	out.RateLimits = credentials.RateLimits(r.RateLimits)
	alone := r.RetryAt
	for _, circuit := range r.Circuits {
		out.Circuits = append(out.Circuits, Circuit{circuit.Target, string(circuit.State), route.Time(circuit.Until)})
		if circuit.Until.After(alone) {
			alone = circuit.Until
		}
	}
	out.LeftAlone = route.Time(alone)
	return out
}

// toTimes returns times for a response, nil for none.
func toTimes(t health.Times) *Times {
	if t.Count == 0 {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d.Round(10*time.Microsecond)) / 1e6 }
	return &Times{t.Count, ms(t.P50), ms(t.P90), ms(t.P99)}
}

// toFailure returns a failure for a response, nil for none.
func toFailure(f *health.Failure) *Failure {
	if f == nil {
		return nil
	}
	out := &Failure{Time: route.Time(f.Time), Code: f.Code, Message: f.Message}
	if f.Status != 0 {
		out.Status = &f.Status
	}
	return out
}
