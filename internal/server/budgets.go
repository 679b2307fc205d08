package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/ledger"
	"modelgate/internal/publication"
	"modelgate/internal/store"
)

// budgetCounter keeps in the store what the ledger counts, and has budgets act on it.
// It implements ledger.Counter.
type budgetCounter struct {
	db   *store.DB
	keep *budgets.Enforcer // nil acts on nothing

	mu   sync.Mutex
	late map[store.BudgetRef]bool // raised, and not acted on yet; guarded by mu
	all  bool                     // every budget was looked at once; guarded by mu
}

// Counted implements ledger.Counter.
func (p *budgetCounter) Counted(ctx context.Context, segments []string) (map[string]int64, error) {
	return p.db.LedgerMarks(ctx, segments)
}

// Count implements ledger.Counter. What it has counted stays counted when acting
// on it fails: that is tried again.
func (p *budgetCounter) Count(ctx context.Context, c *ledger.Counts) error {
	spans := make([]store.LedgerSpan, len(c.Spans))
	for i, s := range c.Spans {
		spans[i] = store.LedgerSpan(s)
	}
	now := time.Now()
	raised, err := p.db.AddSpend(ctx, spans, c.Spent, now, now.Add(-ledger.MarksKept))
	if err == nil {
		p.act(ctx, raised)
	}
	return err
}

// act has budgets act on what was raised now and is late.
func (p *budgetCounter) act(ctx context.Context, raised []store.BudgetRef) {
	if p.keep == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range raised {
		p.late[r] = true
	}
	if len(p.late) == 0 {
		return
	}
	if err := p.keep.ApplySpend(ctx, slices.Collect(maps.Keys(p.late))); err != nil {
		p.keep.Logger.Warn("budget update delayed", "err", err.Error())
		return
	}
	clear(p.late)
}

// tick starts counts again whose time has come, and does what failed before.
func (p *budgetCounter) tick(ctx context.Context, now time.Time) {
	if p.keep == nil || !p.db.Ready() {
		return
	}
	p.act(ctx, nil)
	err := p.keep.Reset(ctx, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && !p.all { // an earlier process may have counted and not acted
		err = p.keep.CheckAll(ctx)
		p.all = err == nil
	}
	if err != nil && ctx.Err() == nil {
		p.keep.Logger.Warn("budget reset failed", "err", err.Error())
	}
}

// unlimited returns p with nothing that is exhausted.
func unlimited(p *publication.State) *publication.State {
	free := *p
	free.Exhausted = nil
	free.Identities = slices.Clone(p.Identities)
	for i, id := range free.Identities {
		if id.Exhausted {
			copied := new(access.Identity)
			*copied = *id
			copied.Exhausted = false
			free.Identities[i] = copied
		}
	}
	free.Providers = slices.Clone(p.Providers)
	for i := range free.Providers {
		if free.Providers[i].Status == store.Exhausted {
			free.Providers[i].Status = store.Active
		}
	}
	return &free
}
