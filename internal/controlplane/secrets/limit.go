package secrets

import (
	"fmt"
	"slices"

	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Limit sets the providers and hosts that s may be sent to. Providers may be named by
// alias. A pattern for all hosts is rejected because it would leave the choice to
// whoever maps the reference.
func Limit(s *store.SecretReference, providers, hosts []string) error {
	s.Providers = nil
	for i, id := range providers {
		spec, err := credentials.Row(fmt.Sprintf("allowed_providers[%d]", i), id, nil)
		if err != nil {
			return err
		}
		if !slices.Contains(s.Providers, spec.ID) {
			s.Providers = append(s.Providers, spec.ID)
		}
	}
	parsed, i, err := egress.ParseHosts(hosts)
	if err != nil {
		return route.Invalid(fmt.Sprintf("allowed_hosts[%d]", i), "%v", err)
	}
	if i := slices.Index(parsed, egress.Any); i >= 0 {
		return route.Invalid(fmt.Sprintf("allowed_hosts[%d]", i), "must name a host; a pattern for all hosts is not allowed")
	}
	s.Hosts = parsed
	return nil
}
