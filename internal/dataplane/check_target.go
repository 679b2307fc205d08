package dataplane

import (
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// checkBody validates the body of a unified route. The error for a missing
// model is stored: the config or a deployment may set one.
func (a *admission) checkBody() error {
	err := a.request.Client.Check(a.request.Operation, &a.doc)
	if err != nil && err.Param == "model" && err.Code == "missing_required_parameter" {
		a.noModel = err
		err = a.checkBodyWithoutModel()
	}
	if err != nil {
		return err
	}
	return nil
}

// checkBodyWithoutModel validates a body without a model as if it had one.
func (a *admission) checkBodyWithoutModel() *apierr.Error {
	var doc jsonedit.Doc
	if err := doc.Scan(a.doc.Apply(nil, jsonedit.Edit{Name: "model", Value: []byte(`""`)})); err != nil {
		return apierr.From(err)
	}
	return a.request.Client.Check(a.request.Operation, &doc)
}

// checkLeaf validates what depends on the target and the model of a leaf.
func (rs *resolver) checkLeaf(leaf *exchange.Leaf, strict bool) error {
	t := leaf.Target
	if rs.admission.noModel != nil && leaf.Model == "" && t.Option("deployment_id") == "" && !rs.modelIsOptional(t) {
		return rs.admission.noModel
	}
	if !strict || t.Dialect != api.DialectChat || rs.admission.request.Dialect != api.DialectChat || rs.admission.request.Received.Doc == nil {
		return nil
	}
	if err := chat.CheckFunctionTools(rs.admission.request.Operation, rs.admission.request.Received.Doc); err != nil {
		return err
	}
	return nil
}

// modelIsOptional reports whether the target may know the model itself: a
// response can be made from a prompt that the provider stores. A list of models
// can't be compared with it.
func (rs *resolver) modelIsOptional(t *provider.Target) bool {
	return rs.admission.request.Operation == api.Responses && t.Models == nil &&
		t.DialectFor(rs.admission.request.Dialect, "") == rs.admission.request.Dialect
}

// completeLeaf completes a leaf with a target and a model for the request.
func (rs *resolver) completeLeaf(out *exchange.Leaf, leaf *config.Config) {
	rs.placeLeaf(out)
	if out.Err = rs.checkLeaf(out, leaf.Strict != nil && *leaf.Strict); out.Err == nil {
		out.Notes, out.Err = rs.checkParams(leaf)
	}
}

// checkParams returns an error for parameters of the config if the body is not
// read as JSON, for example a form: they could not be applied. Requests that
// run no model, such as file uploads, are sent without them; the notes announce
// it.
func (rs *resolver) checkParams(leaf *config.Config) (notes []dialect.ParamChange, err error) {
	if rs.admission.request.Received.Doc != nil || rs.admission.upload == nil && rs.admission.request.Received.Body == nil {
		return nil, nil
	}
	for _, p := range [...]struct {
		name  string
		given bool
	}{
		{"override_params", len(leaf.OverrideParams) > 0},
		{"default_params", len(leaf.DefaultParams) > 0},
		{"drop_params", len(leaf.DropParams) > 0},
	} {
		switch {
		case !p.given:
		case rs.admission.runsNoModel():
			notes = append(notes, dialect.ParamChange{Name: p.name, Outcome: dialect.Ignored})
		default:
			return nil, apierr.New(apierr.Invalid,
				"%s of %s cannot be applied: the body of this request is not a JSON object, or streams through; "+
					"send application/json with its length, on pass-through of at most %d bytes, or use a config without %s", p.name, leaf.Path, maxBufferedRaw, p.name).
				WithParam(p.name).WithCode(dialect.CodeUnsupported)
		}
	}
	return notes, nil
}

// boolHeader parses a header that is true or false, in any case.
func boolHeader(name, value string) (*bool, error) {
	yes := strings.EqualFold(value, "true")
	if !yes && !strings.EqualFold(value, "false") {
		return nil, apierr.New(apierr.Invalid, "the header %s must be true or false, not %.40q", strings.ToLower(name), value).
			WithParam(strings.ToLower(name))
	}
	return &yes, nil
}
