package guardrails

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"time"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// results are the routes of results of requests.
type results struct {
	log *logstore.Store // nil for none
	now func() time.Time
}

func (s results) add(a *route.API) {
	read := []access.Scope{"guardrails.read", "organisation_guardrails.read"}
	route.Add(a, route.Route{
		Method: http.MethodGet, Path: "/guardrails/{guardrail}/results", Name: "list-guardrail-results", Tag: "Guardrails",
		Summary: "List results of a guardrail in shadow mode", Scopes: read,
	}, s.results)
	route.Add(a, route.Route{
		Method: http.MethodGet, Path: "/guardrails/{guardrail}/summary", Name: "get-guardrail-summary", Tag: "Guardrails",
		Summary: "Read the precision, the missed share and the delay of a guardrail in shadow mode", Scopes: read,
	}, s.summary)
	route.Add(a, route.Route{
		Method: http.MethodPut, Path: "/guardrails/{guardrail}/results/{result}", Name: "label-guardrail-result", Tag: "Guardrails",
		Summary: "Label a result of a guardrail as right or wrong",
		Scopes:  []access.Scope{"guardrails.update", "organisation_guardrails.update"}, Resource: "guardrail",
	}, s.label)
}

// Shadowed selects results of a guardrail. It is exported because the OpenAPI generator
// does not see embedded unexported fields.
type Shadowed struct {
	Guardrail string `path:"guardrail" maxLength:"255" doc:"Id or slug"`
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug; by default all that the caller sees"`
	Version   string `query:"version" maxLength:"255" doc:"version_id of the guardrail; by default the current one"`
}

// query returns the query for the results of a guardrail that the caller may see: of
// requests of their workspace, or of all workspaces of their organisation.
func (s results) query(ctx context.Context, c *route.Caller, in Shadowed) (q logstore.GuardResultQuery, g store.Guardrail, err error) {
	if s.log == nil {
		return q, g, apierr.New(apierr.Unavailable, "request logging is disabled on this gateway")
	}
	if !c.Allows(access.ScopeLogsView) {
		return q, g, apierr.New(apierr.Forbidden, "results of requests require the scope %q too", string(access.ScopeLogsView)).WithCode("AB03")
	}
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return q, g, err
	}
	if workspace != "" {
		for _, right := range [...]access.Permission{access.ViewLogs, access.ViewAllData} {
			if err := c.CheckPermission(ctx, workspace, right); err != nil {
				return q, g, err
			}
		}
	}
	g, err = c.DB().Guardrail(ctx, c.Organisation, workspace, in.Guardrail)
	if err := c.CheckFound(g.Workspace, g.ID, err, route.NotFound("guardrail", "guardrail", in.Guardrail)); err != nil {
		return q, g, err
	}
	q = logstore.GuardResultQuery{Organisation: c.Organisation, Workspace: workspace, Guardrail: g.Slug, Version: in.Version}
	if q.Version == "" {
		q.Version = g.VersionID
	}
	if q.Version == g.VersionID {
		return q, g, nil
	}
	known, err := c.DB().GuardrailVersions(ctx, g.ID)
	if err == nil && !slices.ContainsFunc(known, func(v store.GuardrailVersion) bool { return v.ID == q.Version }) {
		err = route.Missing("version", "guardrail version", q.Version)
	}
	return q, g, err
}

