package limits

import (
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// Budgets are the budgets of an object that may have several: a workspace, or a grant
// of an integration.
type Budgets []Budget

// ApplyAll returns the requested budgets. Each continues the old budget of its type and
// period, and no two may have the same. The route limits their number.
func ApplyAll(field string, list []BudgetInput, old Budgets, now time.Time) (Budgets, error) {
	out := make(Budgets, 0, len(list))
	for i := range list {
		name := fmt.Sprintf("%s[%d]", field, i)
		u, err := list[i].Apply(name, nil, now)
		if err != nil {
			return nil, err
		}
		if out.like(*u) != nil {
			return nil, route.Invalid(name, "has the same type and period as another entry")
		}
		if before := old.like(*u); before != nil {
			if u, err = list[i].Apply(name, before, now); err != nil {
				return nil, err
			}
		}
		out = append(out, *u)
	}
	return out, nil
}

// like returns the budget with the type and period of u, or nil.
func (list Budgets) like(u Budget) *Budget {
	for i := range list {
		v := &list[i]
		if v.Type == u.Type && v.PeriodicReset == u.PeriodicReset && v.PeriodicResetDays == u.PeriodicResetDays {
			return v
		}
	}
	return nil
}

// Response returns all budgets at the total spend all, each with its own status.
func (list Budgets) Response(all reqlog.Spend) []BudgetResponse {
	out := make([]BudgetResponse, len(list))
	for i := range list {
		status := store.Active
		if list[i].Exhausted(list[i].Used(all)) {
			status = store.Exhausted
		}
		out[i] = *list[i].Response(all, status)
	}
	return out
}

// ParseAny decodes what [Budget.JSON] or [Budgets.JSON] wrote. One reports which of
// them it was.
func ParseAny(raw json.RawMessage) (list Budgets, one bool, err error) {
	if len(raw) > 0 && raw[0] == '[' {
		list, err = ReadUsages(raw)
		return list, false, err
	}
	u, err := ReadUsage(raw)
	if u != nil {
		list = Budgets{*u}
	}
	return list, true, err
}

// Raw encodes the budgets in the form that [ParseAny] read.
func (list Budgets) Raw(one bool) json.RawMessage {
	switch {
	case !one:
		return list.JSON()
	case len(list) == 0:
		return (*Budget)(nil).JSON()
	}
	return list[0].JSON()
}

// JSON returns the budgets in stored form, an array.
func (list Budgets) JSON() json.RawMessage {
	if list == nil {
		list = Budgets{}
	}
	return encode(list)
}

// ReadUsages decodes what [Budgets.JSON] wrote.
func ReadUsages(raw json.RawMessage) (Budgets, error) {
	var list Budgets
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("reading usage limits: %w", err)
	}
	return list, nil
}
