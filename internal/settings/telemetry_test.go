package settings_test

import (
	"strings"
	"testing"

	"modelgate/internal/settings"
)

func TestTelemetryIsChecked(t *testing.T) {
	env := func(name string) (string, bool) { return "value of " + name, name == "AUTH" }
	for _, tt := range []struct{ text, want string }{
		{"{endpoint: http://c:4318, protocol: grpc, headers: {a-b: \"${AUTH}\"}, sample: 0.5, interval: 10s, traces: false}", ""},
		{"{propagate: true}", ""},
		{"{endpoint: c:4317}", "telemetry.endpoint"},
		{"{endpoint: \"http://u:p@c\"}", "telemetry.endpoint"},
		{"{endpoint: \"http://c?x=1\"}", "telemetry.endpoint"},
		{"{headers: {a: \"${AUTH}\"}}", "telemetry.endpoint"},
		{"{endpoint: http://c, protocol: udp}", "telemetry.protocol"},
		{"{endpoint: http://c, headers: {a: plain-canary}}", "telemetry.headers.a"},
		{"{endpoint: http://c, headers: {a: \"${NONE}\"}}", "NONE is not set"},
		{"{endpoint: http://c, headers: {\"a b\": \"${AUTH}\"}}", "telemetry.headers"},
		{"{endpoint: http://c, sample: 1.5}", "telemetry.sample"},
		{"{endpoint: http://c, interval: 1ms}", "telemetry.interval"},
		{"{endpoint: http://c, other: 1}", "other"},
	} {
		s, err := settings.Parse("modelgate.yaml", []byte("telemetry: "+tt.text+"\n"), settings.SecretResolver{Env: env})
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.text, err)
			} else if len(s.Telemetry.Headers) > 0 && s.Telemetry.Credentials()["A-B"].Reveal() != "value of AUTH" {
				t.Errorf("%s: the header was not opened", tt.text)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s named", tt.text, err, tt.want)
		}
	}
}
