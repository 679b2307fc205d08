package telemetry_test

import (
	"strings"
	"testing"

	"modelgate/internal/records/telemetry"
)

func TestVariablesThatTheExporterWouldPrintAreRefused(t *testing.T) {
	const endpoint, headers = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"
	for _, tt := range []struct {
		name string
		set  map[string]string
		says string // part of the error; empty for none
	}{
		{"an address and headers", map[string]string{endpoint: "https://u:hush@collector:4318/path", headers: "api-key=of%20mine, x-team=a=b,"}, ""},
		{"one of a signal", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318"}, ""},
		{"headers without an address", map[string]string{headers: "hush"}, ""},
		{"a bad port", map[string]string{endpoint: "http://u:hush@collector:bad"}, endpoint},
		{"no scheme", map[string]string{endpoint: "hush.example:4317"}, endpoint},
		{"a bad address of a signal", map[string]string{endpoint: "http://collector:4318", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://u:hush@[bad"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"},
		{"a value without a name", map[string]string{endpoint: "http://collector:4318", headers: "Bearer hush"}, headers},
		{"a name with a space", map[string]string{endpoint: "http://collector:4318", headers: "author ization=hush"}, headers},
		{"a bad escape", map[string]string{endpoint: "http://collector:4318", headers: "authorization=%zzhush"}, headers},
		{"bad headers of a signal", map[string]string{endpoint: "http://collector:4318", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "hush"}, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := telemetry.FromEnvironment(func(name string) string { return tt.set[name] })
			switch {
			case tt.says == "" && err == nil:
			case err == nil || !strings.HasPrefix(err.Error(), tt.says+":") || strings.Contains(err.Error(), "hush"):
				t.Errorf("the error is %v, want one of %q that repeats no value", err, tt.says)
			}
		})
	}
}
