package limits

import (
	"modelgate/internal/controlplane/route"
	"modelgate/internal/egress"
)

// Egress returns an egress policy as it is stored: with its patterns in their one
// form, and nil where it says nothing. Field is what the request calls it.
func Egress(field string, p *egress.Policy) (*egress.Policy, error) {
	out, at, err := p.Parse()
	if err != nil {
		return nil, route.Invalid(field+"."+at, "%v", err)
	}
	return out, nil
}
