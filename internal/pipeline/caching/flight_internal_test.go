package caching

import (
	"context"
	"errors"
	"testing"

	"modelgate/internal/cache/respcache"
	"modelgate/internal/pipeline/exchange"
)

func TestFlightsAreLeftByOneForAll(t *testing.T) {
	shutdown := errors.New("shutdown")
	for _, tt := range []struct {
		name   string
		users  int
		reason error
		finish bool
		ends   bool
	}{
		{"a client that left alone", 1, context.Canceled, false, true},
		{"a client that left others", 2, context.Canceled, false, false},
		{"a client that has its response", 2, nil, false, false},
		{"the last with its response", 1, nil, false, true},
		{"a shutdown", 2, shutdown, false, true},
		{"a client that left a call alone that is to finish", 1, context.Canceled, true, false},
		{"a shutdown before a call that is to finish", 1, shutdown, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFlight(0)
			f.finish = tt.finish
			ctx := f.begin(t.Context())
			for range tt.users - 1 {
				if !f.enter() {
					t.Fatal("a flight in progress is not entered")
				}
			}
			f.leave(tt.reason)
			if ended := ctx.Err() != nil; ended != tt.ends {
				t.Errorf("the call has ended: %t, want %t", ended, tt.ends)
			}
			if f.enter() == tt.ends {
				t.Errorf("others may enter: %t, want %t", !tt.ends, tt.ends)
			}
		})
	}
}

func TestCompleteFlightsAreJoinedWhileSomebodyReads(t *testing.T) {
	f := newFlight(0)
	ctx := f.begin(t.Context())
	f.complete()
	if !f.enter() {
		t.Error("a complete response that is being read is not shared")
	}
	f.leave(context.Canceled)
	if f.leave(context.Canceled); ctx.Err() != nil {
		t.Error("the call was cancelled after it was complete")
	}
	if g := newFlight(0); true {
		g.leave(nil)
		if g.complete(); g.enter() {
			t.Error("a complete response without a reader is shared")
		}
	}
}

// A flight that ends late must not take a later one of its key with it.
func TestFlightForgetsItselfOnly(t *testing.T) {
	var s flights
	key := respcache.Key{1}
	first, begun := s.join(key, 0, s.endedOf(key))
	if !begun {
		t.Fatal("the first flight is not the caller's")
	}
	first.close()
	second, begun := s.join(key, 0, s.endedOf(key))
	if !begun || second == first {
		t.Fatal("a closed flight was joined")
	}
	first.forget()
	if third, begun := s.join(key, 0, s.endedOf(key)); begun || third != second {
		t.Error("the second flight was forgotten with the first")
	}
}

// A request that has found nothing stored must not call its provider if a call of the
// same key has ended in the meantime: the response may be stored by then.
func TestFlightThatEndedSinceTheLookUpIsNoticed(t *testing.T) {
	var s flights
	key := respcache.Key{1}
	first, _ := s.join(key, 0, s.endedOf(key))
	before := s.endedOf(key)
	first.close()
	if f, begun := s.join(key, 0, before); f != nil || begun {
		t.Error("a second call was begun without another look-up")
	}
	if f, begun := s.join(key, 0, s.endedOf(key)); f == nil || !begun {
		t.Error("no call was begun after the look-up")
	}
}

func TestFailedCallsReachTheClientAsTheyAre(t *testing.T) {
	refused := &exchange.Response{Status: 429}
	broken := errors.New("no connection")
	for _, tt := range []struct {
		name string
		res  *exchange.Response
		err  error
	}{{"refused", refused, nil}, {"broken", nil, broken}} {
		t.Run(tt.name, func(t *testing.T) {
			var call context.Context
			h := &cacheHandler{next: handlerFunc(func(ctx context.Context, _ *exchange.Request, _ *exchange.Trail) (*exchange.Response, error) {
				call = ctx
				return tt.res, tt.err
			})}
			f := newFlight(0)
			res, err := h.callAndShare(t.Context(), new(exchange.Request), new(exchange.Trail), respcache.Key{}, f)
			if res != tt.res || err != tt.err {
				t.Fatalf("the client gets %+v, %v, want %+v, %v", res, err, tt.res, tt.err)
			}
			select {
			case <-f.ended:
			default:
				t.Error("those that joined wait on")
			}
			if ended := call.Err() != nil; ended != (err != nil) {
				t.Errorf("before the response was read, the call has ended: %t", ended)
			}
			if res != nil {
				for _, end := range res.After {
					end()
				}
			}
			if call.Err() == nil {
				t.Error("the call goes on after its response was read")
			}
		})
	}
}

// handlerFunc is a handler that is a function.
type handlerFunc func(context.Context, *exchange.Request, *exchange.Trail) (*exchange.Response, error)

func (f handlerFunc) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	return f(ctx, r, t)
}
