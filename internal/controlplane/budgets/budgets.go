// Package budgets enforces budgets: it marks exhausted budgets, records warnings once,
// and resets budgets when they are due.
//
// It compares budgets with spend counters of the store, which only increase: the spend
// of a period is the increase since its start, and a reset therefore loses nothing that
// is counted concurrently. Several processes may work on one database; each change is
// made once. Counting spend is the job of store, refusing
// requests of dataplane.
package budgets

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/limits/policy"
	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// Refresh updates the budgets of an object in the same transaction as a change of their
// limits: new budgets start at the current spend, and budgets over their limit are
// marked as exhausted. It does not record warnings or make resets, which is the job of
// the [Enforcer].
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

// Kinds of events, as the audit log names them.
const (
	reset     = "budget_reset"
	threshold = "budget_threshold"
	exhausted = "budget_exhausted"
)

// event is a change of a budget that is recorded.
type event struct {
	what   string
	of     store.BudgetRef
	name   string
	used   float64
	budget limits.Budget
}

// alerts are the types of the alerts about events. A reset has none.
var alerts = map[string]string{threshold: alert.Threshold, exhausted: alert.Exhausted}

// refresh updates b from its current spend.
func refresh(b *store.BudgetHolder) (changed bool, err error) {
	list, one, err := limits.ParseAny(b.UsageLimits)
	if err != nil {
		return false, err
	}
	return setBudgets(b, list, one), nil
}

// setBudgets replaces the budgets of b. A new budget starts at the current spend.
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

// evaluate updates b at the time now and returns the warnings to record, and the resets
// too if resets is set.
func evaluate(b *store.BudgetHolder, now time.Time, resets bool) (changed bool, events []event, err error) {
	list, one, err := limits.ParseAny(b.UsageLimits)
	if err != nil {
		return false, nil, err
	}
	tell := func(what string, u *limits.Budget, used float64) {
		events = append(events, event{what, b.BudgetRef, b.Name, used, *u})
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

// Enforcer applies warnings, exhaustion and resets in the background.
type Enforcer struct {
	DB      *store.DB
	Logger  *slog.Logger
	Changed func() // called after a change, to publish it
	Now     func() time.Time

	// Policies returns the current policies. Nil has none.
	Policies func() *policy.Set

	// Counters are the live counters, which follow what is counted. Nil for none.
	Counters quota.Store

	// Counted returns when all spend up to now has been counted; a reset waits for it
	// so that earlier spend is not counted in the new period. Nil does not wait.
	Counted func(context.Context) error
}

// ApplySpend evaluates the budgets and usage-limit policies whose spend increased. Own
// is the part of the increase that this process settled.
func (k *Enforcer) ApplySpend(ctx context.Context, own map[store.BudgetRef]reqlog.Spend) error {
	raised := slices.Collect(maps.Keys(own))
	if err := k.applyPolicies(ctx, raised); err != nil {
		return err
	}
	list, err := k.DB.Background().Budgets(ctx, raised)
	if err != nil {
		return k.DB.ClientError(err)
	}
	if err := k.act(ctx, list); err != nil {
		return err
	}
	return k.correct(ctx, list, own, false)
}

// correct brings the live counters up to what was counted. Earlier is as in
// [Enforcer.CheckAll].
func (k *Enforcer) correct(ctx context.Context, list []store.BudgetHolder, own map[store.BudgetRef]reqlog.Spend, earlier bool) error {
	if k.Counters == nil {
		return nil
	}
	var out []quota.Correction
	for _, b := range list {
		budgets, err := quota.ParseBudgets(b.UsageLimits)
		if err != nil {
			continue // logged when it is applied
		}
		for _, u := range budgets {
			c := quota.Correction{Counter: u.Counter(quota.Holder{Kind: b.Kind, ID: b.ID}), Total: int64(b.Spent.Cost),
				Settled: int64(own[b.BudgetRef].Cost), Earlier: earlier}
			if u.Type == limits.Tokens {
				c.Total, c.Settled = b.Spent.Tokens, own[b.BudgetRef].Tokens
			}
			out = append(out, c)
		}
	}
	spent, err := k.policySpending(ctx, own)
	if err != nil {
		return k.DB.ClientError(err)
	}
	for _, s := range spent {
		out = k.appendPolicy(out, s, own[store.BudgetRef{Kind: store.PolicySpend, ID: s.ID}])
	}
	if len(out) == 0 {
		return nil
	}
	return k.Counters.Correct(ctx, out)
}

// policySpending returns the spend of the counters of policies in own.
func (k *Enforcer) policySpending(ctx context.Context, own map[store.BudgetRef]reqlog.Spend) (list []store.Spender, err error) {
	var ids []string
	for r := range own {
		if r.Kind == store.PolicySpend {
			ids = append(ids, r.ID)
		}
	}
	spent, err := k.DB.Background().Spending(ctx, store.PolicySpend, ids...)
	for id, s := range spent {
		list = append(list, store.Spender{ID: id, Spend: s})
	}
	return list, err
}

// appendPolicy appends the correction of the counter of a policy, unless no policy
// uses it any more, and lets the group of the counter keep it.
func (k *Enforcer) appendPolicy(out []quota.Correction, s store.Spender, own reqlog.Spend) []quota.Correction {
	if k.Policies == nil {
		return out
	}
	set := k.Policies()
	m, ok := set.Measure(s.ID, k.Now())
	if !ok {
		return out
	}
	set.Remember(s.ID, k.Now())
	count := func(s reqlog.Spend) int64 {
		return quota.Use{Requests: s.Attempts, Tokens: s.Tokens, Cost: int64(s.Cost)}.Of(m)
	}
	return append(out, quota.Correction{Counter: "policy/" + s.ID, Total: count(s.Spend), Settled: count(own)})
}

// correctPolicies brings the live counters of all policies up to what was counted.
// Earlier is as in [Enforcer.CheckAll].
func (k *Enforcer) correctPolicies(ctx context.Context, earlier bool) error {
	if k.Counters == nil || k.Policies == nil {
		return nil
	}
	for after := ""; ; {
		list, err := k.DB.Background().SpendingAfter(ctx, store.PolicySpend, after, 10*atOnce)
		if err != nil || len(list) == 0 {
			return k.DB.ClientError(err)
		}
		after = list[len(list)-1].ID
		var out []quota.Correction
		for _, s := range list {
			out = k.appendPolicy(out, s, reqlog.Spend{})
		}
		for i := range out {
			out[i].Earlier = earlier
		}
		if len(out) > 0 {
			if err := k.Counters.Correct(ctx, out); err != nil {
				return err
			}
		}
	}
}

// atOnce is the largest number of budgets that are read, and changed, in one
// transaction.
const atOnce = 200

// Reset resets the budgets that are due.
func (k *Enforcer) Reset(ctx context.Context, now time.Time) error {
	for waited := false; ; waited = true {
		list, err := k.DB.Background().BudgetsDue(ctx, now, atOnce)
		if err != nil || len(list) == 0 {
			return k.DB.ClientError(err)
		}
		if k.Counted != nil && !waited {
			short, cancel := context.WithTimeout(ctx, route.SpendingTime)
			k.Counted(short) // spend counted later belongs to the new period
			cancel()
		}
		if err := k.change(ctx, list, now, true); err != nil {
			return err
		}
	}
}

// CheckAll evaluates every budget and corrects every counter, to catch up on spend that
// a process counted but did not live to act on. Earlier says that everything that earlier
// processes on this data folder spent is counted. If the counters cannot be corrected,
// the budgets are evaluated all the same.
func (k *Enforcer) CheckAll(ctx context.Context, earlier bool) error {
	var uncorrected error
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
			if uncorrected == nil {
				uncorrected = k.correct(ctx, list, nil, earlier)
			}
		}
	}
	if uncorrected != nil {
		return uncorrected
	}
	return k.correctPolicies(ctx, earlier)
}

