package limits

import (
	"encoding/json"
	"fmt"
	"time"

	"modelgate/internal/controlplane/route"
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

// Answer returns every budget with what was used of it: used is called with the
// number of the entry, and nil stands for nothing.
func (list Usages) Answer(used func(i int) float64, status string) []UsageAnswer {
	out := make([]UsageAnswer, len(list))
	for i := range list {
		var n float64
		if used != nil {
			n = used(i)
		}
		out[i] = *list[i].Answer(n, status)
	}
	return out
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
