package analytics

import (
	"context"
	"strconv"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/logstore"
)

// figures are the values of a point, or of the summary of a graph.
type figures map[string]any

// graphOf is a graph whose points and summary have the same fields.
type graphOf struct {
	path, name, summary string

	tell        func(*logstore.Totals) figures
	percentiles bool
	hits        bool // only cache hits
}

var graphs = []graphOf{
	{path: "requests", name: "graph-requests", summary: "Count requests over time",
		tell: func(s *logstore.Totals) figures { return figures{"total": s.Requests} }},
	{path: "cost", name: "graph-cost", summary: "Sum costs over time, in US cents", tell: func(s *logstore.Totals) figures {
		return figures{"total": cost(s), "total_nano_usd": nullIfZero(s.Priced, int64(s.Cost)),
			"avg":               nullIfZero(s.Priced, float64(s.Cost)/1e7/float64(max(s.Priced, 1))),
			"unpriced_requests": s.Requests - s.Priced, "estimated_requests": s.Estimated}
	}},
	{path: "latency", name: "graph-latency", summary: "Latency over time, in milliseconds", percentiles: true,
		tell: func(s *logstore.Totals) figures {
			at := func(p int) any { return nullIfZero(s.Requests, milliseconds(s.Latencies.Percentile(p))) }
			return figures{"avg": latency(s), "p50": at(50), "p90": at(90), "p99": at(99)}
		}},
	{path: "first-token", name: "graph-first-token", summary: "Time to the first token over time, in milliseconds", percentiles: true,
		tell: func(s *logstore.Totals) figures {
			return figures{"avg": nullIfZero(s.Begun, milliseconds(s.AverageFirstToken())), "p50": firstToken(s, 50), "p90": firstToken(s, 90),
				"p99": firstToken(s, 99), "requests": s.Begun}
		}},
	{path: "outcomes", name: "graph-outcomes", summary: "Count requests by outcome over time",
		tell: func(s *logstore.Totals) figures {
			return figures{"success": s.Successes, "error": s.Errors, "cancelled": s.Cancelled,
				"other": s.Requests - s.Successes - s.Errors - s.Cancelled, "total": s.Requests}
		}},
	{path: "tokens", name: "graph-tokens", summary: "Sum tokens over time", tell: func(s *logstore.Totals) figures {
		return figures{"total": nullIfZero(s.Counted, s.Prompt+s.Completion), "avg": ratio(s.Prompt+s.Completion, s.Counted),
			"estimated_requests": s.Estimated}
	}},
	{path: "errors", name: "graph-errors", summary: "Count errors over time",
		tell: func(s *logstore.Totals) figures { return figures{"total": s.Errors} }},
	{path: "errors/rate", name: "graph-error-rate", summary: "Error rate over time, in percent",
		tell: func(s *logstore.Totals) figures { return figures{"rate": ratio(100*s.Errors, s.Requests-s.Cancelled)} }},
	{path: "requests/rescued", name: "graph-requests-rescued", summary: "Requests rescued by retry or fallback over time", tell: rescued},
	{path: "cache/hit-rate", name: "graph-cache-hit-rate", summary: "Cache hit rate over time", tell: func(s *logstore.Totals) figures {
		return figures{"total": s.Hits, "simple_hits": s.Hits - s.SemanticHits, "semantic_hits": s.SemanticHits,
			"rate": ratio(100*s.Hits, s.Requests)}
	}},
	{path: "cache/latency", name: "graph-cache-latency", summary: "Latency of cache hits over time, in milliseconds", hits: true,
		tell: func(s *logstore.Totals) figures { return figures{"avg": latency(s)} }},
}

func rescued(s *logstore.Totals) figures {
	retry := []figures{}
	for i, n := range s.Rescued.Retried {
		if n > 0 {
			retry = append(retry, figures{"retry_success_count": i + 1, "count": n})
		}
	}
	return figures{"retry": retry, "fallback": s.Rescued.FellBack}
}

func latency(s *logstore.Totals) any { return nullIfZero(s.Requests, milliseconds(s.AverageLatency())) }

// graphResponse is the response of a graph route.
type graphResponse struct {
	Object  string    `json:"object" doc:"Always analytics-graph"`
	Summary figures   `json:"summary"`
	Points  []figures `json:"data_points" doc:"One for each step of time; timestamp is its start"`

	Previous figures `json:"previous,omitempty" doc:"Summary of the period to compare with"`
	Change   figures `json:"change,omitempty" doc:"Summary minus that of the other period"`
	Percent  figures `json:"change_percent,omitempty" doc:"Change in percent of the other period"`
}

func draw(summary figures, points []figures) *graphResponse {
	if points == nil {
		points = []figures{}
	}
	return &graphResponse{Object: "analytics-graph", Summary: summary, Points: points}
}

type graphInput struct {
	Filters
	Comparison
}

func (f Routes) graph(g *graphOf) func(context.Context, *route.Caller, *graphInput) (*graphResponse, error) {
	return func(ctx context.Context, c *route.Caller, in *graphInput) (*graphResponse, error) {
		other, err := in.period(&in.Filters, c.Now)
		if err != nil {
			return nil, err
		}
		out, err := f.drawGraph(ctx, c, &in.Filters, g)
		if err != nil || other == nil {
			return out, err
		}
		before, err := f.drawGraph(ctx, c, other, g)
		if err != nil {
			return nil, err
		}
		out.Previous = before.Summary
		out.Change, out.Percent = changeOf(out.Summary, before.Summary)
		return out, nil
	}
}

