package sessions

import (
	"errors"
	"fmt"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
)

func kind(err error) apierr.Kind {
	e, _ := errors.AsType[*apierr.Error](err)
	if e == nil {
		return apierr.Internal
	}
	return e.Kind
}

func TestQueueOfHashesIsBounded(t *testing.T) {
	h := newHasher()
	var leave []func()
	enter := func(address string, known bool) error {
		l, err := h.enter(address, known)
		if err == nil {
			leave = append(leave, l)
		}
		return err
	}
	for range addressPlaces {
		if err := enter("a", false); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter("a", true); kind(err) != apierr.RateLimited || apierr.From(err).RetryAfter == 0 {
		t.Errorf("one address more than its places: %v", err)
	}
	for i := range unknownPlaces - addressPlaces {
		if err := enter(fmt.Sprint("b", i), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter("c", false); kind(err) != apierr.Unavailable || apierr.From(err).RetryAfter == 0 {
		t.Errorf("an unknown address in a full queue: %v", err)
	}
	for i := range places - unknownPlaces {
		if err := enter(fmt.Sprint("d", i), true); err != nil {
			t.Fatalf("a known address while others fill the queue: %v", err)
		}
	}
	if err := enter("e", true); kind(err) != apierr.Unavailable {
		t.Errorf("a known address in a full queue: %v", err)
	}
	for _, l := range leave {
		l()
	}
	if len(h.taken) != 0 || h.total != 0 {
		t.Errorf("left behind: %v, %d", h.taken, h.total)
	}
}

func TestLinkIsLookedUpBeforeAnythingIsHashed(t *testing.T) {
	f := &family{hasher: newHasher()}
	for i := range places {
		if _, err := f.hasher.enter(fmt.Sprint(i), true); err != nil {
			t.Fatal(err)
		}
	}
	c := new(route.Caller)
	unknown := apierr.New(apierr.NotFound, "unknown")
	if _, err := f.hash(t.Context(), c, "a password", func() error { return unknown }); err != unknown {
		t.Errorf("an unknown link: %v", err)
	}
	if _, err := f.hash(t.Context(), c, "a password", func() error { return nil }); kind(err) != apierr.Unavailable {
		t.Errorf("a link that is known, while the queue is full: %v", err)
	}
}

func TestFewPasswordsAreHashedAtATime(t *testing.T) {
	if n := cap(newHasher().slots); n < 1 || n > mostSlots {
		t.Errorf("%d slots", n)
	}
}
