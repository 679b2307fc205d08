package guarding

import (
	"errors"
	"slices"

	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
)

// guardStream wraps the stream of the response so that its events are checked as they pass.
func (run *responseRun) guardStream() error {
	if problem := charsetProblem(run.res.Header["Content-Type"]); problem != "" && acts(run.hooks) {
		return run.runUnreadable(errors.New("the response " + problem))
	}
	if c := run.res.Continued; c != nil {
		c.Hooks = run.hooks
	}
	s, err := run.guardEvents(run.res.Events, bodytext.Event, false)
	run.res.Events = s
	return err
}

// guardEvents returns a stream around from whose events are checked as they pass: one
// for each pass of the hooks, so that each sees only what those before it let pass. values
// says that the events are JSON values after each other.
func (run *responseRun) guardEvents(from exchange.Stream, form bodytext.Form, values bool) (*guardedStream, error) {
	var s *guardedStream
	joined := run.res.Joined
	for _, pass := range guardrail.Passes(run.hooks) {
		s = &guardedStream{
			Stream: from, run: run, hooks: sortHooks(pass.Hooks), again: pass.Again, form: form, values: values, joined: joined,
			texts: make(map[string]*streamText), replaced: make(map[string]string), results: make(map[*guardrail.Hook]*guardrail.HookResult),
		}
		s.binary = form == bodytext.Event && run.request.Client != nil && run.request.Client.ContentType() == eventstream.ContentType
		if err := s.prime(); err != nil {
			return s, err
		}
		from, joined = s, false
	}
	return s, nil
}

// addResults adds results to those of the response. Hooks that ran again have some
// already: only what is new in theirs is added.
func (s *guardedStream) addResults(results []guardrail.HookResult) {
	if !s.again || slices.ContainsFunc(results, func(r guardrail.HookResult) bool { return r.Deny || r.Transformed }) {
		s.run.addResults(results)
	}
}
