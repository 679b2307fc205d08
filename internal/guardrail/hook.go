package guardrail

import (
	"encoding/json"
	"slices"

	"modelgate/config"
)

// Types of hooks.
const (
	TypeGuardrail = "guardrail"
	TypeMutator   = "mutator" // its checks always run one after another
)

// Hook is a compiled hook: a set of checks with what happens after them. It is
// immutable.
type Hook struct {
	ID     string // empty: Run makes one
	Type   string // TypeGuardrail or TypeMutator
	Checks []*Check

	Deny       bool // a failure denies the request
	DenyPassed bool // a success denies the request
	Async      bool // the caller runs it without delaying the request, see Split
	Sequential bool // a check sees the transformations of those before it
	SoftDeny   bool // a denial is a response with status 200
	VersionID  string

	// Shadow makes the hook observe only: it runs without delaying the request,
	// and neither denies nor changes anything.
	Shadow bool
	// Stream says how the hook checks streams. Empty means by its checks.
	Stream config.StreamMode

	OnSuccess, OnFail *Feedback // nil records nothing

	Rank Rank
	// FailClosed makes an error of any check a failure, whatever its parameters say.
	FailClosed bool

	base *Hook // of which this is a copy with another rank; nil for none
}

// At returns the hook with the rank of those who apply it to all of their requests.
func (h *Hook) At(rank Rank) *Hook {
	out := *h
	out.Rank, out.base = rank, h
	return &out
}

// Is reports whether h is other, perhaps with another rank.
func (h *Hook) Is(other *Hook) bool { return h == other || h.base == other }

// Acts reports whether the hook can deny or change what it checks.
func (h *Hook) Acts() bool {
	return !h.Async && !h.Shadow && (h.Deny || h.DenyPassed || h.Transforms())
}

// Feedback is recorded for the trace of a request.
type Feedback struct {
	Value    *float64        `json:"value"`  // nil means ±5, the sign by verdict
	Weight   *float64        `json:"weight"` // nil means 1
	Metadata json.RawMessage `json:"metadata"`
}

func feedbackOf(o *config.HookActions) *Feedback {
	if o == nil || o.Feedback == nil {
		return nil
	}
	f := &Feedback{Value: o.Feedback.Value, Weight: o.Feedback.Weight}
	if o.Feedback.Metadata != nil {
		f.Metadata, _ = o.Feedback.Metadata.MarshalJSON() // members are valid JSON
	}
	return f
}

// complete sets defaults and reports faults of the hook as a whole.
func (h *Hook) complete(path string, faults []config.FieldError) (*Hook, []config.FieldError) {
	switch h.Type {
	case "":
		h.Type = TypeGuardrail
	case TypeGuardrail, TypeMutator:
	default:
		faults = append(faults, config.FieldError{Path: path + ".type", Message: "must be guardrail or mutator"})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return h, nil
}

// Transforms reports whether an enabled check of the hook may change texts.
func (h *Hook) Transforms() bool {
	for _, c := range h.Checks {
		if !c.Disabled && c.transforms() {
			return true
		}
	}
	return false
}

// Fields returns the names of header fields that only checks of the hooks may set, with
// those of hooks that do not act; see [Compiled].
func Fields(hooks []*Hook) (names []string) {
	for _, h := range hooks {
		for _, c := range h.Checks {
			if !c.Disabled {
				names = append(names, c.compiled.Fields...)
			}
		}
	}
	return names
}

// Reach returns how much text the hook needs: the most that one of its checks
// needs, or all if a success denies. See [Reach].
func (h *Hook) Reach() Reach {
	r := Reach{Complete: h.DenyPassed, Facts: true}
	for _, c := range h.Checks {
		if c.Disabled {
			continue
		}
		one := c.reach()
		r.Complete = r.Complete || one.Complete
		r.Facts = r.Facts && one.Facts
		r.Bytes = max(r.Bytes, one.Bytes)
	}
	return r
}

// Remote reports whether an enabled check of the hook asks something outside of
// this process.
func (h *Hook) Remote() bool {
	return slices.ContainsFunc(h.Checks, func(c *Check) bool { return !c.Disabled && c.compiled.Remote })
}

// Hold returns the index from which a stream must hold the end of a text of a kind
// for the enabled checks of the hook; see [Check.Hold].
func (h *Hook) Hold(kind Kind, text string) int {
	at := len(text)
	for _, c := range h.Checks {
		if !c.Disabled && c.kinds&kind != 0 {
			at = min(at, c.hold(text))
		}
	}
	return at
}

// StreamMode returns what the hook does to a stream. A hook without a mode gets the one
// that protects with the least delay: window if its checks can check a part of the
// text, hold if they need all of it and may deny or change it, otherwise observe.
func (h *Hook) StreamMode() config.StreamMode {
	acts := h.Deny || h.DenyPassed || h.Transforms()
	complete := h.Reach().Complete || h.Reach().Facts
	switch {
	case h.Async || h.Shadow || h.Stream == "" && !acts:
		return config.StreamObserve
	case h.Stream == config.StreamHold || h.Stream == "" && complete:
		return config.StreamHold
	case complete || h.Stream == config.StreamObserve:
		return config.StreamObserve
	}
	return config.StreamWindow
}
