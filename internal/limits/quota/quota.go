// Package quota counts what requests use against limits.
//
// What an attempt may use is reserved before it is sent and settled when it has
// ended, so that concurrent requests cannot exceed a limit together. A [Store]
// holds the counters. Those of budgets follow the ledger, which remains the
// record of what was spent; see [Store.Correct]. The package does not decide
// which limits apply to a request (see snapshot) or when to reserve (see
// pipeline).
package quota

import (
	"context"
	"slices"
	"time"
)

// Measure is what a limit counts.
type Measure uint8

// Measures. The zero value is requests.
const (
	Requests Measure = iota
	Tokens
	Cost       // in nano-dollars
	Concurrent // requests in progress: what is reserved, as nothing of it is used
)

var measures = [...]string{"requests", "tokens", "cost", "requests"}

// String returns the name of the measure in the API.
func (m Measure) String() string { return measures[m] }

// Limit bounds what is used. It is immutable and safe for concurrent use.
//
// A limit with a Window is a rate: its counter begins at zero in each window,
// and windows are aligned to UTC. A limit without a Window is a budget: its
// counter holds the total of all time, and only grows. That of requests in progress
// has no window either, and a total of zero.
type Limit struct {
	// Counter is the name of the counter, unique among all organisations. It
	// holds no secret.
	Counter string
	Measure Measure
	Max     int64 // per window; for a budget, the total at which it is exhausted
	Window  time.Duration

	// Base is the total of a budget when its period began, and Counted a total
	// that the ledger has counted. A counter is never below Counted. What is settled is
	// not added to a new Counted, which may have it already: [Store.Correct] follows.
	Base, Counted int64

	Holder Holder
	// Resets is the time of a budget's next reset. Zero means never.
	Resets time.Time
	// Final means that the counter of a budget is not used after Resets: the next
	// period has another.
	Final bool
	// Stop refuses what could exceed the limit. Otherwise requests are admitted
	// while anything is left, and their responses are finished.
	Stop bool
	// PerAttempt counts requests to a provider. Otherwise a request of a client
	// counts once, however many attempts it takes.
	PerAttempt bool
	// Down says what happens if the store fails.
	Down WhenDown
}

// Holder is what has a limit.
type Holder struct {
	// Kind is "key", "workspace", "provider", "integration", "user", "policy", or
	// "session" for a policy that limits sessions.
	Kind string
	ID   string
	Name string // for messages
}

// WhenDown is what happens to requests with a limit while the store of counters
// fails.
type WhenDown uint8

// The zero value is DownDefault.
const (
	DownDefault WhenDown = iota // as [Guard.Default] says
	DownCached                  // counters of this process decide
	DownOpen                    // requests are admitted
	DownClosed                  // requests are refused
)

var whenDown = [...]string{"", "cached", "open", "closed"}

// ParseWhenDown returns the value with a name in the API, [DownDefault] for another
// name.
func ParseWhenDown(name string) WhenDown { return WhenDown(max(slices.Index(whenDown[:], name), 0)) }

// Claim is what a reservation asks of one limit.
type Claim struct {
	Limit *Limit
	// Amount is reserved, or what is left if that is at least Least. Both are at
	// least 1, and Least at most Amount.
	Amount, Least int64
	// Own is what is kept of the limit for the work that the claim is part of; see
	// [Holds].
	Own int64
}

// State is the state of a limit's counter.
type State struct {
	Used int64 // settled, in this window or since Base
	Held int64 // reserved by attempts that have not ended
	// Reset is when the window or period ends. Zero means never.
	Reset time.Time
	// Overshoot is the most by which the store may exceed the limit, or
	// -1 if it is unknown; see docs/limits.md.
	Overshoot int64
}

// unknownOvershoot is the overshoot of a limit that each gateway decides about on its
// own: no gateway knows how many there are.
const unknownOvershoot = -1

// Left returns what can be reserved of limit l; never negative.
func (s State) Left(l *Limit) int64 { return max(l.Max-l.Base-s.Used-s.Held, 0) }

