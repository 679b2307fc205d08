package reqlog

import "time"

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

func (e *Entry) writeChecks(w *jsonWriter) {
	w.name("checks").open('[')
	for i := range e.Checks {
		u := &e.Checks[i]
		w.comma().open('{')
		w.name("event").text(u.Event)
		w.name("target").text(u.Target)
		w.name("hook").text(u.Hook)
		w.name("version").text(u.Version)
		w.name("check").text(u.Check)
		w.name("verdict").text(string(u.Verdict))
		w.name("denied").bool(u.Denied)
		w.name("transformed").bool(u.Transformed)
		w.name("async").bool(u.Async)
		w.name("shadow").bool(u.Shadow)
		w.name("took_ms").ms(u.Took)
		w.close('}')
	}
	w.close(']')
	w.name("unchecked").open('[')
	for _, name := range e.Unchecked {
		w.comma().quote(name)
	}
	w.close(']')
}
