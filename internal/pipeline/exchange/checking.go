package exchange

import (
	"io"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/egress"
	"modelgate/internal/guardrail"
)

// Checking is what checks a request and its response, apart from the hooks of
// configs, which are in [Leaf].
type Checking struct {
	// Egress are the egress policies for requests that hooks and redirects cause. Nil
	// allows every host.
	Egress *egress.Policies
	// CheckCalls are the requests to the models that hooks of the request may ask,
	// admitted with it. It does not change. Nil if no hook asks a model.
	CheckCalls map[*guardrail.Model]*CheckCall

	// Passed are the results of the hooks that the request passed, and Checked
	// the body that they read.
	Passed  []guardrail.HookResult
	Checked guardrail.Document

	// Continued is the stream that the request continues; nil for others.
	Continued *Continuation
	// Rows checks the files of an upload; nil sends them as they are.
	Rows func(io.Reader) io.Reader
	// Configured is true if Body has the parameters that the leaf's config sets.
	Configured bool
	// Claims are headers for the provider that hooks set, on unified routes too.
	Claims http.Header
}

// Guards are the hooks that apply to a request at one leaf, in the order of
// their results. They are immutable.
type Guards struct {
	Before, After []*guardrail.Hook
}

// GuardsOf returns the hooks of a leaf for the request, nil for none.
func (r *Request) GuardsOf(leaf int) *Guards {
	if leaf >= len(r.Leaves) { // in tests of routing only
		return nil
	}
	return r.Leaves[leaf].Guards
}

// HookResults are the results of the hooks that a response passed, in the form of
// hook_results. They are empty if no hook ran.
type HookResults struct {
	Before, After []guardrail.HookResult
}

// AppendJSON appends the value of hook_results.
func (h *HookResults) AppendJSON(dst []byte) []byte {
	return guardrail.AppendResults(dst, h.Before, h.After)
}

// Empty reports whether no hook ran.
func (h *HookResults) Empty() bool { return len(h.Before)+len(h.After) == 0 }

// Failed reports whether a hook failed that did not deny.
func (h *HookResults) Failed() bool {
	failed := func(r guardrail.HookResult) bool { return !r.Verdict }
	return slices.ContainsFunc(h.Before, failed) || slices.ContainsFunc(h.After, failed)
}

// CheckCall is a request to the model of a check, admitted with the request that is
// checked. It is immutable: each call sends a copy with its own body.
type CheckCall struct {
	Request Request
	// Timeout is the time from the call after which no attempt begins. Zero means no
	// limit.
	Timeout time.Duration
	// Pool has the memory for bodies.
	Pool *bytepool.Pool
	// Err is why the model cannot be asked; the other fields are not set then.
	Err error
}
