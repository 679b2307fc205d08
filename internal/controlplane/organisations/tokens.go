package organisations

import (
	"net/url"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// trust changes whose tokens the organisation takes, as a whole. Who says it can
// make tokens with every scope there is for them, so it is for those alone who
// could give as much.
func (in *SettingsInput) trust(c *route.Caller, s *store.OrganisationSettings, checkHost func(string) (*url.URL, error)) error {
	if !in.JWT.Set {
		return nil
	}
	s.JWT = nil
	if in.JWT.Null {
		return nil
	}
	for _, scope := range access.Scopes(access.Token) {
		if !c.Allows(scope) && (c.Type != access.OrganisationService || scope.CheckHolder(c.Type) == nil) {
			return apierr.New(apierr.Forbidden, "tokens can hold the scope %q, which is not yours to give", string(scope)).
				WithParam("settings.jwt").WithCode("AB03")
		}
	}
	checked, err := in.JWT.Value.Checked("settings.jwt", checkHost)
	s.JWT = &checked
	return err
}
