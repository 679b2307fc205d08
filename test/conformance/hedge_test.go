package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// hedged writes a config that hedges, with a target for each provider.
func hedged(mode, hedge string, p ...*provider) string {
	targets := make([]string, len(p))
	for i := range p {
		targets[i] = leaf(p[i])
	}
	return with(tree(mode, targets...), `"hedge":{`+hedge+`}`)
}

// signal is closed once something happened.
type signal struct {
	once sync.Once
	c    chan struct{}
}

func newSignal() *signal { return &signal{c: make(chan struct{})} }

func (s *signal) set() { s.once.Do(func() { close(s.c) }) }

// given fails the test unless s is set in time.
func (s *signal) given(t *testing.T, claim string) {
	t.Helper()
	select {
	case <-s.c:
	case <-time.After(patience / 2):
		t.Errorf("it was not seen that %s", claim)
	}
}

// held answers with then once release is set; left is set if the gateway goes first.
func held(asked, release, left *signal, then behaviour) behaviour {
	return func(w http.ResponseWriter, r *http.Request, in received) {
		asked.set()
		select {
		case <-release.c:
			then(w, r, in)
		case <-r.Context().Done():
			left.set()
		}
	}
}

// marks answers with 200 and sets s.
func marks(s *signal) behaviour {
	return func(w http.ResponseWriter, r *http.Request, in received) {
		s.set()
		canned(w, r, in)
	}
}

// wonBy fails the test unless the response's head and the log name target i.
func wonBy(t *testing.T, g *gateway, got response, i int) {
	t.Helper()
	want := fmt.Sprintf("config.targets[%d]", i)
	if index := got.header.Get("x-gateway-last-used-option-index"); index != want {
		t.Errorf("x-gateway-last-used-option-index = %q, want %s", index, want)
	}
	if index := g.entry(t, got)["option_index"]; index != want {
		t.Errorf("the log has target %v, want %s", index, want)
	}
}

func TestHedgesStartFurtherTargets(t *testing.T) {
	g, _ := start(t)
	const delay = 400 * time.Millisecond
	prove(t, "M-164", "after the delay and not before", func(t *testing.T) {
		var began, second time.Time
		asked, release, left := newSignal(), newSignal(), newSignal()
		slow := newProvider(t, held(asked, release, left, canned))
		quick := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
			second = time.Now()
			canned(w, r, in)
		})
		began = time.Now()
		g.ask(t, hedged(fallback, fmt.Sprintf(`"delay_ms":%d`, delay.Milliseconds()), slow, quick)).wantOK(t)
		if waited := second.Sub(began); waited < delay {
			t.Errorf("the second target was called after %v, want %v at least", waited, delay)
		}
		called(t, []int{1, 1}, slow, quick)
	})
	prove(t, "M-164", "none within the delay", func(t *testing.T) {
		p := fleet(t, after(delay, canned), nil)
		g.ask(t, hedged(fallback, `"delay_ms":50000`, p...)).wantOK(t)
		called(t, []int{1, 0}, p...)
	})
	for _, tt := range []struct {
		name, hedge string
		calls       []int
	}{
		{"one unless max says more", `"delay_ms":20`, []int{1, 1, 0, 0}},
		{"one if max is 1", `"delay_ms":20,"max":1`, []int{1, 1, 0, 0}},
		{"two if max is 2", `"delay_ms":20,"max":2`, []int{1, 1, 1, 0}},
	} {
		prove(t, "M-164", tt.name, func(t *testing.T) {
			release, left := newSignal(), newSignal()
			time.AfterFunc(time.Second, release.set) // fifty delays
			say := held(newSignal(), release, left, canned)
			p := fleet(t, say, say, say, say)
			g.ask(t, hedged(fallback, tt.hedge, p...)).wantOK(t)
			called(t, tt.calls, p...)
		})
	}
	prove(t, "M-164", "the next of a fallback at once if the only one fails", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil, nil)
		began := time.Now()
		g.ask(t, hedged(fallback, `"delay_ms":20000`, p...)).wantOK(t)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %v, want the next target at once", took)
		}
		called(t, []int{1, 1, 0}, p...)
	})
	prove(t, "M-164", "one that replaces a failed one does not use up max", func(t *testing.T) {
		release, left := newSignal(), newSignal()
		time.AfterFunc(time.Second, release.set)
		say := held(newSignal(), release, left, canned)
		p := fleet(t, withStatuses(500), say, say, say)
		g.ask(t, hedged(fallback, `"delay_ms":20,"max":1`, p...)).wantOK(t)
		called(t, []int{1, 1, 1, 0}, p...)
	})
	prove(t, "M-164", "of a balance if the drawn one is slow", func(t *testing.T) {
		release, left, asked := newSignal(), newSignal(), newSignal()
		slow := newProvider(t, held(newSignal(), release, left, canned))
		quick := newProvider(t, marks(asked))
		config := with(tree(loadbalance, leaf(slow, `"weight":1`), leaf(quick, `"weight":0`)), `"hedge":{"delay_ms":20}`)
		g.ask(t, config).wantOK(t)
		called(t, []int{1, 1}, slow, quick)
	})
	prove(t, "M-164", "none of a balance if the drawn one fails", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		config := with(tree(loadbalance, leaf(p[0], `"weight":1`), leaf(p[1], `"weight":0`)), `"hedge":{"delay_ms":50000}`)
		if got := g.ask(t, config); got.status != 500 {
			t.Errorf("status %d, want that of the drawn target", got.status)
		}
		called(t, []int{1, 0}, p...)
	})
	prove(t, "M-164", "none beyond the attempts of a request", func(t *testing.T) {
		own := launchFor(t, "version: 1\nlimits: {attempts: 2}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
		release, left := newSignal(), newSignal()
		time.AfterFunc(time.Second, release.set)
		say := held(newSignal(), release, left, canned)
		p := fleet(t, say, say, say)
		own.ask(t, hedged(fallback, `"delay_ms":20,"max":2`, p...)).wantOK(t)
		called(t, []int{1, 1, 0}, p...)
	})
	for members, at := range map[string]string{
		``: "$.hedge.delay_ms", `"delay_ms":0`: "$.hedge.delay_ms", `"delay_ms":-1`: "$.hedge.delay_ms", `"delay_ms":"20"`: "$.hedge.delay_ms",
		`"delay_ms":20,"max":0`: "$.hedge.max", `"delay_ms":20,"max":11`: "$.hedge.max", `"delay_ms":20,"more":1`: "$.hedge.more",
	} {
		prove(t, "M-164", "refused: "+members, func(t *testing.T) {
			p := newProvider(t, nil)
			g.refuses(t, p, hedged(fallback, members, p, p), at)
		})
	}
	for _, members := range []string{`"delay_ms":1`, `"delay_ms":20,"max":10`} {
		prove(t, "M-164", "taken: "+members, func(t *testing.T) {
			p := newProvider(t, nil)
			g.ask(t, hedged(fallback, members, p, p)).wantOK(t)
		})
	}
}

