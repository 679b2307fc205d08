package policy

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
)

// Codes of errors that agents act on.
const (
	CodeSession = "session_limit"
	CodeLoop    = "loop_detected"
)

// Governs reports whether [Set.CheckSession] may refuse the request, so that the
// caller need not load the body otherwise. It does not look at the target.
func (s *Set) Governs(f *Facts) bool {
	found := false
	if s != nil {
		s.govern.each(f, func(*compiled, *Facts) { found = true })
	}
	return found
}

// CheckSession returns an *apierr.Error if a policy that applies to the request
// detects a loop in its history, or if the session's time is over. Body is the
// request body in any dialect; nil has no history. Counters hold the start of each
// session; a dry run only reads them.
func (s *Set) CheckSession(ctx context.Context, counters quota.Store, f *Facts, body []byte, dryRun bool) error {
	if s == nil {
		return nil
	}
	var err error
	var calls *history
	s.govern.each(f, func(c *compiled, f *Facts) {
		var room [maxValueKey * 2]byte
		key, ok := c.appliesTo(room[:0], f)
		if !ok || err != nil {
			return
		}
		if c.policy.Loop != (Loop{}) {
			if calls == nil {
				calls = readHistory(body)
			}
			if err = calls.check(c.policy); err != nil {
				return
			}
		}
		if c.policy.Time {
			err = c.checkTime(ctx, counters, f, c.limit(key, f.Time), dryRun)
		}
	})
	return err
}

// startWindow is the window of the counters that hold the start of sessions. Stores
// remove them when it ends, and the time of a session starts again.
const startWindow = 7 * 24 * time.Hour

// checkTime returns an error if the time since the first request of a session exceeds
// the policy. The first request reserves its Unix time in a counter that can hold no
// more, so that all gateways agree about it. Once the start is known the store is not
// asked.
func (c *compiled) checkTime(ctx context.Context, counters quota.Store, f *Facts, l *valueLimit, dryRun bool) error {
	now := f.Time.Unix()
	if s := l.start.Load(); s != nil && f.Time.Before(s.until) {
		return c.timeError(now, s.began)
	}
	start := quota.Limit{Counter: l.Counter, Max: now, Window: startWindow, Holder: l.Holder, Down: l.Down}
	if dryRun {
		states, err := counters.Read(ctx, f.Time, []*quota.Limit{&start})
		if err != nil {
			return nil
		}
		return c.timeError(now, states[0].Used+states[0].Held)
	}
	v, err := counters.Reserve(ctx, f.Time, []quota.Claim{{Limit: &start, Amount: now, Least: now}})
	switch {
	case err != nil && l.Down == quota.DownClosed:
		return apierr.New(apierr.Unavailable, "the counters of policy %q are unavailable; try again shortly", name(c.policy)).WithCause(err)
	case err != nil:
		return nil
	case v.Refused < 0:
		counters.Settle(f.Time, v.Grants, quota.Use{Requests: now})
		return nil
	}
	began := v.States[0].Used + v.States[0].Held
	l.start.Store(&sessionStart{began, v.States[0].Reset})
	return c.timeError(now, began)
}

// timeError returns an error if a session that began at a time is over at now. Zero is
// one that has not begun.
func (c *compiled) timeError(now, began int64) error {
	if elapsed := now - began; began > 0 && elapsed >= c.policy.Max {
		return apierr.New(apierr.RateLimited,
			"session limit reached: this session began %d seconds ago and policy %q allows %d; finish the task without further model requests, or start a new session",
			elapsed, name(c.policy), c.policy.Max).WithCode(CodeSession).WithParam(c.sessionParam())
	}
	return nil
}

// SessionError returns the error for a request that exceeds a limit whose holder is a
// session. The limit must be from this set or an earlier one.
func (s *Set) SessionError(l *quota.Limit, state quota.State, now time.Time) error {
	param, unit := "", l.Measure.String()
	if l.Measure == quota.Cost {
		unit = "dollars"
	}
	if s != nil && s.byID[l.Holder.ID] != nil {
		param = s.byID[l.Holder.ID].sessionParam()
	}
	e := apierr.New(apierr.RateLimited,
		"session limit reached: this session has used %s of %s %s that policy %q allows; finish the task without further model requests, or start a new session",
		amount(state.Used+state.Held, l.Measure), amount(l.Max, l.Measure), unit, holderName(l.Holder)).WithCode(CodeSession).WithParam(param)
	if state.Reset.After(now) && l.Window > 0 {
		e.RetryAfter = state.Reset.Sub(now)
	}
	return e
}

// sessionParam returns where the request names its session.
func (c *compiled) sessionParam() string {
	for _, k := range c.group {
		switch k.name {
		case KeySession:
			return MetadataPrefix + SessionField
		case KeyTrace:
			return KeyTrace
		}
	}
	return ""
}
