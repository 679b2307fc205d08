package guarding

import (
	"context"
	"errors"
	"io"
	"slices"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/egress"
	"modelgate/internal/dialect"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/exchange"
)

// Trial runs hooks on text that nobody sent: no request reaches a provider unless a
// check sends one. Hooks that observe are run as if they were enforced.
type Trial struct {
	Hooks    []*guardrail.Hook
	On       guardrail.Event
	Dialect  api.Dialect // of Body; streams are in the chat dialect
	Identity *access.Identity
	Memory   *bytepool.Share  // that the trial counts against; nil for none
	Bounds   *exchange.Bounds // nil for the defaults

	Model    string
	Metadata map[string]string
	// Egress and CheckCalls are as in [exchange.Checking], and Trail records the attempts of
	// checks. All may be nil.
	Egress     *egress.Policies
	CheckCalls map[*guardrail.Model]*exchange.CheckCall
	Trail      *exchange.Trail

	// Body is the complete JSON body, a request or a response. It is not changed.
	Body []byte
	// Chunks are the text of the events of a streamed response. Nil runs the hooks
	// on Body.
	Chunks []string
}

// TrialResult is what hooks did in a [Trial].
type TrialResult struct {
	Results     []guardrail.HookResult
	Denied      bool
	Transformed bool
	Body        []byte       // after the changes, nil for a stream
	Texts       []string     // of Body, or of the stream as it passed
	Events      []TrialEvent // of a stream
	Mode        string       // of a stream: window, hold or observe, of the strictest hook
	Unchecked   []string     // content of Body that no check reads
}

// TrialEvent is text of a stream that passed.
type TrialEvent struct {
	After int    // number of chunks that had arrived
	Text  string // as it passed
}

// Run runs the hooks. An error says that they could not be run.
func (t *Trial) Run(ctx context.Context) (*TrialResult, error) {
	hooks := make([]*guardrail.Hook, len(t.Hooks))
	for i, h := range t.Hooks {
		enforced := *h
		enforced.Async, enforced.Shadow = false, false
		hooks[i] = &enforced
	}
	r := &exchange.Request{
		Identity:  t.Identity,
		Memory:    t.Memory,
		Dialect:   t.Dialect,
		Operation: t.Dialect.ConversationOperation(),
		Metadata:  t.Metadata,
		Stream:    t.Chunks != nil,
		Received:  exchange.Received{RequestedModel: t.Model},
		Checking:  exchange.Checking{Egress: t.Egress, CheckCalls: t.CheckCalls},
	}
	if t.Trail == nil {
		t.Trail = new(exchange.Trail)
	}
	log := checkLog(t.Trail, t.Bounds)
	if t.Chunks != nil {
		return t.runStream(ctx, r, hooks, log)
	}
	form := bodytext.Request
	if t.On == guardrail.After {
		form = bodytext.Response
	}
	doc := newDocument(r, form, t.Body)
	in := guardrail.Input{Event: t.On, Request: log.facts(r, doc), Parts: doc.parts, Document: doc}
	if t.On == guardrail.After {
		in.Status, in.Request = 200, log.facts(r, nil)
	}
	out := guardrail.Run(ctx, hooks, &in, nil)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := notRun(out); err != nil {
		return nil, err
	}
	res := &TrialResult{Results: out.Results, Denied: out.Denied, Transformed: out.Transformed,
		Body: t.Body, Texts: textsOf(doc.parts), Unchecked: doc.body.Uncovered}
	if !out.Transformed {
		return res, nil
	}
	if res.Body = out.Body; res.Body == nil && out.Err == nil {
		res.Body, out.Err = doc.JSON(out.Parts, out.Add)
	}
	if out.Err != nil {
		return nil, apierr.New(apierr.Invalid, "a check could not change the text: %v", out.Err)
	}
	res.Texts = textsOf(newDocument(r, form, res.Body).parts)
	return res, nil
}

func textsOf(parts []guardrail.Part) []string {
	list := make([]string, len(parts))
	for i := range parts {
		list[i] = parts[i].Text
	}
	return list
}

// runStream runs the hooks on a stream as the request path does.
func (t *Trial) runStream(ctx context.Context, r *exchange.Request, hooks []*guardrail.Hook, log *CheckLog) (*TrialResult, error) {
	from := &trialStream{chunks: t.Chunks}
	run := &responseRun{guard: new(ResponseGuard), ctx: ctx, request: r, log: log,
		res: &exchange.Response{Status: 200, Events: from}, hooks: hooks}
	out := &TrialResult{Mode: "observe"}
	s, err := run.guardEvents(from, bodytext.Event, false)
	if err == nil {
		err = out.relay(s, from)
	}
	sorted := sortHooks(hooks)
	switch {
	case len(sorted.hold) > 0:
		out.Mode = "hold"
	case len(sorted.window) > 0:
		out.Mode = "window"
	}
	var refusal *apierr.Error
	if out.Denied = isDenial(err, &refusal); err != nil && !out.Denied {
		return nil, err
	}
	out.Results, out.Unchecked = run.res.Hooks.After, run.log.uncovered
	out.Transformed = slices.ContainsFunc(out.Results, func(h guardrail.HookResult) bool { return h.Transformed })
	return out, ctx.Err()
}

// relay reads the events that pass.
func (out *TrialResult) relay(s *guardedStream, from *trialStream) error {
	whole := ""
	for {
		e, err := s.Next()
		if err != nil {
			out.Texts = []string{whole}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for _, text := range bodytext.Find(e.Data, bodytext.Event).Texts {
			if text.Value != "" {
				whole += text.Value
				out.Events = append(out.Events, TrialEvent{from.next, text.Value})
			}
		}
	}
}

// trialStream is a stream of the chat dialect with chunks as the text of its events.
type trialStream struct {
	chunks []string
	next   int // number of chunks that were returned
}

// Next implements [exchange.Stream].
func (s *trialStream) Next() (sse.Event, error) {
	if s.next == len(s.chunks) {
		return sse.Event{}, io.EOF
	}
	data := append(jsonedit.AppendString([]byte(`{"choices":[{"index":0,"delta":{"content":`), s.chunks[s.next]), `}}]}`...)
	s.next++
	return sse.Event{Raw: sse.AppendEvent(nil, "", data), Data: data}, nil
}

// More implements [exchange.Stream]. Each chunk arrives alone, so the hooks see it at once.
func (s *trialStream) More() bool { return false }

// Begun implements [exchange.Stream].
func (s *trialStream) Begun() bool { return true }

// Fail implements [exchange.Stream].
func (s *trialStream) Fail(dst []byte, client dialect.ClientDialect, e *apierr.Error) []byte {
	return client.ErrorEvent(dst, e)
}

// Comments implements [exchange.Stream].
func (s *trialStream) Comments() []byte { return nil }

// Pause implements [exchange.Stream].
func (s *trialStream) Pause() {}

// Resume implements [exchange.Stream].
func (s *trialStream) Resume() {}
