package snapshot

import (
	"slices"

	"modelgate/internal/identity/access"
	"modelgate/internal/limits/quota"
)

func (s *Snapshot) addUsers(list []access.UserLimits) {
	s.users = make(map[scopedName]*access.UserLimits, 2*len(list))
	for i := range list {
		u := &list[i]
		s.users[scopedName{u.Organisation, u.ID}] = u
		s.users[scopedName{u.Organisation, u.Email}] = u
	}
}

// UserLimits returns the limits of the users that a request counts for, and whether the
// budget of one is exhausted: the owner of a key or session, the owners of the keys that
// the key descends from, and the user whom a token names by id or e-mail address. The
// slice is shared.
func (s *Snapshot) UserLimits(id *access.Identity) (list []*quota.Limit, exhausted bool) {
	for i, u := range s.limitedUsers(id) {
		if i == 0 {
			list, exhausted = u.Limits, u.Exhausted
			continue
		}
		list, exhausted = slices.Concat(list, u.Limits), exhausted || u.Exhausted
	}
	return list, exhausted
}

// limitedUsers returns the users with limits that a request counts for: the owner of a key or
// session or the user whom a token names, and the owners of the keys that the key descends
// from.
func (s *Snapshot) limitedUsers(id *access.Identity) (list []*access.UserLimits) {
	if len(s.users) == 0 {
		return nil
	}
	user := id.UserID
	if user == "" && id.Claims != nil {
		user = access.UserName(id.Claims.User)
	}
	if u := s.users[scopedName{id.Organisation, user}]; u != nil {
		list = append(list, u)
	}
	for _, maker := range id.Makers {
		if u := s.users[scopedName{id.Organisation, maker}]; u != nil {
			list = append(list, u)
		}
	}
	return list
}
