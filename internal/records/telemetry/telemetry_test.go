package telemetry_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"modelgate/internal/base/secret"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/records/telemetry"
)

const (
	traceOfW3C  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentOfW3C = "00f067aa0ba902b7"
)

// exchange is one with a failed attempt and one that was answered.
func exchange() *reqlog.Entry {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	id := reqlog.NewID(at)
	return &reqlog.Entry{
		ID: id, Time: at, Trace: reqlog.Trace{TraceID: traceOfW3C, SpanID: id.Span(), ParentSpanID: parentOfW3C, TraceFlags: "01"},
		Sender: reqlog.Sender{Organisation: "acme", Workspace: "ws-1", KeyID: "key-1", KeyName: "ci", UserAgent: "ua/1"}, Input: reqlog.Input{Method: "POST", Path: "/v1/chat/completions", Operation: "chat", Stream: true, Model: "m-1", Metadata: map[string]string{"k": "canary-of-metadata"}},
		Origin: reqlog.Origin{Provider: "azure-openai", ResponseModel: "m-1-2026", OptionIndex: "config.targets[1]", CacheStatus: "MISS"},
		Result: reqlog.Result{Status: 200, Finish: "stop", Usage: llm.Usage{Input: 10, CachedInput: 5, Output: 7, Known: true}, ErrorMessage: "canary-of-a-message"}, Charge: reqlog.Charge{Cost: 1_500_000, Priced: true},
		Steps: reqlog.Steps{Attempts: []reqlog.Attempt{
			{Target: "config.targets[0]", Provider: "openai", Host: "api.openai.com", Status: 503, Error: "canary-of-an-error", Start: time.Millisecond, Took: 2 * time.Millisecond},
			{Target: "config.targets[1]", Provider: "azure-openai", Slug: "az", Host: "x.openai.azure.com:8443", Status: 200, Start: 5 * time.Millisecond, Took: 10 * time.Millisecond},
		}, Decisions: []reqlog.Decision{{Path: "config", Text: "canary-of-a-decision"}}},
		Durations: reqlog.Durations{Total: 100 * time.Millisecond, FirstToken: 25 * time.Millisecond, Overhead: 45 * time.Microsecond},
	}
}

func mustStart(t *testing.T, o telemetry.Options) *telemetry.Exporter {
	t.Helper()
	x, err := telemetry.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close(context.Background()) })
	return x
}

func both(c telemetry.Collector) telemetry.Options {
	return telemetry.Options{Traces: &c, Metrics: &c, Sample: 1, Interval: time.Second, Version: "1.2.3"}
}

func TestACollectorGetsASpanOfTheExchangeAndOneOfEachAttempt(t *testing.T) {
	for _, protocol := range []telemetry.Protocol{telemetry.HTTP, telemetry.GRPC} {
		t.Run(string(protocol), func(t *testing.T) {
			r := newReceiver(t)
			c := telemetry.Collector{Endpoint: r.http, Protocol: protocol, Headers: map[string]secret.String{"X-Team": secret.New("canary-of-a-header")}}
			if protocol == telemetry.GRPC {
				c.Endpoint = r.grpc
			}
			e := exchange()
			x := mustStart(t, both(c))
			x.Record(t.Context(), e)
			r.waitUntil(t, func() bool { return len(r.spans) == 3 && len(r.metrics) == 4 })
			if got := r.headers.Get("X-Team"); got != "canary-of-a-header" {
				t.Errorf("X-Team = %q", got)
			}
			if r.contains("canary") {
				t.Errorf("a text of the exchange, or a credential, was sent: %q", r.raw)
			}
			if r.service["service.name"] != "modelgate" || r.service["service.version"] != "1.2.3" {
				t.Errorf("resource = %v", r.service)
			}
			checkSpans(t, e, r.spans)
			if err := x.Close(t.Context()); err != nil || x.Stats() != (telemetry.Stats{Sent: 3}) {
				t.Errorf("Close() = %v, Stats() = %+v", err, x.Stats())
			}
		})
	}
}

