package snapshot

import (
	"strings"

	"modelgate/internal/base/secret"
)

// PartnerCredentials are the opened credentials of a partner that checks of guardrails
// ask.
type PartnerCredentials struct {
	Organisation string // id
	Workspace    string // id; empty for credentials of the organisation
	Partner      string // family of checks, or one check
	Values       map[string]secret.String
	Err          error // why they cannot be used; nil if they can
}

// partnerKey names credentials: of a workspace, or of the organisation.
type partnerKey struct{ organisation, workspace, partner string }

func (s *Snapshot) addPartners(list []PartnerCredentials) {
	s.partners = make(map[partnerKey]*PartnerCredentials, len(list))
	for i := range list {
		p := &list[i]
		s.partners[partnerKey{p.Organisation, p.Workspace, p.Partner}] = p
	}
}

// Partner returns the credentials for a check, nil if there are none: those of the
// workspace before those of the organisation, and in each place those of the check
// before those of its family. An empty workspace has those of the organisation only. The
// caller does not change the map.
func (s *Snapshot) Partner(organisation, workspace, check string) (map[string]secret.String, error) {
	family, _, _ := strings.Cut(check, ".")
	for _, place := range [...]string{workspace, ""} {
		for _, name := range [...]string{check, family} {
			if p := s.partners[partnerKey{organisation, place, name}]; p != nil {
				return p.Values, p.Err
			}
		}
	}
	return nil, nil
}
