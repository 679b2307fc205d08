package attempt

import (
	"context"
	"slices"
	"strings"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// maxRepetitions is how often a request is repeated without a parameter. An error
// usually names one, and thinking has up to three.
const maxRepetitions = 3

// refusedParam is an optional parameter that a model at an endpoint refuses.
type refusedParam struct {
	endpoint
	path string
}

// readRefused returns the paths of the optional parameters in the sent body that
// an error refuses.
func (p *plan) readRefused(status int, raw []byte) (paths []string) {
	refused := provider.ReadRefused(p.wire.dialect, status, raw)
	sent, ok := p.call.Body.Source.(*bytepool.Buffer)
	if len(refused) == 0 || !ok {
		return nil
	}
	var doc jsonedit.Doc
	if doc.Scan(sent.Bytes()) != nil {
		return nil
	}
	for _, param := range refused {
		if _, ok := withoutMember(&doc, nil, param.Path); ok {
			paths = append(paths, param.Path)
		}
	}
	return paths
}

// repeatRequest repeats a request without the optional parameters that the target
// refused, and remembers them if that succeeds: later requests for the model do
// not send them. With on_unsupported refuse the result is the first attempt.
func (h *TargetHandler) repeatRequest(ctx context.Context, a *attempt, res *exchange.Response) (*exchange.Response, error) {
	r, t := a.plan.request, a.plan.trail
	for range maxRepetitions {
		if len(a.refusedParams) == 0 || h.OnUnsupported == config.Refuse || r.PastDeadline(0) {
			break
		}
		b, err := h.newAttempt(r, t)
		if err != nil {
			break
		}
		b.plan.refusedDialect, b.plan.without, t.Outcome = a.plan.refusedDialect, slices.Concat(a.plan.without, a.refusedParams), &b.plan.record
		t.Decide(h.Path, "%s refused %s for the model %s, repeating the request without", a.plan.record.Target.Label(),
			strings.Join(a.refusedParams, " and "), a.plan.record.Model)
		next, err := b.run(ctx)
		switch {
		case err != nil && (apierr.From(err).Status() >= 500 || ctx.Err() != nil):
			res.Close()
			return nil, err
		case err != nil:
			t.Outcome = &a.plan.record
			return res, nil
		case next.Status < 300:
			h.rememberRefused(b)
		}
		res.Close()
		a, res = b, next
	}
	return res, nil
}

// rememberRefused remembers the parameters without which an attempt succeeded,
// unless the name of the model is long: clients choose it.
func (h *TargetHandler) rememberRefused(a *attempt) {
	e := a.plan.endpoint(a.plan.wire.dialect)
	if len(e.model) > exchange.MaxModelName {
		return
	}
	e.model = strings.Clone(e.model) // which may be part of a body
	for _, path := range a.plan.without {
		h.Engine.refusedParams.add(refusedParam{e, path}, memoryTime)
	}
}

// withoutRefused appends the edits that remove the optional parameters which the
// model is known to refuse, or has refused.
func (p *plan) withoutRefused(doc *jsonedit.Doc, list []jsonedit.Edit, rule *modeldata.Model) []jsonedit.Edit {
	if !rule.NoEffort && len(p.without) == 0 && p.handler.Engine.refusedParams.isEmpty() {
		return list
	}
	for _, param := range provider.OptionalParameters(p.wire.dialect) {
		edit, ok := withoutMember(doc, list, param.Path)
		if !ok || !(rule.NoEffort && param.Effort || slices.Contains(p.without, param.Path) ||
			p.handler.Engine.refusedParams.has(refusedParam{p.endpoint(p.wire.dialect), param.Path})) {
			continue
		}
		list = append(slices.Clip(list), edit)
		p.noteRefused(param.Path)
	}
	return list
}

// noteRefused announces that the parameter at a path of the sent body is left out,
// by the client's name.
func (p *plan) noteRefused(path string) {
	name := path
	if c, ok := p.wire.translator.(*conversation); ok {
		field := llm.FieldEffort
		if r := &c.decoded.Reasoning; r.Effort == "" && (r.Mode != "" || r.Budget != nil) {
			field = llm.FieldThinking
		}
		name = c.decoded.NameOf(field)
	}
	p.record.Params = slices.DeleteFunc(p.record.Params, func(c dialect.ParamChange) bool { return c.Name == name })
	p.record.Params = append(p.record.Params, dialect.ParamChange{Name: name, Outcome: dialect.Dropped})
}

// withoutMember returns the edit that removes the member at path, which is in the
// document or in a member of it, after the edits in list. ok is false if there is
// none. An object that has no other member is removed too.
func withoutMember(doc *jsonedit.Doc, list []jsonedit.Edit, path string) (edit jsonedit.Edit, ok bool) {
	top, inner, nested := strings.Cut(path, ".")
	v := edited(doc, list, top)
	if !nested {
		return jsonedit.Edit{Name: top}, len(v.Raw()) > 0
	}
	var object jsonedit.Doc
	if v.Kind() != jsonedit.Object || object.Scan(v.Raw()) != nil {
		return edit, false
	}
	if _, ok := object.Find(inner); !ok {
		return edit, false
	}
	edit.Name = top
	if object.Len() > 1 {
		edit.Value = object.Apply(nil, jsonedit.Edit{Name: inner})
	}
	return edit, true
}
