package analytics

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
)

// FeedbackRange bounds feedback: the average of a trace when entries are grouped,
// otherwise each feedback.
type FeedbackRange struct {
	Min string `query:"weighted_feedback_min" doc:"Value times weight, from -10 to 10"`
	Max string `query:"weighted_feedback_max"`
}

// span returns the parsed bounds.
func (w *FeedbackRange) span() (r logstore.FloatRange, err error) {
	for _, side := range []struct {
		name, text string
		end        **float64
	}{{"weighted_feedback_min", w.Min, &r.Min}, {"weighted_feedback_max", w.Max, &r.Max}} {
		if side.text == "" {
			continue
		}
		n, err := strconv.ParseFloat(side.text, 64)
		if err != nil || !(math.Abs(n) <= 10) { // false for NaN
			return r, route.Invalid(side.name, "must be a number from -10 to 10")
		}
		*side.end = &n
	}
	if r.Min != nil && r.Max != nil && *r.Min > *r.Max {
		return r, route.Invalid("weighted_feedback_min", "must not be above weighted_feedback_max")
	}
	return r, nil
}

// feedbackFilters are the filters for feedback. The time range applies to the time at
// which feedback was given.
type feedbackFilters struct {
	From      time.Time `query:"from" doc:"A time such as 2026-11-30T12:00:00Z, or a span before now such as 7d; rounded down to the minute. Defaults to 7 days before the end."`
	To        time.Time `query:"to" doc:"End of the range, exclusive. Defaults to now."`
	Workspace string    `query:"workspace" maxLength:"255" doc:"Id or slug; keys of a workspace may name their own only"`
	Keys      []string  `query:"api_key" maxItems:"100" doc:"Only traces with one of these keys"`
	Models    []string  `query:"ai_org_model" maxItems:"100" doc:"Only traces with one of these models, written provider__model"`
	TraceID   string    `query:"trace_id" maxLength:"255"`
	FeedbackRange
}

// addFeedback adds the graphs of feedback.
func (f Routes) addFeedback(a *route.API) {
	add := func(path, name, summary string, draw func([]logstore.FeedbackGroup, *Filters, time.Duration) *graphResponse) {
		route.Add(a, route.Route{
			Method: "GET", Path: "/analytics/graphs/feedbacks" + path, Name: name, Tag: tag, Summary: summary,
			Scopes: []access.Scope{"analytics.view"},
		}, func(ctx context.Context, c *route.Caller, in *feedbackFilters) (*graphResponse, error) {
			sums, of, step, err := f.opinions(ctx, c, in)
			if err != nil {
				return nil, err
			}
			return draw(sums, of, step), nil
		})
	}
	add("", "graph-feedback", "Count feedback over time", drawSteps(func(n int64, _ float64) figures { return figures{"total": n} }))
	add("/weighted", "graph-weighted-feedback", "Average feedback over time", drawSteps(func(n int64, weighted float64) figures {
		return figures{"avg": nullIfZero(n, weighted/float64(max(n, 1)))}
	}))
	add("/scores", "graph-feedback-scores", "Count feedback by its value", drawScores)
	add("/ai-models", "graph-feedback-models", "Average feedback by model", drawModels)
}

// opinions groups the feedback that the caller may see and that matches the filters.
func (f Routes) opinions(ctx context.Context, c *route.Caller, in *feedbackFilters) ([]logstore.FeedbackGroup,
	*Filters, time.Duration, error) {
	of := &Filters{From: in.From, To: in.To, Workspace: in.Workspace, Keys: in.Keys, Models: in.Models}
	var q logstore.GroupQuery
	if err := c.CheckFilters(); err != nil {
		return nil, nil, 0, err
	}
	if err := of.apply(&q, c.Now); err != nil {
		return nil, nil, 0, err
	}
	if err := restrictToVisible(ctx, c, of, &q); err != nil {
		return nil, nil, 0, err
	}
	if err := f.resolve(ctx, c, of, &q); err != nil {
		return nil, nil, 0, err
	}
	step := of.step(c.Now)
	weighted, err := in.span()
	if err != nil || f.Log == nil {
		return nil, of, step, err
	}
	sums, err := f.Log.SumFeedback(ctx, logstore.FeedbackQuery{
		Scope: q.Scope, Without: q.Without, TraceID: in.TraceID, Weighted: weighted,
		From: of.From.Truncate(time.Minute), To: of.To.Add(time.Minute - 1).Truncate(time.Minute), // like the range of entries
	}, step)
	return slices.DeleteFunc(sums, func(s logstore.FeedbackGroup) bool {
		return len(in.Keys) > 0 && !slices.Contains(in.Keys, s.About.KeyID) ||
			len(q.Models) > 0 && !slices.Contains(q.Models, logstore.ServedModel{Service: s.About.Service, Model: s.About.Model})
	}), of, step, err
}

// counts is a number of feedbacks and the sum of their weighted values.
type counts struct {
	n        int64
	weighted float64
}

// by adds up groups that have the same value of of.
func by[K comparable](sums []logstore.FeedbackGroup, of func(*logstore.FeedbackGroup) K) map[K]counts {
	out := make(map[K]counts)
	for i := range sums {
		k := of(&sums[i])
		out[k] = counts{out[k].n + sums[i].Count, out[k].weighted + sums[i].Weighted}
	}
	return out
}

// all adds up all groups.
func all(sums []logstore.FeedbackGroup) counts {
	return by(sums, func(*logstore.FeedbackGroup) struct{} { return struct{}{} })[struct{}{}]
}

// drawSteps returns a function that draws one point for each step of time.
func drawSteps(tell func(n int64, weighted float64) figures) func([]logstore.FeedbackGroup, *Filters, time.Duration) *graphResponse {
	return func(sums []logstore.FeedbackGroup, in *Filters, step time.Duration) *graphResponse {
		byStep := by(sums, func(s *logstore.FeedbackGroup) int64 { return s.Step.UnixMilli() })
		var points []figures
		for at := range in.points(step) {
			s := byStep[at.UnixMilli()]
			points = append(points, stamped(at, tell(s.n, s.weighted)))
		}
		total := all(sums)
		return draw(tell(total.n, total.weighted), points)
	}
}

// drawScores draws one point for each feedback value.
func drawScores(sums []logstore.FeedbackGroup, _ *Filters, _ time.Duration) *graphResponse {
	scores := by(sums, func(s *logstore.FeedbackGroup) float64 { return s.Value })
	var points []figures
	for _, v := range slices.Sorted(maps.Keys(scores)) {
		points = append(points, figures{"score": v, "total": scores[v].n})
	}
	return draw(figures{"total": all(sums).n}, points)
}

// drawModels draws one point for each model, in descending order of feedback count.
func drawModels(sums []logstore.FeedbackGroup, _ *Filters, _ time.Duration) *graphResponse {
	models := by(sums, func(s *logstore.FeedbackGroup) string { return s.About.Model })
	names := slices.Sorted(maps.Keys(models))
	slices.SortStableFunc(names, func(a, b string) int { return int(models[b].n - models[a].n) })
	var points []figures
	for _, name := range names {
		m := models[name]
		points = append(points, figures{"ai_model": nullIfZero(int64(len(name)), name), "total": m.n,
			"avg_weighted_feedback": m.weighted / float64(m.n)})
	}
	total := all(sums)
	return draw(figures{"total": total.n, "avg_weighted_feedback": nullIfZero(total.n, total.weighted/float64(max(total.n, 1)))}, points)
}
