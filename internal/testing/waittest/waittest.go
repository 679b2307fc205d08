// Package waittest waits for progress in tests.
//
// It guarantees that a wait ends within [Bound] and then fails the test with what was
// awaited, so that a lost event costs a minute and not the time limit of the package. It
// does not fake the clock; for durations of the product see testing/synctest.
package waittest

import (
	"testing"
	"time"
)

// Bound is how long a test waits for an event at most. A loaded machine stops a process for
// seconds.
const Bound = time.Minute

// interval is the time between two questions of [Until].
const interval = 5 * time.Millisecond

// Receive returns the next value of a channel, or the zero value if it is closed. It must be
// called by the goroutine of the test.
func Receive[T any](t testing.TB, from <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(Bound):
		t.Fatalf("waited in vain for %s", what)
	}
	return v
}

// Send sends a value as soon as it is received. It must be called by the goroutine of the
// test.
func Send[T any](t testing.TB, to chan<- T, v T, what string) {
	t.Helper()
	select {
	case to <- v:
	case <-time.After(Bound):
		t.Fatalf("waited in vain for %s", what)
	}
}

// Until waits until ok holds, which it asks every few milliseconds. It must be called by the
// goroutine of the test.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Bound); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-time.After(interval)
	}
}
