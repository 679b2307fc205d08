package provider

import "strings"

// ModelList says which models requests to a target may name. A nil list allows
// every model. It is shared and does not change.
type ModelList struct {
	enabled  map[string]bool // as clients spell them; nil allows what is not disabled
	disabled map[string]bool // in lower case
	longest  int             // length of the longest disabled model
}

// NewModelList returns a list that allows the enabled models only, or with all set
// every model that is not disabled. It returns nil if that leaves out none.
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

// Allows reports whether requests may name the model. The prefix that Google's
// protocol writes before every model is ignored. An enabled model has one
// spelling; a disabled one has any that a provider may take for it: in other
// capitals, with spaces around it, or with a variant after a colon.
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
	// A variant can only follow a name that is on the list: what is longer is not
	// looked up, since a client chooses how many colons there are.
	for i := range min(len(model), l.longest+1) {
		if model[i] == ':' && l.disabled[model[:i]] {
			return true
		}
	}
	return false
}
