package server

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/records/reqlog"
)

// toolMetrics count the calls of tools that servers have received.
type toolMetrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	cost     *prometheus.CounterVec

	children growOnlyMap[toolLabels, *toolCounters] // bounds the names of tools
}

// toolLabels are the labels of calls of a tool.
type toolLabels struct {
	server, tool string
	outcome      reqlog.ExchangeOutcome
}

// toolCounters are the metrics of calls of a tool with an outcome.
type toolCounters struct {
	calls, cost prometheus.Counter
	duration    prometheus.Observer
}

func (m *toolMetrics) register(r *prometheus.Registry) {
	m.calls = counters("modelgate_tool_calls_total", "Calls of tools that were sent, by the slug of the server, the tool and the outcome: success, error, cancelled. Tools that report an error count as errors.",
		"server", "tool", "outcome")
	m.cost = counters("modelgate_tool_dollars_total", "Dollars that calls of tools cost.", "server", "tool")
	m.duration = histograms("modelgate_tool_call_seconds", "Time from sending the call of a tool to its result.", seconds, "server")
	r.MustRegister(m.calls, m.cost, m.duration)
	m.children.own = func(l toolLabels) toolLabels {
		l.server, l.tool = strings.Clone(l.server), strings.Clone(l.tool)
		return l
	}
}

// count counts a call of a tool or a message to an agent, and nothing for other requests.
func (m *toolMetrics) count(e *reqlog.Entry) {
	if !e.Operation.IsCall() || e.Provider != reqlog.ProviderTools {
		return
	}
	rest := toolLabels{server: otherLabel, tool: otherLabel}
	c := m.children.of(toolLabels{label(e.Slug), label(e.Model), e.Outcome()}, rest, func(l toolLabels) *toolCounters {
		return &toolCounters{m.calls.WithLabelValues(l.server, l.tool, l.outcome.String()), m.cost.WithLabelValues(l.server, l.tool),
			m.duration.WithLabelValues(l.server)}
	})
	c.calls.Inc()
	c.cost.Add(float64(e.Cost) / 1e9)
	c.duration.Observe(e.Upstream.Seconds())
}
