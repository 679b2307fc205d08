package dataplane

import (
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline"
	"modelgate/internal/provider"
)

// checkBody validates the body of a unified route. The error for a missing
// model is stored: the config or a deployment may set one.
func (x *exchange) checkBody() error {
	err := x.Client.Check(x.Operation, &x.doc)
	if err != nil && err.Param == "model" && err.Code == "missing_required_parameter" {
		x.noModel = err
		err = x.checkBodyWithoutModel()
	}
	if err != nil {
		return err
	}
	return nil
}

// checkBodyWithoutModel validates a body without a model as if it had one.
func (x *exchange) checkBodyWithoutModel() *apierr.Error {
	var doc jsonedit.Doc
	if err := doc.Scan(x.doc.Apply(nil, jsonedit.Edit{Name: "model", Value: []byte(`""`)})); err != nil {
		return apierr.From(err)
	}
	return x.Client.Check(x.Operation, &doc)
}

// checkTarget validates what depends on the target. given is true if the config
// sets the model.
func (x *exchange) checkTarget(t *provider.Target, given, strict bool) error {
	if x.noModel != nil && !given && t.Option("deployment_id") == "" && !x.modelIsOptional(t) {
		return x.noModel
	}
	if !strict || t.Dialect != api.DialectChat || x.Dialect != api.DialectChat || x.Received.Doc == nil {
		return nil
	}
	if err := chat.CheckFunctionTools(x.Operation, x.Received.Doc); err != nil {
		return err
	}
	return nil
}

// modelIsOptional reports whether the target may know the model itself: a
// response can be made from a prompt that the provider stores. A list of models
// can't be compared with it.
func (x *exchange) modelIsOptional(t *provider.Target) bool {
	return x.Operation == api.Responses && t.Models == nil && t.DialectFor(x.Dialect, "") == x.Dialect
}

// fit completes the settings of a leaf with a target for the request.
func (x *exchange) fit(out *pipeline.Leaf, leaf *config.Config) {
	out.AllowModel = x.allowModel(out.Target)
	if out.Err = x.checkTarget(out.Target, givesModel(leaf) || x.filledModel(leaf) != "", leaf.Strict != nil && *leaf.Strict); out.Err == nil {
		out.Notes, out.Err = x.checkParams(leaf)
	}
}

// checkParams returns an error for parameters of the config if the body is not
// read as JSON, for example a form: they could not be applied. Requests that
// run no model, such as file uploads, are sent without them; the notes announce
// it.
func (x *exchange) checkParams(leaf *config.Config) (notes []dialect.ParamChange, err error) {
	if x.Received.Doc != nil || x.upload == nil && x.Received.Body == nil {
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
		case x.runsNoModel():
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

func givesModel(leaf *config.Config) bool {
	override, _ := leaf.OverrideParams.Text("model")
	standard, _ := leaf.DefaultParams.Text("model")
	return override != "" || standard != ""
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
