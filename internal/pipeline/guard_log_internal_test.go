package pipeline

import (
	"testing"

	"modelgate/internal/guardrail"
	"modelgate/internal/reqlog"
)

// A log entry records a bounded number of checks, but the feedback of every hook.
func TestFeedbackIsKeptBeyondTheLargestNumberOfChecks(t *testing.T) {
	var l CheckLog
	hook := guardrail.HookResult{Checks: make([]guardrail.CheckResult, reqlog.MaxChecks-1), Feedback: new(guardrail.FeedbackResult)}
	l.record(guardrail.Before, "", []guardrail.HookResult{hook, hook, hook}, func(int) bool { return false })
	if n := len(l.Feedback()); n != 3 {
		t.Errorf("feedback of %d hooks, want of 3", n)
	}
	if len(l.checks) != reqlog.MaxChecks {
		t.Errorf("%d checks, want %d", len(l.checks), reqlog.MaxChecks)
	}
}
