package budgets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/limits/policy"
	"modelgate/internal/records/reqlog"
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
		if err := k.warnOf(ctx, &list[i], spent, now); err != nil {
			return err
		}
	}
	return nil
}

// maxWarnings is how many groups of a policy are warned about by name in a period, for
// each event, if clients choose the groups. One more warning is about all others.
const maxWarnings = 100

// furtherGroups is the value key of the warning about them.
const furtherGroups = "further"

// policyWarnings are the warnings that may be due about a policy.
type policyWarnings struct {
	*store.Policy
	period   string
	recorded map[string]map[string]bool // by counter and event
	most     int                        // in the period; zero for any number
	now      time.Time
}

// warnOf records the warnings that are due about a policy. Spent is what was spent by
// counters.
func (k *Enforcer) warnOf(ctx context.Context, p *store.Policy, spent map[string]reqlog.Spend, now time.Time) error {
	rule := p.Rule(nil)
	w := policyWarnings{Policy: p, now: now}
	w.period, _ = rule.Period.At(now)
	if rule.ClientGroups() {
		w.most = maxWarnings
	}
	var err error
	for id, s := range spent {
		counter, ok := strings.CutPrefix(id, p.ID+"/")
		if !ok || !strings.HasPrefix(counter, w.period+"/") {
			continue
		}
		for _, due := range []struct{ event, limit string }{
			{store.AlertThreshold, p.Settings.AlertThreshold.String()},
			{store.AlertExhausted, p.Settings.Value.String()},
		} {
			if !p.Reaches(p.Used(s), due.limit) {
				continue
			}
			if w.recorded == nil {
				if w.recorded, err = k.DB.Background().PolicyAlerts(ctx, p.ID); err != nil {
					return k.DB.ClientError(err)
				}
			}
			if err := k.warn(ctx, &w, counter, due.event, p.Used(s)); err != nil {
				return err
			}
		}
	}
	return nil
}

// warn records a warning about a counter, or about all further groups if too many were
// warned about.
func (k *Enforcer) warn(ctx context.Context, w *policyWarnings, counter, event string, used float64) error {
	if w.recorded[counter][event] {
		return nil
	}
	key := valueKey(counter)
	if key == policy.OverflowKey {
		return k.warnTogether(ctx, w, counter, event, used)
	}
	further := w.period + "/0/" + furtherGroups
	if w.recorded[further][event] {
		return nil
	}
	err := k.record(ctx, w, event, policyUse{counter: counter, used: used, most: w.most})
	if !errors.Is(err, store.ErrTooManyWarnings) {
		return err
	}
	return k.warnTogether(ctx, w, further, event, 0)
}

// warnTogether records a warning about a counter that stands for several groups.
func (k *Enforcer) warnTogether(ctx context.Context, w *policyWarnings, counter, event string, used float64) error {
	if w.recorded[counter][event] {
		return nil
	}
	groups, err := k.DB.Background().PolicyGroups(ctx, w.ID, w.period)
	if err != nil {
		return k.DB.ClientError(err)
	}
	return k.record(ctx, w, event, policyUse{counter: counter, used: used, groups: groups})
}

// policyUse is what a warning says of a counter.
type policyUse struct {
	counter string
	used    float64
	groups  int // of the policy; zero if the counter is of one group
	most    int // see [store.PolicyWarning]
}

// record records a warning, unless another gateway did.
func (k *Enforcer) record(ctx context.Context, w *policyWarnings, event string, u policyUse) error {
	p, key, action := w.Policy, valueKey(u.counter), actions[event]
	body := fmt.Sprintf(`{"value_key":%q,"used":%g,"type":%q}`, key, u.used, p.Type)
	if u.groups > 0 {
		body = fmt.Sprintf(`{"value_key":%q,"used":%g,"type":%q,"groups":%d}`, key, u.used, p.Type, u.groups)
	}
	id := reqlog.NewID(w.now).String()
	recorded, err := k.DB.RecordPolicyAlert(ctx, store.PolicyWarning{Policy: p.ID, Counter: u.counter, Event: event, Most: u.most},
		&store.Audit{
			ID: id, RequestID: id, Organisation: p.Organisation, Workspace: p.Workspace, Time: w.now, UserType: "system", Status: http.StatusOK,
			ResourceType: "policy", ResourceID: p.ID, Action: action, QueryParams: "{}", RequestHeaders: "{}",
			RequestBody: body, Alert: policyAlert(w, action, u),
		})
	if err != nil {
		return err
	}
	if w.recorded[u.counter] == nil {
		w.recorded[u.counter] = make(map[string]bool)
	}
	w.recorded[u.counter][event] = true
	if recorded {
		k.Logger.Warn("budget "+words[action], "of", "policy", "id", p.ID, "name", p.Name, "counter", key, "used", u.used, "type", p.Type)
	}
	return nil
}

// actions are the actions of the audit log by event.
var actions = map[string]string{store.AlertThreshold: threshold, store.AlertExhausted: exhausted}

// valueKey returns the value key of a counter.
func valueKey(counter string) string {
	_, key, _ := strings.Cut(counter, "/")
	_, key, _ = strings.Cut(key, "/")
	return key
}

// policyAlert returns the alert about a counter of a policy.
func policyAlert(w *policyWarnings, action string, u policyUse) *store.Alert {
	p := w.Policy
	d := alert.Data{
		Organisation: p.Organisation, Workspace: p.Workspace, Object: "policy", ID: p.ID, Name: p.Name,
		ValueKey: valueKey(u.counter), Groups: u.groups,
		Measure: p.Type, Used: u.used, Threshold: number(p.Settings.AlertThreshold), Limit: number(p.Settings.Value),
	}
	if _, end := p.Rule(nil).Period.At(w.now); !end.IsZero() {
		d.ResetsAt = &end
	}
	return &store.Alert{Type: alerts[action], Data: d.JSON()}
}

// number returns a stored amount, nil for none.
func number(n json.Number) *float64 {
	f, err := n.Float64()
	if err != nil {
		return nil
	}
	return &f
}
