package server

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/api"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
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
				if got := *k.of(key, 0, first); got != key {
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

// Hosts that clients choose answer with any status, under the id of any provider.
func TestClientsDoNotMakeMetricsWithoutEnd(t *testing.T) {
	m, registry := newMetrics(new(Server)), prometheus.NewRegistry()
	registry.MustRegister(m.requests, m.attempts)
	count := func(operation string, provider, status int) {
		id := fmt.Sprint("provider-", provider)
		m.count(&reqlog.Entry{
			Input: reqlog.Input{Operation: api.Operation(operation)}, Origin: reqlog.Origin{Provider: id}, Result: reqlog.Result{Status: status},
			Steps: reqlog.Steps{Attempts: []reqlog.Attempt{{Provider: id, Status: status}}},
		})
	}
	series := func() (n int, rest float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n += len(f.Metric)
			for _, one := range f.Metric {
				for _, l := range one.Label {
					if l.GetName() == "provider" && l.GetValue() == otherLabel {
						rest += one.Counter.GetValue()
					}
				}
			}
		}
		return n, rest
	}
	for status := range 1000 {
		count("chat", 0, status)
	}
	if n, _ := series(); n > 200 {
		t.Errorf("a provider with any status made %d series, want at most 200", n)
	}
	const requests = 20_000
	for i := range requests {
		count(fmt.Sprint("operation-", i%40), i/4, 200)
	}
	if n, rest := series(); n > 2*maxKeys+2 || rest < 2*(requests-maxKeys)/2 {
		t.Errorf("%d series, %v requests and attempts beyond them, want at most %d series", n, rest, 2*maxKeys+2)
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
