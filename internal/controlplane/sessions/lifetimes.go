package sessions

import "time"

// Lifetimes are the lifetimes of sessions. A zero field means its default.
type Lifetimes struct {
	Idle     time.Duration // since the last use; 12 hours
	Absolute time.Duration // since the sign-in; 7 days
}

// OrDefaults returns l with zeros replaced by the defaults.
func (l Lifetimes) OrDefaults() Lifetimes {
	if l.Idle == 0 {
		l.Idle = 12 * time.Hour
	}
	if l.Absolute == 0 {
		l.Absolute = 7 * 24 * time.Hour
	}
	return l
}

// Ends returns when a session expires unless it is used again.
func (l Lifetimes) Ends(created, used time.Time) time.Time {
	l = l.OrDefaults()
	idle, absolute := used.Add(l.Idle), created.Add(l.Absolute)
	if idle.Before(absolute) {
		return idle
	}
	return absolute
}

// Touch returns how old the stored last use of a session may be. A session in use may
// expire this much before its idle time.
func (l Lifetimes) Touch() time.Duration { return min(l.OrDefaults().Idle/10, time.Minute) }

func (r *Routes) lifetimes() Lifetimes {
	if r.Lifetimes == nil {
		return Lifetimes{}.OrDefaults()
	}
	return r.Lifetimes().OrDefaults()
}