// act changes the budgets of list that are due for a change.
func (k *Enforcer) act(ctx context.Context, list []store.BudgetHolder) error {
	now := k.Now()
	var due []store.BudgetHolder
	for _, b := range list {
		seen := b
		if len(b.UsageLimits) <= len("null") && b.ResetAt.IsZero() {
			continue // its budget was removed; the change that removed it refreshed the state
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

// change re-reads list in a transaction, applies what is due and returns the result.
func (k *Enforcer) change(ctx context.Context, list []store.BudgetHolder, now time.Time, resets bool) error {
	refs := make([]store.BudgetRef, len(list))
	for i, b := range list {
		refs[i] = b.BudgetRef
	}
	var told []event
	err := k.DB.ChangeBudgets(ctx, refs, func(b *store.BudgetHolder) (bool, []*store.Audit) {
		changed, events, err := evaluate(b, now, resets)
		if err != nil { // skipped, so that the others are still changed
			k.Logger.Error("reading a budget failed", "of", b.Kind, "id", b.ID, "err", err)
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
		k.Logger.Warn("budget "+words[e.what], "of", e.of.Kind, "id", e.of.ID, "name", e.name, "used", e.used, "type", e.budget.Type)
	}
	k.Changed()
	return nil
}

// words describe events in the process log.
var words = map[string]string{reset: "reset", threshold: "threshold reached", exhausted: "exhausted"}

// resources maps kinds of budget holders to resource types of the audit log.
var resources = map[string]string{
	store.KeyBudget: "api_key", store.WorkspaceBudget: "workspace", store.ProviderBudget: "provider", store.GrantBudget: "integration",
	store.UserBudget: "user",
}

// resourceID returns the id of b as the control plane names it.
func resourceID(b *store.BudgetHolder) string {
	if b.Kind == store.UserBudget {
		return strings.TrimPrefix(b.ID, store.UserID(b.Organisation, ""))
	}
	return b.ID
}

// note returns the audit event for e.
func note(b *store.BudgetHolder, e event, now time.Time) *store.Audit {
	id := reqlog.NewID(now).String()
	return &store.Audit{
		ID: id, RequestID: id, Organisation: b.Organisation, Workspace: b.Workspace, Time: now, UserType: "system", Status: http.StatusOK,
		ResourceType: resources[b.Kind], ResourceID: resourceID(b), Action: e.what, QueryParams: "{}", RequestHeaders: "{}",
		RequestBody: fmt.Sprintf(`{"used":%g,"type":%q}`, e.used, e.budget.Type), Alert: alertOf(b, e),
	}
}

// alertOf returns the alert about e, nil for none.
func alertOf(b *store.BudgetHolder, e event) *store.Alert {
	if alerts[e.what] == "" {
		return nil
	}
	u := &e.budget
	d := alert.Data{
		Organisation: b.Organisation, Workspace: b.Workspace, Object: resources[b.Kind], ID: resourceID(b), Name: b.Name,
		Measure: u.Type, Used: e.used, Threshold: u.AlertThreshold, Limit: u.CreditLimit,
	}
	if !u.NextResetAt.IsZero() {
		d.ResetsAt = &u.NextResetAt
	}
	return &store.Alert{Type: alerts[e.what], Data: d.JSON()}
}
