package pipeline

import (
	"slices"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

// configParams are the parameters that the config sets at a leaf. They are immutable.
type configParams struct {
	path string // JSON path of the leaf in its config

	// defaults fill in what a JSON body lacks, override replaces and drop removes, in
	// this order.
	defaults, override []jsonedit.Edit
	drop               []jsonedit.Path

	model, defaultModel string // in override and in defaults; empty if none
}

func paramsOf(n *config.Config) configParams {
	p := configParams{path: n.Path, defaults: edits(n.DefaultParams), override: edits(n.OverrideParams), drop: paths(n.DropParams)}
	p.model, _ = n.OverrideParams.Text("model")
	p.defaultModel, _ = n.DefaultParams.Text("model")
	return p
}

func edits(o config.Object) []jsonedit.Edit {
	list := make([]jsonedit.Edit, len(o))
	for i, m := range o {
		list[i] = jsonedit.Edit{Name: m.Name, Value: m.Value}
	}
	return list
}

func paths(list []string) []jsonedit.Path {
	out := make([]jsonedit.Path, 0, len(list))
	for _, s := range list {
		if p, err := jsonedit.ParsePath(s); err == nil { // validated by config.Parse
			out = append(out, p)
		}
	}
	return out
}

// isEmpty reports whether the parameters change no body.
func (p *configParams) isEmpty() bool { return len(p.defaults)+len(p.override)+len(p.drop) == 0 }

// changesText reports whether the parameters change text in the bodies of known APIs.
func (p *configParams) changesText() bool {
	text := func(e jsonedit.Edit) bool { return bodytext.HoldsText(e.Name, e.Value) }
	return slices.ContainsFunc(p.defaults, text) || slices.ContainsFunc(p.override, text) || len(p.drop) > 0
}

// apply returns the body of r after its edits, the defaults, those of a saved prompt, the
// overrides and the drops, in this order. It is scanned again, so that quirks see the body
// that is sent.
func (p *configParams) apply(r *exchange.Request, prompt []jsonedit.Edit) (*jsonedit.Doc, error) {
	list := slices.Clip(r.Edits)
	for _, e := range p.defaults {
		if _, ok := r.Received.Doc.Find(e.Name); !ok {
			list = append(list, e)
		}
	}
	list = append(append(list, prompt...), p.override...)
	body := r.Received.Doc.Apply(nil, list...)
	for _, path := range p.drop {
		dropped, err := jsonedit.Delete(nil, body, path)
		if err != nil {
			return nil, apierr.New(apierr.Invalid, "AB01: %s: drop_params: %v", p.path, err).WithCode("AB01")
		}
		body = dropped
	}
	doc := new(jsonedit.Doc)
	if err := doc.Scan(body); err != nil {
		return nil, apierr.New(apierr.Invalid, "%s: override_params, default_params or drop_params produce an invalid body: %v", p.path, err)
	}
	return doc, nil
}
