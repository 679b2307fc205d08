package limits

import (
	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/route"
)

// Egress returns an egress policy in stored form: patterns normalised, nil if it has no
// effect. Field is its name in the request.
func Egress(field string, p *egress.Policy) (*egress.Policy, error) {
	out, at, err := p.Parse()
	if err != nil {
		return nil, route.Invalid(field+"."+at, "%v", err)
	}
	return out, nil
}
