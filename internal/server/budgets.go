package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// budgetCounter adds settlements of the ledger to the store's counters and applies
// budgets. It implements ledger.Counter.
type budgetCounter struct {
	db   *store.DB
	keep *budgets.Enforcer // nil applies no budgets

	// filled says that the counters have what was counted. Nil for counters in memory.
	filled func(context.Context) error

	mu   sync.Mutex
	late map[store.BudgetRef]reqlog.Spend // counted but not applied yet, with what this process spent; guarded by mu
	all  bool                             // every budget was checked once; guarded by mu
	slow bool                             // applying failed the last time; guarded by mu
}

// Counted implements ledger.Counter.
func (p *budgetCounter) Counted(ctx context.Context, segments []string) (map[string]int64, error) {
	return p.db.LedgerMarks(ctx, segments)
}

// Count implements ledger.Counter. If applying budgets fails, the count remains and
// applying is retried.
func (p *budgetCounter) Count(ctx context.Context, c *ledger.Counts) error {
	count := store.LedgerCount{Spent: c.Spent, Counters: c.Counters, Own: c.Own, OwnCounters: c.OwnCounters}
	for _, s := range c.Spans {
		count.Spans = append(count.Spans, store.LedgerSpan(s))
	}
	now := time.Now()
	raised, err := p.db.AddSpend(ctx, count, now, now.Add(-ledger.MarksKept))
	if err == nil {
		p.act(ctx, raised)
	}
	return err
}

// act applies the budgets of the objects in raised and of those that are late.
func (p *budgetCounter) act(ctx context.Context, raised map[store.BudgetRef]reqlog.Spend) {
	if p.keep == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for r, own := range raised {
		own.Add(p.late[r])
		p.late[r] = own
	}
	if len(p.late) == 0 {
		return
	}
	err := p.keep.ApplySpend(ctx, p.late)
	switch {
	case err != nil && !p.slow:
		p.keep.Logger.Warn("budget updates delayed", "err", err.Error())
	case err == nil && p.slow:
		p.keep.Logger.Info("budget updates recovered")
	}
	p.slow = err != nil
	if err == nil {
		clear(p.late)
	}
}

// seedTime is how long a start waits for the spend of an earlier process to be counted.
const seedTime = 2 * time.Second

// seed brings the counters of limits up to what was counted before the gateway serves
// requests. If that fails, the first tick does it.
func (p *budgetCounter) seed(ctx context.Context) {
	if p.keep == nil || !p.db.Ready() {
		return
	}
	if err := p.checkAll(ctx); err != nil {
		p.keep.Logger.Warn("budgets were not checked at the start", "err", err.Error())
	}
}

// checkAll checks every budget and corrects every counter, until that has succeeded
// once after everything that earlier processes spent was counted.
func (p *budgetCounter) checkAll(ctx context.Context) error {
	p.mu.Lock()
	done := p.all
	p.mu.Unlock()
	if done {
		return nil
	}
	counted := true
	if p.keep.Counted != nil {
		short, cancel := context.WithTimeout(ctx, seedTime)
		counted = p.keep.Counted(short) == nil
		cancel()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.keep.CheckAll(ctx, counted)
	if err == nil && p.filled != nil {
		err = p.filled(ctx)
	}
	p.all = err == nil && counted
	return err
}

// refill corrects every counter again, because the store has lost them.
func (p *budgetCounter) refill(ctx context.Context) {
	if p.keep == nil {
		return
	}
	p.mu.Lock()
	p.all = false
	p.mu.Unlock()
	if err := p.checkAll(ctx); err != nil {
		p.keep.Logger.Warn("limit counters of budgets were lost, and not brought back from the ledger", "err", err.Error())
		return
	}
	p.keep.Logger.Info("limit counters of budgets brought back from the ledger")
}

// tick resets the budgets that are due, and retries what failed before.
func (p *budgetCounter) tick(ctx context.Context, now time.Time) {
	if p.keep == nil || !p.db.Ready() {
		return
	}
	p.act(ctx, nil)
	err := p.keep.Reset(ctx, now)
	if err == nil { // an earlier process may have counted without applying budgets
		err = p.checkAll(ctx)
	}
	if err != nil && ctx.Err() == nil {
		p.keep.Logger.Warn("budget reset failed", "err", err.Error())
	}
}

// unlimited returns p without limits and with no object marked as exhausted.
func unlimited(p *publication.State) *publication.State {
	free := *p
	free.Exhausted, free.Limits, free.Users = nil, nil, nil
	free.Identities = slices.Clone(p.Identities)
	for i, id := range free.Identities {
		if id.Exhausted || len(id.Limits) > 0 {
			copied := new(access.Identity)
			*copied = *id
			copied.Exhausted, copied.Limits = false, nil
			free.Identities[i] = copied
		}
	}
	free.Providers = slices.Clone(p.Providers)
	for i := range free.Providers {
		free.Providers[i].Limits = nil
		if free.Providers[i].Row.Status == store.Exhausted {
			free.Providers[i].Row.Status = store.Active
		}
	}
	return &free
}
