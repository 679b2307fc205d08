package dataplane

import (
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/jsonedit"
	"modelgate/internal/provider"
)

// checkBody judges the body of a unified route. A model that is missing is
// kept for later: the config or a deployment may give it.
func (x *exchange) checkBody() error {
	err := x.Client.Check(x.Operation, &x.doc)
	if err != nil && err.Param == "model" && err.Code == "missing_required_parameter" {
		x.noModel = err
		err = x.checkRest()
	}
	if err != nil {
		return err
	}
	return nil
}

// checkRest judges a body without a model as if it had one.
func (x *exchange) checkRest() *apierr.Error {
	var doc jsonedit.Doc
	if err := doc.Scan(x.doc.Apply(nil, jsonedit.Edit{Name: "model", Value: []byte(`""`)})); err != nil {
		return apierr.From(err)
	}
	return x.Client.Check(x.Operation, &doc)
}

// fits judges what only the target decides. given is true when the config
// gives the model.
func (x *exchange) fits(t *provider.Target, given, strict bool) error {
	if x.noModel != nil && !given && t.Option("deployment_id") == "" {
		return x.noModel
	}
	if !strict || t.Dialect != api.DialectChat || x.Dialect != api.DialectChat || x.Doc == nil {
		return nil
	}
	if err := chat.FunctionsOnly(x.Operation, x.Doc); err != nil {
		return err
	}
	return nil
}

// resolve returns the target of a leaf, which the exchange has to fit.
func (x *exchange) resolve(leaf *config.Config) (*provider.Target, error) {
	t, err := x.target(x.choose(leaf))
	if err != nil {
		return nil, err
	}
	if err := x.fits(t, givesModel(leaf) || x.filledModel(leaf) != "", leaf.Strict != nil && *leaf.Strict); err != nil {
		return nil, err
	}
	return t, nil
}

func givesModel(leaf *config.Config) bool {
	override, _ := leaf.OverrideParams.Text("model")
	standard, _ := leaf.DefaultParams.Text("model")
	return override != "" || standard != ""
}

// truth reads a header that is true or false, in any capitals.
func truth(name, value string) (*bool, error) {
	yes := strings.EqualFold(value, "true")
	if !yes && !strings.EqualFold(value, "false") {
		return nil, apierr.New(apierr.Invalid, "the header %s takes true or false, not %.40q", strings.ToLower(name), value).
			WithParam(strings.ToLower(name))
	}
	return &yes, nil
}
