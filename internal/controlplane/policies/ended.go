package policies

import (
	"context"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// removeEnded returns a task that removes what usage limits counted in periods that
// have ended. It works once a day and at the start. Several gateways may do it at once.
func removeEnded(a *route.API) route.Task {
	var done time.Time // the day for which it was done
	return func(ctx context.Context, now time.Time, last bool) error {
		day := now.UTC().Truncate(24 * time.Hour)
		if last || day.Equal(done) || !a.DB.Ready() {
			return nil
		}
		list, err := a.DB.Background().ActivePolicies(ctx)
		if err != nil {
			return err
		}
		for i := range list {
			p := &list[i]
			if p.Kind != store.UsagePolicy {
				continue
			}
			period, _ := p.Rule(nil).Period.At(now)
			if err := a.DB.DeletePolicySpending(ctx, p.ID, period); err != nil {
				return err
			}
		}
		done = day
		return nil
	}
}
