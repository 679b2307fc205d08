package attempt

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// plan is what an attempt sends: to whom, in which dialect, and with which body.
type plan struct {
	record exchange.Attempt // of the trail

	handler        *TargetHandler
	request        *exchange.Request
	trail          *exchange.Trail
	also           []string        // further models that the sent request names
	prompted       []jsonedit.Edit // of the saved prompt
	refusedDialect api.Dialect     // in which the target refused the request; empty if in none
	without        []string        // paths of the optional parameters that the target refused
	wire           wirePlan
	timers         attemptTimers
	parent         string // the traceparent sent to the provider; empty if none
	call           provider.Call
}

// applyPrompt applies the target's saved prompt to the request, before the parameters of
// the config.
func (p *plan) applyPrompt(edits *exchange.PromptEdits) error {
	if edits.Err != nil {
		return edits.Err
	}
	if edits.Edits == nil {
		p.trail.Note(dialect.ParamChange{Name: "prompt_id", Outcome: dialect.Ignored})
		return nil
	}
	before := p.request.Prompt
	if last := p.trail.Outcome; last != nil {
		before = last.Prompt
	}
	if p.record.Prompt = edits.Prompt; edits.Prompt != before { // otherwise it is another attempt
		p.trail.Decide(p.handler.Path, "the saved prompt %s makes the request, in its version %d", edits.Prompt.Slug, edits.Prompt.Version)
	}
	p.prompted = edits.Edits
	return nil
}
