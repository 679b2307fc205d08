package server

import (
	"testing"

	"modelgate/internal/settings"
)

func TestAReloadWarnsOfWhatIsReadAtTheStart(t *testing.T) {
	t.Parallel()
	read := func(text string) *settings.Settings {
		s, err := settings.Parse("f", []byte(text), settings.SecretResolver{Env: func(string) (string, bool) { return "x", true }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"limits: {json_body: 5 MB}\n", true},
		{"timeouts: {total: 5s}\n", true},
		{"listener: {trusted_proxies: [10.0.0.1], proxy_protocol: true}\n", true},
		{"listener: {trusted_proxies: [10.0.0.1], client_header: Forwarded}\n", false},
		{"listener: {tls: {certificate: a, key: b}}\n", true},
		{"drain: {max: 5s}\n", true},
		{"upstream: {trusted_hosts: [a.example]}\n", true},
		{"secrets: {environment: [A]}\n", true},
		{"ledger: {on_full: reject}\n", true},
		{"log: {queue: 5}\n", true},
		{"cache: {max_response: 5 MB}\n", true},
		{"compat: {prompt_envelope_only: true}\n", true},
		{"compat: {header_prefixes: [x-example-]}\n", false},
		{"log: {level: warn}\n", false},
		{"logs: {retention: {days: 5}}\n", true},
		{"logs: {level: full, body_size: 1 KB, redact: {patterns: [email]}}\n", false},
		{"providers: [{slug: a, provider: openai}]\n", false},
	} {
		if got := startSettings(read("")) != startSettings(read(tt.text)); got != tt.want {
			t.Errorf("%q waits for the next start: %t, want %t", tt.text, got, tt.want)
		}
	}
}
