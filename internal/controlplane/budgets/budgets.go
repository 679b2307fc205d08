// Package budgets acts on what was spent: what has used up a budget is refused
// further use, warnings are given once, and counts start again when their time
// comes.
//
// It compares budgets with the counters of the store, which grow alone: a count
// is their growth since it started, so that a reset loses nothing that is counted
// in the meantime. Several processes may act on one database; each change is made once.
// How much was spent is counted elsewhere; requests are refused by the data plane.
package budgets

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/reqlog"
	"modelgate/internal/store"
)

// Refresh has the budgets of what a change under way has written agree with what
// was spent: counts that are new start there, and what is over is exhausted.
// Warnings, and resets that are due, are left to a [Enforcer], which tells of them.
func Refresh(ctx context.Context, tx *store.Tx, kind, id string) error {
	list, err := tx.Budgets(ctx, []store.BudgetRef{{Kind: kind, ID: id}})
	if err != nil {
		return err
	}
	for i := range list {
		changed, err := refresh(&list[i])
		if err == nil && changed {
			err = tx.PutBudget(ctx, list[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// What is told to people.
const (
	reset     = "budget_reset"
	threshold = "budget_threshold"
	exhausted = "budget_exhausted"
)

// event is something that is told of a budget.
type event struct {
	what string
	of   store.BudgetRef
	name string
	used float64
	kind string // dollars or tokens
}

// refresh has b agree with what was spent.
func refresh(b *store.BudgetHolder) (changed bool, err error) {
	list, one, err := limits.ParseAny(b.UsageLimits)
	if err != nil {
		return false, err
	}
	return setBudgets(b, list, one), nil
}

// setBudgets gives b its budgets, each of whose counts starts now if it has not yet.
func setBudgets(b *store.BudgetHolder, list limits.Budgets, one bool) (changed bool) {
	over, next := false, time.Time{}
	for i := range list {
		u := &list[i]
		u.StartCount(b.Spent)
		over = over || u.Exhausted(u.Used(b.Spent))
		if next.IsZero() || !u.NextResetAt.IsZero() && u.NextResetAt.Before(next) {
			next = u.NextResetAt
		}
	}
	raw := list.Raw(one)
	changed = over != b.Exhausted || !next.Equal(b.ResetAt) || !bytes.Equal(raw, b.UsageLimits)
	b.UsageLimits, b.Exhausted, b.ResetAt = raw, over, next
	return changed
}

// evaluate is agree at now, with warnings, and with resets that are due if they are to
// be made.
func evaluate(b *store.BudgetHolder, now time.Time, resets bool) (changed bool, events []event, err error) {
	list, one, err := limits.ParseAny(b.UsageLimits)
	if err != nil {
		return false, nil, err
	}
	tell := func(what string, u *limits.Budget, used float64) {
		events = append(events, event{what, b.BudgetRef, b.Name, used, u.Type})
	}
	for i := range list {
		u := &list[i]
		if resets && u.Due(now) {
			tell(reset, u, u.Used(b.Spent))
			u.Reset(now)
		}
		u.StartCount(b.Spent)
		used := u.Used(b.Spent)
		near, out := u.DueWarnings(b.Spent)
		if near {
			tell(threshold, u, used)
		}
		if out {
			tell(exhausted, u, used)
		}
	}
	return setBudgets(b, list, one), events, nil
}

// Enforcer acts on budgets by itself.
type Enforcer struct {
	DB      *store.DB
	Logger  *slog.Logger
	Changed func() // is called after a change, to publish it
	Now     func() time.Time

	// Counted returns when what was spent before is counted, so that a count which
	// starts again does not begin with it. Nil waits for nothing.
	Counted func(context.Context) error
}

// ApplySpend acts on what was raised.
func (k *Enforcer) ApplySpend(ctx context.Context, raised []store.BudgetRef) error {
	list, err := k.DB.Background().Budgets(ctx, raised)
	if err != nil {
		return k.DB.ClientError(err)
	}
	return k.act(ctx, list)
}

// atOnce bounds what is looked at, and changed, at a time.
const atOnce = 200

// Reset starts counts again whose time has come.
func (k *Enforcer) Reset(ctx context.Context, now time.Time) error {
	for waited := false; ; waited = true {
		list, err := k.DB.Background().BudgetsDue(ctx, now, atOnce)
		if err != nil || len(list) == 0 {
			return k.DB.ClientError(err)
		}
		if k.Counted != nil && !waited {
			short, cancel := context.WithTimeout(ctx, route.SpendingTime)
			k.Counted(short) // what is counted later belongs to the new count
			cancel()
		}
		if err := k.change(ctx, list, now, true); err != nil {
			return err
		}
	}
}

// CheckAll looks at every budget: for what a process did not live to act on.
func (k *Enforcer) CheckAll(ctx context.Context) error {
	for _, kind := range store.BudgetKinds {
		for after := ""; ; {
			list, err := k.DB.Background().BudgetsAfter(ctx, kind, after, atOnce)
			if err != nil {
				return k.DB.ClientError(err)
			}
			if len(list) == 0 {
				break
			}
			after = list[len(list)-1].ID
			if err := k.act(ctx, list); err != nil {
				return err
			}
		}
	}
	return nil
}

// act changes what of list is to be.
func (k *Enforcer) act(ctx context.Context, list []store.BudgetHolder) error {
	now := k.Now()
	var due []store.BudgetHolder
	for _, b := range list {
		seen := b
		if len(b.UsageLimits) <= len("null") && b.ResetAt.IsZero() {
			continue // it has no budget: who took it away has said what it is now
		}
		if changed, _, err := evaluate(&seen, now, false); changed || err != nil && !b.ResetAt.IsZero() {
			due = append(due, b)
		}
	}
	if len(due) == 0 {
		return nil
	}
	return k.change(ctx, due, now, false)
}

// change checks list as it is in the database and returns the result.
func (k *Enforcer) change(ctx context.Context, list []store.BudgetHolder, now time.Time, resets bool) error {
	refs := make([]store.BudgetRef, len(list))
	for i, b := range list {
		refs[i] = b.BudgetRef
	}
	var told []event
	err := k.DB.ChangeBudgets(ctx, refs, func(b *store.BudgetHolder) (bool, []*store.Audit) {
		changed, events, err := evaluate(b, now, resets)
		if err != nil { // it is left alone, and does not keep others waiting
			k.Logger.Error("a budget can't be read", "of", b.Kind, "id", b.ID, "err", err)
			changed, b.ResetAt = !b.ResetAt.IsZero(), time.Time{}
		}
		told = append(told, events...)
		notes := make([]*store.Audit, len(events))
		for i, e := range events {
			notes[i] = note(b, e, now)
		}
		return changed, notes
	})
	if err != nil {
		return err
	}
	for _, e := range told {
		k.Logger.Warn("a budget "+words[e.what], "of", e.of.Kind, "id", e.of.ID, "name", e.name, "used", e.used, "type", e.kind)
	}
	k.Changed()
	return nil
}

// words say what happened in the log of the process.
var words = map[string]string{reset: "was reset", threshold: "has reached its threshold", exhausted: "is exhausted"}

// resources are what the audit log calls what has budgets.
var resources = map[string]string{
	store.KeyBudget: "api_key", store.WorkspaceBudget: "workspace", store.ProviderBudget: "provider", store.GrantBudget: "integration",
}

// note is what the audit log holds of an event.
func note(b *store.BudgetHolder, e event, now time.Time) *store.Audit {
	id := reqlog.NewID(now).String()
	return &store.Audit{
		ID: id, RequestID: id, Organisation: b.Organisation, Workspace: b.Workspace, Time: now, UserType: "system", Status: http.StatusOK,
		ResourceType: resources[b.Kind], ResourceID: b.ID, Action: e.what, QueryParams: "{}", RequestHeaders: "{}",
		RequestBody: fmt.Sprintf(`{"used":%g,"type":%q}`, e.used, e.kind),
	}
}
