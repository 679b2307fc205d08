package reqlog

import (
	"time"

	"modelgate/internal/format/jsonedit"
)

// CheckVerdict is the result of a check of a guardrail.
type CheckVerdict string

// Verdicts.
const (
	CheckPassed CheckVerdict = "passed"
	CheckFailed CheckVerdict = "failed"
	CheckError  CheckVerdict = "error" // the check could not be made
)

// CheckUse is a check that was made on a request or its response. It holds no text
// of either.
type CheckUse struct {
	Event   string // before or after
	Target  string // JSON path of the target in its config
	Hook    string // id of the hook or guardrail
	Version string // of a saved guardrail; empty for others
	Check   string // id of the check
	Verdict CheckVerdict

	Denied      bool // the hook denied the request or the response
	Transformed bool
	Async       bool
	Shadow      bool // the guardrail observes only

	Took time.Duration
}

// MaxChecks is the number of checks that an entry records.
const MaxChecks = 256

func (e *Entry) writeChecks(w *jsonedit.Builder) {
	w.Name("checks")
	w.Open('[')
	for i := range e.Checks {
		u := &e.Checks[i]
		w.Open('{')
		writeText(w, "event", u.Event)
		writeText(w, "target", u.Target)
		writeText(w, "hook", u.Hook)
		writeText(w, "version", u.Version)
		writeText(w, "check", u.Check)
		writeText(w, "verdict", string(u.Verdict))
		writeBool(w, "denied", u.Denied)
		writeBool(w, "transformed", u.Transformed)
		writeBool(w, "async", u.Async)
		writeBool(w, "shadow", u.Shadow)
		writeMillis(w, "took_ms", u.Took)
		w.Close('}')
	}
	w.Close(']')
	w.Name("unchecked")
	w.Open('[')
	for _, name := range e.Unchecked {
		w.String(name)
	}
	w.Close(']')
}
