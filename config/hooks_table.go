package config

import (
	"fmt"
	"math"
)

// maxRating bounds the values and weights of feedback, whose products are added up.
const maxRating = 1_000_000

var rating = checked(number(lowest), func(n float64) string {
	if math.Abs(n) > maxRating {
		return fmt.Sprintf("must be from -%d to %d", maxRating, maxRating)
	}
	return ""
})

var feedbacks = newShape(
	prop("value", optional(rating, decimal), func(f *Feedback) **float64 { return &f.Value }, "recorded value"),
	prop("weight", optional(rating, decimal), func(f *Feedback) **float64 { return &f.Weight }, "weight of the value"),
	prop("metadata", freeForm, func(f *Feedback) *Object { return &f.Metadata }, "stored with the value"),
)

// outcomes may deny the request, mildOutcomes only record feedback.
var (
	outcomes = newShape(outcomeFeedback(),
		prop("deny", truth, func(o *HookActions) *bool { return &o.Deny }, "deny the request or response"))
	mildOutcomes = newShape(outcomeFeedback())
)

func outcomeFeedback() field[HookActions] {
	return prop("feedback", maybe(feedbacks), func(o *HookActions) **Feedback { return &o.Feedback }, "feedback to record for the trace")
}

var checks = newShape(
	needed(prop("id", word, func(c *Check) *string { return &c.ID }, "name of the check, for example default.contains")),
	needed(prop("parameters", freeForm, func(c *Check) *Object { return &c.Parameters }, "parameters of the check")),
	extension(isEnabled()),
)

// isEnabled returns the field that is stored negated, so that a zero Check is
// enabled.
func isEnabled() field[Check] {
	return field[Check]{
		name: "is_enabled", doc: "false turns the check off", schema: truth.schema,
		read: func(r *reader, path string, v value, into *Check) {
			enabled, ok := truth.read(r, path, v)
			into.Disabled = ok && !enabled
		},
		write: func(_ writer, from *Check) (value, bool) { return boolean(false), from.Disabled },
	}
}

var (
	beforeHooks = newShape(hookFields(outcomes)...)
	afterHooks  = newShape(append(hookFields(mildOutcomes),
		prop("async", truth, func(h *Hook) *bool { return &h.Async }, "run the checks without delaying, denying or changing anything"))...)
)

func hookFields(outcome *shape[HookActions]) []field[Hook] {
	return []field[Hook]{
		needed(prop("id", word, func(h *Hook) *string { return &h.ID }, "name of the hook")),
		prop("type", text, func(h *Hook) *string { return &h.Type }, "guardrail by default"),
		prop("checks", listOf(one(checks)), func(h *Hook) *[]Check { return &h.Checks }, "checks to run"),
		prop("on_fail", maybe(outcome), func(h *Hook) **HookActions { return &h.OnFail }, "what to do if a check fails"),
		prop("on_success", maybe(outcome), func(h *Hook) **HookActions { return &h.OnSuccess }, "what to do if all checks pass"),
		extension(prop("deny", truth, func(h *Hook) *bool { return &h.Deny }, "deny the request or response if a check fails")),
		extension(prop("sequential", truth, func(h *Hook) *bool { return &h.Sequential }, "run the checks one after another")),
		extension(prop("mode", oneOf(Enforce, Shadow), func(h *Hook) *GuardMode { return &h.Mode },
			"enforce (default), or shadow to only observe")),
		extension(prop("stream", oneOf(StreamWindow, StreamHold, StreamObserve), func(h *Hook) *StreamMode { return &h.Stream },
			"how streams are checked")),
	}
}

var (
	inputGuardrails  = guardrails(mildOutcomes)
	outputGuardrails = guardrails(outcomes)
)

// guardrails returns the shape of an inline guardrail: every further key is a
// check with its parameters as value.
func guardrails(outcome *shape[HookActions]) *shape[Guardrail] {
	s := newShape(
		prop("id", word, func(g *Guardrail) *string { return &g.ID }, "name of the guardrail"),
		prop("deny", truth, func(g *Guardrail) *bool { return &g.Deny }, "deny the request or response if a check fails"),
		prop("async", truth, func(g *Guardrail) *bool { return &g.Async }, "run the checks without delaying, denying or changing anything"),
		prop("on_fail", maybe(outcome), func(g *Guardrail) **HookActions { return &g.OnFail }, "what to do if a check fails"),
		prop("on_success", maybe(outcome), func(g *Guardrail) **HookActions { return &g.OnSuccess }, "what to do if all checks pass"),
		extension(prop("type", text, func(g *Guardrail) *string { return &g.Type }, "follows from the list by default")),
		extension(prop("sequential", truth, func(g *Guardrail) *bool { return &g.Sequential }, "run the checks one after another")),
		extension(prop("mode", oneOf(Enforce, Shadow), func(g *Guardrail) *GuardMode { return &g.Mode },
			"enforce (default), or shadow to only observe")),
		extension(prop("stream", oneOf(StreamWindow, StreamHold, StreamObserve), func(g *Guardrail) *StreamMode { return &g.Stream },
			"how streams are checked")),
	)
	s.refine = furtherObjects
	s.readUnlisted = func(r *reader, path string, m member, into *Guardrail) {
		at := property(path, m.name)
		if m.value.kind != isObject {
			r.fault(at, "must be an object with the parameters of the check, not "+string(m.value.kind))
			return
		}
		into.Checks = append(into.Checks, Check{ID: m.name, Parameters: m.value.object()})
	}
	s.writeUnlisted = func(_ writer, from *Guardrail) []member {
		var more []member
		for _, c := range from.Checks {
			more = append(more, member{c.ID, c.Parameters.value()})
		}
		return more
	}
	return s
}

// guardrail returns the rule for the id of a saved guardrail, or a guardrail of
// shape s.
func guardrail(s *shape[Guardrail]) rule[Guardrail] {
	return rule[Guardrail]{
		schema: &schema{OneOf: []*schema{word.schema, s.schema()}},
		read: func(r *reader, path string, v value) (Guardrail, bool) {
			var g Guardrail
			switch v.kind {
			case isString:
				g.Saved, _ = word.read(r, path, v)
			case isObject:
				s.read(r, path, v, &g)
			default:
				r.fault(path, "must be the id of a saved guardrail or an object, not "+string(v.kind))
				return g, false
			}
			return g, true
		},
		write: func(w writer, g Guardrail) (value, bool) {
			if g.Saved != "" {
				return value{kind: isString, text: g.Saved}, true
			}
			return s.write(w, &g), true
		},
	}
}
