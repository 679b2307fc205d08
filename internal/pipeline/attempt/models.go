package attempt

import (
	"slices"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/modelnames"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// checkModels compares every model in the body with the target's allow-list.
// doc is the client's body after the config and list holds pending edits, so
// that the models actually sent are checked.
func (p *plan) checkModels(doc *jsonedit.Doc, list []jsonedit.Edit) error {
	if p.record.Target.Models == nil {
		return nil
	}
	body := doc.Bytes()
	if len(list) > 0 {
		body = doc.Apply(nil, list...)
	}
	models, err := modelnames.JSON(body)
	if err != nil {
		return provider.ModelRefused("the provider @%s has a list of models, and those of this request cannot be known: %v", p.record.Target.Slug, err)
	}
	for _, model := range models {
		if err := p.record.Target.CheckModel(model); err != nil {
			return err
		}
	}
	if _, sent := p.request.Received.Doc.Find("model"); sent && len(models) == 0 && len(p.handler.Params.Drop) > 0 {
		return provider.ModelRefused("the provider @%s has a list of models, and drop_params of the config removes the model from the request", p.record.Target.Slug)
	}
	return nil
}

// MaxNamedModels is the maximum number of different models that a request may name.
const MaxNamedModels = 64

// findModels finds the models that a body names in addition to the attempt's own: a
// provider may choose among them.
func (p *plan) findModels(doc *jsonedit.Doc) error {
	if p.wire.translates() { // translated requests name one
		return nil
	}
	models, err := modelnames.Document(doc, p.record.Model, p.request.Model)
	if err != nil && dependsOnModels(p.request) {
		return unknownToPolicies(err)
	}
	return p.addModels(models)
}

// findModelsOutsideBody does the same for the query, the path and the headers that the
// provider gets.
func (p *plan) findModelsOutsideBody() error {
	var models []string
	if p.call.Query != "" {
		named, err := modelnames.Query(p.call.Query)
		if err != nil && dependsOnModels(p.request) {
			return unknownToPolicies(err)
		}
		models = named
	}
	if p.request.Operation == api.Proxy || len(p.handler.Forward) > 0 {
		models = append(models, modelnames.Header(p.call.Header)...)
	}
	if err := p.addModels(models); err != nil || p.request.Operation != api.Proxy {
		return err
	}
	if model := p.request.ModelInPath(p.record.Target); model != "" {
		return p.addModels([]string{model})
	}
	return nil
}

func (p *plan) addModels(models []string) error {
	for _, m := range models {
		switch {
		case m == p.record.Model, m == p.request.Model, m == p.request.Received.RequestedModel, slices.Contains(p.also, m):
		case len(p.also) == MaxNamedModels:
			return apierr.New(apierr.Invalid, "the request names more than %d models; send several requests", MaxNamedModels).WithParam("models")
		default:
			p.also = append(p.also, m)
		}
	}
	return nil
}

// dependsOnModels reports whether a policy depends on the models of the request.
func dependsOnModels(r *exchange.Request) bool {
	return !r.Limiting.ByObject && r.Limiting.Policies.ReadsModels(r.Limiting.Facts)
}

func unknownToPolicies(err error) error {
	return provider.ModelRefused("policies depend on the models of this request, which cannot be known: %v; name them as strings", err)
}
