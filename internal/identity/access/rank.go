package access

import (
	"net/netip"
	"slices"
	"time"
)

// Rank orders callers by whose limits they may change: a limit may be changed by
// callers of at least its setter's rank.
type Rank int

// Ranks, lowest first. A caller without a role in a place has RankNone there.
const (
	RankNone Rank = iota
	RankMember
	RankManager
	RankAdmin        // of a workspace
	RankOrganisation // owner, admins and keys of the organisation, and the operator
)

// rankNames are the names of ranks in messages and responses.
var rankNames = [...]string{RankNone: "nobody", RankMember: "member", RankManager: "manager", RankAdmin: "workspace admin",
	RankOrganisation: "organisation"}

// String returns the name of the rank.
func (r Rank) String() string { return rankNames[min(max(r, RankNone), RankOrganisation)] }

// RoleRank returns the rank of a role in a workspace.
func RoleRank(role string) Rank {
	switch role {
	case Admin:
		return RankAdmin
	case Manager:
		return RankManager
	case Member:
		return RankMember
	}
	return RankNone
}

// KeyRank returns the rank of a service key or token: the rank of its type, but at most
// its creator's. User keys and sessions rank by role.
func (id *Identity) KeyRank() Rank {
	rank := RankAdmin
	if id.Type == OrganisationService || slices.Contains(id.Scopes, ScopeAll) {
		rank = RankOrganisation
	}
	if id.Rank != RankNone {
		return min(rank, id.Rank)
	}
	return rank
}

// noProvider is the provider list of a key that may use no provider.
const noProvider = "-"

// CanGive reports whether id may grant a scope to a key it creates: it has the scope,
// or its kind of key cannot have it. For example, an organisation key cannot have
// completions.write and still creates workspace keys that do.
func (id *Identity) CanGive(s Scope) bool {
	return id.Allows(s) || s != ScopeInstallation && id.Type == OrganisationService && s.CheckHolder(id.Type) != nil
}

// Under returns id within the limits of the key that created it: it expires no later,
// is exhausted when that key is, counts against its limits and its user's, has only
// scopes that the creator can grant, uses no other providers, destinations or client
// addresses, and has the creator's config if that is fixed. Neither argument is changed.
func (id *Identity) Under(maker *Identity) *Identity {
	out := *id
	if !maker.IsPerson() { // scopes of user keys are limited by the role
		out.Scopes = slices.DeleteFunc(slices.Clone(id.Scopes), func(s Scope) bool { return !maker.CanGive(s) })
	}
	out.ExpiresAt = earlier(id.ExpiresAt, maker.ExpiresAt)
	out.Exhausted = id.Exhausted || maker.Exhausted
	out.Disabled = id.Disabled || maker.Disabled
	out.Limits = slices.Concat(id.Limits, maker.Limits)
	if user := maker.UserID; user != "" && user != id.UserID && !slices.Contains(id.Makers, user) {
		out.Makers = append(slices.Clone(id.Makers), user)
	}
	out.Providers = intersect(id.Providers, maker.Providers)
	out.Tools = slices.Concat(id.Tools, maker.Tools)
	out.AllowedAddresses = overlap(id.AllowedAddresses, maker.AllowedAddresses)
	out.Egress = slices.Concat(id.Egress, maker.Egress)
	if maker.ConfigFixed {
		out.Config, out.ConfigFixed = maker.Config, true
	}
	return &out
}

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// intersect returns the common elements of two lists, of which an empty one allows all.
func intersect(a, b []string) []string {
	switch {
	case len(b) == 0:
		return a
	case len(a) == 0:
		return b
	}
	var out []string
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	if out == nil {
		out = []string{noProvider}
	}
	return out
}

// overlap returns the addresses in both lists of networks, of which an empty one allows
// all. If there are none it returns a network without addresses.
func overlap(a, b []netip.Prefix) []netip.Prefix {
	switch {
	case len(b) == 0:
		return a
	case len(a) == 0:
		return b
	}
	var out []netip.Prefix
	for _, p := range a {
		for _, o := range b {
			if p.Overlaps(o) && p.Bits() >= o.Bits() {
				out = append(out, p)
			} else if p.Overlaps(o) {
				out = append(out, o)
			}
		}
	}
	if out == nil {
		out = []netip.Prefix{{}}
	}
	return out
}

// Bind returns keys with each limited by the keys that created it, and without keys
// whose creator is no longer in keys. If a key has several secrets the first is used.
// The slice and its elements are not changed.
func Bind(keys []*Identity) []*Identity {
	makers := make(map[string]*Identity)
	for _, id := range keys {
		for _, m := range id.Lineage {
			makers[m] = nil
		}
	}
	if len(makers) == 0 {
		return keys
	}
	for _, id := range keys {
		if m, asked := makers[id.KeyID]; asked && m == nil {
			makers[id.KeyID] = id
		}
	}
	out := make([]*Identity, 0, len(keys))
	for _, id := range keys {
		if id = bound(id, makers); id != nil {
			out = append(out, id)
		}
	}
	return out
}

func bound(id *Identity, makers map[string]*Identity) *Identity {
	for _, m := range id.Lineage {
		if makers[m] == nil {
			return nil
		}
		id = id.Under(makers[m])
	}
	return id
}
