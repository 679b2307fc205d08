package analytics

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/logstore"
)

// fields maps the path's groupBy to the field of an entry.
var fields = map[string]logstore.Field{
	"ai_service":     logstore.ByService,
	"model":          logstore.ByModel,
	"upstream_model": logstore.ByUpstreamModel,
	"response_model": logstore.ByResponseModel,
	"target":         logstore.ByTarget,
	"outcome":        logstore.ByOutcome,
	"status_code":    logstore.ByStatus,
	"api_key":        logstore.ByKey,
	"config":         logstore.ByConfig,
	"workspace":      logstore.ByWorkspace,
	"provider":       logstore.ByProvider,
	"prompt":         logstore.ByPrompt,
	"error_code":     logstore.ByErrorCode,
	"cache_status":   logstore.ByCache,
	"target_name":    logstore.ByTargetName,
	"config_version": logstore.ByConfigVersion,
	"prompt_version": logstore.ByPromptVersion,
	"operation":      logstore.ByOperation,
	"user":           logstore.ByKey, // joined by the users of the keys
}

// columns returns the value of each optional column of a group; nil is unknown.
var columns = map[string]func(*logstore.Totals) any{
	"cost":               cost,
	"cost_nano_usd":      func(s *logstore.Totals) any { return nullIfZero(s.Priced, int64(s.Cost)) },
	"total_tokens":       func(s *logstore.Totals) any { return nullIfZero(s.Counted, s.Prompt+s.Completion) },
	"avg_tokens":         func(s *logstore.Totals) any { return ratio(s.Prompt+s.Completion, s.Counted) },
	"avg_input_tokens":   func(s *logstore.Totals) any { return ratio(s.Prompt, s.Counted) },
	"avg_output_tokens":  func(s *logstore.Totals) any { return ratio(s.Completion, s.Counted) },
	"estimated_requests": func(s *logstore.Totals) any { return s.Estimated },
	"avg_latency":        latency,
	"p50_latency":        func(s *logstore.Totals) any { return milliseconds(s.Latencies.Percentile(50)) },
	"p90_latency":        func(s *logstore.Totals) any { return milliseconds(s.Latencies.Percentile(90)) },
	"p95_latency":        func(s *logstore.Totals) any { return milliseconds(s.Latencies.Percentile(95)) },
	"p99_latency":        func(s *logstore.Totals) any { return milliseconds(s.Latencies.Percentile(99)) },
	"avg_first_token":    func(s *logstore.Totals) any { return nullIfZero(s.Begun, milliseconds(s.AverageFirstToken())) },
	"p50_first_token":    func(s *logstore.Totals) any { return firstToken(s, 50) },
	"p90_first_token":    func(s *logstore.Totals) any { return firstToken(s, 90) },
	"p99_first_token":    func(s *logstore.Totals) any { return firstToken(s, 99) },
	"success_rate":       func(s *logstore.Totals) any { return ratio(100*s.Successes, s.Requests-s.Cancelled) },
	"error_count":        func(s *logstore.Totals) any { return s.Errors },
	"cancelled_count":    func(s *logstore.Totals) any { return s.Cancelled },
	"cache_hit_rate":     func(s *logstore.Totals) any { return ratio(100*s.Hits, s.Requests) },

	"saved_cost":                       savedCost,
	"saved_cost_nano_usd":              func(s *logstore.Totals) any { return int64(s.Saved.Response) },
	"prompt_cache_saved_cost":          func(s *logstore.Totals) any { return float64(s.Saved.Prompt) / 1e7 },
	"prompt_cache_saved_cost_nano_usd": func(s *logstore.Totals) any { return int64(s.Saved.Prompt) },

	"last_seen":  func(s *logstore.Totals) any { return route.Time(s.Last()) },
	"first_seen": func(s *logstore.Totals) any { return route.Time(s.First()) },

	"avg_weighted_feedback":  func(s *logstore.Totals) any { return nullIfZero(s.Rated, s.Weighted/float64(max(s.Rated, 1))) },
	"requests_with_feedback": func(s *logstore.Totals) any { return s.Rated },
}

