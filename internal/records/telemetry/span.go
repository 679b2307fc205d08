package telemetry

import (
	"cmp"
	"net"
	"strconv"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"modelgate/internal/records/reqlog"
)

// spans returns the span of an exchange and, below it, one for each attempt. Only the
// attempt whose response was returned has token counts, so that adding up spans counts
// them once.
func spans(e *reqlog.Entry) []*tracepb.Span {
	out := make([]*tracepb.Span, 0, 1+len(e.Attempts))
	out = append(out, exchangeSpan(e))
	winner := winningAttempt(e)
	for i := range e.Attempts {
		out = append(out, attemptSpan(e, i, winner))
	}
	return out
}

func exchangeSpan(e *reqlog.Entry) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: traceID(e.ID, e.TraceID), SpanId: spanID(e), ParentSpanId: parentID(e),
		Name: exchangeName(e), Kind: tracepb.Span_SPAN_KIND_SERVER,
		StartTimeUnixNano: uint64(e.Time.UnixNano()), EndTimeUnixNano: uint64(e.Time.Add(e.Total).UnixNano()),
	}
	var a attributes
	a.text("http.request.method", e.Method)
	a.text("url.path", e.Path)
	a.int("http.response.status_code", int64(e.Status))
	a.text("user_agent.original", e.UserAgent)
	a.text("gen_ai.operation.name", operationName(e.Operation))
	if e.Operation.IsTools() {
		toolAttributes(&a, e)
	} else {
		if e.Provider != "" {
			a.text("gen_ai.provider.name", providerName(e.Provider))
		}
		a.text("gen_ai.request.model", e.Model)
	}
	a.text("gen_ai.response.model", e.ResponseModel)
	gatewayAttributes(&a, e)
	if e.Status >= 400 || e.ErrorCode != "" {
		a.text("error.type", cmp.Or(e.ErrorCode, strconv.Itoa(e.Status)))
	}
	if e.Status >= 500 || e.Status < 400 && e.ErrorCode != "" { // broken off after its response headers
		s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	}
	s.Attributes = a
	return s
}

// gatewayAttributes adds the attributes that are specific to this gateway.
func gatewayAttributes(a *attributes, e *reqlog.Entry) {
	a.text("modelgate.request_id", e.ID.String())
	a.text("modelgate.trace_id", e.TraceID)
	a.text("modelgate.organisation", e.Organisation)
	a.text("modelgate.workspace", e.Workspace)
	a.text("modelgate.key.id", e.KeyID)
	a.text("modelgate.provider.slug", e.Slug)
	a.text("modelgate.config.option_index", e.OptionIndex)
	a.int("modelgate.retry.count", int64(max(len(e.Attempts)-1, 0)))
	a.text("modelgate.cache.status", e.CacheStatus)
	a.text("modelgate.prompt.id", e.Prompt.ID)
	a.text("modelgate.error.source", e.ErrorSource)
	a.int("modelgate.overhead.us", e.Overhead.Microseconds())
	if e.Priced {
		a.float("modelgate.cost.usd", float64(e.Cost)/1e9)
	}
	if e.Stream {
		a.bool("modelgate.stream", true)
	}
}

func attemptSpan(e *reqlog.Entry, i, winner int) *tracepb.Span {
	t := &e.Attempts[i]
	start := e.Time.Add(t.Start)
	s := &tracepb.Span{
		TraceId: traceID(e.ID, e.TraceID), SpanId: attemptID(e, i), ParentSpanId: spanID(e),
		Name: attemptName(e), Kind: tracepb.Span_SPAN_KIND_CLIENT,
		StartTimeUnixNano: uint64(start.UnixNano()), EndTimeUnixNano: uint64(start.Add(attemptDuration(e, i, winner)).UnixNano()),
	}
	var a attributes
	a.text("gen_ai.operation.name", operationName(e.Operation))
	if t.Provider == reqlog.ProviderTools {
		toolAttributes(&a, e)
	} else {
		a.text("gen_ai.provider.name", providerName(t.Provider))
		a.text("gen_ai.request.model", e.Model)
	}
	a.address(t.Host)
	if t.Status > 0 {
		a.int("http.response.status_code", int64(t.Status))
	}
	a.text("modelgate.config.option_index", t.Target)
	a.text("modelgate.provider.slug", t.Slug)
	if i == winner {
		responseAttributes(&a, e)
	}
	if kind := errorType(t); kind != "" {
		a.text("error.type", kind)
		s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	}
	s.Attributes = a
	return s
}

func responseAttributes(a *attributes, e *reqlog.Entry) {
	a.text("gen_ai.response.model", e.ResponseModel)
	if e.Finish != "" {
		a.texts("gen_ai.response.finish_reasons", e.Finish)
	}
	if e.Usage.Known {
		a.int("gen_ai.usage.input_tokens", e.Usage.Prompt())
		a.int("gen_ai.usage.output_tokens", e.Usage.Completion())
		a.int("gen_ai.usage.cache_read.input_tokens", e.Usage.CachedInput)
		a.int("gen_ai.usage.cache_creation.input_tokens", e.Usage.CacheWrite5m+e.Usage.CacheWrite1h)
		if e.Usage.Estimated {
			a.bool("modelgate.usage.estimated", true)
		}
	}
}

// winningAttempt returns the index of the attempt whose response the client got, -1 for
// none.
func winningAttempt(e *reqlog.Entry) int {
	for i := len(e.Attempts) - 1; i >= 0; i-- {
		if a := &e.Attempts[i]; a.Target == e.OptionIndex && a.Status >= 200 && a.Status < 400 && a.Error == "" {
			return i
		}
	}
	return -1
}

// attemptDuration returns the duration of an attempt, for the winning one until the
// last byte of its response.
func attemptDuration(e *reqlog.Entry, i, winner int) time.Duration {
	if i == winner {
		return max(e.Total-e.Attempts[i].Start, e.Attempts[i].Took)
	}
	return e.Attempts[i].Took
}

// errorType returns the short reason why an attempt failed, empty if it did not.
func errorType(a *reqlog.Attempt) string {
	switch {
	case a.Status >= 400:
		return strconv.Itoa(a.Status)
	case a.Status == 0:
		return "no_answer"
	case a.Error != "":
		return "bad_answer"
	}
	return ""
}

// attributes are the attributes of a span. Empty strings are left out.
type attributes []*commonpb.KeyValue

func (a *attributes) add(name string, v *commonpb.AnyValue) {
	*a = append(*a, &commonpb.KeyValue{Key: name, Value: v})
}

func textValue(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: validText(s)}}
}

func (a *attributes) text(name, s string) {
	if s != "" {
		a.add(name, textValue(s))
	}
}

func (a *attributes) texts(name string, list ...string) {
	values := make([]*commonpb.AnyValue, len(list))
	for i, s := range list {
		values[i] = textValue(s)
	}
	a.add(name, &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: values}}})
}

func (a *attributes) int(name string, n int64) {
	a.add(name, &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}})
}

func (a *attributes) float(name string, f float64) {
	a.add(name, &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}})
}

func (a *attributes) bool(name string, b bool) {
	a.add(name, &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: b}})
}

// address adds the host and port of a target.
func (a *attributes) address(hostport string) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		a.text("server.address", hostport)
		return
	}
	a.text("server.address", host)
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		a.int("server.port", int64(n))
	}
}
