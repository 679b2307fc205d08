package quota

import (
	"context"
	"sync/atomic"
	"time"
)

// Guard is a [Store] that decides by [Limit.Down] while another store fails.
//
// Counters in this process follow the other store: they know what it last
// returned, and decide alone while it fails. What was used until it works again is
// then settled in it. If the limits of a request differ, a closed limit decides.
type Guard struct {
	Store   Store
	Default WhenDown // of limits with [DownDefault]; if that too, [DownCached]

	local  Memory
	before atomic.Int64 // reservations decided without the store
}

var _ Store = (*Guard)(nil)

// unshared is the lease of a grant that the store does not know.
const unshared = -1

// DecidedAlone returns the number of reservations that were decided without the
// store.
func (g *Guard) DecidedAlone() int64 { return g.before.Load() }

// Reserve implements [Store]. It returns an error only if the store fails and a
// limit is [DownClosed].
func (g *Guard) Reserve(ctx context.Context, now time.Time, claims []Claim) (Verdict, error) {
	v, err := g.Store.Reserve(ctx, now, claims)
	if err != nil {
		return g.decide(ctx, now, claims, err)
	}
	for i := range claims {
		level := v.States[i].Used + v.States[i].Held
		if v.Refused < 0 {
			level += v.Grants[i].Amount
		}
		g.local.follow(now, claims[i].Limit, level)
	}
	return v, nil
}

// decide decides about claims without the store, which failed with err.
func (g *Guard) decide(ctx context.Context, now time.Time, claims []Claim, err error) (Verdict, error) {
	var counted []Claim
	var index []int // of counted in claims
	for i, c := range claims {
		switch g.down(c.Limit) {
		case DownClosed:
			return Verdict{}, err
		case DownCached:
			counted, index = append(counted, c), append(index, i)
		}
	}
	g.before.Add(1)
	local, err := g.local.Reserve(ctx, now, counted)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Refused: -1, States: make([]State, len(claims))}
	for j, i := range index {
		v.States[i] = local.States[j]
	}
	if local.Refused >= 0 {
		v.Refused = index[local.Refused]
		return v, nil
	}
	v.Grants = make([]Grant, len(claims))
	for i, c := range claims {
		n, end := c.Limit.WindowAt(now)
		v.Grants[i] = Grant{Limit: c.Limit, Window: n, Lease: unshared}
		if g.down(c.Limit) == DownOpen {
			v.States[i].Reset = end
		}
	}
	for j, i := range index {
		v.Grants[i] = local.Grants[j]
		v.Grants[i].Lease = unshared
	}
	return v, nil
}

// Settle implements [Store]. What was granted without the store is settled in it
// too, without a reservation.
func (g *Guard) Settle(now time.Time, grants []Grant, u Use) {
	if len(grants) > 0 && grants[0].Lease == unshared {
		g.local.Settle(now, grants, u)
		shared := make([]Grant, len(grants))
		for i, grant := range grants {
			grant.Amount = 0
			shared[i] = grant
		}
		grants = shared
	}
	g.Store.Settle(now, grants, u)
}

// down returns what happens to l while the store fails.
func (g *Guard) down(l *Limit) WhenDown {
	switch {
	case l.Down != DownDefault:
		return l.Down
	case g.Default != DownDefault:
		return g.Default
	}
	return DownCached
}

// Read implements [Store]. While the store fails it returns the states of this
// process, and does not know by how much several gateways exceed limits that are not
// [DownClosed].
func (g *Guard) Read(ctx context.Context, now time.Time, limits []*Limit) ([]State, error) {
	states, err := g.Store.Read(ctx, now, limits)
	if err == nil {
		return states, nil
	}
	states, err = g.local.Read(ctx, now, limits)
	for i := range states {
		if g.down(limits[i]) != DownClosed {
			states[i].Overshoot = unknownOvershoot
		}
	}
	return states, err
}

// Correct implements [Store]. If the store fails nothing is corrected, so that the
// caller can repeat the correction: the counters of this process still have what was
// settled.
func (g *Guard) Correct(ctx context.Context, list []Correction) error {
	if err := g.Store.Correct(ctx, list); err != nil {
		return err
	}
	return g.local.Correct(ctx, list)
}

// Peek implements [Peeker] if the store does.
func (g *Guard) Peek(now time.Time, l *Limit) (State, bool) {
	if known, ok := g.Store.(Peeker); ok {
		return known.Peek(now, l)
	}
	return State{}, false
}

// RemoveUnused is [Memory.RemoveUnused] for the counters of this process.
func (g *Guard) RemoveUnused(dropUsed func(names map[string]bool)) { g.local.RemoveUnused(dropUsed) }

// follow sets what is used and held of l, as another store has it.
func (m *Memory) follow(now time.Time, l *Limit, level int64) {
	c := m.lock(l.Counter, now)
	c.enter(l, now)
	c.settled = max(level+l.Base-c.counted, 0)
	c.mu.Unlock()
}
