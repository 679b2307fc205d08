package logstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// Feedback is a rating of a trace.
type Feedback struct {
	ID           reqlog.ID
	Organisation string
	Workspace    string
	KeyID        string // key with which it was given
	TraceID      string
	Value        float64
	Weight       float64
	Metadata     map[string]string
	Structures   map[string]json.RawMessage // members of the metadata that are not strings
	Created      time.Time
	Updated      time.Time

	// About is the rated entry, which [Store.AddFeedback] sets.
	About RatedEntry
}

// RatedEntry identifies the newest entry of a trace at the time of feedback. Unknown
// fields are empty.
type RatedEntry struct{ KeyID, Service, Model string }

// FeedbackQuery filters feedback. All filters must match.
type FeedbackQuery struct {
	// Scope is the feedback that the reader may see. Its keys match keys of the traces
	// and keys with which feedback was given.
	Scope   Scope
	Without []string // excluded workspaces

	ID       reqlog.ID
	TraceID  string
	From, To time.Time  // time of the feedback; From is inclusive, To is exclusive
	Weighted FloatRange // value times weight
}

// FloatRange is a closed range; nil is unlimited.
type FloatRange struct{ Min, Max *float64 }

// FeedbackGroup is the sum of feedback with the same values of the other fields.
type FeedbackGroup struct {
	Workspace string
	KeyID     string // key with which it was given
	About     RatedEntry
	Value     float64
	Step      time.Time // start of the step in which it was given

	Count    int64
	Weighted float64 // sum of values times weights
}

// feedbackBackend stores feedback, which can be read at once.
type feedbackBackend interface {
	addFeedback(ctx context.Context, list []Feedback) error
	// changeFeedback changes the value of feedback and the other fields of to that are
	// not nil. It returns the number of changed rows, one or none.
	changeFeedback(ctx context.Context, q *FeedbackQuery, to FeedbackChange) (int64, error)
	feedback(ctx context.Context, q *FeedbackQuery, skip, limit int) (list []Feedback, total int, err error)
	sumFeedback(ctx context.Context, q *FeedbackQuery, step int64) ([]FeedbackGroup, error)
	ratings(ctx context.Context, q *FeedbackQuery, limit int) (map[TraceOf]rating, error)
	dropFeedback(ctx context.Context, before int64, limit int) (int64, error)
}

// FeedbackChange is a change of feedback. Nil fields stay unchanged.
type FeedbackChange struct {
	Value    int
	Weight   *float64
	Metadata *map[string]string
	At       time.Time
}

// AddFeedback stores all of list or nothing, with metadata of at most 64 members and 512
// characters each. It returns when the feedback can be read.
func (s *Store) AddFeedback(ctx context.Context, list []Feedback) error {
	var bytes int64
	for i := range list {
		var size int64
		list[i].Metadata, size = limitMetadata(list[i].Metadata)
		for name, raw := range list[i].Structures {
			size += int64(len(name) + len(raw))
		}
		bytes += size + int64(2*len(list[i].TraceID)) + 300
	}
	defer s.addRows(bytes)
	if err := s.fillRated(ctx, list); err != nil {
		return err
	}
	if err := s.keeper.addFeedback(ctx, list); err != nil {
		return s.reading(fmt.Errorf("storing feedback: %w", err))
	}
	return nil
}

// fillRated sets the rated entries of feedback in one workspace. It reads as many
// entries as a page of a list, newest first; if the trace id is a request id, which is
// the usual case, only that entry.
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
		for _, e := range slices.Backward(page.Entries) { // the newest wins
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

// ChangeFeedback changes the feedback with the query's id. Feedback outside the query's
// scope is not found.
func (s *Store) ChangeFeedback(ctx context.Context, q FeedbackQuery, to FeedbackChange) error {
	if to.Metadata != nil {
		limited, size := limitMetadata(*to.Metadata)
		to.Metadata = &limited
		defer s.addRows(size)
	}
	n, err := s.keeper.changeFeedback(ctx, &q, to)
	if err != nil {
		return s.reading(fmt.Errorf("changing feedback: %w", err))
	}
	if n == 0 {
		return apierr.New(apierr.NotFound, "feedback %s not found", q.ID)
	}
	return nil
}

// Feedback returns a part of the matching feedback, newest first, and the number of
// all.
func (s *Store) Feedback(ctx context.Context, q FeedbackQuery, skip, limit int) (list []Feedback, total int, err error) {
	if list, total, err = s.keeper.feedback(ctx, &q, skip, limit); err != nil {
		err = s.reading(fmt.Errorf("reading feedback: %w", err))
	}
	return list, total, err
}

// SumFeedback groups feedback by all fields of [FeedbackGroup], in no particular order.
// Step must be full milliseconds.
func (s *Store) SumFeedback(ctx context.Context, q FeedbackQuery, step time.Duration) ([]FeedbackGroup, error) {
	list, err := s.keeper.sumFeedback(ctx, &q, step.Milliseconds())
	if err != nil {
		return nil, s.reading(fmt.Errorf("summing feedback: %w", err))
	}
	return list, nil
}

// TraceOf identifies a trace of a workspace.
type TraceOf struct{ Workspace, ID string }

// rating is the sum of a trace's feedback.
type rating struct {
	Count    int64
	Weighted float64 // sum of values times weights
}

// maxRatings is the limit of rated traces in one query.
const maxRatings = 100_000

// ratings returns the traces of a scope with feedback since from whose average is
// within r. If there are too many it returns an error that names field.
func (s *Store) ratings(ctx context.Context, scope Scope, from time.Time, r FloatRange, field string) (map[TraceOf]rating, error) {
	q := FeedbackQuery{Scope: Scope{Organisation: scope.Organisation, Workspace: scope.Workspace}, From: from, Weighted: r}
	all, err := s.keeper.ratings(ctx, &q, maxRatings+1)
	if err != nil {
		return nil, s.reading(fmt.Errorf("reading feedback: %w", err))
	}
	if len(all) > maxRatings {
		return nil, apierr.New(apierr.Invalid, "more than %d traces in this time range have feedback; choose a shorter range with %s", maxRatings,
			field).WithParam(field)
	}
	return all, nil
}

// resolve replaces a range of feedback by the traces within it.
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

// rate is [Store.resolve] for totals, which may include the feedback itself.
func (s *Store) rate(ctx context.Context, t *totals, q *Query) (err error) {
	if !t.q.Feedback && t.q.Weighted == (FloatRange{}) {
		return nil
	}
	t.ratings, err = s.ratings(ctx, q.Scope, q.From, t.q.Weighted, "from")
	if t.q.Weighted != (FloatRange{}) {
		q.Traces = traces(t.ratings)
	}
	return err
}

func traces(of map[TraceOf]rating) map[TraceOf]bool {
	out := make(map[TraceOf]bool, len(of))
	for t := range of {
		out[t] = true
	}
	return out
}

// check returns an error for an empty range.
func (r FloatRange) check() error {
	if r.Min != nil && r.Max != nil && *r.Min > *r.Max {
		return apierr.New(apierr.Invalid, "the smallest weighted_feedback must not be above the largest").WithParam("weighted_feedback_min")
	}
	return nil
}

// text returns a string that identifies the range.
func (r FloatRange) text() string {
	var out strings.Builder
	for _, n := range [...]*float64{r.Min, r.Max} {
		if out.WriteString(","); n != nil {
			out.WriteString(strconv.FormatFloat(*n, 'g', -1, 64))
		}
	}
	return out.String()
}
