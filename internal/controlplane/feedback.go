package controlplane

import (
	"context"
	"net/http"
	"unicode/utf8"

	"modelgate/api"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/logstore"
	"modelgate/internal/reqlog"
)

// addFeedback adds the routes of what people think of answers.
func addFeedback(a *route.API) {
	f := feedbacks{a}
	writers := []access.Scope{access.ScopeLogsWrite, access.ScopeCompletions}
	const tag = "Feedback"
	route.Add(a, route.Route{
		Method: http.MethodPost, Path: "/feedback", Name: "add-feedback", Tag: tag, Summary: "Add feedback to a trace", Scopes: writers, Data: true, UncheckedBody: true,
	}, f.add)
	route.Add(a, route.Route{
		Method: http.MethodPut, Path: "/feedback/{feedback}", Name: "update-feedback", Tag: tag, Summary: "Change feedback", Scopes: writers, Data: true,
	}, f.change)
	route.Add(a, route.Route{
		Method: http.MethodGet, Path: "/feedback", Name: "list-feedback", Tag: tag, Summary: "List feedback, the newest first", Scopes: []access.Scope{access.ScopeLogsView},
	}, f.list)
}

type feedbacks struct{ api *route.API }

// store returns the log, which holds feedback too.
func (f feedbacks) store() (*logstore.Store, error) {
	if f.api.Log == nil {
		return nil, apierr.New(apierr.Unavailable, "this gateway has no log")
	}
	return f.api.Log, nil
}

// feedbackItem is feedback as it is given.
type feedbackItem struct {
	TraceID  string            `json:"trace_id" maxLength:"256"`
	Value    int               `json:"value" minimum:"-10" maximum:"10"`
	Weight   float64           `json:"weight,omitempty" minimum:"0" maximum:"1" doc:"Without it 1"`
	Metadata map[string]string `json:"metadata,omitempty" maxProperties:"64" doc:"Strings of up to 512 characters"`
}

// Bounds of feedback, and how much is taken at once.
const (
	maxValue    = 10
	maxOpinions = 1000
)

type addFeedbackInput struct{ Body oneOrMany[feedbackItem] }

type feedbackTaken struct {
	Status  string   `json:"status" doc:"Always success"`
	Message string   `json:"message"`
	IDs     []string `json:"feedback_ids"`
}

func (f feedbacks) add(ctx context.Context, c *route.Caller, in *addFeedbackInput) (*feedbackTaken, error) {
	elements, err := in.Body.elements(maxOpinions)
	if err != nil {
		return nil, err
	}
	out := &feedbackTaken{Status: "success", Message: "Feedback was added"}
	list := make([]logstore.Feedback, len(elements))
	for i, e := range elements {
		o, err := readOpinion(e)
		if err != nil {
			return nil, err
		}
		now := f.api.Now()
		list[i] = logstore.Feedback{
			ID: reqlog.NewID(now), Organisation: c.Organisation, Workspace: c.Workspace, KeyID: c.KeyID,
			TraceID: o.TraceID, Value: o.Value, Weight: o.Weight, Metadata: o.Metadata, Created: now, Updated: now,
		}
		out.IDs = append(out.IDs, list[i].ID.String())
	}
	s, err := f.store()
	if err != nil {
		return nil, err
	}
	if err := f.api.FlushLog(ctx); err != nil {
		return nil, err
	}
	return out, s.AddFeedback(ctx, list)
}

func readOpinion(e jsonElement) (o feedbackItem, err error) {
	in, err := e.members("trace_id", "value", "weight", "metadata")
	if err != nil {
		return o, err
	}
	if o.TraceID, err = in["trace_id"].word(); err == nil && o.TraceID == "" {
		err = in["trace_id"].bad("is needed")
	}
	if err != nil {
		return o, err
	}
	if !in["value"].there() {
		return o, in["value"].bad("is needed")
	}
	if o.Value, err = in["value"].whole(-maxValue, maxValue, 0); err != nil {
		return o, err
	}
	if o.Weight, err = in["weight"].number(0, 1, 1); err != nil || !in["metadata"].there() {
		return o, err
	}
	pairs, err := in["metadata"].members()
	if err != nil {
		return o, err
	}
	o.Metadata, err = in["metadata"].pairs(pairs)
	return o, err
}

type changeFeedbackInput struct {
	Feedback string `path:"feedback" maxLength:"255"`
	Body     struct {
		Value    int                               `json:"value" minimum:"-10" maximum:"10"`
		Weight   route.Optional[float64]           `json:"weight,omitempty" minimum:"0" maximum:"1" doc:"null is 1"`
		Metadata route.Optional[map[string]string] `json:"metadata,omitempty" doc:"Strings of up to 512 characters, in place of those there are"`
	}
}