func TestTheFirstGoodResponseOfAHedgeWins(t *testing.T) {
	g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	prove(t, "M-165", "the others are cancelled, and each is recorded and counted once", func(t *testing.T) {
		release := newSignal()
		left := []*signal{newSignal(), newSignal()}
		p := fleet(t, held(newSignal(), release, left[0], canned), held(newSignal(), release, left[1], canned), nil)
		got := g.ask(t, hedged(fallback, `"delay_ms":20,"max":2`, p...)).wantOK(t)
		for i, s := range left {
			s.given(t, fmt.Sprintf("the request to target %d was cancelled", i))
		}
		called(t, []int{1, 1, 1}, p...)
		entry := g.entry(t, got)
		tries, _ := entry["attempts"].([]any)
		list := make([]string, len(tries))
		for i := range tries {
			list[i] = fmt.Sprint(at(tries, i, "target"), " ", at(tries, i, "status"), " ", at(tries, i, "error"))
		}
		slices.Sort(list)
		lost := " <nil> cancelled: another target responded first"
		if want := []string{"config.targets[0]" + lost, "config.targets[1]" + lost, "config.targets[2] 200 <nil>"}; !slices.Equal(list, want) {
			t.Errorf("attempts in the log = %q, want %q", list, want)
		}
		wonBy(t, g, got, 2)
		if entry["outcome"] != "success" || entry["option_index"] != "config.targets[2]" || fmt.Sprint(at(entry, "usage", "total_tokens")) != "9" {
			t.Errorf("outcome %v by %v with %v tokens, want success by the last target with 9", entry["outcome"], entry["option_index"], at(entry, "usage", "total_tokens"))
		}
		for labels, want := range map[string]float64{`status="200"`: 1, `status="0"`: 2} {
			waittest.Until(t, "the attempts with "+labels+" are counted", func() bool {
				return g.metric(t, "modelgate_attempts_total", labels) >= want
			})
			if n := g.metric(t, "modelgate_attempts_total", labels); n != want {
				t.Errorf("%v attempts with %s are counted, want %v", n, labels, want)
			}
		}
		if n := g.counted(t, `status="200"`); n != 1 {
			t.Errorf("%v requests are counted, want 1", n)
		}
	})
	prove(t, "M-165", "a failure does not win", func(t *testing.T) {
		release, left := newSignal(), newSignal()
		slow := newProvider(t, held(newSignal(), release, left, canned))
		failing := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
			time.AfterFunc(200*time.Millisecond, release.set)
			withStatuses(500)(w, r, in)
		})
		got := g.ask(t, hedged(fallback, `"delay_ms":20`, slow, failing)).wantOK(t)
		wonBy(t, g, got, 0)
	})
	prove(t, "M-165", "the first target may still win", func(t *testing.T) {
		release, never, left := newSignal(), newSignal(), newSignal()
		slow := newProvider(t, held(newSignal(), release, newSignal(), canned))
		slower := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
			release.set()
			held(newSignal(), never, left, canned)(w, r, in)
		})
		got := g.ask(t, hedged(fallback, `"delay_ms":20`, slow, slower)).wantOK(t)
		left.given(t, "the request to the second target was cancelled")
		wonBy(t, g, got, 0)
	})
}