// firstToken returns a percentile of the times to the first token, in milliseconds.
func firstToken(s *logstore.Totals, p int) any {
	return nullIfZero(s.Begun, milliseconds(s.FirstTokens.Percentile(p)))
}

// cost returns the cost in cents of the requests with a known cost, nil if there are
// none.
func cost(s *logstore.Totals) any { return nullIfZero(s.Priced, float64(s.Cost)/1e7) }

// savedCost returns in cents what the responses of cache hits cost when they were made.
func savedCost(s *logstore.Totals) any { return float64(s.Saved.Response) / 1e7 }

func nullIfZero[T any](n int64, v T) any {
	if n == 0 {
		return nil
	}
	return v
}

// ratio returns a/b, nil if b is zero.
func ratio(a, b int64) any {
	if b == 0 {
		return nil
	}
	return float64(a) / float64(b)
}

// Paging selects the page and the order of groups.
type Paging struct {
	route.Paging
	By   string `query:"order_by" enum:"requests,group,cost,cost_nano_usd,total_tokens,avg_tokens,avg_input_tokens,avg_output_tokens,avg_latency,p50_latency,p90_latency,p95_latency,p99_latency,avg_first_token,p50_first_token,p90_first_token,p99_first_token,success_rate,error_count,cancelled_count,cache_hit_rate,saved_cost,saved_cost_nano_usd,prompt_cache_saved_cost,prompt_cache_saved_cost_nano_usd,last_seen,first_seen,estimated_requests,latency,tokens,first_token,created_at" default:"requests" doc:"group orders by the value grouped by; latency, tokens, first_token and created_at are avg_latency, total_tokens, avg_first_token and last_seen"`
	Type string `query:"order" enum:"asc,desc" default:"desc" doc:"Unknown values come last"`
}

type groupsInput struct {
	Filters
	Paging
	Comparison
	GroupBy string   `path:"groupBy" enum:"ai_service,model,status_code,api_key,config,workspace,provider,prompt,upstream_model,response_model,target,outcome,error_code,cache_status,target_name,config_version,prompt_version,operation,user"`
	Columns []string `query:"columns" enum:"cost,cost_nano_usd,total_tokens,avg_tokens,avg_input_tokens,avg_output_tokens,avg_latency,p50_latency,p90_latency,p95_latency,p99_latency,avg_first_token,p50_first_token,p90_first_token,p99_first_token,success_rate,error_count,cancelled_count,cache_hit_rate,saved_cost,saved_cost_nano_usd,prompt_cache_saved_cost,prompt_cache_saved_cost_nano_usd,last_seen,first_seen,estimated_requests" doc:"Separated by commas; without any only requests are counted"`
}

// group is a group in a response: its value under the name of the field, the number of
// requests, and the columns.
type group map[string]any

func (f Routes) groups(ctx context.Context, c *route.Caller, in *groupsInput) (*route.List[group], error) {
	return f.grouped(ctx, c, &in.Filters, &in.Paging, grouping{
		query: logstore.GroupQuery{By: fields[in.GroupBy]}, name: in.GroupBy, columns: in.Columns, number: in.GroupBy == "status_code",
		byUser: in.GroupBy == "user", compare: &in.Comparison,
	})
}

// grouping says how to query groups and write them in a response.
type grouping struct {
	query   logstore.GroupQuery
	name    string // field name of the value
	number  bool   // the value is a number
	byUser  bool   // the keys of a user are one group
	columns []string
	compare *Comparison // nil for none

	before map[string]*logstore.Totals // of the other period; nil without one
}

