package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// collector takes OTLP over HTTP and reports each request.
func collector(t *testing.T) (url string, got <-chan *http.Request) {
	t.Helper()
	requests := make(chan *http.Request, 16)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		requests <- r
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

const told = `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"canary-of-an-answer"},"finish_reason":"stop"}]}`

func TestAGatewaySendsTracesAndTellsProviders(t *testing.T) {
	url, got := collector(t)
	t.Setenv("COLLECTOR_KEY", "canary-of-a-credential")
	parents := make(chan string, 16)
	provider := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parents <- r.Header.Get("Traceparent")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, told)
	})
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: provider, Settings: "telemetry: {endpoint: \"" + url + "\", metrics: false, propagate: true, headers: {x-key: \"${COLLECTOR_KEY}\"}}\n"})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, path := range []string{"/chat/completions", "/any/path"} {
		body := strings.Replace(chat, "hi", "canary-of-a-question", 1)
		res := g.Post(path, body, "traceparent", "00-"+trace+"-00f067aa0ba902b7-01", "x-gateway-metadata", `{"a":"canary-of-metadata"}`)
		if res.Status != 200 {
			t.Fatalf("%s: status %d %s", path, res.Status, res.Body)
		}
		parent := waittest.Receive(t, parents, "the request at the provider")
		if !strings.HasPrefix(parent, "00-"+trace+"-") || !strings.HasSuffix(parent, "-01") || strings.Contains(parent, "00f067aa0ba902b7") {
			t.Errorf("%s: the provider got the traceparent %q, want the trace and a span of the gateway", path, parent)
		}
		r := waittest.Receive(t, got, "the trace")
		sent, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "canary-of-a-credential" || !strings.Contains(string(sent), res.Header.Get("x-gateway-request-id")) {
			t.Errorf("%s: the collector got %s %v %q", path, r.URL.Path, r.Header, sent)
		}
		if strings.Contains(string(sent), "canary") || strings.Contains(string(sent), gatewaytest.Key) || strings.Contains(string(sent), gatewaytest.SimulatorKey) {
			t.Errorf("%s: a span holds what it must not: %q", path, sent)
		}
	}
	if s := requestLabels(t, g); s["modelgate_telemetry_ok"] != "1" || s["modelgate_telemetry_spans_lost_total"] != "0" {
		t.Errorf("modelgate_telemetry_ok = %s, spans_lost = %s", s["modelgate_telemetry_ok"], s["modelgate_telemetry_spans_lost_total"])
	}
	if strings.Contains(g.Log.String(), "canary-of-a-credential") {
		t.Error("the log holds the collector's credential")
	}
}

func TestTheStandardVariablesTurnTelemetryOn(t *testing.T) {
	url, got := collector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=of%20the%20variable")
	t.Setenv("OTEL_SERVICE_NAME", "gate-7")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	parents := make(chan http.Header, 1)
	provider := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parents <- r.Header
		io.WriteString(w, told)
	})
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: provider})
	g.Post("/chat/completions", chat, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if h := waittest.Receive(t, parents, "the request at the provider"); h.Get("Traceparent") != "" {
		t.Errorf("the provider got the traceparent %q unasked", h.Get("Traceparent"))
	}
	r := waittest.Receive(t, got, "the trace")
	sent, _ := io.ReadAll(r.Body)
	if r.Header.Get("X-Key") != "of the variable" || !strings.Contains(string(sent), "gate-7") {
		t.Errorf("the collector got %v %q", r.Header, sent)
	}
}
