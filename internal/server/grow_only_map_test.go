package server

import (
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/api"
	"modelgate/internal/llm"
	"modelgate/internal/reqlog"
)

func TestKnownMakesEachValueOnce(t *testing.T) {
	var (
		k       growOnlyMap[int, *int]
		made    atomic.Int32
		running sync.WaitGroup
	)
	first := func(key int) *int { made.Add(1); return &key }
	for range 8 {
		running.Go(func() {
			for key := range 50 {
				if got := *k.of(key, first); got != key {
					t.Errorf("of(%d) = %d", key, got)
				}
			}
		})
	}
	running.Wait()
	if n := made.Load(); n != 50 {
		t.Errorf("%d values were made for 50 keys", n)
	}
}

func TestCountingAnExchangeOfAKnownKindAllocatesNothing(t *testing.T) {
	m := newMetrics(new(Server))
	e := &reqlog.Entry{
		Input: reqlog.Input{Operation: api.Chat}, Origin: reqlog.Origin{Provider: "openai"}, Result: reqlog.Result{Status: 200, Usage: llm.Usage{Known: true}}, Durations: reqlog.Durations{FirstToken: 1},
		Steps: reqlog.Steps{Attempts: []reqlog.Attempt{{Provider: "openai", Status: 200}}},
	}
	if n := testing.AllocsPerRun(100, func() { m.count(e) }); n != 0 {
		t.Errorf("counting allocates %g objects, want none", n)
	}
}
