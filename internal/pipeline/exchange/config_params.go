package exchange

import (
	"slices"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/jsonedit"
)

// ConfigParams are the parameters that the config sets at a leaf. They are immutable.
type ConfigParams struct {
	Path string // JSON path of the leaf in its config

	// Defaults fill in what a JSON body lacks, Override replaces and Drop removes, in
	// this order.
	Defaults, Override []jsonedit.Edit
	Drop               []jsonedit.Path

	ChangesText bool // in the bodies of known APIs
}

// ParamsOf returns the parameters of a leaf with these effective settings.
func ParamsOf(n *config.Config) ConfigParams {
	p := ConfigParams{Path: n.Path, Defaults: edits(n.DefaultParams), Override: edits(n.OverrideParams), Drop: paths(n.DropParams)}
	text := func(e jsonedit.Edit) bool { return bodytext.HoldsText(e.Name, e.Value) }
	p.ChangesText = slices.ContainsFunc(p.Defaults, text) || slices.ContainsFunc(p.Override, text) || len(p.Drop) > 0
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

// IsEmpty reports whether the parameters change no body.
func (p *ConfigParams) IsEmpty() bool { return len(p.Defaults)+len(p.Override)+len(p.Drop) == 0 }

// Apply returns the body of r after its edits, the defaults, those of a saved prompt, the
// overrides and the drops, in this order. It is scanned again, so that quirks see the body
// that is sent.
func (p *ConfigParams) Apply(r *Request, prompt []jsonedit.Edit) (*jsonedit.Doc, error) {
	list := slices.Clip(r.Edits)
	for _, e := range p.Defaults {
		if _, ok := r.Received.Doc.Find(e.Name); !ok {
			list = append(list, e)
		}
	}
	list = append(append(list, prompt...), p.Override...)
	body := r.Received.Doc.Apply(nil, list...)
	for _, path := range p.Drop {
		dropped, err := jsonedit.Delete(nil, body, path)
		if err != nil {
			return nil, apierr.New(apierr.Invalid, "AB01: %s: drop_params: %v", p.Path, err).WithCode("AB01")
		}
		body = dropped
	}
	doc := new(jsonedit.Doc)
	if err := doc.Scan(body); err != nil {
		return nil, apierr.New(apierr.Invalid, "%s: override_params, default_params or drop_params produce an invalid body: %v", p.Path, err)
	}
	return doc, nil
}
