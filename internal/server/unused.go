package server

import (
	"context"
	"log/slog"
	"time"

	"modelgate/internal/limits/quota"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
)

// unusedCounters removes what deleted objects leave behind: their counters in this
// process, and their total spend in the store.
type unusedCounters struct {
	snapshot *snapshot.Holder
	counters quota.Store // nil for none
	db       *store.DB
	logger   *slog.Logger

	next time.Time // when total spend is removed again
}

// spendAtOnce is the limit of rows of total spend that one removal deletes, which
// other tasks wait for.
const spendAtOnce = 1000

// remove removes counters in this process, and once an hour, or while there is more,
// total spend.
func (u *unusedCounters) remove(ctx context.Context, now time.Time) {
	if c, ok := u.counters.(interface {
		RemoveUnused(dropUsed func(names map[string]bool))
	}); ok && u.snapshot.Load() != nil {
		c.RemoveUnused(func(names map[string]bool) { u.snapshot.Load().DropUsed(names, now) })
	}
	if now.Before(u.next) || !u.db.Ready() {
		return
	}
	more, err := u.db.DeleteSpendingOfDeleted(ctx, spendAtOnce)
	switch {
	case err != nil && ctx.Err() == nil:
		u.logger.Warn("removal of spend of deleted objects failed; retrying", "err", err.Error())
	case err == nil && !more:
		u.next = now.Add(time.Hour)
	}
}
