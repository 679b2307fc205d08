package provider

import (
	"strings"

	"modelgate/internal/base/apierr"
)

// ModelList lists the models that requests to a target may name. A nil list
// allows every model. It is shared and does not change.
type ModelList struct {
	enabled  map[string]bool // as clients spell them; nil allows all but the disabled
	disabled map[string]bool // in lower case
	longest  int             // length of the longest disabled model
}

// NewModelList returns a list that allows only the enabled models, or with all
// set every model that is not disabled. It returns nil if that excludes none.
func NewModelList(all bool, enabled, disabled []string) *ModelList {
	l := new(ModelList)
	if all && len(disabled) == 0 {
		return nil
	}
	if all {
		l.disabled = make(map[string]bool, len(disabled))
		for _, m := range disabled {
			m = strings.ToLower(m)
			l.disabled[m] = true
			l.longest = max(l.longest, len(m))
		}
		return l
	}
	l.enabled = make(map[string]bool, len(enabled))
	for _, m := range enabled {
		l.enabled[m] = true
	}
	return l
}

// Allows reports whether requests may name the model. The prefix models/ of
// Google's protocol is ignored. An enabled model matches exactly; a disabled
// model matches every spelling that a provider may accept for it: in other
// case, with surrounding spaces, or with a variant after a colon.
func (l *ModelList) Allows(model string) bool {
	if l == nil {
		return true
	}
	if l.enabled != nil {
		return l.enabled[model] || l.enabled[strings.TrimPrefix(model, "models/")]
	}
	return !l.Disables(model)
}

// Disables reports whether the list names the model as disabled.
func (l *ModelList) Disables(model string) bool {
	if l == nil || l.disabled == nil {
		return false
	}
	model = strings.ToLower(strings.TrimSpace(model))
	model = strings.TrimPrefix(model, "models/")
	if l.disabled[model] {
		return true
	}
	// A name with a variant is longer than the listed name. Longer prefixes
	// than the longest listed name are not looked up, since the client chooses
	// the number of colons.
	for i := range min(len(model), l.longest+1) {
		if model[i] == ':' && l.disabled[model[:i]] {
			return true
		}
	}
	return false
}

// CheckModel returns an error for a model that the target's list does not allow.
func (t *Target) CheckModel(model string) error {
	if t.Models.Allows(model) {
		return nil
	}
	return ModelRefused("the model %.100q is not enabled for the provider @%s; use one listed by GET /v1/models", model, t.Slug)
}

// CodeModelRefused is the error code for a model that a target's allow-list
// excludes. The control plane uses it for missing permissions.
const CodeModelRefused = "AB03"

// ModelRefused returns the error for a request whose models are not on an
// allow-list.
func ModelRefused(format string, args ...any) *apierr.Error {
	return apierr.New(apierr.Forbidden, CodeModelRefused+": "+format, args...).WithParam("model").WithCode(CodeModelRefused)
}
