package logstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/reqlog"
)

// Feedback is what somebody thought of a trace.
type Feedback struct {
	ID           reqlog.ID
	Organisation string
	Workspace    string
	KeyID        string // of who gave it
	TraceID      string
	Value        int
	Weight       float64
	Metadata     map[string]string
	Created      time.Time
	Updated      time.Time

	// About is what the feedback is of. [Store.AddFeedback] fills it in.
	About RatedEntry
}

// RatedEntry is the newest entry of a trace, as it stood when feedback was given of
// it. What was unknown then is empty.
type RatedEntry struct{ KeyID, Service, Model string }

// FeedbackQuery says which feedback is wanted. All that is given has to match.
type FeedbackQuery struct {
	// Scope is whose feedback a reader may see. Its keys are those of the traces
	// or of who gave it.
	Scope   Scope
	Without []string // workspaces that are left out

	ID       reqlog.ID
	TraceID  string
	From, To time.Time  // of when it was given: From is in, To is out
	Weighted FloatRange // value times weight
}

// FloatRange bounds a number, both ends in. A nil end is open.
type FloatRange struct{ Min, Max *float64 }

// FeedbackGroup is what feedback with these in common comes to.
type FeedbackGroup struct {
	Workspace string
	KeyID     string // of who gave it
	About     RatedEntry
	Value     int
	Step      time.Time // when the step began that it was given in

	Count    int64
	Weighted float64 // sum of values times weights
}

// feedbackBackend keeps feedback. What it keeps can be read at once.
type feedbackBackend interface {
	addFeedback(ctx context.Context, list []Feedback) error
	// changeFeedback gives feedback another value, and what of the rest is not
	// nil, and returns how many that was: one or none.
	changeFeedback(ctx context.Context, q *FeedbackQuery, to FeedbackChange) (int64, error)
	feedback(ctx context.Context, q *FeedbackQuery, skip, limit int) (list []Feedback, total int, err error)
	sumFeedback(ctx context.Context, q *FeedbackQuery, step int64) ([]FeedbackGroup, error)
	ratings(ctx context.Context, q *FeedbackQuery, limit int) (map[TraceOf]Rating, error)
	dropFeedback(ctx context.Context, before int64, limit int) (int64, error)
}

// FeedbackChange is what feedback becomes. Nil leaves what is there.
type FeedbackChange struct {
	Value    int
	Weight   *float64
	Metadata *map[string]string
	At       time.Time
}

// AddFeedback keeps feedback, all of it or none. It returns when that can be read.
func (s *Store) AddFeedback(ctx context.Context, list []Feedback) error {
	if err := s.fillRated(ctx, list); err != nil {
		return err
	}
	if err := s.keeper.addFeedback(ctx, list); err != nil {
		return s.reading(fmt.Errorf("keeping feedback: %w", err))
	}
	return nil
}

// fillRated fills in what feedback of one workspace is of. It looks at as many
// entries as a page of a listing does, the newest first; and where a trace has
// the id of its request, which is as a rule, at that one.
func (s *Store) fillRated(ctx context.Context, list []Feedback) error {
	traces := make(map[TraceOf]bool)
	found := make(map[string]*reqlog.Entry)
	for i := range list {
		f := &list[i]
		if id, err := reqlog.ParseID(f.TraceID); err == nil && found[f.TraceID] == nil {
			e, err := s.Get(ctx, Scope{Organisation: f.Organisation, Workspace: f.Workspace}, id)
			if err == nil && e.TraceID == f.TraceID {
				found[f.TraceID] = e
				continue
			}
			if err != nil && !apierr.IsNotFound(err) {
				return err
			}
		}
		traces[TraceOf{f.Workspace, f.TraceID}] = true
	}
	if len(traces) > 0 {
		page, err := s.List(ctx, Query{Scope: Scope{Organisation: list[0].Organisation}, Traces: traces, Limit: maxLimit})
		if err != nil {
			return err
		}
		for _, e := range slices.Backward(page.Entries) { // the newest counts
			found[e.TraceID] = e
		}
	}
	for i := range list {
		if e := found[list[i].TraceID]; e != nil {
			list[i].About = RatedEntry{e.KeyID, e.Provider, clip(e.Model)}
		}
	}
	return nil
}

