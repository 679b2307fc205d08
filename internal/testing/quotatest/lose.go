package quotatest

import (
	"context"
	"errors"
	"testing"
	"time"

	"modelgate/internal/limits/quota"
)

// LoseReply makes the next call for corrections fail, after it was executed or instead.
func LoseReply(r *quota.Remote, executed bool) {
	send := r.Calls.Correct
	r.Calls.Correct = func(ctx context.Context, number int64, list []quota.Correction) error {
		r.Calls.Correct = send
		if executed {
			if err := send(ctx, number, list); err != nil {
				return err
			}
		}
		return errors.New("no reply")
	}
}

// ReleaseLateReplies makes a reservation whose reply comes after its deadline, and fails
// the test if anything stays reserved. delay sets the delay of each reply.
func ReleaseLateReplies(t *testing.T, store quota.Store, delay func(time.Duration)) {
	t.Helper()
	l := &quota.Limit{Counter: "late", Measure: quota.Tokens, Max: 140}
	reserve := func(deadline time.Duration) (quota.Verdict, error) {
		b := quota.Breaker{Store: store, Deadline: deadline}
		return b.Reserve(t.Context(), time.Now(), []quota.Claim{{Limit: l, Amount: 4000, Least: 1}})
	}
	v, err := reserve(time.Minute) // connects
	if err != nil || v.Refused >= 0 {
		t.Fatal(v, err)
	}
	store.Settle(time.Now(), v.Grants, quota.Use{})
	awaitReservation(t, store, l, 0)
	delay(500 * time.Millisecond)
	if _, err := reserve(250 * time.Millisecond); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("a reply that came late gave %v, want %v", err, quota.ErrUnavailable)
	}
	delay(0)
	awaitReservation(t, store, l, 0)
}

// awaitReservation waits until so much of a limit is reserved.
func awaitReservation(t *testing.T, store quota.Store, l *quota.Limit, want int64) {
	t.Helper()
	for began := time.Now(); ; {
		states, err := store.Read(t.Context(), time.Now(), []*quota.Limit{l})
		if err == nil && states[0].Held == want {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("after a minute the counter is at %+v, %v, want %d held", states, err, want)
		}
		<-time.After(10 * time.Millisecond)
	}
}
