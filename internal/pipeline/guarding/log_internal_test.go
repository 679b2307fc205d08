package guarding

import (
	"testing"

	"modelgate/internal/guardrail"
	"modelgate/internal/records/reqlog"
)

// A log entry records fewer checks than feedback is stored. Both are bounded.
func TestFeedbackIsKeptBeyondTheLargestNumberOfChecks(t *testing.T) {
	var l CheckLog
	hook := guardrail.HookResult{Checks: make([]guardrail.CheckResult, reqlog.MaxChecks-1), Feedback: new(guardrail.FeedbackResult)}
	l.record(guardrail.Before, "", []guardrail.HookResult{hook, hook, hook})
	if n := len(l.Feedback()); n != 3 {
		t.Errorf("feedback of %d hooks, want of 3", n)
	}
	if len(l.checks) != reqlog.MaxChecks {
		t.Errorf("%d checks, want %d", len(l.checks), reqlog.MaxChecks)
	}
	for range maxFeedback {
		l.record(guardrail.Before, "", []guardrail.HookResult{hook})
	}
	if n := len(l.Feedback()); n != maxFeedback {
		t.Errorf("feedback of %d hooks, want at most of %d", n, maxFeedback)
	}
}
