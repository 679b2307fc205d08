package guardrail

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// HookResult is the result of a hook; [AppendResults] writes it.
type HookResult struct {
	Verdict       bool
	ID            string
	Type          string
	Transformed   bool
	Checks        []CheckResult
	Feedback      *FeedbackResult
	ExecutionTime int64 // milliseconds
	Async         bool
	CreatedAt     time.Time
	Deny          bool // the hook denies and failed
	Skipped       bool
	VersionID     string

	// Took is the exact ExecutionTime; SoftDeny, Shadow and Rank are those of the hook.
	Took     time.Duration
	SoftDeny bool
	Shadow   bool
	Rank     Rank
}

// Merge adds the result of the same hook on further text, or on the same text after a
// change.
func (r *HookResult) Merge(next *HookResult) {
	r.Took += next.Took
	r.ExecutionTime = r.Took.Milliseconds()
	r.Transformed = r.Transformed || next.Transformed
	if r.Deny = r.Deny || next.Deny; r.Verdict && !next.Verdict {
		r.Verdict, r.Feedback = false, next.Feedback
	}
	for i := range min(len(r.Checks), len(next.Checks)) {
		c, one := &r.Checks[i], &next.Checks[i]
		took, transformed := c.Took+one.Took, c.Transformed || one.Transformed
		if c.Verdict && c.Error == nil && (!one.Verdict || one.Error != nil) {
			*c = *one
		}
		c.Took, c.ExecutionTime, c.Transformed = took, took.Milliseconds(), transformed
	}
}

// HideTexts removes text from the data of all results if a hook of at least this rank
// denied or changed text: an excerpt, in the result of any check, would show what the hook
// withholds.
func HideTexts(results []HookResult, from Rank) {
	if !slices.ContainsFunc(results, func(r HookResult) bool { return r.Rank >= from && (r.Deny || r.Transformed) }) {
		return
	}
	for i := range results {
		for n := range results[i].Checks {
			c := &results[i].Checks[n]
			c.Data, c.Log = c.Data.WithoutText(), nil
		}
	}
}

// CheckResult is the result of one check in a HookResult.
type CheckResult struct {
	ID            string
	Verdict       bool
	Data          *Data // null if the check could not be made
	Error         *CheckError
	ExecutionTime int64 // milliseconds
	Transformed   bool
	CreatedAt     time.Time
	Log           json.RawMessage
	FailOnError   bool
	// Incomplete says that Error is one of what was sent; see [NewIncomplete].
	Incomplete bool

	Took  time.Duration
	Spans []Span // by index in the parts of the Input of Run
}

// Data is what a check says about its result: an object with fields that all
// checks have, and those of one kind of check. It contains no credential and no
// text of the input longer than an excerpt.
type Data struct {
	Verdict     bool
	Not         bool           // the parameter not
	Explanation string         // empty for none
	TextExcerpt string         // empty for none
	More        map[string]any // other fields; their values can be written as JSON
}

// Fields returns the fields of the object; nil for nil.
func (d *Data) Fields() map[string]any {
	if d == nil {
		return nil
	}
	out := map[string]any{"verdict": d.Verdict, "not": d.Not}
	if d.Explanation != "" {
		out["explanation"] = d.Explanation
	}
	if d.TextExcerpt != "" {
		out["textExcerpt"] = d.TextExcerpt
	}
	maps.Copy(out, d.More)
	return out
}

// WithoutText returns the data with its booleans and numbers alone.
func (d *Data) WithoutText() *Data {
	if d == nil {
		return nil
	}
	out := &Data{Verdict: d.Verdict, Not: d.Not, More: make(map[string]any, len(d.More))}
	for name, v := range d.More {
		switch v.(type) {
		case bool, int, int64, float64:
			out.More[name] = v
		}
	}
	return out
}

// CheckError says why a check could not be made.
type CheckError struct {
	Name    string // TimeoutError or CheckError
	Message string
}

// FeedbackResult is the feedback to record for the trace.
type FeedbackResult struct {
	Value    float64
	Weight   float64
	Metadata map[string]any
}

// Outcome is the result of the hooks of an event.
type Outcome struct {
	Results []HookResult // in the order of the hooks
	Failed  bool         // a hook failed
	Denied  bool         // a hook denied the request

	// Transformed means that Parts, Add or Body differ from the Input. Parts are
	// those of the Input with changed texts, or those of Body if it is not nil.
	Transformed bool
	Parts       []Part
	Add         []Message
	Body        json.RawMessage
	Header      http.Header // for the provider; nil if there is none
	// Err is set if a transformed Body could not be written, or if there was no memory
	// for hooks, which did not run then: see [Request.Hold]. The body must not be
	// sent on then.
	Err error
}

// feedback returns what to record after the hook, nil if nothing is configured.
func (h *Hook) feedback(r *HookResult) *FeedbackResult {
	f, value := h.OnSuccess, 5.0
	if !r.Verdict {
		f, value = h.OnFail, -5
	}
	if f == nil {
		return nil
	}
	out := &FeedbackResult{Value: value, Weight: 1, Metadata: map[string]any{}}
	if f.Value != nil {
		out.Value = *f.Value
	}
	if f.Weight != nil {
		out.Weight = *f.Weight
	}
	if f.Metadata != nil {
		d := json.NewDecoder(bytes.NewReader(f.Metadata)) // was an object when compiled
		d.UseNumber()
		_ = d.Decode(&out.Metadata)
	}
	var passed, failed, errored []string
	for _, c := range r.Checks {
		switch {
		case c.Error != nil:
			errored = append(errored, c.ID)
		case c.Verdict:
			passed = append(passed, c.ID)
		default:
			failed = append(failed, c.ID)
		}
	}
	out.Metadata["successfulChecks"] = strings.Join(passed, ", ")
	out.Metadata["failedChecks"] = strings.Join(failed, ", ")
	out.Metadata["erroredChecks"] = strings.Join(errored, ", ")
	return out
}
