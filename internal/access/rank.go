package access

import (
	"net/netip"
	"slices"
	"time"
)

// Rank orders callers by whose limits they may change: a limit that somebody set
// is changed by callers of that rank or a higher one.
type Rank int

// The ranks, from the lowest. Who has no role in a place has RankNone there.
const (
	RankNone Rank = iota
	RankMember
	RankManager
	RankAdmin        // of a workspace
	RankOrganisation // owner, admins and keys of the organisation, and the operator
)

// rankNames are the ranks as messages and answers show them.
var rankNames = [...]string{RankNone: "nobody", RankMember: "member", RankManager: "manager", RankAdmin: "workspace admin", RankOrganisation: "organisation"}

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

// KeyRank returns the rank of a service key or token: that of its type, and no
// more than that of who made it. Of people's keys and sessions the role decides.
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

// noProvider is in the list of a key that no provider is left to.
const noProvider = "-"

// CanGive reports whether id may give a scope to a key that it makes: it holds the
// scope, or no key of its kind could hold it, as an organisation's key can't hold
// completions.write and still makes the keys of workspaces.
func (id *Identity) CanGive(s Scope) bool {
	return id.Allows(s) || s != ScopeInstallation && id.Type == OrganisationService && s.CheckHolder(id.Type) != nil
}

// Under returns id within the limits of the key that made it: it ends no later, has
// spent its budget when that one has, has only scopes that the maker can give, uses
// no other providers, goes nowhere else, is used from no other addresses, and has
// its config if that is fixed. Neither is changed.
func (id *Identity) Under(maker *Identity) *Identity {
	out := *id
	if !maker.IsPerson() { // scopes of people's keys are limited by their role
		out.Scopes = slices.DeleteFunc(slices.Clone(id.Scopes), func(s Scope) bool { return !maker.CanGive(s) })
	}
	out.ExpiresAt = earlier(id.ExpiresAt, maker.ExpiresAt)
	out.Exhausted = id.Exhausted || maker.Exhausted
	out.Providers = intersect(id.Providers, maker.Providers)
	out.AllowedAddresses = overlap(id.AllowedAddresses, maker.AllowedAddresses)
	out.Egress = slices.Concat(id.Egress, maker.Egress)
	if maker.ConfigFixed {
		out.Config, out.ConfigFixed = maker.Config, true
	}
	return &out
}

// earlier returns the first of two ends, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// intersect returns what is on both lists, of which an empty one allows all.
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

// overlap returns the addresses on both lists of networks, of which an empty one
// allows all. Where there are none it returns a network without addresses.
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

// Bind returns keys with each bound by the keys that made it, and without those
// that were made by a key which is not among them any more. Of several secrets of
// one key the first counts. The slice and its elements are not changed.
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
