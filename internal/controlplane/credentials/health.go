package credentials

import (
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/health"
)

// RateLimit is a limit that a provider announced in response headers, in a response.
type RateLimit struct {
	Name      string     `json:"name" doc:"Such as requests or input-tokens"`
	Limit     *float64   `json:"limit" doc:"Null if unknown"`
	Remaining *float64   `json:"remaining" doc:"Null if unknown"`
	Reset     route.Time `json:"resets_at" doc:"Null if unknown"`
	Seen      route.Time `json:"seen_at"`
}

// RateLimits converts limits for a response.
func RateLimits(list []health.RateLimit) []RateLimit {
	out := make([]RateLimit, 0, len(list))
	for _, l := range list {
		one := RateLimit{Name: l.Name, Reset: route.Time(l.Reset), Seen: route.Time(l.Seen)}
		if l.Limit >= 0 {
			one.Limit = &l.Limit
		}
		if l.Remaining >= 0 {
			one.Remaining = &l.Remaining
		}
		out = append(out, one)
	}
	return out
}
