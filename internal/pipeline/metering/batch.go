package metering

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
)

// ReserveBatch reserves of budgets what a batch is expected to use. If strict, the error of
// what does not fit names the budget. Otherwise as much is reserved as is left, which may
// be nothing.
func ReserveBatch(ctx context.Context, store quota.Store, claims []quota.Claim, strict bool) (grants []quota.Grant, err error) {
	now := time.Now()
	if strict {
		for i := range claims {
			claims[i].Least = claims[i].Amount
		}
		v, err := store.Reserve(ctx, now, claims)
		switch {
		case err != nil:
			return nil, limitsUnavailable(err)
		case v.Refused >= 0:
			return nil, batchError(claims[v.Refused], v.States[v.Refused])
		}
		return v.Grants, nil
	}
	for _, c := range claims {
		c.Least = 1
		if v, err := store.Reserve(ctx, now, []quota.Claim{c}); err == nil { // lines are checked again
			grants = append(grants, v.Grants...)
		}
	}
	return grants, nil
}

// batchError returns the error of a batch that a budget has too little left for.
func batchError(c quota.Claim, s quota.State) *apierr.Error {
	l := c.Limit
	return shareable(l, apierr.New(apierr.BudgetExhausted,
		"the budget of %s has %s left and the batch is estimated at %s; send fewer lines, set a limit of output tokens, or raise the budget",
		holderName(l), l.Amount(s.Left(l)), l.Amount(c.Amount)))
}