// drawGraph returns a graph of a period.
func (f Routes) drawGraph(ctx context.Context, c *route.Caller, in *Filters, g *graphOf) (*graphResponse, error) {
	q := logstore.GroupQuery{Percentiles: g.percentiles}
	if g.hits {
		addFilter(&q, logstore.ByCache, hits)
	}
	sums, err := f.steps(ctx, c, in, &q)
	if err != nil {
		return nil, err
	}
	var all logstore.Totals
	byStep := make(map[int64]*logstore.Totals)
	for i := range sums {
		all.Merge(&sums[i].Totals)
		byStep[sums[i].Step.UnixMilli()] = &sums[i].Totals
	}
	var points []figures
	for at := range in.points(q.Step) {
		s := byStep[at.UnixMilli()]
		if s == nil {
			s = new(logstore.Totals)
		}
		points = append(points, stamped(at, g.tell(s)))
	}
	return draw(g.tell(&all), points), nil
}

// steps groups by step of time, sets the length of the step in q, and returns one group
// for each step with entries.
func (f Routes) steps(ctx context.Context, c *route.Caller, in *Filters, q *logstore.GroupQuery) ([]logstore.Group, error) {
	if err := in.span(c.Now); err != nil {
		return nil, err
	}
	q.Step = in.step(c.Now)
	return f.sum(ctx, c, in, *q)
}

// step returns the length of a graph's steps. A graph has at most 366 points.
func (f *Filters) step(now time.Time) time.Duration {
	switch wide := f.To.Sub(f.From); {
	case wide > 14*24*time.Hour:
		return 24 * time.Hour
	case wide > 24*time.Hour || now.Sub(f.From) > 47*time.Hour: // minutes are kept for two days
		return time.Hour
	case wide > 4*time.Hour:
		return 10 * time.Minute
	default:
		return time.Minute
	}
}

// points yields the start of each step of the range.
func (f *Filters) points(step time.Duration) func(func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		for at := f.From.UTC().Truncate(step); at.Before(f.To); at = at.Add(step) {
			if !yield(at) {
				return
			}
		}
	}
}

func stamped(at time.Time, p figures) figures {
	p["timestamp"] = route.Time(at)
	return p
}

// stacks counts errors by step and status.
func (f Routes) stacks(ctx context.Context, c *route.Caller, in *Filters) (*graphResponse, error) {
	q := logstore.GroupQuery{By: logstore.ByStatus}
	sums, err := f.steps(ctx, c, in, &q)
	if err != nil {
		return nil, err
	}
	(&Paging{By: "group", Type: "asc"}).order(sums, true)
	total, stats := int64(0), make(map[int64][]figures)
	for i := range sums {
		if s := &sums[i]; s.Errors > 0 {
			total += s.Errors
			at := s.Step.UnixMilli()
			stats[at] = append(stats[at], figures{"response_status_code": status(s), "count": s.Errors})
		}
	}
	var points []figures
	for at := range in.points(q.Step) {
		list := stats[at.UnixMilli()]
		if list == nil {
			list = []figures{}
		}
		points = append(points, stamped(at, figures{"stats": list}))
	}
	return draw(figures{"total": total}, points), nil
}

// statusCodes counts errors by status.
func (f Routes) statusCodes(ctx context.Context, c *route.Caller, in *Filters) (*graphResponse, error) {
	sums, err := f.sum(ctx, c, in, logstore.GroupQuery{By: logstore.ByStatus})
	if err != nil {
		return nil, err
	}
	(&Paging{By: "error_count", Type: "desc"}).order(sums, true)
	var points []figures
	total := int64(0)
	for i := range sums {
		if s := &sums[i]; s.Errors > 0 {
			total += s.Errors
			points = append(points, figures{"status_code": status(s), "count": s.Errors})
		}
	}
	return draw(figures{"total_errors": total, "unique_error_codes": len(points)}, points), nil
}

func status(s *logstore.Group) int {
	n, _ := strconv.Atoi(s.Value) // the value is a status
	return n
}

// userCount counts the users named in the metadata of requests, and the requests of
// each.
func (f Routes) userCount(ctx context.Context, c *route.Caller, in *Filters) (*graphResponse, error) {
	q := logstore.GroupQuery{ByMetadata: userKey}
	sums, err := f.steps(ctx, c, in, &q)
	if err != nil {
		return nil, err
	}
	users, requests := make(map[string]bool), int64(0)
	type step struct{ users, requests int64 }
	byStep := make(map[int64]step)
	for i := range sums {
		users[sums[i].Value] = true
		requests += sums[i].Requests
		s := byStep[sums[i].Step.UnixMilli()]
		byStep[sums[i].Step.UnixMilli()] = step{s.users + 1, s.requests + sums[i].Requests}
	}
	var points []figures
	for at := range in.points(q.Step) {
		s := byStep[at.UnixMilli()]
		points = append(points, stamped(at, figures{"total": s.users, "avg_requests": ratio(s.requests, s.users)}))
	}
	return draw(figures{"total": len(users), "avg_requests": ratio(requests, int64(len(users)))}, points), nil
}