// ChangeFeedback changes the feedback that has the query's id. What is not there,
// or not shown by its scope, is not found.
func (s *Store) ChangeFeedback(ctx context.Context, q FeedbackQuery, to FeedbackChange) error {
	n, err := s.keeper.changeFeedback(ctx, &q, to)
	if err != nil {
		return s.reading(fmt.Errorf("changing feedback: %w", err))
	}
	if n == 0 {
		return apierr.New(apierr.NotFound, "there is no feedback %s", q.ID)
	}
	return nil
}

// Feedback returns a part of the feedback that matches, the newest first, and how
// much there is.
func (s *Store) Feedback(ctx context.Context, q FeedbackQuery, skip, limit int) (list []Feedback, total int, err error) {
	if list, total, err = s.keeper.feedback(ctx, &q, skip, limit); err != nil {
		err = s.reading(fmt.Errorf("reading feedback: %w", err))
	}
	return list, total, err
}

// SumFeedback sums feedback by all that a sum tells, in no order. Step is in whole
// milliseconds.
func (s *Store) SumFeedback(ctx context.Context, q FeedbackQuery, step time.Duration) ([]FeedbackGroup, error) {
	list, err := s.keeper.sumFeedback(ctx, &q, step.Milliseconds())
	if err != nil {
		return nil, s.reading(fmt.Errorf("summing feedback: %w", err))
	}
	return list, nil
}

// TraceOf is a trace of a workspace.
type TraceOf struct{ Workspace, ID string }

// Rating is what the feedback of one trace comes to.
type Rating struct {
	Count    int64
	Weighted float64 // sum of values times weights
}

// maxRatings bounds the traces that entries are told apart by.
const maxRatings = 100_000

// ratings returns the traces of a scope that have feedback since from, whose
// average is within r. Too many are invalid: field is what to change then.
func (s *Store) ratings(ctx context.Context, scope Scope, from time.Time, r FloatRange, field string) (map[TraceOf]Rating, error) {
	q := FeedbackQuery{Scope: Scope{Organisation: scope.Organisation, Workspace: scope.Workspace}, From: from, Weighted: r}
	all, err := s.keeper.ratings(ctx, &q, maxRatings+1)
	if err != nil {
		return nil, s.reading(fmt.Errorf("reading feedback: %w", err))
	}
	if len(all) > maxRatings {
		return nil, apierr.New(apierr.Invalid, "more than %d traces of this time have feedback; choose a shorter one by %s", maxRatings, field).WithParam(field)
	}
	return all, nil
}

// resolve turns bounds of feedback into the traces that are within them.
func (s *Store) resolve(ctx context.Context, q *Query) error {
	if q.Weighted == (FloatRange{}) || q.Traces != nil {
		return nil
	}
	p, err := q.plan(time.Now())
	if err != nil {
		return err
	}
	within, err := s.ratings(ctx, q.Scope, p.from.Time(), q.Weighted, "from")
	q.Traces = traces(within)
	return err
}

// rate is resolve for sums of entries, which may want the figures too.
func (s *Store) rate(ctx context.Context, t *totals, q *Query) (err error) {
	if !t.q.Feedback && t.q.Weighted == (FloatRange{}) {
		return nil
	}
	t.ratings, err = s.ratings(ctx, q.Scope, q.From, t.q.Weighted, "time_of_generation_min")
	if t.q.Weighted != (FloatRange{}) {
		q.Traces = traces(t.ratings)
	}
	return err
}

func traces(of map[TraceOf]Rating) map[TraceOf]bool {
	out := make(map[TraceOf]bool, len(of))
	for t := range of {
		out[t] = true
	}
	return out
}

// check refuses bounds that hold nothing.
func (r FloatRange) check() error {
	if r.Min != nil && r.Max != nil && *r.Min > *r.Max {
		return apierr.New(apierr.Invalid, "the smallest weighted_feedback must not be above the largest").WithParam("weighted_feedback_min")
	}
	return nil
}

// text tells bounds apart.
func (r FloatRange) text() string {
	out := ""
	for _, n := range [...]*float64{r.Min, r.Max} {
		if out += ","; n != nil {
			out += strconv.FormatFloat(*n, 'g', -1, 64)
		}
	}
	return out
}

// feedbackAtOnce is how much feedback is removed in one step.
const feedbackAtOnce = 1000

// pruneFeedback removes the feedback that is as old as sums that go.
func (s *Store) pruneFeedback(ctx context.Context, r Retention, now time.Time) error {
	for r.Sums > 0 {
		n, err := s.keeper.dropFeedback(ctx, r.sumsBefore(now), feedbackAtOnce)
		if err != nil || n < feedbackAtOnce {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(prunePause):
		}
	}
	return nil
}
