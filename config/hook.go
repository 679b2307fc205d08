package config

// Hook is a set of checks before a request or after a response.
type Hook struct {
	ID         string
	Type       string // empty means guardrail
	Checks     []Check
	OnFail     *HookActions
	OnSuccess  *HookActions
	Async      bool // does not hold the answer back
	Deny       bool
	Sequential bool
}

// Denies reports whether a failure of the hook refuses the request.
func (h Hook) Denies() bool { return h.Deny || h.OnFail.denies() }

// Check is one check with its parameters.
type Check struct {
	ID         string
	Parameters Object
	Disabled   bool // given as is_enabled false
}

// HookActions is what follows when the checks fail or succeed.
type HookActions struct {
	Feedback *Feedback
	Deny     bool
}

func (o *HookActions) denies() bool { return o != nil && o.Deny }

// Feedback is recorded for the trace of the request. A nil number was not
// given.
type Feedback struct {
	Value    *float64
	Weight   *float64
	Metadata Object
}

// Guardrail is an item of the guardrail and mutator lists: either the id of a
// saved guardrail, or checks written in place.
type Guardrail struct {
	// Saved is the id of a saved guardrail. All else is zero then.
	Saved string

	ID   string
	Type string // empty means by the list it is in
	// Checks are the additional keys in the order in which they are written:
	// the key as ID, its complete object as Parameters.
	Checks     []Check
	OnFail     *HookActions
	OnSuccess  *HookActions
	Async      bool
	Deny       bool
	Sequential bool
}

// Denies reports whether a failure of the guardrail refuses the request.
func (g Guardrail) Denies() bool { return g.Deny || g.OnFail.denies() }
