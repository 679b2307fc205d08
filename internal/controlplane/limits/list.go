package limits

import (
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/reqlog"
	"modelgate/internal/store"
)

// Usages are the budgets of what may have several: of a workspace, and of an
// integration in a workspace.
type Usages []Usage

// ApplyAll returns the budgets that list asks for in the place of old, each of
// which goes on in the entry of its type and period. No two have the same. How
// many there may be is the route's bound.
func ApplyAll(field string, list []UsageInput, old Usages, now time.Time) (Usages, error) {
	out := make(Usages, 0, len(list))
	for i := range list {
		name := fmt.Sprintf("%s[%d]", field, i)
		u, err := list[i].Apply(name, nil, now)
		if err != nil {
			return nil, err
		}
		if out.like(*u) != nil {
			return nil, route.Invalid(name, "has the type and period of an entry before it")
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

// like returns the budget of the type and period of u, or nil.
func (list Usages) like(u Usage) *Usage {
	for i := range list {
		v := &list[i]
		if v.Type == u.Type && v.PeriodicReset == u.PeriodicReset && v.PeriodicResetDays == u.PeriodicResetDays {
			return v
		}
	}
	return nil
}

// Answer returns every budget as it is when all was spent. Each is exhausted by
// itself.
func (list Usages) Answer(all reqlog.Spent) []UsageAnswer {
	out := make([]UsageAnswer, len(list))
	for i := range list {
		status := store.Active
		if list[i].Exhausted(list[i].Used(all)) {
			status = store.Exhausted
		}
		out[i] = *list[i].Answer(all, status)
	}
	return out
}

// ReadAny reads what [Usage.JSON] or [Usages.JSON] wrote.
func ReadAny(raw json.RawMessage) (list Usages, one bool, err error) {
	if len(raw) > 0 && raw[0] == '[' {
		list, err = ReadUsages(raw)
		return list, false, err
	}
	u, err := ReadUsage(raw)
	if u != nil {
		list = Usages{*u}
	}
	return list, true, err
}

// Raw returns the budgets as [ReadAny] has read them.
func (list Usages) Raw(one bool) json.RawMessage {
	switch {
	case !one:
		return list.JSON()
	case len(list) == 0:
		return (*Usage)(nil).JSON()
	}
	return list[0].JSON()
}

// JSON returns the budgets as they are stored: an array.
func (list Usages) JSON() json.RawMessage {
	if list == nil {
		list = Usages{}
	}
	return encode(list)
}

// ReadUsages reads what [Usages.JSON] wrote.
func ReadUsages(raw json.RawMessage) (Usages, error) {
	var list Usages
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("reading usage limits: %w", err)
	}
	return list, nil
}