func checkSpans(t *testing.T, e *reqlog.Entry, spans []*tracepb.Span) {
	t.Helper()
	root, failed, succeeded := spans[0], spans[1], spans[2]
	if hex.EncodeToString(root.TraceId) != traceOfW3C || hex.EncodeToString(root.ParentSpanId) != parentOfW3C || hex.EncodeToString(root.SpanId) != e.ID.Span() {
		t.Errorf("ids of the exchange: %x %x %x", root.TraceId, root.ParentSpanId, root.SpanId)
	}
	for _, s := range spans[1:] {
		if hex.EncodeToString(s.TraceId) != traceOfW3C || string(s.ParentSpanId) != string(root.SpanId) || s.Kind != tracepb.Span_SPAN_KIND_CLIENT || s.Name != "chat m-1" {
			t.Errorf("attempt = %v", s)
		}
	}
	if string(failed.SpanId) == string(succeeded.SpanId) {
		t.Error("both attempts have one id")
	}
	if root.Name != "POST chat" || root.Kind != tracepb.Span_SPAN_KIND_SERVER || root.EndTimeUnixNano-root.StartTimeUnixNano != 100e6 {
		t.Errorf("exchange = %v", root)
	}
	if d := succeeded.EndTimeUnixNano - succeeded.StartTimeUnixNano; d != 95e6 {
		t.Errorf("the attempt that answered took %d ns, want it until the last byte", d)
	}
	want := map[string]any{
		"http.request.method": "POST", "url.path": "/v1/chat/completions", "http.response.status_code": int64(200), "user_agent.original": "ua/1",
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "azure.ai.openai", "gen_ai.request.model": "m-1", "gen_ai.response.model": "m-1-2026",
		"modelgate.request_id": e.ID.String(), "modelgate.trace_id": traceOfW3C, "modelgate.organisation": "acme", "modelgate.workspace": "ws-1", "modelgate.key.id": "key-1",
		"modelgate.config.option_index": "config.targets[1]", "modelgate.retry.count": int64(1), "modelgate.cache.status": "MISS",
		"modelgate.overhead.us": int64(45), "modelgate.cost.usd": .0015, "modelgate.stream": true,
	}
	if diff := cmp.Diff(want, values(root.Attributes)); diff != "" {
		t.Errorf("attributes of the exchange (-want +got):\n%s", diff)
	}
	want = map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m-1", "server.address": "api.openai.com",
		"http.response.status_code": int64(503), "modelgate.config.option_index": "config.targets[0]", "error.type": "503",
	}
	if diff := cmp.Diff(want, values(failed.Attributes)); diff != "" || failed.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("attributes of the failed attempt, %v (-want +got):\n%s", failed.Status, diff)
	}
	want = map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "azure.ai.openai", "gen_ai.request.model": "m-1", "gen_ai.response.model": "m-1-2026",
		"server.address": "x.openai.azure.com", "server.port": int64(8443), "http.response.status_code": int64(200), "gen_ai.response.finish_reasons": "stop",
		"gen_ai.usage.input_tokens": int64(15), "gen_ai.usage.output_tokens": int64(7), "gen_ai.usage.cache_read.input_tokens": int64(5),
		"gen_ai.usage.cache_creation.input_tokens": int64(0), "modelgate.config.option_index": "config.targets[1]", "modelgate.provider.slug": "az",
	}
	if diff := cmp.Diff(want, values(succeeded.Attributes)); diff != "" {
		t.Errorf("attributes of the answered attempt (-want +got):\n%s", diff)
	}
}

