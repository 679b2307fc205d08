package route

import "time"

// Lifetimes is how long a session is valid. A zero field means its default.
type Lifetimes struct {
	Idle     time.Duration // after its last use; 12 hours
	Absolute time.Duration // after the sign-in, used or not; 7 days
}

// Or returns l with the defaults in place of zero.
func (l Lifetimes) Or() Lifetimes {
	if l.Idle == 0 {
		l.Idle = 12 * time.Hour
	}
	if l.Absolute == 0 {
		l.Absolute = 7 * 24 * time.Hour
	}
	return l
}

// Ends returns when a session that was created and used last at these times ends
// unless it is used again.
func (l Lifetimes) Ends(created, used time.Time) time.Time {
	l = l.Or()
	idle, absolute := used.Add(l.Idle), created.Add(l.Absolute)
	if idle.Before(absolute) {
		return idle
	}
	return absolute
}

// Touch returns how old the stored last use of a session may be. A session that
// is in use ends at most this much before its idle time.
func (l Lifetimes) Touch() time.Duration { return min(l.Or().Idle/10, time.Minute) }
