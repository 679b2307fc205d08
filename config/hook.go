package config

// Hook is a set of checks before a request or after a response.
type Hook struct {
	ID         string
	Type       string // empty means guardrail
	Checks     []Check
	OnFail     *HookActions
	OnSuccess  *HookActions
	Async      bool // does not delay the response
	Deny       bool
	Sequential bool
	Mode       GuardMode
	Stream     StreamMode
}

// GuardMode says what a guardrail does with a verdict.
type GuardMode string

// Modes of guardrails. Empty means Enforce.
const (
	Enforce GuardMode = "enforce"
	Shadow  GuardMode = "shadow" // observe only: no denial, no change, no delay
)

// StreamMode says how a guardrail checks streams.
type StreamMode string

// Modes of streams. Empty lets the checks decide.
const (
	StreamWindow  StreamMode = "window"  // text passes as soon as it is checked
	StreamHold    StreamMode = "hold"    // nothing passes before all is checked
	StreamObserve StreamMode = "observe" // all passes, and is checked at the end
)

// Denies reports whether a failure of the hook denies the request.
func (h Hook) Denies() bool { return h.Deny || h.OnFail.denies() }

// DeniesSuccess reports whether a success of the hook denies the request.
func (h Hook) DeniesSuccess() bool { return h.OnSuccess.denies() }

// Check is one check with its parameters.
type Check struct {
	ID         string
	Parameters Object
	Disabled   bool // set by is_enabled false
}

// HookActions holds the actions after the checks fail or succeed.
type HookActions struct {
	Feedback *Feedback
	Deny     bool
}

func (o *HookActions) denies() bool { return o != nil && o.Deny }

// Feedback is recorded for the trace of the request. A nil number is not set.
type Feedback struct {
	Value    *float64
	Weight   *float64
	Metadata Object
}

// Guardrail is an item of the guardrail and mutator lists: the id of a saved
// guardrail, or inline checks.
type Guardrail struct {
	// Saved is the id of a saved guardrail. All other fields are zero then.
	Saved string

	ID   string
	Type string // empty means that the list decides
	// Checks are the additional keys in order: the key is the ID, its object
	// the Parameters.
	Checks     []Check
	OnFail     *HookActions
	OnSuccess  *HookActions
	Async      bool
	Deny       bool
	Sequential bool
	Mode       GuardMode
	Stream     StreamMode
}

// Denies reports whether a failure of the guardrail denies the request.
func (g Guardrail) Denies() bool { return g.Deny || g.OnFail.denies() }

// DeniesSuccess reports whether a success of the guardrail denies the request.
func (g Guardrail) DeniesSuccess() bool { return g.OnSuccess.denies() }