func (f feedbacks) change(ctx context.Context, c *route.Caller, in *changeFeedbackInput) (*feedbackTaken, error) {
	to := logstore.FeedbackChange{Value: in.Body.Value, At: f.api.Now()}
	if w := in.Body.Weight; w.Set {
		weight := 1.0
		if !w.Null {
			weight = w.Value
		}
		to.Weight = &weight
	}
	if m := in.Body.Metadata; m.Set {
		if err := checkPairs(m.Value); err != nil {
			return nil, err
		}
		to.Metadata = &m.Value
	}
	q, err := f.seen(ctx, c, "", "")
	if err != nil {
		return nil, err
	}
	s, err := f.store()
	if err != nil {
		return nil, err
	}
	if q.ID, err = reqlog.ParseID(in.Feedback); err != nil {
		return nil, apierr.New(apierr.NotFound, "there is no feedback %.60q", in.Feedback)
	}
	return &feedbackTaken{"success", "Feedback was updated", []string{q.ID.String()}}, s.ChangeFeedback(ctx, q, to)
}

func checkPairs(pairs map[string]string) error {
	if len(pairs) > maxPairs {
		return route.Invalid("metadata", "has more than %d members", maxPairs)
	}
	for name, value := range pairs {
		if len(name) > maxName || utf8.RuneCountInString(value) > api.MaxMetadataValue {
			return route.Invalid("metadata", "has a name of more than %d bytes, or a value of more than %d characters: %.40q", maxName, api.MaxMetadataValue, name)
		}
	}
	return nil
}

// seen is the feedback that a caller sees at most: of what they see in the log,
// for which people need a right.
func (f feedbacks) seen(ctx context.Context, c *route.Caller, workspace string, right access.Permission) (logstore.FeedbackQuery, error) {
	q := logstore.Query{Workspace: workspace}
	err := logsOf(f.api).limit(ctx, c.Identity, &q, right)
	return logstore.FeedbackQuery{Scope: feedbackScope(c, &q)}, err
}

// feedbackScope is whose feedback goes with a query of the log that was limited
// to what the caller sees.
func feedbackScope(c *route.Caller, q *logstore.Query) logstore.Scope {
	scope := q.Scope
	scope.Organisation = c.Organisation // some see entries of nobody; feedback is always somebody's
	if scope.Workspace == "" {
		scope.Workspace = q.Workspace
	}
	return scope
}

type listFeedbackInput struct {
	TraceID   string `query:"trace_id" maxLength:"256"`
	Workspace string `query:"workspace" maxLength:"255" doc:"Id or slug"`
	Page      int    `query:"current_page" minimum:"0" maximum:"1000000"`
	Size      int    `query:"page_size" minimum:"1" maximum:"1000" default:"100"`
}

// feedbackRecord is feedback as it is shown.
type feedbackRecord struct {
	Object    string            `json:"object" doc:"Always feedback"`
	ID        string            `json:"id"`
	TraceID   string            `json:"trace_id"`
	Value     int               `json:"value"`
	Weight    float64           `json:"weight"`
	Metadata  map[string]string `json:"metadata"`
	Model     *string           `json:"ai_model" doc:"Of the trace's newest exchange when it was given"`
	KeyID     string            `json:"api_key_id" doc:"Of who gave it"`
	Workspace string            `json:"workspace_id"`
	Created   route.Time        `json:"created_at"`
	Updated   route.Time        `json:"last_updated_at"`
}

func (f feedbacks) list(ctx context.Context, c *route.Caller, in *listFeedbackInput) (*route.List[feedbackRecord], error) {
	if err := c.CheckFilters(); err != nil {
		return nil, err
	}
	q, err := f.seen(ctx, c, in.Workspace, access.ScopeLogsView.Permission())
	if err != nil {
		return nil, err
	}
	s, err := f.store()
	if err != nil {
		return nil, err
	}
	q.TraceID = in.TraceID
	list, total, err := s.Feedback(ctx, q, in.Page*in.Size, in.Size)
	return route.ListOf(toResponse(list), total), err
}

func toResponse(list []logstore.Feedback) []feedbackRecord {
	out := make([]feedbackRecord, len(list))
	for i := range list {
		f := &list[i]
		out[i] = feedbackRecord{
			"feedback", f.ID.String(), f.TraceID, f.Value, f.Weight, f.Metadata, orNull(f.About.Model), f.KeyID, f.Workspace, route.Time(f.Created), route.Time(f.Updated),
		}
		if out[i].Metadata == nil {
			out[i].Metadata = map[string]string{}
		}
	}
	return out
}
