package guardrails

import (
	"bytes"
	"context"
	"encoding/json"
	"modelgate/internal/pipeline/guarding"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Limits of a test.
const (
	maxTestBody   = 2 << 20
	maxTestChunks = 10_000
)

// tests are the routes that test guardrails.
type tests struct {
	run   func(context.Context, *guarding.Trial) (*guarding.TrialResult, error) // nil without models and policies
	slots route.Slots
}

func (s *tests) add(a *route.API) {
	route.Add(a, route.Route{
		Method: http.MethodPost, Path: "/guardrails/test", Name: "test-guardrail", Tag: "Guardrails", MaxBody: maxTestBody,
		Summary: "Run the checks of a saved guardrail, or checks that are not saved, on a text",
		Scopes:  []access.Scope{"guardrails.create", "guardrails.update", "guardrails.invoke"},
	}, s.test)
	route.Add(a, route.Route{
		Method: http.MethodGet, Path: "/guardrails/checks", Name: "list-guardrail-checks", Tag: "Guardrails",
		Summary: "List the checks that guardrails can have, with the JSON Schema of their parameters",
		Scopes:  []access.Scope{"guardrails.list", "organisation_guardrails.list"},
	}, s.checks)
}

type testInput struct {
	Body struct {
		Workspace string            `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug"`
		Guardrail string            `json:"guardrail,omitempty" maxLength:"255" doc:"Id or slug of a saved guardrail; instead of checks"`
		Checks    []Check           `json:"checks,omitempty" maxItems:"100"`
		Actions   *Actions          `json:"actions,omitempty"`
		On        string            `json:"on,omitempty" enum:"request,response" default:"request" doc:"Whether the text belongs to a request or to a response"`
		Text      *string           `json:"text,omitempty" doc:"One text; instead of body and stream"`
		Body      route.JSON        `json:"body,omitempty" doc:"A JSON request or response in the format of dialect"`
		Stream    []string          `json:"stream,omitempty" maxItems:"10000" doc:"The text of a streamed response, one string for each event"`
		Dialect   string            `json:"dialect,omitempty" enum:"chat,messages,responses,gemini,converse" default:"chat"`
		Model     string            `json:"model,omitempty" maxLength:"255" doc:"Requested model, for checks that read it"`
		Metadata  map[string]string `json:"metadata,omitempty" maxProperties:"64"`
	}
}

// TestedCheck is the result of a check in a test.
type TestedCheck struct {
	ID          string           `json:"id"`
	Verdict     bool             `json:"verdict"`
	Error       string           `json:"error,omitempty" doc:"Error of the check"`
	Transformed bool             `json:"transformed"`
	Took        float64          `json:"ms"`
	Spans       []guardrail.Span `json:"spans" doc:"Positions of matches, as byte offsets in the text with the index part"`
	Data        map[string]any   `json:"data,omitempty"`
}

// TestedEvent is text of a stream that passed.
type TestedEvent struct {
	After int    `json:"after" doc:"Number of events that had arrived"`
	Text  string `json:"text"`
}

type tested struct {
	Verdict     bool          `json:"verdict" doc:"false if a check failed"`
	Denied      bool          `json:"denied" doc:"Whether the request or response would be denied; shadow and async guardrails are tested as if they were enforced"`
	Transformed bool          `json:"transformed"`
	Took        float64       `json:"ms"`
	Checks      []TestedCheck `json:"checks"`
	Texts       []string      `json:"texts" doc:"The resulting texts"`
	Body        route.JSON    `json:"body,omitempty" doc:"The resulting body"`
	Mode        string        `json:"mode,omitempty" doc:"How the stream was checked: window, hold or observe"`
	Stream      []TestedEvent `json:"stream,omitempty"`
	Unchecked   []string      `json:"unchecked,omitempty" doc:"Content that no check reads"`
}

func (s *tests) test(ctx context.Context, c *route.Caller, in *testInput) (*tested, error) {
	b := &in.Body
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return nil, err
	}
	on := guardrail.Before
	if b.On == "response" || b.Stream != nil {
		on = guardrail.After
	}
	t := guarding.Trial{On: on, Dialect: api.Dialect(b.Dialect), Model: b.Model, Metadata: b.Metadata, Chunks: b.Stream}
	if t.Body, err = testBody(in); err != nil {
		return nil, err
	}
	id, err := c.IdentityIn(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	hook, err := s.testHook(ctx, c, in, id, on)
	if err != nil {
		return nil, err
	}
	t.Hooks = []*guardrail.Hook{hook}
	t.Identity = id
	if err := s.slots.Take(c.Organisation); err != nil {
		return nil, err
	}
	defer s.slots.Leave(c.Organisation)
	start := time.Now()
	run := t.Run
	if s.run != nil {
		run = func(ctx context.Context) (*guarding.TrialResult, error) { return s.run(ctx, &t) }
	}
	res, err := run(ctx)
	if err != nil {
		return nil, err
	}
	return toTested(res, time.Since(start)), nil
}

// testBody returns the body that is tested, nil for a stream.
func testBody(in *testInput) ([]byte, error) {
	b := &in.Body
	given := 0
	for _, set := range [...]bool{b.Text != nil, len(b.Body) > 0, b.Stream != nil} {
		if set {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, route.Invalid("text", "is required, or else body or stream; exactly one of them")
	case b.Stream != nil:
		if b.On == "request" && len(b.Stream) == 0 {
			return nil, route.Invalid("stream", "must have at least one event")
		}
		b.Dialect = string(api.DialectChat)
		return nil, nil
	case b.Text == nil:
		if body := bytes.TrimSpace(b.Body); body[0] != '{' {
			return nil, route.Invalid("body", "must be a JSON object")
		}
		return b.Body, nil
	}
	text, err := json.Marshal(*b.Text)
	if err != nil {
		return nil, err
	}
	b.Dialect = string(api.DialectChat)
	if b.On == "response" {
		return []byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":` + string(text) + `}}]}`), nil
	}
	return []byte(`{"messages":[{"role":"user","content":` + string(text) + `}]}`), nil
}

// testHook returns the guardrail to test.
func (s *tests) testHook(ctx context.Context, c *route.Caller, in *testInput, id *access.Identity,
	on guardrail.Event) (*guardrail.Hook, error) {
	b, table := &in.Body, c.Guardrails()
	if table == nil {
		return nil, apierr.New(apierr.Unavailable, "guardrails are disabled on this gateway")
	}
	g, compile := store.Guardrail{Organisation: c.Organisation, Workspace: id.Workspace, Slug: "test"}, table.CompileSaved
	var err error
	switch {
	case b.Guardrail != "" && (b.Checks != nil || b.Actions != nil):
		return nil, route.Invalid("guardrail", "cannot be combined with checks and actions; leave one out")
	case b.Guardrail != "":
		if g, err = c.DB().Guardrail(ctx, c.Organisation, id.Workspace, b.Guardrail); apierr.IsNotFound(err) {
			err = route.Missing("guardrail", "guardrail", b.Guardrail)
		}
	case len(b.Checks) == 0:
		return nil, route.Invalid("checks", "must have at least one check, or guardrail must name a saved one")
	default:
		var actions Actions
		if b.Actions != nil {
			actions = *b.Actions
		}
		if !id.May(access.ScopeGuardrailsCreate) {
			compile = table.CompileUnsaved
		}
		if g.Checks, err = json.Marshal(b.Checks); err == nil {
			g.Actions, err = json.Marshal(actions)
		}
	}
	if err != nil {
		return nil, err
	}
	hook, faults := compile(route.SavedGuardrail(ctx, c.DB(), &g), on)
	if len(faults) > 0 {
		return nil, apierr.New(apierr.Invalid, "AB01: %s %s", faults[0].Path, faults[0].Message).WithParam(faults[0].Path).WithCode("AB01")
	}
	return hook, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func toTested(res *guarding.TrialResult, took time.Duration) *tested {
	out := &tested{
		Verdict: true, Denied: res.Denied, Transformed: res.Transformed, Took: milliseconds(took), Checks: []TestedCheck{},
		Texts: res.Texts, Body: res.Body, Mode: res.Mode, Unchecked: res.Unchecked,
	}
	if out.Texts == nil {
		out.Texts = []string{}
	}
	for _, h := range res.Results {
		out.Verdict = out.Verdict && h.Verdict
		for _, c := range h.Checks {
			one := TestedCheck{ID: c.ID, Verdict: c.Verdict, Transformed: c.Transformed, Took: milliseconds(c.Took),
				Spans: c.Spans, Data: c.Data.Fields()}
			if c.Error != nil {
				one.Error = c.Error.Message
			}
			if one.Spans == nil {
				one.Spans = []guardrail.Span{}
			}
			out.Checks = append(out.Checks, one)
		}
	}
	for _, e := range res.Events {
		out.Stream = append(out.Stream, TestedEvent(e))
	}
	return out
}

// CheckInfo describes a check.
type CheckInfo struct {
	ID          string         `json:"id"`
	Summary     string         `json:"summary" doc:"What passes"`
	On          []string       `json:"on" doc:"request, response or both"`
	Transforms  bool           `json:"transforms" doc:"Whether it can change the text"`
	Credentials []string       `json:"credentials" doc:"Names of the credentials that it needs"`
	Parameters  map[string]any `json:"parameters" doc:"JSON Schema"`
}

type checksInput struct{ route.LongPaging }

func (s *tests) checks(_ context.Context, c *route.Caller, in *checksInput) (*route.List[CheckInfo], error) {
	var list []*guardrail.Definition
	if t := c.Guardrails(); t != nil {
		list = t.Definitions()
	}
	return route.PageOf(list, in.LongPaging, nil, func(d *guardrail.Definition) CheckInfo {
		info := CheckInfo{ID: d.ID, Summary: d.Summary, On: []string{}, Transforms: d.Transforms,
			Credentials: d.Credentials, Parameters: d.Schema()}
		if d.On&guardrail.Before != 0 {
			info.On = append(info.On, "request")
		}
		if d.On&guardrail.After != 0 {
			info.On = append(info.On, "response")
		}
		if info.Credentials == nil {
			info.Credentials = []string{}
		}
		return info
	})
}
