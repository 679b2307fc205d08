package limits

import (
	"encoding/json"
	"fmt"
	"strings"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/limits/quota"
)

// Rate limits requests or tokens in a fixed window.
type Rate = quota.Rate

// Rates are the rate limits of a key, workspace, provider or grant.
type Rates []Rate

// Units that all objects may have, and units that keys may have.
const (
	units    = "rpm rph rpd " + quota.UnitConcurrent
	keyUnits = "rps rpm rph rpd rpw " + quota.UnitConcurrent
)

// Check returns an error if the limits of an object other than a key are invalid. Field
// is their name in the request.
func (list Rates) Check(field string) error { return list.check(field, units) }

// CheckKey is [Rates.Check] for a key.
func (list Rates) CheckKey(field string) error { return list.check(field, keyUnits) }

func (list Rates) check(field, units string) error {
	seen := make(map[[2]string]bool)
	for i, r := range list {
		name := fmt.Sprintf("%s[%d]", field, i)
		if !strings.Contains(units, r.Unit) {
			return route.Invalid(name+".unit", "must be one of %s", strings.Join(strings.Fields(units), ", "))
		}
		if r.Unit == quota.UnitConcurrent && r.Type != quota.Concurrent.String() {
			return route.Invalid(name+".type", "must be requests with the unit concurrent")
		}
		if r.Value < 1 || r.Value > quota.MaxLimit { // the schema compares rounded numbers
			return route.Invalid(name+".value", "must be an integer from 1 to %d", int64(quota.MaxLimit))
		}
		if seen[[2]string{r.Type, r.Unit}] {
			return route.Invalid(name, "has the same type and unit as another entry")
		}
		seen[[2]string{r.Type, r.Unit}] = true
	}
	return nil
}

// JSON returns the limits in stored form, an array.
func (list Rates) JSON() json.RawMessage {
	if list == nil {
		list = Rates{}
	}
	return encode(list)
}

// ReadRates decodes what [Rates.JSON] wrote.
func ReadRates(raw json.RawMessage) (Rates, error) {
	list := Rates{}
	if len(raw) == 0 {
		return list, nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("reading rate limits: %w", err)
	}
	return list, nil
}

// Beyond describes the first rate of bound that the list lacks or exceeds, empty if
// there is none.
func (list Rates) Beyond(bound Rates) string {
	for _, b := range bound {
		kept := false
		for _, r := range list {
			kept = kept || r.Type == b.Type && r.Unit == b.Unit && r.Value <= b.Value
		}
		if !kept {
			return fmt.Sprintf("it has %d %s as %s", b.Value, b.Type, b.Unit)
		}
	}
	return ""
}
