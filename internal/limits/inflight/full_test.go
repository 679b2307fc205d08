package inflight_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"modelgate/internal/limits/inflight"
)

// TestAFullQueueRefusesOneThatWouldBeTheFirstToGo checks that a key that fills the queue
// is refused at once, in place of another key that has fewer waiting requests.
func TestAFullQueueRefusesOneThatWouldBeTheFirstToGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inflight.New(inflight.Options{Requests: 1, Key: -1, Queue: 4})
		running := mustEnter(t, g, "busy")
		var mu sync.Mutex
		results := map[string]int{}
		enter := func(key string) {
			go func() {
				ticket, err := g.Enter(t.Context(), inflight.Caller{Key: key}, 0)
				mu.Lock()
				results[fmt.Sprint(key, " ", err)]++
				mu.Unlock()
				ticket.Leave()
			}()
			synctest.Wait()
		}
		for range 10 {
			enter("busy")
		}
		enter("quiet") // in place of the last of the other
		enter("busy")
		running.Leave()
		synctest.Wait()
		want := map[string]int{"busy <nil>": 3, "busy " + inflight.ErrQueueFull.Error(): 8, "quiet <nil>": 1}
		for name, n := range want {
			if results[name] != n {
				t.Errorf("%s: %d, want %d", name, results[name], n)
			}
		}
		if l := g.Load(); l.Running != 0 || l.Waiting != 0 || g.Keys() != 0 {
			t.Errorf("afterwards %+v with %d keys", l, g.Keys())
		}
	})
}
