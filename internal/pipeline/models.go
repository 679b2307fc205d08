package pipeline

import (
	"modelgate/internal/apierr"
	"modelgate/internal/jsonedit"
	"modelgate/internal/modelnames"
)

// CodeModelRefused is the error code for a model that a target's allow-list
// excludes. The control plane uses it for missing permissions.
const CodeModelRefused = "AB03"

// ModelRefused returns the error for a request whose models are not on an
// allow-list.
func ModelRefused(format string, args ...any) *apierr.Error {
	return apierr.New(apierr.Forbidden, CodeModelRefused+": "+format, args...).WithParam("model").WithCode(CodeModelRefused)
}

// checkModel returns an error for a model that is not on the target's
// allow-list.
func (a *Attempt) checkModel(model string) error {
	if a.Target.Models.Allows(model) {
		return nil
	}
	return ModelRefused("the model %.100q is not enabled for the provider @%s; use one listed by GET /v1/models", model, a.Target.Slug)
}

// checkModels compares every model in the body with the target's allow-list.
// doc is the client's body after the config and list holds pending edits, so
// that the models actually sent are checked.
func (a *Attempt) checkModels(doc *jsonedit.Doc, list []jsonedit.Edit) error {
	if a.Target.Models == nil {
		return nil
	}
	body := doc.Bytes()
	if len(list) > 0 {
		body = doc.Apply(nil, list...)
	}
	models, err := modelnames.JSON(body)
	if err != nil {
		return ModelRefused("the provider @%s has a list of models, and those of this request cannot be known: %v", a.Target.Slug, err)
	}
	for _, model := range models {
		if err := a.checkModel(model); err != nil {
			return err
		}
	}
	if _, sent := a.request.Doc.Find("model"); sent && len(models) == 0 && len(a.handler.Drop) > 0 {
		return ModelRefused("the provider @%s has a list of models, and drop_params of the config removes the model from the request", a.Target.Slug)
	}
	return nil
}