func TestMetricsFollowTheConventions(t *testing.T) {
	r := newReceiver(t)
	x := mustStart(t, both(telemetry.Collector{Endpoint: r.http}))
	for range 3 {
		x.Record(t.Context(), exchange())
	}
	x.Close(t.Context())
	for _, tt := range []struct {
		name, unit string
		points     map[string]float64 // sums by labels
	}{
		{"gen_ai.client.operation.duration", "s", map[string]float64{
			"map[error.type:503 gen_ai.operation.name:chat gen_ai.provider.name:openai]":                    .006,
			"map[gen_ai.operation.name:chat gen_ai.provider.name:azure.ai.openai gen_ai.request.model:m-1]": .285,
		}},
		{"gen_ai.client.token.usage", "{token}", map[string]float64{
			"map[gen_ai.operation.name:chat gen_ai.provider.name:azure.ai.openai gen_ai.request.model:m-1 gen_ai.token.type:input]":  45,
			"map[gen_ai.operation.name:chat gen_ai.provider.name:azure.ai.openai gen_ai.request.model:m-1 gen_ai.token.type:output]": 21,
		}},
		{"gen_ai.server.time_to_first_token", "s", map[string]float64{
			"map[gen_ai.operation.name:chat gen_ai.provider.name:azure.ai.openai gen_ai.request.model:m-1]": .06,
		}},
		{"modelgate.overhead.duration", "s", map[string]float64{"map[gen_ai.operation.name:chat]": .000135}},
	} {
		m := r.metrics[tt.name]
		if m == nil || m.Unit != tt.unit {
			t.Errorf("%s = %v, want it in %s", tt.name, m, tt.unit)
			continue
		}
		got := map[string]float64{}
		for _, p := range m.GetHistogram().DataPoints {
			got[fmt.Sprint(values(p.Attributes))] = p.GetSum()
			if p.Count != 3 {
				t.Errorf("%s counts %d, want 3", tt.name, p.Count)
			}
		}
		near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
		if diff := cmp.Diff(tt.points, got, near); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestModelsOfMetricsAreBounded(t *testing.T) {
	r := newReceiver(t)
	x := mustStart(t, both(telemetry.Collector{Endpoint: r.http}))
	for i := range 300 {
		e := exchange()
		e.Model = fmt.Sprintf("model-%d", i)
		x.Record(t.Context(), e)
		e = exchange() // of a model that nobody answers for
		e.Model, e.Status, e.Attempts = fmt.Sprintf("unknown-%d", i), 404, e.Attempts[:1]
		x.Record(t.Context(), e)
	}
	x.Close(t.Context())
	points := r.metrics["gen_ai.client.operation.duration"].GetHistogram().DataPoints
	models := map[any]bool{}
	for _, p := range points {
		models[values(p.Attributes)["gen_ai.request.model"]] = true
	}
	if len(points) != 202 || len(models) != 202 || !models["_OTHER"] || !models[nil] {
		t.Errorf("%d points of %d models, want 200 models, the others together and the failed ones without", len(points), len(models))
	}
}

func TestIDsOfOtherKindsBecomeThoseOfTraces(t *testing.T) {
	r := newReceiver(t)
	x := mustStart(t, both(telemetry.Collector{Endpoint: r.http}))
	made := exchange()
	uuid := made.ID.String()
	for i, tt := range []struct {
		trace, span, parent         string
		wantTrace, wantSpan, wantUp string
	}{
		{uuid, "", "", strings.ReplaceAll(uuid, "-", ""), made.ID.Span(), ""},
		{"", "words", "more words", strings.ReplaceAll(uuid, "-", ""), made.ID.Span(), ""},
		{"a trace", "00000000000000ff", "0000000000000000", "d79a3e0ed62a58a0e1ba4d5b7e1ee8a8", "00000000000000ff", ""},
	} {
		e := *made
		e.TraceID, e.SpanID, e.ParentSpanID, e.Attempts, e.TraceFlags = tt.trace, tt.span, tt.parent, nil, ""
		x.Record(t.Context(), &e)
		r.waitUntil(t, func() bool { return len(r.spans) == i+1 })
		s := r.spans[i]
		if got := hex.EncodeToString(s.TraceId); got != tt.wantTrace && tt.trace != "a trace" || len(s.TraceId) != 16 {
			t.Errorf("trace %q = %s, want %s", tt.trace, got, tt.wantTrace)
		}
		if hex.EncodeToString(s.SpanId) != tt.wantSpan || hex.EncodeToString(s.ParentSpanId) != tt.wantUp {
			t.Errorf("span %q, parent %q = %x, %x", tt.span, tt.parent, s.SpanId, s.ParentSpanId)
		}
	}
}

func TestTheClientDecidesWhatIsSampledAndElseThePart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sample float64
		flags  string
		want   func(int) bool
	}{
		{"sampled by the client", 0, "01", func(n int) bool { return n == 1000 }},
		{"with other flags", 0, "03", func(n int) bool { return n == 1000 }},
		{"left by the client", 1, "00", func(n int) bool { return n == 0 }},
		{"all", 1, "", func(n int) bool { return n == 1000 }},
		{"none", 0, "", func(n int) bool { return n == 0 }},
		{"a quarter", .25, "", func(n int) bool { return n > 150 && n < 350 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newReceiver(t)
			o := both(telemetry.Collector{Endpoint: r.http})
			o.Sample, o.Metrics = tt.sample, nil
			x := mustStart(t, o)
			for range 1000 {
				id := reqlog.NewID(time.Now())
				x.Record(t.Context(), &reqlog.Entry{ID: id, Time: id.Time(), Trace: reqlog.Trace{TraceID: id.String(), TraceFlags: tt.flags}})
			}
			x.Close(t.Context())
			if n := len(r.spans); !tt.want(n) {
				t.Errorf("%d of 1000 were sent", n)
			}
		})
	}
}

