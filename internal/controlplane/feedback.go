package controlplane

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// addFeedback adds the routes for feedback on responses.
func addFeedback(a *route.API, r Logs) {
	f := feedbacks{r, logsOf(a, r), a.Now}
	writers := []access.Scope{access.ScopeLogsWrite, access.ScopeCompletions}
	const tag = "Feedback"
	route.Add(a, route.Route{
		Method: http.MethodPost, Path: "/feedback", Name: "add-feedback", Tag: tag, Summary: "Add feedback to a trace",
		Scopes: writers, Data: true, UncheckedBody: true,
	}, f.add)
	route.Add(a, route.Route{
		Method: http.MethodPut, Path: "/feedback/{feedback}", Name: "update-feedback", Tag: tag,
		Summary: "Change feedback", Scopes: writers, Data: true,
	}, f.change)
	route.Add(a, route.Route{
		Method: http.MethodGet, Path: "/feedback", Name: "list-feedback", Tag: tag,
		Summary: "List feedback, the newest first", Scopes: []access.Scope{access.ScopeLogsView},
	}, f.list)
}

type feedbacks struct {
	deps Logs
	logs *LogHandler
	now  func() time.Time
}

// store returns the log, which also stores feedback.
func (f feedbacks) store() (*logstore.Store, error) {
	if f.deps.Log == nil {
		return nil, apierr.New(apierr.Unavailable, "request logging is disabled on this gateway")
	}
	return f.deps.Log, nil
}

// feedbackItem is feedback in a request.
type feedbackItem struct {
	TraceID  string            `json:"trace_id" maxLength:"256"`
	Value    int               `json:"value" minimum:"-10" maximum:"10"`
	Weight   float64           `json:"weight,omitempty" minimum:"0" maximum:"1" doc:"Defaults to 1"`
	Metadata map[string]string `json:"metadata,omitempty" maxProperties:"64" doc:"Strings of up to 512 characters"`
}

// Limits of feedback in one request.
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
	out := &feedbackTaken{Status: "success", Message: "Feedback added"}
	list := make([]logstore.Feedback, len(elements))
	for i, e := range elements {
		o, err := readOpinion(e)
		if err != nil {
			return nil, err
		}
		now := f.now()
		list[i] = logstore.Feedback{
			ID: reqlog.NewID(now), Organisation: c.Organisation, Workspace: c.Workspace, KeyID: c.KeyID,
			TraceID: o.TraceID, Value: float64(o.Value), Weight: o.Weight, Metadata: o.Metadata, Created: now, Updated: now,
		}
		out.IDs = append(out.IDs, list[i].ID.String())
	}
	s, err := f.store()
	if err != nil {
		return nil, err
	}
	if err := f.deps.Flush(ctx); err != nil {
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
		err = in["trace_id"].bad("is required")
	}
	if err != nil {
		return o, err
	}
	if !in["value"].there() {
		return o, in["value"].bad("is required")
	}
	if o.Value, err = in["value"].integer(-maxValue, maxValue, 0); err != nil {
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
		Metadata route.Optional[map[string]string] `json:"metadata,omitempty" doc:"Strings of up to 512 characters; replaces all metadata"`
	}
}

func (f feedbacks) change(ctx context.Context, c *route.Caller, in *changeFeedbackInput) (*feedbackTaken, error) {
	to := logstore.FeedbackChange{Value: in.Body.Value, At: f.now()}
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
	q, err := f.visibleQuery(ctx, c, "", "")
	if err != nil {
		return nil, err
	}
	s, err := f.store()
	if err != nil {
		return nil, err
	}
	if q.ID, err = reqlog.ParseID(in.Feedback); err != nil {
		return nil, apierr.New(apierr.NotFound, "feedback %.60q not found", in.Feedback)
	}
	return &feedbackTaken{"success", "Feedback updated", []string{q.ID.String()}}, s.ChangeFeedback(ctx, q, to)
}

func checkPairs(pairs map[string]string) error {
	if len(pairs) > maxPairs {
		return route.Invalid("metadata", "must not have more than %d fields", maxPairs)
	}
	for name, value := range pairs {
		if len(name) > maxName || utf8.RuneCountInString(value) > api.MaxMetadataValue {
			return route.Invalid("metadata", "must have names of at most %d bytes and values of at most %d characters: %.40q", maxName, api.MaxMetadataValue, name)
		}
	}
	return nil
}

// visibleQuery returns a query for the feedback that the caller may see: feedback on entries of
// the log that they may see. Right is the permission that users need.
func (f feedbacks) visibleQuery(ctx context.Context, c *route.Caller, workspace string,
	right access.Permission) (logstore.FeedbackQuery, error) {
	q := logstore.Query{Workspace: workspace}
	err := f.logs.limit(ctx, c.Identity, &q, right)
	return logstore.FeedbackQuery{Scope: feedbackScope(c, &q)}, err
}

// feedbackScope returns the scope of feedback that belongs to a log query already
// restricted to what the caller may see.
func feedbackScope(c *route.Caller, q *logstore.Query) logstore.Scope {
	scope := q.Scope
	scope.Organisation = c.Organisation // unauthenticated requests have entries, but feedback always has an organisation
	if scope.Workspace == "" {
		scope.Workspace = q.Workspace
	}
	return scope
}

type listFeedbackInput struct {
	TraceID   string `query:"trace_id" maxLength:"256"`
	Workspace string `query:"workspace" maxLength:"255" doc:"Id or slug"`
	route.Paging
}

// feedbackRecord is feedback in a response.
type feedbackRecord struct {
	Object    string           `json:"object" doc:"Always feedback"`
	ID        string           `json:"id"`
	TraceID   string           `json:"trace_id"`
	Value     float64          `json:"value"`
	Weight    float64          `json:"weight"`
	Metadata  feedbackMetadata `json:"metadata"`
	Model     *string          `json:"ai_model" doc:"Model of the trace's latest request when the feedback was given"`
	KeyID     string           `json:"api_key_id" doc:"Key that sent it"`
	Workspace string           `json:"workspace_id"`
	Created   route.Time       `json:"created_at"`
	Updated   route.Time       `json:"last_updated_at"`
}

func (f feedbacks) list(ctx context.Context, c *route.Caller, in *listFeedbackInput) (*route.List[feedbackRecord], error) {
	if err := c.CheckFilters(); err != nil {
		return nil, err
	}
	q, err := f.visibleQuery(ctx, c, in.Workspace, access.ScopeLogsView.Permission())
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

// feedbackMetadata is an object. Members of other kinds than strings come from hooks.
type feedbackMetadata struct {
	texts      map[string]string
	structures map[string]json.RawMessage
}

// MarshalJSON implements json.Marshaler.
func (m feedbackMetadata) MarshalJSON() ([]byte, error) {
	all := make(map[string]any, len(m.texts)+len(m.structures))
	for name, text := range m.texts {
		all[name] = text
	}
	for name, raw := range m.structures {
		all[name] = raw
	}
	return json.Marshal(all)
}

// Schema implements huma.SchemaProvider.
func (feedbackMetadata) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

func toResponse(list []logstore.Feedback) []feedbackRecord {
	out := make([]feedbackRecord, len(list))
	for i := range list {
		f := &list[i]
		out[i] = feedbackRecord{
			"feedback", f.ID.String(), f.TraceID, f.Value, f.Weight, feedbackMetadata{f.Metadata, f.Structures},
			orNull(f.About.Model), f.KeyID, f.Workspace, route.Time(f.Created), route.Time(f.Updated),
		}
	}
	return out
}
