package metering

import (
	"context"
	"errors"
	"time"

	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
)

// EarlierLimit returns err, or the error of a limit without room that is checked before
// the exhausted budget that err is about. It reserves nothing, and returns err while the
// counters fail.
func EarlierLimit(ctx context.Context, r *exchange.Request, counters quota.Store, t *exchange.Trail, err error) error {
	var budget *quota.Exhausted
	if counters == nil || !errors.As(err, &budget) {
		return err
	}
	if earlier := checkRoom(ctx, r, counters, t, budget.Before(r.Limiting.Limits)); earlier != nil {
		return earlier
	}
	return err
}

// checkRoom returns the error of the first of limits that has nothing left, nil if all
// have or the counters fail. It reserves nothing.
func checkRoom(ctx context.Context, r *exchange.Request, counters quota.Store, t *exchange.Trail, limits []*quota.Limit) error {
	var list []*quota.Limit
	for _, l := range limits {
		if countsFor(r, l) {
			list = append(list, l)
		}
	}
	if len(list) == 0 {
		return nil
	}
	now := time.Now()
	states, err := counters.Read(ctx, now, list)
	if err != nil {
		return nil
	}
	v := quota.Verdict{}
	var full []quota.Claim
	for i, l := range list {
		if states[i].Left(l) < 1 {
			full, v.States = append(full, quota.Claim{Limit: l, Amount: 1, Least: 1}), append(v.States, states[i])
		}
	}
	if len(full) == 0 {
		return nil
	}
	t.Bill().Quota.Refuse(full)
	return limitError(r, full, v, now)
}

// countsFor reports whether the request counts for l: one that only reads, or counts
// tokens, uses neither tokens nor money, and one to a tool server no tokens.
func countsFor(r *exchange.Request, l *quota.Limit) bool {
	return countsOne(l) || UsesTokens(r.Operation, r.Received.Method, -1) || l.Measure == quota.Cost && UsesMoney(r.Operation)
}
