package telemetry_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	metricservice "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traceservice "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector that takes OTLP over HTTP and gRPC.
type receiver struct {
	traceservice.UnimplementedTraceServiceServer
	http, grpc string // addresses

	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics map[string]*metricpb.Metric // the last of each
	service map[string]any
	headers http.Header
	raw     []byte
	arrived chan struct{} // holds one token after something came
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{metrics: map[string]*metricpb.Metric{}, headers: http.Header{}, arrived: make(chan struct{}, 1)}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.http = s.URL
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	traceservice.RegisterTraceServiceServer(g, r)
	metricservice.RegisterMetricsServiceServer(g, metricReceiver{r: r})
	go g.Serve(l)
	t.Cleanup(g.Stop)
	r.grpc = "http://" + l.Addr().String()
	return r
}

// ServeHTTP takes what comes over HTTP.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(req.Body)
	}
	b, err := io.ReadAll(body)
	var message proto.Message
	switch {
	case err != nil || req.Header.Get("Content-Type") != "application/x-protobuf":
		http.Error(w, "protobuf is wanted", http.StatusBadRequest)
		return
	case req.URL.Path == "/v1/traces":
		message = new(traceservice.ExportTraceServiceRequest)
	case req.URL.Path == "/v1/metrics":
		message = new(metricservice.ExportMetricsServiceRequest)
	default:
		http.NotFound(w, req)
		return
	}
	if err := proto.Unmarshal(b, message); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	r.record(message, b, req.Header)
}

// Export takes traces over gRPC.
func (r *receiver) Export(ctx context.Context, m *traceservice.ExportTraceServiceRequest) (*traceservice.ExportTraceServiceResponse, error) {
	b, err := proto.Marshal(m)
	r.record(m, b, headersOf(ctx))
	return new(traceservice.ExportTraceServiceResponse), err
}

type metricReceiver struct {
	metricservice.UnimplementedMetricsServiceServer
	r *receiver
}

// Export takes metrics over gRPC.
func (m metricReceiver) Export(ctx context.Context, msg *metricservice.ExportMetricsServiceRequest) (*metricservice.ExportMetricsServiceResponse, error) {
	b, err := proto.Marshal(msg)
	m.r.record(msg, b, headersOf(ctx))
	return new(metricservice.ExportMetricsServiceResponse), err
}

func headersOf(ctx context.Context) http.Header {
	md, _ := metadata.FromIncomingContext(ctx)
	h := http.Header{}
	for name, v := range md {
		h[http.CanonicalHeaderKey(name)] = v
	}
	return h
}

func (r *receiver) record(message proto.Message, b []byte, h http.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw, r.headers = append(r.raw, b...), h
	switch m := message.(type) {
	case *traceservice.ExportTraceServiceRequest:
		for _, rs := range m.ResourceSpans {
			r.service = values(rs.Resource.Attributes)
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
	case *metricservice.ExportMetricsServiceRequest:
		for _, rm := range m.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, metric := range sm.Metrics {
					r.metrics[metric.Name] = metric
				}
			}
		}
	}
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// waitUntil waits until done says so of what came.
func (r *receiver) waitUntil(t *testing.T, done func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		r.mu.Lock()
		ok := done()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.arrived:
		case <-deadline:
			t.Fatalf("the collector got %d spans and %d metrics in 10s", len(r.spans), len(r.metrics))
		}
	}
}

func (r *receiver) contains(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.raw, []byte(text))
}

// values returns attributes by their names.
func values(list []*commonpb.KeyValue) map[string]any {
	out := make(map[string]any, len(list))
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[kv.Key] = v.IntValue
		case *commonpb.AnyValue_DoubleValue:
			out[kv.Key] = v.DoubleValue
		case *commonpb.AnyValue_BoolValue:
			out[kv.Key] = v.BoolValue
		case *commonpb.AnyValue_ArrayValue:
			out[kv.Key] = v.ArrayValue.Values[0].GetStringValue()
		}
	}
	return out
}