type resultsInput struct {
	Shadowed
	From    time.Time `query:"from" doc:"A time such as 2026-11-30T12:00:00Z, or a span before now such as 7d"`
	Verdict string    `query:"verdict" enum:"passed,failed,error"`
	Label   string    `query:"label" enum:"right,wrong,none"`
	Sample  bool      `query:"sample" doc:"Returns results in a stable random order, to label a fair sample; cannot be combined with cursor"`
	Cursor  string    `query:"cursor" maxLength:"64" doc:"next_cursor of the previous page"`
	Limit   int       `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

// Result is a result of a guardrail in shadow mode.
type Result struct {
	ID         string      `json:"id"`
	Request    string      `json:"request_id" doc:"Id of the log entry"`
	Workspace  string      `json:"workspace_id"`
	VersionID  string      `json:"version_id"`
	On         string      `json:"on" doc:"request or response"`
	Verdict    string      `json:"verdict" doc:"failed if the guardrail would have denied or changed the text"`
	StandsFor  int64       `json:"stands_for" doc:"Number of results that this one represents"`
	Took       float64     `json:"ms"`
	CreatedAt  route.Time  `json:"created_at"`
	Label      *string     `json:"label" doc:"right, wrong or null"`
	LabelledBy *string     `json:"labelled_by"`
	LabelledAt *route.Time `json:"labelled_at"`
}

type resultList struct {
	Object string   `json:"object"`
	Data   []Result `json:"data"`
	Before string   `json:"next" doc:"Cursor of the next page; empty for the last"`
	route.PageInfo
}

func toResult(r logstore.GuardResult) Result {
	out := Result{
		ID: r.ID.String(), Request: r.Entry.String(), Workspace: r.Workspace, VersionID: r.Version, On: r.Event, Verdict: r.Verdict,
		StandsFor: r.Weight, Took: milliseconds(r.Took), CreatedAt: route.Time(r.Created),
		Label: route.OrNull(r.Label), LabelledBy: route.OrNull(r.LabelledBy),
	}
	if !r.Labelled.IsZero() {
		at := route.Time(r.Labelled)
		out.LabelledAt = &at
	}
	return out
}

func (s results) results(ctx context.Context, c *route.Caller, in *resultsInput) (*resultList, error) {
	q, _, err := s.query(ctx, c, in.Shadowed)
	if err != nil {
		return nil, err
	}
	q.From, q.Verdict, q.Label, q.Sample = in.From, in.Verdict, in.Label, in.Sample
	if in.Cursor != "" {
		if in.Sample {
			return nil, route.Invalid("cursor", "cannot be combined with sample")
		}
		if q.Before, err = reqlog.ParseID(in.Cursor); err != nil {
			return nil, route.Invalid("cursor", "must be the next_cursor of a previous page")
		}
	}
	list, err := s.log.GuardResults(ctx, q, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &resultList{Object: "list", Data: []Result{}}
	for _, r := range list {
		out.Data = append(out.Data, toResult(r))
	}
	if len(list) == in.Limit && !in.Sample {
		out.Before = list[len(list)-1].ID.String()
		out.PageInfo = route.PageInfo{More: true, Next: &out.Before}
	}
	return out, nil
}

type labelInput struct {
	Guardrail string `path:"guardrail" maxLength:"255" doc:"Id or slug"`
	Result    string `path:"result" maxLength:"64"`
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug"`
	Body      struct {
		Label *string `json:"label" enum:"right,wrong" nullable:"true" doc:"Whether the verdict is right; null removes the label"`
	}
}

func (s results) label(ctx context.Context, c *route.Caller, in *labelInput) (*Result, error) {
	q, g, err := s.query(ctx, c, Shadowed{Guardrail: in.Guardrail, Workspace: in.Workspace})
	if err != nil {
		return nil, err
	}
	if g.Workspace == "" && q.Workspace == "" {
		if err := checkOrganisationScope(c, "update"); err != nil {
			return nil, err
		}
	}
	q.Version = "" // earlier versions can be labelled too
	if q.ID, err = reqlog.ParseID(in.Result); err != nil {
		return nil, route.NotFound("result", "result", in.Result)
	}
	label := ""
	if in.Body.Label != nil {
		label = *in.Body.Label
	}
	if err := s.log.LabelGuardResult(ctx, q, label, c.Actor(), s.now()); err != nil {
		return nil, err
	}
	list, err := s.log.GuardResults(ctx, q, 1)
	if err == nil && len(list) == 0 {
		err = route.NotFound("result", "result", in.Result)
	}
	if err != nil {
		return nil, err
	}
	out := toResult(list[0])
	return &out, nil
}

type summaryInput struct {
	Shadowed
	From time.Time `query:"from" doc:"A time such as 2026-11-30T12:00:00Z, or a span before now such as 7d"`
}

