package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/limits/inflight"
	"modelgate/internal/settings"
)

// newGate returns the gate of model requests, whose bodies are in pool.
func newGate(set *settings.Settings, pool *bytepool.Pool) *inflight.Gate {
	c := set.Limits.Concurrency
	return inflight.New(inflight.Options{Requests: c.Requests, Key: c.Key, Queue: c.Queue, Wait: time.Duration(c.Wait), Bodies: pool})
}

// gateMetrics returns the metrics of the gate.
func gateMetrics(g *inflight.Gate) []prometheus.Collector {
	return []prometheus.Collector{
		gaugeFunc("modelgate_requests_waiting", "Requests waiting for admission.",
			func() float64 { return float64(g.Load().Waiting) }),
		gaugeFunc("modelgate_requests_allowed", "Limit of requests in progress; lower than configured while the processors are overloaded.",
			func() float64 { return float64(g.Load().Limit) }),
		gaugeFunc("modelgate_requests_preparing", "Requests in progress that have not been sent to a provider yet.",
			func() float64 { return float64(g.Load().Preparing) }),
		gaugeFunc("modelgate_requests_preparing_allowed", "Limit of requests in progress that have not been sent to a provider yet; lower than configured while the processors are overloaded.",
			func() float64 { return float64(g.Load().PreparingLimit) }),
		counterFunc("modelgate_requests_refused_total", "Requests rejected because they were not admitted in time.",
			func() float64 { return float64(g.Load().Refused) }),
	}
}
