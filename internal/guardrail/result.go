package guardrail

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/jsonedit"
)

// HookResult is one item of before_request_hooks or after_request_hooks in
// hook_results.
type HookResult struct {
	Verdict       bool            `json:"verdict"`
	ID            string          `json:"id"`
	Type          string          `json:"type"`
	Transformed   bool            `json:"transformed"`
	Checks        []CheckResult   `json:"checks"`
	Feedback      *FeedbackResult `json:"feedback"`
	ExecutionTime int64           `json:"execution_time"` // milliseconds
	Async         bool            `json:"async"`
	CreatedAt     time.Time       `json:"created_at"`
	Deny          bool            `json:"deny"` // the hook denies and failed
	Skipped       bool            `json:"skipped,omitempty"`
	VersionID     string          `json:"guardrail_version_id,omitempty"`

	// Took is the exact ExecutionTime; SoftDeny that of the hook.
	Took     time.Duration `json:"-"`
	SoftDeny bool          `json:"-"`
}

// CheckResult is the result of one check in a HookResult.
type CheckResult struct {
	ID            string          `json:"id"`
	Verdict       bool            `json:"verdict"`
	Data          *Data           `json:"data"` // null if the check could not be made
	Error         *CheckError     `json:"error,omitempty"`
	ExecutionTime int64           `json:"execution_time"` // milliseconds
	Transformed   bool            `json:"transformed"`
	CreatedAt     time.Time       `json:"created_at"`
	Log           json.RawMessage `json:"log"`
	FailOnError   bool            `json:"fail_on_error"`

	Took  time.Duration `json:"-"`
	Spans []Span        `json:"-"` // by index in the parts of the Input of Run
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

// MarshalJSON returns the object, with the fields of all checks first.
func (d *Data) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 256)
	b = strconv.AppendBool(append(b, `{"verdict":`...), d.Verdict)
	b = strconv.AppendBool(append(b, `,"not":`...), d.Not)
	if d.Explanation != "" {
		b = jsonedit.AppendString(append(b, `,"explanation":`...), d.Explanation)
	}
	if d.TextExcerpt != "" {
		b = jsonedit.AppendString(append(b, `,"textExcerpt":`...), d.TextExcerpt)
	}
	if len(d.More) > 0 {
		more, err := json.Marshal(d.More)
		if err != nil {
			return nil, err
		}
		b = append(append(b, ','), more[1:len(more)-1]...)
	}
	return append(b, '}'), nil
}

// CheckError says why a check could not be made.
type CheckError struct {
	Name    string `json:"name"` // TimeoutError or CheckError
	Message string `json:"message"`
}

// FeedbackResult is the feedback to record for the trace.
type FeedbackResult struct {
	Value    float64        `json:"value"`
	Weight   float64        `json:"weight"`
	Metadata map[string]any `json:"metadata"`
}

// Outcome is the result of the hooks of an event.
type Outcome struct {
	Results []HookResult // in the order of the hooks
	Failed  bool         // a hook failed
	Denied  bool         // a hook denied the request
	// SoftDenied means that every hook that denied asks for status 200.
	SoftDenied bool

	// Transformed means that Parts, Add or Body differ from the Input. Parts are
	// those of the Input with changed texts, or those of Body if it is not nil.
	Transformed bool
	Parts       []Part
	Add         []Message
	Body        json.RawMessage
	Header      http.Header // for the provider; nil if there is none
	// Err is set if a transformed Body could not be written. The body must not be
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
		_ = json.Unmarshal(f.Metadata, &out.Metadata) // was an object when compiled
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
