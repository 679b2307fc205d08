package publication

import (
	"context"

	"modelgate/internal/limits/quota"
	"modelgate/internal/store"
)

// storedLimits are the limits of one holder and what was spent.
type storedLimits struct {
	quota.Holder
	rates, budgets []byte
	cost, tokens   int64
}

// parse returns the limits. Limits that cannot be read allow nothing, so that a
// damaged row affects no other holder and lifts no limit.
func (s *storedLimits) parse() []*quota.Limit {
	list, err := quota.ParseLimits(s.Holder, s.rates, s.budgets, s.cost, s.tokens)
	if err != nil {
		return []*quota.Limit{{Counter: s.Kind + "/" + s.ID + "/unreadable", Measure: quota.Cost, Holder: s.Holder}}
	}
	return list
}

// exist reports whether any limit is stored.
func (s *storedLimits) exist() bool {
	b := string(s.budgets)
	return string(s.rates) != "[]" || b != "[]" && b != "null"
}

// parseLimits returns the limits of holders of one kind, by id, with what was spent. The
// totals may be older than those of the counters, which never go back.
func (l *loader) parseLimits(ctx context.Context, kind string, holders []storedLimits) (map[string][]*quota.Limit, error) {
	var ids []string
	for i := range holders {
		if holders[i].exist() {
			ids = append(ids, holders[i].ID)
		}
	}
	spent, err := l.q.Spending(ctx, kind, ids...)
	if err != nil {
		return nil, err
	}
	limits := make(map[string][]*quota.Limit, len(ids))
	for i := range holders {
		if h := &holders[i]; h.exist() {
			h.Kind, h.cost, h.tokens = kind, int64(spent[h.ID].Cost), spent[h.ID].Tokens
			limits[h.ID] = h.parse()
		}
	}
	return limits, nil
}

// readLimits reads the limits of workspaces, and which of them have used up their budget.
func (l *loader) readLimits(ctx context.Context) error {
	list, err := l.workspaces(ctx)
	if err != nil {
		return err
	}
	l.state.Exhausted, l.state.Tools = make(map[string]bool), make(map[string][]string)
	holders := make([]storedLimits, len(list))
	for i, w := range list {
		holders[i] = storedLimits{Holder: quota.Holder{ID: w.ID, Name: w.Name}, rates: w.RateLimits, budgets: w.UsageLimits}
		if w.Tools != nil {
			l.state.Tools[w.ID] = w.Tools
		}
		if w.Exhausted {
			l.state.Exhausted[w.ID] = true
		}
	}
	l.state.Limits, err = l.parseLimits(ctx, store.WorkspaceBudget, holders)
	return err
}