// Share is a share with its 95 % confidence interval by Wilson.
type Share struct {
	Share    *float64 `json:"share" doc:"null without labels"`
	Low      *float64 `json:"low"`
	High     *float64 `json:"high"`
	Labelled int64    `json:"labelled" doc:"Number of labels that it is computed from"`
}

type summary struct {
	Version   string `json:"version_id"`
	Mode      string `json:"mode" doc:"enforce or shadow: the current mode of the guardrail"`
	Seen      int64  `json:"seen" doc:"Requests and responses checked"`
	Hits      int64  `json:"hits" doc:"Requests and responses on which the guardrail would have acted"`
	Errors    int64  `json:"errors" doc:"Requests and responses for which a check had an error"`
	Right     int64  `json:"right" doc:"Hits labelled as right"`
	Wrong     int64  `json:"wrong" doc:"Hits labelled as wrong"`
	Precision Share  `json:"precision" doc:"Share of labelled hits that are right"`
	Missed    Share  `json:"missed_in_sample" doc:"Share of labelled passed results that are wrong"`
	Took      struct {
		P50 float64 `json:"p50"`
		P95 float64 `json:"p95"`
		P99 float64 `json:"p99"`
	} `json:"ms" doc:"Delay that the guardrail adds if it is enforced, of the newest 10,000 results"`
}

// maxTimes is the number of results whose times are summarised.
const maxTimes = 10_000

func (s results) summary(ctx context.Context, c *route.Caller, in *summaryInput) (*summary, error) {
	q, g, err := s.query(ctx, c, in.Shadowed)
	if err != nil {
		return nil, err
	}
	q.From = in.From
	sums, err := s.log.SumGuardResults(ctx, q)
	if err != nil {
		return nil, err
	}
	times, err := s.log.GuardTimes(ctx, q, maxTimes)
	if err != nil {
		return nil, err
	}
	out := &summary{Version: q.Version, Mode: modeOf(g.Actions)}
	var passedRight, passedWrong int64
	for _, sum := range sums {
		out.Seen += sum.Seen
		switch sum.Verdict {
		case logstore.GuardFailed:
			out.Hits += sum.Seen
			addLabel(sum, &out.Right, &out.Wrong)
		case logstore.GuardError:
			out.Errors += sum.Seen
		default:
			addLabel(sum, &passedRight, &passedWrong)
		}
	}
	out.Precision, out.Missed = wilson(out.Right, out.Right+out.Wrong), wilson(passedWrong, passedRight+passedWrong)
	out.Took.P50, out.Took.P95, out.Took.P99 = quantile(times, 50), quantile(times, 95), quantile(times, 99)
	return out, nil
}

func addLabel(sum logstore.GuardSum, right, wrong *int64) {
	switch sum.Label {
	case logstore.LabelRight:
		*right += sum.Stored
	case logstore.LabelWrong:
		*wrong += sum.Stored
	}
}

// quantile returns the percentile of ascending times in milliseconds, 0 without any.
func quantile(times []time.Duration, percent int) float64 {
	if len(times) == 0 {
		return 0
	}
	return milliseconds(times[(len(times)-1)*percent/100])
}

// wilson returns k of n with the 95 % interval of Wilson's score.
func wilson(k, n int64) Share {
	out := Share{Labelled: n}
	if n == 0 {
		return out
	}
	const z = 1.959963984540054
	p, count := float64(k)/float64(n), float64(n)
	scale := 1 + z*z/count
	middle := (p + z*z/(2*count)) / scale
	half := z / scale * math.Sqrt(p*(1-p)/count+z*z/(4*count*count))
	low, high := max(0, middle-half), min(1, middle+half)
	out.Share, out.Low, out.High = &p, &low, &high
	return out
}

// modeOf returns the mode in the actions of a guardrail.
func modeOf(actions []byte) string {
	var a Actions
	if json.Unmarshal(actions, &a) == nil && a.Mode != "" {
		return a.Mode
	}
	return string(config.Enforce)
}
