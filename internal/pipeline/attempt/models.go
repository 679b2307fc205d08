package attempt

import (
	"slices"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/modelnames"
	"modelgate/internal/provider"
)

// checkModels compares every model in the body with the target's allow-list.
// doc is the client's body after the config and list holds pending edits, so
// that the models actually sent are checked.
func (a *attempt) checkModels(doc *jsonedit.Doc, list []jsonedit.Edit) error {
	if a.record.Target.Models == nil {
		return nil
	}
	body := doc.Bytes()
	if len(list) > 0 {
		body = doc.Apply(nil, list...)
	}
	models, err := modelnames.JSON(body)
	if err != nil {
		return provider.ModelRefused("the provider @%s has a list of models, and those of this request cannot be known: %v", a.record.Target.Slug, err)
	}
	for _, model := range models {
		if err := a.record.Target.CheckModel(model); err != nil {
			return err
		}
	}
	if _, sent := a.request.Received.Doc.Find("model"); sent && len(models) == 0 && len(a.handler.Params.Drop) > 0 {
		return provider.ModelRefused("the provider @%s has a list of models, and drop_params of the config removes the model from the request", a.record.Target.Slug)
	}
	return nil
}

// MaxNamedModels is the maximum number of different models that a request may name.
const MaxNamedModels = 64

// findModels finds the models that a body names in addition to the attempt's own: a
// provider may choose among them.
func (a *attempt) findModels(doc *jsonedit.Doc) error {
	if a.wire.translates() { // translated requests name one
		return nil
	}
	models, err := modelnames.Document(doc, a.record.Model, a.request.Model)
	if err != nil && a.dependsOnModels() {
		return unknownToPolicies(err)
	}
	return a.addModels(models)
}

// findModelsOutsideBody does the same for the query, the path and the headers that the
// provider gets.
func (a *attempt) findModelsOutsideBody() error {
	var models []string
	if a.call.Query != "" {
		named, err := modelnames.Query(a.call.Query)
		if err != nil && a.dependsOnModels() {
			return unknownToPolicies(err)
		}
		models = named
	}
	if a.request.Operation == api.Proxy || len(a.handler.Forward) > 0 {
		models = append(models, modelnames.Header(a.call.Header)...)
	}
	if err := a.addModels(models); err != nil || a.request.Operation != api.Proxy {
		return err
	}
	if model := a.request.ModelInPath(a.record.Target); model != "" {
		return a.addModels([]string{model})
	}
	return nil
}

func (a *attempt) addModels(models []string) error {
	for _, m := range models {
		switch {
		case m == a.record.Model, m == a.request.Model, m == a.request.Received.RequestedModel, slices.Contains(a.also, m):
		case len(a.also) == MaxNamedModels:
			return apierr.New(apierr.Invalid, "the request names more than %d models; send several requests", MaxNamedModels).WithParam("models")
		default:
			a.also = append(a.also, m)
		}
	}
	return nil
}

// dependsOnModels reports whether a policy depends on the models of the request.
func (a *attempt) dependsOnModels() bool {
	return a.request.Limiting.Policies.ReadsModels(a.request.Limiting.Facts)
}

func unknownToPolicies(err error) error {
	return provider.ModelRefused("policies depend on the models of this request, which cannot be known: %v; name them as strings", err)
}
