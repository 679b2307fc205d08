package controlplane

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// maxSpans is the limit of exchanges in a trace response.
const maxSpans = 10_000

// addTraces adds the routes that read the log by traces.
func addTraces(a *route.API, r Logs) {
	t := traces{r, logsOf(a, r)}
	get := func(path, name, summary string, scope access.Scope) route.Route {
		return route.Route{Method: http.MethodGet, Path: path, Name: name, Tag: "Logs", Summary: summary, Scopes: []access.Scope{scope}}
	}
	route.Add(a, get("/logs/traces", "list-traces", "List traces, newest request first", access.ScopeLogsList), t.list)
	route.Add(a, get("/logs/traces/{trace}", "get-trace", "Read a trace as the tree of its spans", access.ScopeLogsView), t.one)
}

type traces struct {
	deps Logs
	logs *LogHandler
}

// logsOf returns the log handler with the dependencies of a.
func logsOf(a *route.API, r Logs) *LogHandler {
	return &LogHandler{DB: a.DB, Store: r.Log, Files: a.Deps.Files}
}

// restrict restricts q to what the caller may see, and waits until recorded entries can be
// read.
func (t traces) restrict(ctx context.Context, c *route.Caller, q *logstore.Query, scope access.Scope) error {
	if err := c.CheckFilters(); err != nil {
		return err
	}
	if err := t.logs.limit(ctx, c.Identity, q, scope.Permission()); err != nil {
		return err
	}
	if t.deps.Log == nil {
		return apierr.New(apierr.Unavailable, "request logging is disabled on this gateway")
	}
	return t.deps.Flush(ctx)
}

// logFilters are the filters of a log list, as strings that the log parses.
type logFilters struct {
	From          string `query:"from" maxLength:"64" doc:"A time such as 2006-01-02T15:04:05Z, or a span before now such as 7d. Defaults to 30 days before the end."`
	To            string `query:"to" maxLength:"64" doc:"End of the range, exclusive. Defaults to now."`
	Workspace     string `query:"workspace" maxLength:"255" doc:"Id or slug"`
	Status        string `query:"status" maxLength:"255" doc:"Statuses such as 429 and classes such as 5xx, separated by commas"`
	Outcome       string `query:"outcome" maxLength:"64" doc:"success, error, cancelled or other, or several separated by commas"`
	Model         string `query:"model" maxLength:"1024" doc:"Requested model"`
	UpstreamModel string `query:"upstream_model" maxLength:"1024" doc:"Model sent to the provider"`
	ResponseModel string `query:"response_model" maxLength:"1024" doc:"Model named in the provider's response"`
	Target        string `query:"target" maxLength:"1024" doc:"Path of the target in its config, or its name"`
	Provider      string `query:"provider" maxLength:"255" doc:"Provider id, or slug or id of a managed provider; @slug is always a slug"`
	Key           string `query:"api_key" maxLength:"255" doc:"Id"`
	User          string `query:"user" maxLength:"255" doc:"Id of a user, whose keys sent the requests"`
	ErrorCode     string `query:"error_code" maxLength:"1024" doc:"Error code"`
	Prompt        string `query:"prompt" maxLength:"1024" doc:"Slug of a prompt, or one of its versions such as greeting@3"`
	CacheStatus   string `query:"cache_status" maxLength:"128" doc:"HIT, SEMANTIC HIT, MISS, SEMANTIC MISS, REFRESH or DISABLED"`
	Config        string `query:"config" maxLength:"255" doc:"Id or slug"`
	TraceID       string `query:"trace_id" maxLength:"256"`
	Operation     string `query:"operation" maxLength:"64"`
	Stream        string `query:"stream" enum:"true,false"`
	MinLatency    string `query:"min_latency_ms" maxLength:"16"`
	Metadata      string `query:"metadata" maxLength:"4096" doc:"JSON object with string values; all must match"`
	CostMin       string `query:"cost_min" maxLength:"32" doc:"US cents of a request"`
	CostMax       string `query:"cost_max" maxLength:"32"`
	TotalMin      string `query:"total_units_min" maxLength:"32" doc:"Tokens of a request"`
	TotalMax      string `query:"total_units_max" maxLength:"32"`
	PromptMin     string `query:"prompt_token_min" maxLength:"32"`
	PromptMax     string `query:"prompt_token_max" maxLength:"32"`
	CompletionMin string `query:"completion_token_min" maxLength:"32"`
	CompletionMax string `query:"completion_token_max" maxLength:"32"`
	WeightedMin   string `query:"weighted_feedback_min" maxLength:"32" doc:"Average of value times weight in the trace"`
	WeightedMax   string `query:"weighted_feedback_max" maxLength:"32"`
	Limit         string `query:"limit" maxLength:"8" doc:"Traces per page, 1 to 1000; defaults to 100"`
	Cursor        string `query:"cursor" maxLength:"255" doc:"next_cursor of the previous page"`
}

