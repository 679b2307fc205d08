package server

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/limits/quota"
	"modelgate/internal/settings"
)

// brokenCounters fail.
type brokenCounters struct{ quota.Memory }

func (*brokenCounters) Reserve(context.Context, time.Time, []quota.Claim) (quota.Verdict, error) {
	return quota.Verdict{}, errors.New("connection refused")
}
func (*brokenCounters) Lost() int64                      { return 7 }
func (*brokenCounters) Emptied() <-chan struct{}         { return nil }
func (*brokenCounters) MarkFilled(context.Context) error { return nil }
func (*brokenCounters) Close()                           {}

func TestFailingCountersAreReported(t *testing.T) {
	for _, kind := range []string{settings.CountersInRedis, settings.CountersLeased} {
		remote := new(brokenCounters)
		c := newLimitCounters(kind, remote, &quota.Breaker{Store: remote})
		s := &Server{counters: c}
		s.ready.Store(true)
		readiness := func() string {
			w := httptest.NewRecorder()
			s.readiness(w, nil)
			return w.Body.String()
		}
		if got := readiness(); got != "ready\n" {
			t.Errorf("%s: at the start: %q", kind, got)
		}
		for i := range 10 {
			l := &quota.Limit{Counter: string(rune('a' + i)), Max: 1, Window: time.Minute}
			if v, err := c.guard.Reserve(t.Context(), time.Now(), []quota.Claim{{Limit: l, Amount: 1, Least: 1}}); err != nil || v.Refused >= 0 {
				t.Errorf("%s: the counter of this process decided %+v, %v", kind, v, err)
			}
		}
		if got := readiness(); !strings.HasPrefix(got, "ready, degraded: the shared counters of limits") {
			t.Errorf("%s: after failures: %q", kind, got)
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(counterMetrics(c)...)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		want := map[string]float64{
			"modelgate_limit_counters_up": 0, "modelgate_limit_store_calls_total": 5, "modelgate_limit_store_failures_total": 5,
			"modelgate_limit_store_skips_total": 5, "modelgate_limit_decisions_alone_total": 10, "modelgate_limit_settlements_lost_total": 7,
		}
		for name, n := range want {
			if v, ok := got[name]; !ok || v != n {
				t.Errorf("%s: %s is %v, want %v", kind, name, v, n)
			}
		}
		c.close()
	}
}
