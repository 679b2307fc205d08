package exchange

import (
	"modelgate/internal/model/modelnames"
	"modelgate/internal/provider"
)

// ModelInPath returns the model in a pass-through path: of the names that it may be, one
// with a price at the target, or else the first. It is empty if the path names none.
func (r *Request) ModelInPath(t *provider.Target) string {
	names := modelnames.Path(r.Received.Path)
	for _, name := range names {
		if _, priced := t.Price(r.Limiting.Prices, name, "", r.Time); priced {
			return name
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
