package budgets

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/reqlog"
	"modelgate/internal/store"
)

// applyPolicies records the warnings that are due about the usage-limit policies whose
// spend increased. Each is recorded once, whichever gateway is first.
func (k *Enforcer) applyPolicies(ctx context.Context, raised []store.BudgetRef) error {
	var counters []string
	for _, r := range raised {
		if r.Kind == store.PolicySpend {
			counters = append(counters, r.ID)
		}
	}
	if len(counters) == 0 {
		return nil
	}
	q := k.DB.Background()
	list, err := q.PoliciesOfCounters(ctx, counters)
	if err != nil {
		return k.DB.ClientError(err)
	}
	list = slices.DeleteFunc(list, func(p store.Policy) bool { return p.Type == "seconds" })
	spent, err := q.Spending(ctx, store.PolicySpend, counters...)
	if err != nil {
		return k.DB.ClientError(err)
	}
	now := k.Now()
	for i := range list {
		p := &list[i]
		period, _ := p.Rule(nil).Period.At(now)
		for counter, s := range spent {
			name, ok := strings.CutPrefix(counter, p.ID+"/")
			if !ok || !strings.HasPrefix(name, period+"/") {
				continue
			}
			if err := k.warn(ctx, p, name, s, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// warn records the warnings that are due about a counter of a policy.
func (k *Enforcer) warn(ctx context.Context, p *store.Policy, counter string, s reqlog.Spend, now time.Time) error {
	used := p.Used(s)
	for _, due := range []struct{ event, action, limit string }{
		{store.AlertThreshold, threshold, p.Settings.AlertThreshold.String()},
		{store.AlertExhausted, exhausted, p.Settings.Value.String()},
	} {
		if !p.Reaches(used, due.limit) {
			continue
		}
		_, key, _ := strings.Cut(counter, "/")
		_, key, _ = strings.Cut(key, "/")
		id := reqlog.NewID(now).String()
		recorded, err := k.DB.RecordPolicyAlert(ctx, p.ID, counter, due.event, &store.Audit{
			ID: id, RequestID: id, Organisation: p.Organisation, Workspace: p.Workspace, Time: now, UserType: "system", Status: http.StatusOK,
			ResourceType: "policy", ResourceID: p.ID, Action: due.action, QueryParams: "{}", RequestHeaders: "{}",
			RequestBody: fmt.Sprintf(`{"value_key":%q,"used":%g,"type":%q}`, key, used, p.Type),
			Alert:       policyAlert(p, due.action, key, used, now),
		})
		if err != nil {
			return err
		}
		if recorded {
			k.Logger.Warn("budget "+words[due.action], "of", "policy", "id", p.ID, "name", p.Name, "counter", key, "used", used, "type", p.Type)
		}
	}
	return nil
}

// policyAlert returns the alert about a counter of a policy.
func policyAlert(p *store.Policy, event, key string, used float64, now time.Time) *store.Alert {
	d := alert.Data{
		Organisation: p.Organisation, Workspace: p.Workspace, Object: "policy", ID: p.ID, Name: p.Name, ValueKey: key,
		Measure: p.Type, Used: used, Threshold: number(p.Settings.AlertThreshold), Limit: number(p.Settings.Value),
	}
	if _, end := p.Rule(nil).Period.At(now); !end.IsZero() {
		d.ResetsAt = &end
	}
	return &store.Alert{Type: alerts[event], Data: d.JSON()}
}

// number returns a stored amount, nil for none.
func number(n json.Number) *float64 {
	f, err := n.Float64()
	if err != nil {
		return nil
	}
	return &f
}
