package webhooks

import (
	"fmt"
	"testing"
	"time"
)

func TestAttemptsAreLimitedByEndpointAndOrganisation(t *testing.T) {
	l := newLanes(func() time.Time { return time.Unix(0, 0) })
	var leave []func()
	for endpoint := range 10 {
		for range 6 {
			if f, wait := l.enter("o", fmt.Sprint(endpoint)); wait == 0 {
				leave = append(leave, f)
			}
		}
		if want := min(4*(endpoint+1), 16); len(leave) != want {
			t.Errorf("%d attempts to %d endpoints, want %d", len(leave), endpoint+1, want)
		}
	}
	if _, wait := l.enter("another", "another"); wait != 0 {
		t.Errorf("another organisation waits %v", wait)
	}
	for _, f := range leave {
		f()
	}
	if _, wait := l.enter("o", "0"); wait != 0 {
		t.Errorf("an attempt waits %v after the others have ended", wait)
	}
}

// TestLaterDeliveriesWaitLonger has attempts that take eight seconds, so that there is a place
// every two seconds.
func TestLaterDeliveriesWaitLonger(t *testing.T) {
	now := time.Unix(0, 0)
	l := newLanes(func() time.Time { return now })
	first, _ := l.enter("o", "e")
	now = now.Add(8 * time.Second)
	first()
	for range 4 {
		l.enter("o", "e")
	}
	for i := range 1000 {
		if _, wait := l.enter("o", "e"); wait != min(time.Duration(i+1)*2*time.Second, longestWaiting) {
			t.Fatalf("number %d waits %v", i+1, wait)
		}
	}
	now = now.Add(time.Hour)
	if _, wait := l.enter("o", "e"); wait != 2*time.Second {
		t.Errorf("an hour later: %v", wait)
	}
}

func TestIdleLanesAreForgotten(t *testing.T) {
	l := newLanes(time.Now)
	for range 4 {
		l.enter("o", "busy")
	}
	for i := range 5 * maxIdle {
		leave, _ := l.enter("o", fmt.Sprint(i))
		leave()
	}
	if len(l.open) > maxIdle {
		t.Errorf("%d lanes, want at most %d", len(l.open), maxIdle)
	}
	if _, wait := l.enter("o", "busy"); wait == 0 {
		t.Error("a lane with attempts in progress was forgotten")
	}
}
