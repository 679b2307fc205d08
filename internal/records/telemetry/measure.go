package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"modelgate/api"
	"modelgate/internal/records/reqlog"
)

// maxModels is the limit of model names in metrics: clients choose the names, and
// collectors keep them forever.
const maxModels = 200

// otherModel replaces further models.
const otherModel = "_OTHER"

// instruments are the histograms. They must be used by one goroutine only, except for
// the reader.
type instruments struct {
	reader   *sdkmetric.ManualReader
	exporter sdkmetric.Exporter
	models   map[string]bool

	duration, tokens, first, overhead histogram
}

// histogram records a measurement, as integer or float.
type histogram func(value float64, set attribute.Set)

func newMeasures(r *resource.Resource, exporter sdkmetric.Exporter) (*instruments, error) {
	m := &instruments{exporter: exporter, models: map[string]bool{}}
	m.reader = sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(exporter.Temporality),
		sdkmetric.WithAggregationSelector(exporter.Aggregation))
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(m.reader), sdkmetric.WithResource(r)).Meter(scopeName)
	var errs []error
	of := func(name, about, unit string, bounds ...float64) histogram {
		h, err := meter.Float64Histogram(name, metric.WithDescription(about), metric.WithUnit(unit),
			metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return func(v float64, set attribute.Set) {
			h.Record(context.Background(), v, metric.WithAttributeSet(set))
		}
	}
	// Bucket limits recommended by the conventions.
	m.duration = of("gen_ai.client.operation.duration", "Time of one attempt at a provider.", "s",
		.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
	m.first = of("gen_ai.server.time_to_first_token", "Time of an attempt until the first content of a stream.", "s",
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10)
	m.overhead = of("modelgate.overhead.duration", "Gateway overhead until the response headers are sent, in seconds.", "s",
		.00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01, .05, .1)
	tokens, err := meter.Int64Histogram("gen_ai.client.token.usage", metric.WithDescription("Tokens reported by providers."),
		metric.WithUnit("{token}"),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864))
	m.tokens = func(v float64, set attribute.Set) {
		tokens.Record(context.Background(), int64(v), metric.WithAttributeSet(set))
	}
	return m, errors.Join(append(errs, err)...)
}

// take records an exchange and its attempts.
func (m *instruments) take(e *reqlog.Entry) {
	m.overhead(e.Overhead.Seconds(), attribute.NewSet(attribute.String("gen_ai.operation.name", operationName(e.Operation))))
	winner := winningAttempt(e)
	for i := range e.Attempts {
		a := &e.Attempts[i]
		labels := []attribute.KeyValue{
			attribute.String("gen_ai.operation.name", operationName(e.Operation)),
			attribute.String("gen_ai.provider.name", providerName(a.Provider)),
		}
		switch {
		case e.Operation == api.ToolCall && a.Provider == reqlog.ProviderTools:
			labels = append(labels, attribute.String("gen_ai.tool.name", m.model(e.Model)))
		case i == winner && e.Model != "" && !e.Operation.IsTools():
			labels = append(labels, attribute.String("gen_ai.request.model", m.model(e.Model)))
		}
		if kind := errorType(a); kind != "" {
			labels = append(labels, attribute.String("error.type", kind))
		}
		set := attribute.NewSet(labels...)
		m.duration(attemptDuration(e, i, winner).Seconds(), set)
		if i == winner {
			m.recordResponse(e, a, labels, set)
		}
	}
}

func (m *instruments) recordResponse(e *reqlog.Entry, a *reqlog.Attempt, labels []attribute.KeyValue, set attribute.Set) {
	if e.Stream && e.FirstToken > a.Start {
		m.first((e.FirstToken - a.Start).Seconds(), set)
	}
	if !e.Usage.Known {
		return
	}
	of := func(kind string) attribute.Set {
		return attribute.NewSet(append(labels[:len(labels):len(labels)], attribute.String("gen_ai.token.type", kind))...)
	}
	m.tokens(float64(e.Usage.Prompt()), of("input"))
	m.tokens(float64(e.Usage.Completion()), of("output"))
}

// model returns the model name for metrics. Only models named in responses are used;
// others may have any name.
func (m *instruments) model(name string) string {
	if name == "" || m.models[name] {
		return name
	}
	if len(m.models) >= maxModels {
		return otherModel
	}
	m.models[name] = true
	return name
}
