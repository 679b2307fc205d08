package conformance

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metricservice "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traceservice "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"modelgate/internal/testing/waittest"
)

// collector takes OTLP over HTTP.
type collector struct {
	url string

	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics map[string]*metricpb.Metric // the last of each
	raw     []byte
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{metrics: map[string]*metricpb.Metric{}}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	b, err := io.ReadAll(body)
	if err == nil {
		err = c.take(r.URL.Path, b)
	}
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *collector) take(path string, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, b...)
	if path == "/v1/traces" {
		var m traceservice.ExportTraceServiceRequest
		err := proto.Unmarshal(b, &m)
		for _, resource := range m.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
		return err
	}
	var m metricservice.ExportMetricsServiceRequest
	err := proto.Unmarshal(b, &m)
	for _, resource := range m.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, metric := range scope.Metrics {
				c.metrics[metric.Name] = metric
			}
		}
	}
	return err
}

// trace returns the spans of a trace, by name.
func (c *collector) trace(id string) map[string]*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]*tracepb.Span{}
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) == id {
			out[s.Name] = s
		}
	}
	return out
}

// points returns the attributes and counts of a histogram.
func (c *collector) points(name string) (labels []map[string]any, count uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.metrics[name].GetHistogram().GetDataPoints() {
		labels = append(labels, told(p.Attributes))
		count += p.Count
	}
	return labels, count
}

// told returns attributes by their names.
func told(list []*commonpb.KeyValue) map[string]any {
	out := make(map[string]any, len(list))
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[kv.Key] = v.IntValue
		case *commonpb.AnyValue_BoolValue:
			out[kv.Key] = v.BoolValue
		case *commonpb.AnyValue_ArrayValue:
			out[kv.Key] = v.ArrayValue.Values[0].GetStringValue()
		}
	}
	return out
}

// wants fails the test unless a span has these attributes.
func wants(t *testing.T, s *tracepb.Span, want map[string]any) {
	t.Helper()
	got := told(s.Attributes)
	for name, v := range want {
		if got[name] != v {
			t.Errorf("span %q has %s = %v, want %v", s.Name, name, got[name], v)
		}
	}
}

// below are the headers of a request for the simulator, in a trace of its own.
func below(t *testing.T, trace string) []string {
	t.Helper()
	return to(&provider{url: simulate(t) + "/v1"}, "traceparent", "00-"+trace+"-b7ad6b7169203331-01")
}

func TestExchangesAreExportedToACollector(t *testing.T) {
	c := newCollector(t)
	g := launchFor(t, "version: 1\ntelemetry: {endpoint: \""+c.url+"\", interval: 1s}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	const secret = "nobody may read this"
	// arrived waits for the spans of a trace: that of the exchange, and of its attempt.
	arrived := func(t *testing.T, trace, exchange, attempt string) (*tracepb.Span, *tracepb.Span) {
		t.Helper()
		var spans map[string]*tracepb.Span
		waittest.Until(t, "the collector has the trace", func() bool { spans = c.trace(trace); return len(spans) == 2 })
		one, two := spans[exchange], spans[attempt]
		if one == nil || two == nil || one.Kind != tracepb.Span_SPAN_KIND_SERVER || two.Kind != tracepb.Span_SPAN_KIND_CLIENT || !bytes.Equal(two.ParentSpanId, one.SpanId) ||
			hex.EncodeToString(one.ParentSpanId) != "b7ad6b7169203331" || one.EndTimeUnixNano < two.EndTimeUnixNano {
			t.Fatalf("spans %v, want %q of a server below the client's and %q of a client below it", spans, exchange, attempt)
		}
		return one, two
	}
	prove(t, "S-023 S-037", "a streamed chat completion is a trace with its tokens", func(t *testing.T) {
		const trace = "0af7651916cd43dd8448eb211c80319c"
		g.do(t, "POST", "/v1/chat/completions", `{"model":"sim-1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"`+secret+`"}]}`, below(t, trace)...).wantOK(t)
		one, two := arrived(t, trace, "POST /v1/chat/completions", "chat sim-1")
		wants(t, one, map[string]any{"http.response.status_code": int64(200), "gen_ai.operation.name": "chat", "modelgate.trace_id": trace, "modelgate.stream": true})
		wants(t, two, map[string]any{"gen_ai.operation.name": "chat", "gen_ai.request.model": "sim-1", "gen_ai.response.finish_reasons": "stop", "server.address": "127.0.0.1"})
		for _, name := range []string{"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"} {
			if n, _ := told(two.Attributes)[name].(int64); n <= 0 {
				t.Errorf("%s = %v, want some", name, n)
			}
			if told(one.Attributes)[name] != nil {
				t.Errorf("%s is on the exchange too, where a sum would count it twice", name)
			}
		}
	})
	prove(t, "S-023 S-037", "an embedding is one", func(t *testing.T) {
		const trace = "1af7651916cd43dd8448eb211c80319c"
		g.do(t, "POST", "/v1/embeddings", `{"model":"sim-embed-1","input":"`+secret+`"}`, below(t, trace)...).wantOK(t)
		_, two := arrived(t, trace, "POST /v1/embeddings", "embeddings sim-embed-1")
		wants(t, two, map[string]any{"gen_ai.operation.name": "embeddings", "http.response.status_code": int64(200)})
	})
	prove(t, "S-023 S-037", "a failed request is one, with its error", func(t *testing.T) {
		const trace = "2af7651916cd43dd8448eb211c80319c"
		if got := g.do(t, "POST", "/v1/chat/completions", `{"model":"sim-1+status=503","messages":[{"role":"user","content":"`+secret+`"}]}`, below(t, trace)...); got.status != 503 {
			t.Fatalf("status %d, want 503", got.status)
		}
		one, two := arrived(t, trace, "POST /v1/chat/completions", "chat sim-1+status=503")
		for _, s := range []*tracepb.Span{one, two} {
			wants(t, s, map[string]any{"http.response.status_code": int64(503)})
			if told(s.Attributes)["error.type"] == nil || s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
				t.Errorf("span %q: error.type %v, status %v; want an error", s.Name, told(s.Attributes)["error.type"], s.Status)
			}
		}
	})
	prove(t, "S-023", "metrics count each attempt and have a bounded number of models", func(t *testing.T) {
		p := newProvider(t, nil)
		const models = 230
		for i := range models {
			g.do(t, "POST", modelRoutes[0].path, strings.Replace(modelRoutes[0].body, "m-1", fmt.Sprintf("m-%d", i), 1), to(p)...).wantOK(t)
		}
		waittest.Until(t, "the metrics have all attempts", func() bool { _, n := c.points("gen_ai.client.operation.duration"); return n == models+3 })
		labels, _ := c.points("gen_ai.client.operation.duration")
		seen := map[any]bool{}
		for _, l := range labels {
			seen[l["gen_ai.request.model"]] = true
		}
		if len(seen) > 202 || !seen["_OTHER"] || !seen["m-0"] { // 200, those beyond, and none for what failed
			t.Errorf("%d models are distinguished, want at most 200 and _OTHER", len(seen))
		}
		for _, name := range []string{"gen_ai.client.token.usage", "gen_ai.server.time_to_first_token", "modelgate.overhead.duration"} {
			if _, n := c.points(name); n == 0 {
				t.Errorf("there is no %s", name)
			}
		}
	})
	for _, never := range []string{secret, credential, bootstrapKey} {
		if c.mu.Lock(); bytes.Contains(c.raw, []byte(never)) {
			t.Errorf("the collector received %q", never)
		}
		c.mu.Unlock()
	}
}
