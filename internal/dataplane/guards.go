package dataplane

import (
	"bytes"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/guarding"
)

// resolveGuards sets the hooks of the leaves: those of the organisation and the
// workspace, then those of their configs, with saved guardrails as they are now.
func (rs *resolver) resolveGuards(lists []*guarding.List) error {
	if rs.admission.plane.SkipGuardrails || rs.guards == noGuards {
		return nil
	}
	defaults, err := rs.admission.snap.Guards(rs.admission.request.Identity)
	if err != nil {
		return err
	}
	var known map[*guarding.List]*exchange.Guards
	var admitted *exchange.Guards // the last whose checks are admitted
	for i, list := range lists {
		g, ok := known[list]
		switch {
		case list == nil || rs.guards == defaultGuards:
			g = defaults
		case ok:
		case defaults == nil && list.Static != nil:
			g = list.Static
		default:
			if g, err = rs.resolveGuardList(defaults, list); err != nil {
				return err
			}
			if known == nil {
				known = make(map[*guarding.List]*exchange.Guards)
			}
			known[list] = g
		}
		if rs.admission.request.Leaves[i].Guards = g; g != nil {
			rs.admission.request.Leaves[i].Checks = versions(g)
			if g != admitted {
				admitted = g
				rs.admitChecks(g.Before, g.After)
			}
		}
	}
	return nil
}

// versions identifies the saved guardrails in g, and whether errors of their checks are
// failures: a response that passed because of an error must not be served from the cache
// after that has changed.
func versions(g *exchange.Guards) string {
	var b strings.Builder
	for _, list := range [...][]*guardrail.Hook{g.Before, g.After} {
		for _, h := range list {
			if h.VersionID != "" {
				b.WriteString(h.VersionID + " ")
			}
			if h.FailClosed {
				b.WriteString("closed ")
			}
		}
	}
	return b.String()
}

// resolveGuardList returns the hooks in defaults and list.
func (rs *resolver) resolveGuardList(defaults *exchange.Guards, list *guarding.List) (*exchange.Guards, error) {
	if defaults == nil {
		defaults = new(exchange.Guards)
	}
	before, err := rs.resolveRefs(slices.Clip(defaults.Before), list.Before, guardrail.Before)
	if err != nil {
		return nil, err
	}
	after, err := rs.resolveRefs(slices.Clip(defaults.After), list.After, guardrail.After)
	return &exchange.Guards{Before: before, After: after}, err
}

// resolveRefs appends hooks. A saved guardrail that is in the list is not
// repeated.
func (rs *resolver) resolveRefs(hooks []*guardrail.Hook, refs []guarding.Ref, on guardrail.Event) ([]*guardrail.Hook, error) {
	for _, ref := range refs {
		h := ref.Hook
		if ref.Saved != "" {
			var err error
			if h, err = rs.admission.snap.Guardrail(rs.admission.request.Identity, ref.Saved, on); err != nil {
				return nil, err
			}
			if slices.ContainsFunc(hooks, func(of *guardrail.Hook) bool { return of.Is(h) }) {
				continue
			}
		}
		hooks = append(hooks, h)
	}
	return hooks, nil
}

// statusHookFailed is the status of a response whose request or itself failed a
// check that does not deny, if Options.HookStatus is set.
const statusHookFailed = 246

// addHookResults adds the results of hooks to a response that is not passed
// through.
func (x *roundTrip) addHookResults(res *exchange.Response) {
	if res.Hooks.Empty() {
		return
	}
	if x.admission.plane.HookStatus && res.Status == 200 && res.Hooks.Failed() {
		res.Status = statusHookFailed
	}
	switch {
	case x.admission.request.Operation == api.Proxy:
	case res.Bytes != nil:
		if body, ok := withHookResults(res.Bytes, res.Hooks.AppendJSON(nil)); ok {
			res.Bytes, res.Length = body, -1
		}
	case res.Events != nil && res.Attempt != nil && res.Attempt.Lenient:
		if end, ok := streamEnds[x.admission.request.Dialect]; ok && x.array == nil {
			res.Events = &hookEvents{Stream: res.Events, results: &res.Hooks, dialect: x.admission.request.Dialect, end: end}
		}
	}
}

// withHookResults returns a JSON object with hook_results.
func withHookResults(body, results []byte) ([]byte, bool) {
	var doc jsonedit.Doc
	if doc.Scan(body) != nil {
		return nil, false
	}
	return doc.Apply(make([]byte, 0, len(body)+len(results)+32), jsonedit.Edit{Name: "hook_results", Value: results}), true
}

// errorBody returns the body of an error, in the form of the client, and sets the headers that
// belong to it.
func (x *roundTrip) errorBody(e *apierr.Error) []byte {
	if x.admission.route.tools {
		return x.toolError(e)
	}
	body := x.admission.errorClient().Error(e)
	if e.Details != nil {
		if full, ok := withHookResults(body, e.Details); ok {
			return full
		}
	}
	return body
}

// streamEnds are the beginnings of the last events of streams, by dialects whose
// clients ignore an event that they do not know.
var streamEnds = map[api.Dialect][]byte{
	api.DialectChat:     []byte("data: [DONE]"),
	api.DialectMessages: []byte("event: message_stop"),
}

// hookEvents adds the results of hooks to a stream: those of the request before its
// first event, those of the response before its last.
type hookEvents struct {
	exchange.Stream
	results *exchange.HookResults
	dialect api.Dialect
	end     []byte
	begun   bool
	held    *sse.Event // the last event
}

// Next implements [exchange.Stream].
func (s *hookEvents) Next() (sse.Event, error) {
	if !s.begun {
		s.begun = true
		if len(s.results.Before) > 0 {
			return s.event(&exchange.HookResults{Before: s.results.Before}), nil
		}
	}
	if s.held != nil {
		e := *s.held
		s.held = nil
		return e, nil
	}
	e, err := s.Stream.Next()
	if err == nil && len(s.results.After) > 0 && bytes.HasPrefix(e.Raw, s.end) {
		s.held = &e
		return s.event(s.results), nil
	}
	return e, err
}

// More implements [exchange.Stream].
func (s *hookEvents) More() bool { return s.held != nil || s.Stream.More() }

func (s *hookEvents) event(h *exchange.HookResults) sse.Event {
	data := append(h.AppendJSON([]byte(`{"hook_results":`)), '}')
	typ := ""
	if s.dialect == api.DialectMessages {
		typ = "hook_results"
		data = append([]byte(`{"type":"hook_results",`), data[1:]...)
	}
	return sse.Event{Raw: sse.AppendEvent(nil, typ, data), Data: data}
}
