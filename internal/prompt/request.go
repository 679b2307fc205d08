package prompt

import (
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// Overrides returns the members of a request's body that override those of the prompt in
// its path. Clients send null for members that are not set. An error is an *apierr.Error.
func Overrides(body *jsonedit.Doc) ([]jsonedit.Edit, error) {
	var list []jsonedit.Edit
	for key, v := range body.Members() {
		switch name := key.String(); name {
		case "variables", "prompt_id", "promptID": // the last two repeat the path
		case "messages", "prompt":
			return nil, apierr.New(apierr.Invalid, "%s cannot be sent with a saved prompt; pass variables instead",
				name).WithParam(name).WithCode("invalid_parameter")
		case "parameters", "hyperparameters":
			return nil, apierr.New(apierr.Invalid, "%s is not accepted; put each parameter at the top level of the body",
				name).WithParam(name).WithCode("invalid_parameter")
		default:
			if !v.IsNull() {
				list = append(list, jsonedit.Edit{Name: name, Value: slices.Clone(v.Raw())})
			}
		}
	}
	return list, nil
}

// Edits returns the edits that make the rendered request of a request's body, and the
// provider and the model of the prompt. A model of the form @slug/model names both.
func (r *Rendered) Edits() (list []jsonedit.Edit, provider, model string, err error) {
	var made jsonedit.Doc
	if err := made.Scan(r.Body); err != nil {
		return nil, "", "", err
	}
	list, provider, model = []jsonedit.Edit{{Name: "variables"}}, r.Provider, r.Model
	for key, value := range made.Members() {
		list = append(list, jsonedit.Edit{Name: key.String(), Value: value.Raw()})
	}
	if slug, rest, ok := strings.Cut(model, "/"); ok && strings.HasPrefix(slug, "@") {
		provider, model = slug[1:], rest
		list = append(list, jsonedit.Edit{Name: "model", Value: jsonedit.AppendString(nil, rest)})
	}
	return list, provider, model, nil
}