func (f *logFilters) query() (logstore.Query, error) {
	values := url.Values{}
	for name, v := range map[string]string{
		"from": f.From, "to": f.To, "workspace": f.Workspace, "status": f.Status, "outcome": f.Outcome, "provider": f.Provider,
		"model": f.Model, "upstream_model": f.UpstreamModel, "response_model": f.ResponseModel, "target": f.Target,
		"user": f.User, "error_code": f.ErrorCode, "prompt": f.Prompt, "cache_status": f.CacheStatus,
		"api_key": f.Key, "config": f.Config, "trace_id": f.TraceID, "operation": f.Operation, "stream": f.Stream, "min_latency_ms": f.MinLatency,
		"cost_min": f.CostMin, "cost_max": f.CostMax, "total_units_min": f.TotalMin, "total_units_max": f.TotalMax,
		"prompt_token_min": f.PromptMin, "prompt_token_max": f.PromptMax,
		"completion_token_min": f.CompletionMin, "completion_token_max": f.CompletionMax,
		"weighted_feedback_min": f.WeightedMin, "weighted_feedback_max": f.WeightedMax, "limit": f.Limit, "cursor": f.Cursor,
	} {
		if v != "" {
			values.Set(name, v)
		}
	}
	q, err := parseQuery(values)
	if err == nil && f.Metadata != "" && (json.Unmarshal([]byte(f.Metadata), &q.Metadata) != nil || q.Metadata == nil) {
		return q, route.Invalid("metadata", "must be a JSON object with string values")
	}
	return q, err
}

// traceList is a page of traces.
type traceList struct {
	Object string        `json:"object" doc:"Always list"`
	Data   []traceRecord `json:"data"`
	More   bool          `json:"has_more"`
	Next   *string       `json:"next_cursor"`
	Cut    bool          `json:"truncated" doc:"True if the time range was not read completely: there may be more traces, and more spans of these traces; choose a shorter range"`
}

// traceRecord is the summary of a trace. Unknown values are null.
type traceRecord struct {
	Object   string     `json:"object" doc:"Always trace"`
	ID       string     `json:"trace_id"`
	First    route.Time `json:"first_time" doc:"Start of the first request"`
	Last     route.Time `json:"last_time" doc:"End of the last request"`
	Duration float64    `json:"duration_ms"`
	Spans    int64      `json:"spans" doc:"Number of requests"`
	Status   int        `json:"status" doc:"Highest status"`
	Errors   int64      `json:"errors" doc:"Requests with the outcome error, including broken streams"`
	Cost     *float64   `json:"cost" doc:"US cents of the requests with a known cost"`
	Nano     *int64     `json:"cost_nano_usd" doc:"The same in nano-dollars"`
	Unpriced int64      `json:"unpriced_spans" doc:"Requests with unknown cost"`
	Tokens   *int64     `json:"total_tokens" doc:"Tokens of the requests with known usage"`
}

func record(t *logstore.Trace) traceRecord {
	r := traceRecord{
		Object: "trace", ID: t.ID, First: route.Time(t.First), Last: route.Time(t.Last), Duration: ms(t.Last.Sub(t.First)),
		Spans: t.Entries, Status: t.Status, Errors: t.Errors, Unpriced: t.Entries - t.Priced,
	}
	if t.Priced > 0 {
		cost := float64(t.Cost) / 1e7
		nano := int64(t.Cost)
		r.Cost, r.Nano = &cost, &nano
	}
	if t.Counted > 0 {
		r.Tokens = &t.Tokens
	}
	return r
}

func (t traces) list(ctx context.Context, c *route.Caller, in *logFilters) (*traceList, error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	from, to := q.From, q.To
	if err := t.restrict(ctx, c, &q, access.ScopeLogsList); err != nil {
		return nil, err
	}
	page, err := t.deps.Log.Traces(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &traceList{Object: "list", Data: make([]traceRecord, len(page.Traces)), More: page.Next != "", Cut: page.Cut}
	for i := range page.Traces {
		out.Data[i] = record(&page.Traces[i])
	}
	if out.More {
		next := pinned(url.Values{"from": {in.From}, "to": {in.To}}, from, to, page.Next)
		out.Next = &next
	}
	return out, nil
}

type traceInput struct {
	Trace     string `path:"trace" maxLength:"256"`
	From      string `query:"from" maxLength:"64" doc:"The same as in the list"`
	To        string `query:"to" maxLength:"64"`
	Workspace string `query:"workspace" maxLength:"255" doc:"The same as in the list"`
}

// traceTree is a trace with its spans.
type traceTree struct {
	traceRecord
	Cut      bool             `json:"truncated" doc:"True if there are older spans that were not read"`
	Tree     []*spanNode      `json:"tree" doc:"Spans without a parent, sorted by time"`
	Feedback []feedbackRecord `json:"feedback" doc:"The newest 100"`
}

func (t traces) one(ctx context.Context, c *route.Caller, in *traceInput) (*traceTree, error) {
	filters := logFilters{From: in.From, To: in.To, Workspace: in.Workspace}
	q, err := filters.query()
	if err != nil {
		return nil, err
	}
	if err := t.restrict(ctx, c, &q, access.ScopeLogsView); err != nil {
		return nil, err
	}
	q.TraceID = in.Trace
	entries, cut, err := t.deps.Log.Trace(ctx, q, maxSpans)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, apierr.New(apierr.NotFound, "trace %.60q not found in this time range; the default range is the last 30 days", in.Trace)
	}
	feedback, _, err := t.deps.Log.Feedback(ctx, logstore.FeedbackQuery{Scope: feedbackScope(c, &q), TraceID: in.Trace}, 0, 100)
	out := tree(entries, cut)
	out.Feedback = toResponse(feedback)
	return out, err
}

// tree arranges the entries of a trace, oldest first, as trees of spans.
func tree(entries []*reqlog.Entry, cut bool) *traceTree {
	sum := logstore.SumTrace(entries)
	return &traceTree{traceRecord: record(&sum), Cut: cut, Tree: buildSpanTree(entries)}
}
