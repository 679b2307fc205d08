// Package health remembers what was seen lately of managed providers.
//
// A [Recent] has the attempts at one provider in this process: how they ended and how
// long they took, the last failure, the rate limits that responses announced, and the
// circuit breakers that are not closed. Adding an attempt takes no lock and allocates
// nothing, except once in five minutes. Memory is bounded by a [Registry], whatever
// providers send: what does not fit is not counted. Nothing here decides about
// requests; see routing.
package health

import (
	"sync/atomic"
	"time"
)

// Window is how long attempts are remembered. They are counted by parts of it, so a
// report begins at the beginning of a part.
const (
	Window = time.Hour
	part   = 5 * time.Minute
	parts  = int64(Window/part) + 1 // the current one is not complete
)

// Outcome is how an attempt ended.
type Outcome uint8

// Outcomes.
const (
	Served       Outcome = iota
	Failed               // no usable response, or status 408, 500 or higher
	RateLimited          // status 429
	Unauthorised         // status 401 or 403: the credential is not accepted
	Rejected             // another error status, which is about the request
	outcomes
)

// Attempt is an attempt that has ended.
type Attempt struct {
	Outcome  Outcome
	Streamed bool
	Time     time.Time     // when its response was usable, or it failed
	Took     time.Duration // until then
}

// Failure describes an attempt that failed. It quotes nothing that the provider sent.
type Failure struct {
	Time    time.Time
	Status  int // of the response; zero without one
	Code    string
	Message string
}

// Recent is what was seen of one provider. The zero value belongs to no [Registry] and is
// usable; a nil Recent remembers nothing. It is safe for concurrent use.
type Recent struct {
	registry *Registry
	slots    [parts]atomic.Pointer[slot]
	failure  atomic.Pointer[Failure]
	headers  headerReader
	circuits circuits
}

// slot counts the attempts of a part of the window.
type slot struct {
	number   int64 // since 1970
	ended    [outcomes]atomic.Uint32
	broken   atomic.Uint32 // streams that began and did not end
	complete histogram     // times of responses that did not stream
	first    histogram     // times until the first event of streams
}

// slotNumber returns the number of the part of the window that has t.
func slotNumber(t time.Time) int64 { return t.UnixNano() / int64(part) }

// slot returns the slot of a time, nil if there is no memory for it.
func (r *Recent) slot(t time.Time) *slot {
	n := slotNumber(t)
	at := &r.slots[n%parts]
	s := at.Load()
	if s != nil && s.number >= n { // another goroutine may be a part ahead
		return s
	}
	if s == nil && !r.registry.hold(t) {
		return nil
	}
	next := &slot{number: n}
	if at.CompareAndSwap(s, next) {
		return next
	}
	if s == nil {
		r.registry.release()
	}
	return at.Load()
}

// Add counts an attempt.
func (r *Recent) Add(a Attempt) {
	if r == nil {
		return
	}
	s := r.slot(a.Time)
	if s == nil {
		return
	}
	s.ended[a.Outcome].Add(1)
	if a.Outcome != Served {
		return
	}
	if a.Streamed {
		s.first.add(a.Took)
		return
	}
	s.complete.add(a.Took)
}

// AddBroken counts a stream that was added as [Served] and then broke.
func (r *Recent) AddBroken(f Failure) {
	if r == nil {
		return
	}
	if s := r.slot(f.Time); s != nil {
		s.broken.Add(1)
	}
	r.SetFailure(f)
}

// maxMessage is the limit of the message of a failure, in bytes.
const maxMessage = 300

// SetFailure replaces the last failure.
func (r *Recent) SetFailure(f Failure) {
	if r == nil {
		return
	}
	f.Message = f.Message[:min(len(f.Message), maxMessage)]
	r.failure.Store(&f)
}

// Report is what was seen of a provider since a time.
type Report struct {
	From time.Time // may be earlier than asked for, and at most [Window] ago

	Attempts, Served, Failed, RateLimited, Unauthorised, Rejected, Broken int64

	// Complete are the times of responses that did not stream, and First the times until
	// the first event of the others.
	Complete, First Times

	LastFailure *Failure // at any time; nil if there was none
	RateLimits  []RateLimit
	RetryAt     time.Time // before which the provider asked not to be called; zero if it did not
	Circuits    []CircuitReport
}

// Report returns what was seen since from.
func (r *Recent) Report(from, now time.Time) Report {
	number := max(slotNumber(from), slotNumber(now)-parts+1)
	out := Report{From: time.Unix(0, number*int64(part)).UTC()}
	if r == nil {
		return out
	}
	var complete, first [buckets]int64
	for i := range r.slots {
		s := r.slots[i].Load()
		if s == nil || s.number < number {
			continue
		}
		for outcome, n := range map[Outcome]*int64{Served: &out.Served, Failed: &out.Failed, RateLimited: &out.RateLimited,
			Unauthorised: &out.Unauthorised, Rejected: &out.Rejected} {
			*n += int64(s.ended[outcome].Load())
		}
		out.Broken += int64(s.broken.Load())
		s.complete.sum(&complete)
		s.first.sum(&first)
	}
	out.Attempts = out.Served + out.Failed + out.RateLimited + out.Unauthorised + out.Rejected
	out.Complete, out.First = timesOf(&complete), timesOf(&first)
	out.LastFailure = r.failure.Load()
	out.RateLimits, out.RetryAt = r.headers.read(now)
	out.Circuits = r.circuits.list(now)
	return out
}

// ErrorRate returns the fraction of attempts that failed for a reason of the provider or
// its credential, and false if none tells.
func (r *Report) ErrorRate() (rate float64, ok bool) {
	told := r.Attempts - r.Rejected
	if told == 0 {
		return 0, false
	}
	return float64(min(told-r.Served+r.Broken, told)) / float64(told), true
}

// State is the health of a provider in one word.
type State string

// States.
const (
	Idle     State = "idle"     // nothing was seen
	Up       State = "up"       // nearly all attempts succeed
	Degraded State = "degraded" // more than one in twenty fails, or the provider asked not to be called
	Open     State = "open"     // a circuit breaker is open
)

// State returns the state at now.
func (r *Report) State(now time.Time) State {
	away := now.Before(r.RetryAt)
	for _, c := range r.Circuits {
		if c.State == CircuitOpen || c.State == CircuitHalfOpen {
			return Open
		}
		away = away || c.State == CoolingDown
	}
	switch rate, ok := r.ErrorRate(); {
	case away, ok && rate > 0.05:
		return Degraded
	case r.Attempts == 0:
		return Idle
	}
	return Up
}
