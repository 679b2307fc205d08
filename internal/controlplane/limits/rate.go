package limits

import (
	"encoding/json"
	"fmt"
	"strings"

	"modelgate/internal/controlplane/route"
)

// Rate is how much is let through in a fixed window of time. It looks the same
// in requests, rows and answers.
type Rate struct {
	Type  string `json:"type" enum:"requests,tokens"`
	Unit  string `json:"unit" enum:"rps,rpm,rph,rpd,rpw" doc:"Per second, minute, hour, day or week; second and week on keys alone"`
	Value int64  `json:"value" minimum:"0" maximum:"1000000000000" doc:"0 lets nothing through"`
}

// Rates are the rate limits of one key, workspace, provider or grant.
type Rates []Rate

// The units that everything and that keys may have.
const (
	units    = "rpm rph rpd"
	keyUnits = "rps rpm rph rpd rpw"
)

// Check reports what is wrong with the limits of what is not a key. Field is
// what the request calls them. Rate limits are not enforced yet: any that are well
// formed are refused with 501.
func (list Rates) Check(field string) error { return list.check(field, units) }

// CheckKey reports what is wrong with the limits of a key.
func (list Rates) CheckKey(field string) error { return list.check(field, keyUnits) }

func (list Rates) check(field, units string) error {
	seen := make(map[[2]string]bool)
	for i, r := range list {
		name := fmt.Sprintf("%s[%d]", field, i)
		if !strings.Contains(units, r.Unit) {
			return route.Invalid(name+".unit", "is one of %s here", strings.Join(strings.Fields(units), ", "))
		}
		if seen[[2]string{r.Type, r.Unit}] {
			return route.Invalid(name, "has the type and unit of an entry before it")
		}
		seen[[2]string{r.Type, r.Unit}] = true
	}
	if len(list) > 0 {
		return route.NotEnforced(field)
	}
	return nil
}

// JSON returns the limits as they are stored: an array.
func (list Rates) JSON() json.RawMessage {
	if list == nil {
		list = Rates{}
	}
	return encode(list)
}

// ReadRates reads what [Rates.JSON] wrote.
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

// Beyond says which rate of bound the list lacks or exceeds; empty for none.
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
