package route

import (
	"net/url"

	"modelgate/internal/base/egress"
)

// CheckEgress returns an error for an address that the egress policy of an organisation does
// not allow its own services to have, such as identity providers.
func (a *API) CheckEgress(organisation string, u *url.URL) error {
	if a.Egress == nil {
		return nil
	}
	return a.Egress(organisation, "").Check(egress.Request{Managed: true, Host: u})
}
