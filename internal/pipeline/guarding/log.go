package guarding

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/records/reqlog"
)

// maxFeedback is the largest number of hooks of a request whose feedback is stored.
const maxFeedback = 1000

// CheckLog is what the hooks of a request did, in all of its trails. It is safe
// for concurrent use.
type CheckLog struct {
	mu        sync.Mutex
	runs      map[requestRunKey]*requestRun // guarded by mu, as are the fields below
	checks    []reqlog.CheckUse
	uncovered []string
	feedback  []guardrail.FeedbackResult
	shadow    []ShadowResult
	attempts  []reqlog.Attempt   // at models, made by checks
	bodies    []*bytepool.Buffer // of changed requests

	bill       *exchange.Bill // of the request
	limit      int            // of attempts
	pending    sync.WaitGroup // checks that run in the background
	background bool           // there were such checks; guarded by mu
}

// checkLog returns the log of the request's hooks, and makes it if there is none.
func checkLog(t *exchange.Trail, b *exchange.Bounds) *CheckLog {
	l, _ := t.ChecksOf(func() exchange.CheckRecord { return &CheckLog{bill: t.Bill(), limit: b.AttemptLimit()} }).(*CheckLog)
	return l
}

// ChecksOf returns the log of the request's hooks, nil if none ran. It outlives the
// trail.
func ChecksOf(t *exchange.Trail) *CheckLog {
	l, _ := t.ChecksOf(nil).(*CheckLog)
	return l
}

// record adds the results of hooks.
func (l *CheckLog) record(on guardrail.Event, target string, results []guardrail.HookResult) {
	event := "before"
	if on == guardrail.After {
		event = "after"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checks = slices.Grow(l.checks, len(results))
	for i := range results {
		h := &results[i]
		if h.Feedback != nil && len(l.feedback) < maxFeedback {
			l.feedback = append(l.feedback, *h.Feedback)
		}
		if h.Shadow && h.VersionID != "" && len(l.shadow) < reqlog.MaxChecks {
			l.shadow = append(l.shadow, ShadowResult{On: on, Result: *h})
		}
		for _, c := range h.Checks {
			if len(l.checks) == reqlog.MaxChecks {
				break
			}
			use := reqlog.CheckUse{
				Event: event, Target: target, Hook: h.ID, Version: h.VersionID, Check: c.ID, Verdict: reqlog.CheckFailed,
				Denied: h.Deny, Transformed: c.Transformed, Async: h.Async, Shadow: h.Shadow, Took: c.Took,
			}
			switch {
			case c.Error != nil:
				use.Verdict = reqlog.CheckError
			case c.Verdict:
				use.Verdict = reqlog.CheckPassed
			}
			l.checks = append(l.checks, use)
		}
	}
}

// notCovered records content that no check has read.
func (l *CheckLog) notCovered(names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		if !slices.Contains(l.uncovered, name) {
			l.uncovered = append(l.uncovered, name)
		}
	}
}

// inBackground runs f after the request, for at most maxBackground.
func (l *CheckLog) inBackground(ctx context.Context, f func(ctx context.Context)) {
	l.mu.Lock()
	l.background = true
	l.mu.Unlock()
	l.pending.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxBackground)
		defer cancel()
		f(ctx)
	})
}

// maxBackground is how long checks that do not delay a request may run.
const maxBackground = guardrail.MaxTimeout + 5*time.Second

// Finished reports whether all checks have ended and none left results that have to be
// stored apart from the log entry.
func (l *CheckLog) Finished() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.background && len(l.feedback)+len(l.shadow) == 0
}

// Await waits until all checks of the request have ended.
func (l *CheckLog) Await() { l.pending.Wait() }

// Release releases the bodies that hooks changed.
func (l *CheckLog) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.bodies {
		b.Release()
	}
	l.bodies = nil
}

// Feedback returns the feedback of hooks, to be stored for the trace.
func (l *CheckLog) Feedback() []guardrail.FeedbackResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.feedback
}

// ShadowResult is the result of a saved guardrail that observes only.
type ShadowResult struct {
	On     guardrail.Event
	Result guardrail.HookResult
}

// Shadow returns the results of saved guardrails in shadow mode.
func (l *CheckLog) Shadow() []ShadowResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shadow
}

// seeResults ends the message of a denial.
const seeResults = "; see hook_results"

// denied returns the error for a request that hooks denied.
func denied(results exchange.HookResults) *apierr.Error {
	last := results.Before
	if len(results.After) > 0 {
		last = results.After
	}
	e := apierr.New(apierr.Denied, "the guardrail checks %s"+seeResults, reasonsOf(last))
	e.Details = results.AppendJSON(nil)
	if !slices.ContainsFunc(last, func(r guardrail.HookResult) bool { return r.Deny && !r.SoftDeny }) {
		return e.WithCause(&softDenial{results})
	}
	return e
}

// hideTexts removes text from results that the client gets: of a response that hooks
// denied or changed, and of a request that those of a higher rank than its config did.
func hideTexts(on guardrail.Event, results []guardrail.HookResult) {
	from := guardrail.RankConfig
	if on == guardrail.Before {
		from = guardrail.RankWorkspace
	}
	guardrail.HideTexts(results, from)
}

// reasonsOf says which checks of the hooks that denied failed, or passed where a
// success denies.
func reasonsOf(results []guardrail.HookResult) string {
	var failed, passed []string
	for _, h := range results {
		if !h.Deny {
			continue
		}
		for _, c := range h.Checks {
			name := fmt.Sprintf("%s (%s)", c.ID, h.ID)
			if c.Incomplete {
				name = fmt.Sprintf("%s (%s: %s)", c.ID, h.ID, c.Error.Message)
			}
			switch {
			case h.Verdict:
				passed = append(passed, name)
			case !c.Verdict && (c.Error == nil || c.FailOnError):
				failed = append(failed, name)
			}
		}
	}
	var reasons []string
	if len(failed) > 0 {
		reasons = append(reasons, "failed: "+strings.Join(failed, ", "))
	}
	if len(passed) > 0 {
		reasons = append(reasons, "passed, which on_success denies: "+strings.Join(passed, ", "))
	}
	return cmp.Or(strings.Join(reasons, "; "), "denied it") // a hook without checks passes
}

// requestRunKey identifies a run of request hooks: the hooks, and the sources
// of the body.
type requestRunKey struct {
	guards *exchange.Guards
	body   *bytepool.Buffer
	prompt *exchange.PromptEdits
	edits  *jsonedit.Edit
	params *exchange.ConfigParams // which change the text
}
