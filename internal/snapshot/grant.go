package snapshot

import (
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
)

// Grant is what a user lets a client do with the tool servers of one address.
type Grant struct {
	Identity *access.Identity // of its access tokens, without the time when they expire; KeyID is that of the grant
	Resource string           // slug of the tool server or bundle; empty for the address of all
	Signing  secret.String    // signs the access tokens
}

func (s *Snapshot) addGrants(list []Grant) {
	s.grants = make(map[string]*Grant, len(list))
	for i := range list {
		s.grants[list[i].Identity.KeyID] = &list[i]
	}
}

// grantOwner returns the owner of an access token at the address of a tool server or bundle.
func (s *Snapshot) grantOwner(token, resource string, now time.Time) (*access.Identity, error) {
	var grant *Grant
	t, ok := access.ParseAccessToken(token, func(id string) (secret.String, bool) {
		if grant = s.grants[id]; grant == nil {
			return secret.String{}, false
		}
		return grant.Signing, true
	})
	switch {
	case !ok:
		return nil, refused("the access token is unknown, or its grant has ended; sign in again")
	case grant.Resource != resource:
		return nil, refused("the access token is for another address of tool servers; sign in at this one").WithCode("wrong_audience")
	case !now.Before(time.Unix(t.Expires, 0)):
		return nil, refused("the access token has expired; refresh it").WithCode("expired_access_token")
	}
	id := *grant.Identity
	id.ExpiresAt = time.Unix(t.Expires, 0)
	return &id, nil
}
