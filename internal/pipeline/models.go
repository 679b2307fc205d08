package pipeline

import (
	"modelgate/internal/apierr"
	"modelgate/internal/jsonedit"
	"modelgate/internal/modelnames"
)

// CodeModelRefused is the code of a refusal because of a target's allow-list of
// models, which is also that of the control plane for what somebody may not do.
const CodeModelRefused = "AB03"

// ModelRefused returns the error of a request whose models an allow-list does not
// hold.
func ModelRefused(format string, args ...any) *apierr.Error {
	return apierr.New(apierr.Forbidden, CodeModelRefused+": "+format, args...).WithParam("model").WithCode(CodeModelRefused)
}

// checkModel refuses a model that is not on the allow-list of a target.
func (a *Attempt) checkModel(model string) error {
	if a.Target.Models.Allows(model) {
		return nil
	}
	return ModelRefused("the model %.100q is not enabled for the provider @%s; use one listed by GET /v1/models", model, a.Target.Slug)
}

// checkModels compares every model in the body with the allow-list of the
// target. doc is what the config leaves of the client's body and list are edits
// still to be made, so what is searched is what the provider is asked.
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
		return ModelRefused("the provider entry @%s has a list of models, and those of this request cannot be known: %v", a.Target.Slug, err)
	}
	for _, model := range models {
		if err := a.checkModel(model); err != nil {
			return err
		}
	}
	if _, sent := a.request.Doc.Find("model"); sent && len(models) == 0 && len(a.handler.Drop) > 0 {
		return ModelRefused("the provider entry @%s has a list of models, and drop_params of the config takes the model out of the request", a.Target.Slug)
	}
	return nil
}
