package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/records/telemetry"
	"modelgate/internal/settings"
)

// openTelemetry starts the telemetry exporter if the settings or the environment name a
// collector.
func (s *Server) openTelemetry(ctx context.Context, set *settings.Settings) error {
	o, err := telemetryOptions(&set.Telemetry, os.Getenv)
	if err != nil {
		return err
	}
	o.Version, o.Logger = s.Version, s.Logger
	if s.telemetry, err = telemetry.Start(ctx, o); err != nil {
		return err
	}
	if set.Telemetry.Propagate {
		s.engine.Trace = s.telemetry.Traceparent
	}
	return nil
}

// telemetryOptions returns the options of the settings, or of the environment if they
// name no collector.
func telemetryOptions(t *settings.Telemetry, env func(string) string) (telemetry.Options, error) {
	o := telemetry.Options{Sample: 1}
	if t.Endpoint != "" {
		o.Traces = &telemetry.Collector{Endpoint: t.Endpoint, Protocol: telemetry.Protocol(t.Protocol), Headers: t.Credentials()}
		o.Metrics = o.Traces
	} else {
		var err error
		if o, err = telemetry.FromEnvironment(env); err != nil {
			return o, err
		}
	}
	if t.Traces != nil && !*t.Traces {
		o.Traces = nil
	}
	if t.Metrics != nil && !*t.Metrics {
		o.Metrics = nil
	}
	if t.Sample != nil {
		o.Sample = *t.Sample
	}
	o.Interval = t.Interval.Or(0)
	return o, nil
}

// closeTelemetry sends the remaining telemetry.
func (s *Server) closeTelemetry() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.telemetry.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("ending telemetry: %w", err)
	}
	return nil
}

// telemetryMetrics returns the metrics of the exporter.
func telemetryMetrics(s *Server) []prometheus.Collector {
	stat := func(read func(telemetry.Stats) float64) func() float64 {
		return func() float64 { return read(s.telemetry.Stats()) }
	}
	return []prometheus.Collector{
		counterFunc("modelgate_telemetry_spans_sent_total", "Spans accepted by the collector.",
			stat(func(st telemetry.Stats) float64 { return float64(st.Sent) })),
		counterFunc("modelgate_telemetry_spans_lost_total", "Spans lost because the collector did not accept them in time.",
			stat(func(st telemetry.Stats) float64 { return float64(st.Lost) })),
		counterFunc("modelgate_telemetry_entries_skipped_total", "Requests not exported because the queue was full.",
			stat(func(st telemetry.Stats) float64 { return float64(st.Skipped) })),
		gaugeFunc("modelgate_telemetry_ok", "1 while the collector accepts spans and metrics, or no collector is set, else 0.",
			stat(func(st telemetry.Stats) float64 { return one(!st.Failing) })),
	}
}