func (f Routes) grouped(ctx context.Context, c *route.Caller, in *Filters, p *Paging, g grouping) (*route.List[group], error) {
	g.query.Percentiles = slices.ContainsFunc(append(g.columns, p.By), isPercentile)
	other, err := g.compare.period(in, c.Now)
	if err != nil {
		return nil, err
	}
	sums, err := f.sumGroup(ctx, c, in, &g)
	if err != nil {
		return nil, err
	}
	if other != nil {
		before, err := f.sumGroup(ctx, c, other, &g)
		if err != nil {
			return nil, err
		}
		sums = g.compareWith(sums, before)
	}
	p.order(sums, g.number)
	return route.Listing(route.Cut(sums, p.Page, p.Size), len(sums), nil, func(s logstore.Group) group { return g.show(&s) })
}

// isPercentile reports whether a column is a percentile, such as p50_latency.
func isPercentile(name string) bool { return name[0] == 'p' && strings.IndexByte(name, '_') == 3 }

// sumGroup returns the groups of a period. The keys of a user are one group if they are grouped
// by user.
func (f Routes) sumGroup(ctx context.Context, c *route.Caller, in *Filters, g *grouping) ([]logstore.Group, error) {
	sums, err := f.sum(ctx, c, in, g.query)
	if err != nil || !g.byUser {
		return sums, err
	}
	owners, err := c.DB().KeyOwners(ctx, c.Organisation, "")
	if err != nil {
		return nil, err
	}
	users := make(map[string]*logstore.Totals)
	for i := range sums {
		user := owners[sums[i].Value]
		if users[user] == nil {
			users[user] = new(logstore.Totals)
		}
		users[user].Merge(&sums[i].Totals)
	}
	joined := make([]logstore.Group, 0, len(users))
	for user, s := range users {
		joined = append(joined, logstore.Group{Value: user, Totals: *s})
	}
	return joined, nil
}

func (g *grouping) show(s *logstore.Group) group {
	out := group{g.name: g.value(s.Value), "requests": s.Requests, "object": "analytics-group"}
	for _, name := range g.columns {
		out[name] = g.column(name, &s.Totals)
	}
	if g.before != nil {
		g.showChange(s, out)
	}
	return out
}

// value returns a group's value as it is written: null if the requests have none.
func (g *grouping) value(text string) any {
	if n, err := strconv.Atoi(text); g.number && err == nil {
		return n
	}
	return nullIfZero(int64(len(text)), text)
}

// order sorts groups as requested. Groups that are equal are sorted by value, which
// keeps pages consistent.
func (p *Paging) order(sums []logstore.Group, number bool) {
	worth := make(map[string]float64, len(sums))
	for i := range sums {
		worth[sums[i].Value] = p.worth(&sums[i].Totals)
	}
	down := 1
	if p.Type == "desc" {
		down = -1
	}
	slices.SortFunc(sums, func(a, b logstore.Group) int {
		values := cmp.Compare(a.Value, b.Value)
		if number {
			values = cmp.Or(cmp.Compare(len(a.Value), len(b.Value)), values)
		}
		if p.By == "group" {
			return down * values
		}
		x, y := worth[a.Value], worth[b.Value]
		switch { // NaN compares less than itself
		case x != x || y != y:
			return cmp.Or(-cmp.Compare(x, y), values)
		default:
			return cmp.Or(down*cmp.Compare(x, y), values)
		}
	})
}

// shortOrders are the columns by which lists of log entries are sorted under other names.
var shortOrders = map[string]string{
	"latency": "avg_latency", "tokens": "total_tokens", "first_token": "avg_first_token", "created_at": "last_seen",
}

// worth returns the number by which a group is sorted, NaN if unknown.
func (p *Paging) worth(s *logstore.Totals) float64 {
	show, ok := columns[cmp.Or(shortOrders[p.By], p.By)]
	if !ok {
		return float64(s.Requests)
	}
	if s.Requests == 0 {
		return math.NaN()
	}
	switch v := show(s).(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	case route.Time:
		return float64(time.Time(v).UnixMilli())
	}
	return math.NaN()
}