func TestTraceparentNamesTheSpanOfTheAttempt(t *testing.T) {
	r := newReceiver(t)
	x := mustStart(t, both(telemetry.Collector{Endpoint: r.http}))
	e := exchange()
	span, header := x.Traceparent(e.ID, e.TraceID, e.TraceFlags)
	if want := "00-" + traceOfW3C + "-" + span + "-01"; header != want {
		t.Errorf("Traceparent() = %q, want %q", header, want)
	}
	e.Attempts[1].SpanID = span
	x.Record(t.Context(), e)
	r.waitUntil(t, func() bool { return len(r.spans) == 3 })
	if got := hex.EncodeToString(r.spans[2].SpanId); got != span {
		t.Errorf("span of the attempt = %s, want %s", got, span)
	}
	e.TraceFlags = "00"
	if _, header := x.Traceparent(e.ID, e.TraceID, e.TraceFlags); !strings.HasSuffix(header, "-00") {
		t.Errorf("Traceparent() = %q of a trace that is not sampled", header)
	}
	var none *telemetry.Exporter
	if _, header := none.Traceparent(e.ID, e.TraceID, e.TraceFlags); !strings.HasSuffix(header, "-00") {
		t.Errorf("Traceparent() = %q where nothing is sent", header)
	}
}

func TestACollectorThatIsAwayRefusesOrIsSlowCostsNoTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := "http://" + l.Addr().String()
	l.Close()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "canary", http.StatusUnauthorized) }))
	t.Cleanup(refuses.Close)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // else a connection that ends goes unnoticed
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	for name, endpoint := range map[string]string{"away": away, "refuses": refuses.URL, "slow": slow.URL} {
		t.Run(name, func(t *testing.T) {
			const all = 20_000
			x := mustStart(t, both(telemetry.Collector{Endpoint: endpoint}))
			e := exchange()
			began := time.Now()
			for range all {
				x.Record(t.Context(), e)
			}
			if took := time.Since(began); took >= 10*time.Second {
				t.Errorf("recording %d entries took %v", all, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			x.Close(ctx)
			st := x.Stats()
			if st.Sent != 0 || st.Lost+3*st.Skipped != 3*all || !st.Failing {
				t.Errorf("Stats() = %+v; want the spans of %d entries lost or skipped", st, all)
			}
		})
	}
}
