package guarding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
)

// ToolGuard runs hooks on a message to a tool server: on its arguments, and on the result.
// It is not safe for concurrent use.
type ToolGuard struct {
	Bounds  *exchange.Bounds
	Request *exchange.Request // of the message, with the operation and what checks may ask
	Trail   *exchange.Trail   // its checks are recorded; may be that of several messages
	Guards  *exchange.Guards  // nil for none
	Target  string            // names the server in records

	checked *document // the arguments as they are sent
	passed  []guardrail.HookResult
}

// maxToolResult is the limit in bytes of a result that is checked. A larger one is denied if
// a hook may deny.
const maxToolResult = 16 << 20

const codeResponseUnchecked = "response_unchecked"

// ActsOnArguments reports whether [ToolGuard.CheckArguments] may deny or change arguments.
func (g *ToolGuard) ActsOnArguments() bool { return g.Guards != nil && acts(g.Guards.Before) }

// ActsOnResults reports whether [ToolGuard.CheckResult] may deny or change a result.
func (g *ToolGuard) ActsOnResults() bool { return g.Guards != nil && acts(g.Guards.After) }

// CheckArguments runs the hooks on arguments, and returns them as the hooks changed them: the
// same slice if they did not. Nil has no arguments. aside is text of the message outside of
// its arguments, such as the URI of a resource, which hooks cannot change. An error is the
// denial.
func (g *ToolGuard) CheckArguments(ctx context.Context, arguments json.RawMessage, aside ...string) (json.RawMessage, error) {
	if g.Guards == nil {
		return arguments, nil
	}
	log := checkLog(g.Trail, g.Bounds)
	raw := arguments
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	if _, err := jsonedit.ParseValue(raw); err != nil {
		if acts(g.Guards.Before) {
			return nil, unchecked("the arguments are not valid JSON")
		}
		log.notCovered("arguments")
		return arguments, nil
	}
	doc := newDocument(g.Request, bodytext.ToolArguments, raw)
	g.checked = doc
	log.notCovered(doc.body.Uncovered...)
	parts := asideParts(aside)
	in := guardrail.Input{Event: guardrail.Before, Request: log.facts(g.Request, doc), Document: doc,
		Parts: append(doc.parts[:len(doc.parts):len(doc.parts)], parts...)}
	out, err := g.run(ctx, log, g.Guards.Before, &in)
	g.passed = out.Results
	if err != nil || !out.Transformed {
		return arguments, err
	}
	if err := checkUnchanged(parts, out); err != nil {
		return nil, err
	}
	changed, err := changedBody(doc, out)
	if err == nil && arguments != nil && !isObject(changed) && isObject(arguments) {
		err = errors.New("it returned arguments that are not an object")
	}
	switch {
	case err != nil:
		return nil, apierr.New(apierr.Denied, "a guardrail could not change the arguments: %v", err).WithCause(err)
	case arguments == nil: // there is nothing to put them in
		return nil, nil
	}
	g.checked = newDocument(g.Request, bodytext.ToolArguments, changed)
	return changed, nil
}

// CheckResult runs the hooks on a result, and returns it as the hooks changed it: the same
// slice if they did not. What is changed in its structured content is changed in its copies in
// other strings, and the other way round. An error is the denial.
func (g *ToolGuard) CheckResult(ctx context.Context, result json.RawMessage) (json.RawMessage, error) {
	if g.Guards == nil || len(g.Guards.After) == 0 {
		return result, nil
	}
	log := checkLog(g.Trail, g.Bounds)
	in := guardrail.Input{Event: guardrail.After, Status: 200}
	if g.checked != nil {
		in.Request = log.facts(g.Request, g.checked)
	} else {
		in.Request = log.facts(g.Request, nil)
	}
	_, err := jsonedit.ParseValue(result)
	switch {
	case len(result) > maxToolResult:
		err = errors.New("the result is too large")
	case err != nil:
		err = errors.New("the result is not valid JSON")
	}
	if err != nil {
		log.notCovered("result")
		in.Unreadable = err
		if _, denial := g.run(ctx, log, g.Guards.After, &in); denial != nil || !acts(g.Guards.After) {
			return result, denial
		}
		return nil, apierr.New(apierr.Denied, "%v, so it could not be checked by guardrails", err).WithCode(codeResponseUnchecked)
	}
	doc := newDocument(g.Request, bodytext.ToolResult, result)
	log.notCovered(doc.body.Uncovered...)
	in.Parts, in.Document = doc.parts, doc
	out, err := g.run(ctx, log, g.Guards.After, &in)
	if err != nil || !out.Transformed {
		return result, err
	}
	if out.Body == nil {
		if err := alignCopies(doc.body.Texts, out.Parts); err != nil {
			return nil, err
		}
	}
	changed, err := changedBody(doc, out)
	if err == nil && isObject(result) && !isObject(changed) {
		err = errors.New("it returned a result that is not an object")
	}
	if err != nil {
		return nil, apierr.New(apierr.Denied, "a guardrail could not change the result: %v", err).WithCause(err)
	}
	return changed, nil
}

// run runs hooks and records them. An error says that the text does not pass.
func (g *ToolGuard) run(ctx context.Context, log *CheckLog, hooks []*guardrail.Hook, in *guardrail.Input) (*guardrail.Outcome, error) {
	out := guardrail.Run(ctx, hooks, in, log.backgroundRuns(ctx, g.Target, g.Request.Memory))
	if ctx.Err() != nil {
		return out, apierr.New(apierr.ClientGone, "the client closed the request").WithCause(context.Cause(ctx))
	}
	hideTexts(in.Event, out.Results)
	log.record(in.Event, g.Target, out.Results)
	switch {
	case !out.Denied:
	case in.Event == guardrail.Before:
		return out, denied(exchange.HookResults{Before: out.Results})
	default:
		return out, denied(exchange.HookResults{Before: g.passed, After: out.Results})
	}
	return out, notRun(out)
}

// changedBody returns a body as hooks changed it.
func changedBody(doc *document, out *guardrail.Outcome) (json.RawMessage, error) {
	switch {
	case out.Err != nil:
		return nil, out.Err
	case out.Body != nil:
		return bytes.Clone(out.Body), nil
	}
	return doc.JSON(out.Parts, nil) // there are no messages to add any to
}

func isObject(raw []byte) bool {
	v, err := jsonedit.ParseValue(raw)
	return err == nil && v.Kind() == jsonedit.Object
}
