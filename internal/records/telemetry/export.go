package telemetry

import (
	"context"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// traceClient returns the client of c. It does not retry, because the exporter keeps a
// batch while its collector fails.
func (c *Collector) traceClient() otlptrace.Client {
	if c.Protocol == GRPC {
		o := []otlptracegrpc.Option{otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{})}
		if c.Endpoint != "" {
			o = append(o, otlptracegrpc.WithEndpointURL(c.Endpoint))
		}
		if len(c.Headers) > 0 {
			o = append(o, otlptracegrpc.WithHeaders(c.plainHeaders()))
		}
		return otlptracegrpc.NewClient(o...)
	}
	o := []otlptracehttp.Option{otlptracehttp.WithRetry(otlptracehttp.RetryConfig{})}
	if c.Endpoint != "" {
		o = append(o, otlptracehttp.WithEndpointURL(c.path("v1/traces")))
	}
	if len(c.Headers) > 0 {
		o = append(o, otlptracehttp.WithHeaders(c.plainHeaders()))
	}
	return otlptracehttp.NewClient(o...)
}

func (c *Collector) metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	if c.Protocol == GRPC {
		o := []otlpmetricgrpc.Option{otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{})}
		if c.Endpoint != "" {
			o = append(o, otlpmetricgrpc.WithEndpointURL(c.Endpoint))
		}
		if len(c.Headers) > 0 {
			o = append(o, otlpmetricgrpc.WithHeaders(c.plainHeaders()))
		}
		return otlpmetricgrpc.New(ctx, o...)
	}
	o := []otlpmetrichttp.Option{otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{})}
	if c.Endpoint != "" {
		o = append(o, otlpmetrichttp.WithEndpointURL(c.path("v1/metrics")))
	}
	if len(c.Headers) > 0 {
		o = append(o, otlpmetrichttp.WithHeaders(c.plainHeaders()))
	}
	return otlpmetrichttp.New(ctx, o...)
}

// path returns the address of a signal.
func (c *Collector) path(name string) string {
	joined, err := url.JoinPath(c.Endpoint, name)
	if err != nil { // checked by settings
		return c.Endpoint
	}
	return joined
}

func (c *Collector) plainHeaders() map[string]string {
	plain := make(map[string]string, len(c.Headers))
	for name, value := range c.Headers {
		plain[name] = value.Reveal()
	}
	return plain
}

// resourceOf is the OpenTelemetry resource.
type resourceOf struct {
	resource *resource.Resource
	message  *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
}

// newResource returns the gateway's resource. The variables OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES take precedence.
func newResource(version string) (resourceOf, error) {
	own := resource.NewSchemaless(attribute.String("service.name", scopeName), attribute.String("service.version", version))
	given, err := resource.New(context.Background(), resource.WithFromEnv())
	if err != nil {
		return resourceOf{}, err
	}
	r, err := resource.Merge(own, given)
	if err != nil {
		return resourceOf{}, err
	}
	var list attributes
	for _, kv := range r.Attributes() {
		list.text(string(kv.Key), kv.Value.String())
	}
	return resourceOf{r, &resourcepb.Resource{Attributes: list}, &commonpb.InstrumentationScope{Name: scopeName, Version: version}}, nil
}

// scopeName is the instrumentation scope of spans and metrics.
const scopeName = "modelgate"

// spans converts a batch to the form of the protocol.
func (r resourceOf) spans(batch []*tracepb.Span) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{Resource: r.message, ScopeSpans: []*tracepb.ScopeSpans{{Scope: r.scope, Spans: batch}}}}
}
