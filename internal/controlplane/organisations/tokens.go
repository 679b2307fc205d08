package organisations

import (
	"net/url"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// trust replaces the issuer whose tokens the organisation accepts. An issuer can create
// tokens with every scope that tokens may have, so the caller must be able to grant all
// of them.
func (in *SettingsInput) trust(c *route.Caller, s *store.OrganisationSettings, checkHost func(string) (*url.URL, error)) error {
	if !in.JWT.Set {
		return nil
	}
	s.JWT = nil
	if in.JWT.Null {
		return nil
	}
	if err := checkGrants(c); err != nil {
		return err
	}
	checked, err := in.JWT.Value.Checked("settings.jwt", checkHost)
	s.JWT = &checked
	return err
}

// checkGrants returns an error unless c may grant every scope that tokens can have.
func checkGrants(c *route.Caller) error {
	for _, scope := range access.Scopes(access.Token) {
		if !c.Allows(scope) && (c.Type != access.OrganisationService || scope.CheckHolder(c.Type) == nil) {
			return apierr.New(apierr.Forbidden, "tokens can have the scope %q, which you cannot grant because you do not have it", string(scope)).
				WithParam("settings.jwt").WithCode("AB03")
		}
	}
	return nil
}
