package policy

import (
	"cmp"
	"strconv"

	"modelgate/internal/limits/quota"
)

// name returns the name of a policy in messages.
func name(p *Policy) string { return cmp.Or(p.Name, p.ID) }

func holderName(h quota.Holder) string { return cmp.Or(h.Name, h.ID) }

// amount returns n of a measure as text; costs are in dollars.
func amount(n int64, m quota.Measure) string {
	if m == quota.Cost {
		return strconv.FormatFloat(float64(n)/1e9, 'f', -1, 64)
	}
	return strconv.FormatInt(n, 10)
}