// Grant is the part of a [Claim] that was reserved.
type Grant struct {
	Limit  *Limit
	Window int64 // number of the window; zero for a budget
	Amount int64
	// Lease says until when a store holds the grant; its meaning is the store's.
	Lease int64
}

// Verdict is the result of a reservation.
type Verdict struct {
	// Refused is the index of the first claim that does not fit, or -1. Nothing
	// is reserved if there is one.
	Refused int
	// States are the states of all claims before the reservation, in their order.
	States []State
	// Grants are what was reserved, in the order of the claims. Empty if one was
	// refused.
	Grants []Grant
}

// Use is what an attempt has used.
type Use struct {
	Requests, Tokens, Cost int64
}

// Of returns the part of u that m counts.
func (u Use) Of(m Measure) int64 {
	switch m {
	case Tokens:
		return u.Tokens
	case Cost:
		return u.Cost
	case Concurrent:
		return 0
	}
	return u.Requests
}

// Correction is what the ledger has counted for the counter of a budget.
type Correction struct {
	Counter string
	Total   int64 // of all time
	// Settled is the part of Total that was settled in this process since the
	// last correction, and therefore is no longer to be counted as settled.
	Settled int64
	// Earlier says that Total has all that earlier processes of this node settled. A
	// shared store then forgets what is left of it as settled.
	Earlier bool
}

// Store holds counters. It is safe for concurrent use.
type Store interface {
	// Reserve reserves all claims, which have different counters, or none. now
	// decides about the windows. An error means that the store could not decide.
	Reserve(ctx context.Context, now time.Time, claims []Claim) (Verdict, error)

	// Settle replaces grants by what was used. It does not wait, and it may be
	// called after the end of a window: what was used counts in the window of
	// the grant.
	Settle(now time.Time, grants []Grant, u Use)

	// Read returns the states of limits.
	Read(ctx context.Context, now time.Time, limits []*Limit) ([]State, error)

	// Correct brings the counters of budgets up to what the ledger has counted. If it
	// fails, the caller repeats it with what was settled in the failed list, and may add
	// to that: what was executed all the same is not deducted twice.
	Correct(ctx context.Context, list []Correction) error
}

// Peeker is a [Store] that may know the state of a limit without a call.
type Peeker interface {
	// Peek returns the state of l, and false if it is unknown. If the state has nothing
	// left, a reservation of l at this moment would be refused for certain; if it has, at
	// least 1 can be reserved.
	Peek(now time.Time, l *Limit) (State, bool)
}

const day = 24 * time.Hour

// WindowAt returns the number of the window that contains now, and its end. Both
// are zero for a budget.
func (l *Limit) WindowAt(now time.Time) (number int64, end time.Time) {
	if l.Window == 0 {
		return 0, time.Time{}
	}
	number = floorDiv(now.UnixNano()+int64(l.offset()), int64(l.Window))
	return number, l.ResetOf(number)
}

// ResetOf returns when a window ends, or when the budget is reset.
func (l *Limit) ResetOf(window int64) time.Time {
	if l.Window == 0 {
		return l.Resets
	}
	return time.Unix(0, (window+1)*int64(l.Window)-int64(l.offset())).UTC()
}

// offset returns what is added to Unix time before it is divided into windows.
// Windows of a week begin on Monday, as Unix time began on a Thursday.
func (l *Limit) offset() time.Duration {
	if l.Window == 7*day {
		return 3 * day
	}
	return 0
}

// Tolerance returns by how many windows a clock may be behind the counter. Its
// requests then count in the window of the counter, so that no window is opened
// twice. If the clock is further behind, the counter's window is in the future by
// mistake, and is left. It is 1, and more for windows shorter than 5 seconds.
func (l *Limit) Tolerance() int64 {
	if l.Window == 0 {
		return 0
	}
	return max(1, int64(5*time.Second/l.Window))
}

// floorDiv returns a divided by b, rounded down. b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
