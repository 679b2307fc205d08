package snapshot

import (
	"fmt"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/egress"
)

// CodeEgress is the error code of a target that an egress policy does not allow.
const CodeEgress = "egress_refused"

// CheckEgress returns an error for a target that the egress policy of the organisation,
// workspace or key of id does not allow. All policies apply. The error names the level
// and the field.
func (s *Snapshot) CheckEgress(id *access.Identity, r egress.Request) error {
	if field := s.egress[id.Organisation].Refuses(r); field != "" {
		return egressRefused("organisation", field, r)
	}
	if field := s.egress[id.Workspace].Refuses(r); field != "" {
		return egressRefused("workspace", field, r)
	}
	for _, p := range id.Egress {
		if field := p.Refuses(r); field != "" {
			return egressRefused("key", field, r)
		}
	}
	return nil
}

func egressRefused(level, field string, r egress.Request) error {
	what, todo := "", ""
	switch field {
	case egress.FieldCustomHosts:
		what, todo = fmt.Sprintf("does not allow the custom host %s://%s", r.Host.Scheme, r.Host.Host), "use the provider's own address or have the host listed there"
	case egress.FieldPassThrough:
		what, todo = fmt.Sprintf("does not allow %s %.100s to pass through", r.Method, r.Path), "use a unified route or have the path listed there"
	case egress.FieldManagedOnly:
		what, todo = "allows managed providers only", "name one as @slug; GET /v1/models lists those available to this key"
	}
	return apierr.New(apierr.Forbidden, "egress_policy.%s of the %s %s; %s", field, level, what, todo).
		WithParam("egress_policy." + field).WithCode(CodeEgress)
}
