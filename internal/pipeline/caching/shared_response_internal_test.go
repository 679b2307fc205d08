package caching

import (
	"testing"
	"testing/synctest"

	"modelgate/internal/cache/respcache"
	"modelgate/internal/pipeline/exchange"
)

func TestTheCostOfASharedStreamIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sharedResponse{form: respcache.Events}
		if c := s.cost(); c != (exchange.SettledCost{}) {
			t.Errorf("before the stream has ended: %v", c)
		}
		s.ended = true
		want, got := exchange.SettledCost{Cost: 7, Known: true}, make(chan exchange.SettledCost, 1)
		go func() { got <- s.cost() }()
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("before the settlement: %v", <-got)
		}
		s.recordCost(want)
		if c := <-got; c != want {
			t.Errorf("%v, want %v", c, want)
		}
	})
}
