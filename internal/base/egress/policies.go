package egress

import (
	"fmt"

	"modelgate/internal/base/apierr"
)

// Code is the error code of a target that a policy does not allow.
const Code = "egress_refused"

// Policies are the policies that apply to a request, by level. A target must be
// allowed by all of them. Nil and the zero value allow everything.
type Policies struct {
	Organisation, Workspace *Policy
	Key                     []*Policy
}

// Check returns an error for a target that one of the policies does not allow. The
// error names the level and the field.
func (p *Policies) Check(r Request) error {
	if p == nil {
		return nil
	}
	if field := p.Organisation.Refuses(r); field != "" {
		return refusal("organisation", field, r)
	}
	if field := p.Workspace.Refuses(r); field != "" {
		return refusal("workspace", field, r)
	}
	for _, one := range p.Key {
		if field := one.Refuses(r); field != "" {
			return refusal("key", field, r)
		}
	}
	return nil
}

func refusal(level, field string, r Request) error {
	what, todo := "", ""
	switch field {
	case fieldCustomHosts:
		what, todo = fmt.Sprintf("does not allow the custom host %s://%s", r.Host.Scheme, r.Host.Host),
			"use the provider's own address or have the host listed there"
	case fieldPassThrough:
		what, todo = fmt.Sprintf("does not allow %s %.100s to pass through", r.Method, r.Path),
			"use a unified route or have the path listed there"
	case fieldManagedOnly:
		what, todo = "allows managed providers only", "name one as @slug; GET /v1/models lists those available to this key"
	}
	return apierr.New(apierr.Forbidden, "egress_policy.%s of the %s %s; %s", field, level, what, todo).
		WithParam("egress_policy." + field).WithCode(Code)
}
