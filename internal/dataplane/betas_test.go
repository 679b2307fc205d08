package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// Beta flags reach the vendor that they are for, from clients of each dialect, and
// are announced where they do not.
func TestBetaFlagsReachTheirVendorOrAreAnnounced(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: pairSettings + `
  - {slug: beta, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}", options: {beta: "own-1,a-2025"}}
`})
	both := []string{"anthropic-beta;dropped=a-2025", "anthropic-beta;dropped=b-2025"}
	for _, tt := range []struct {
		client    int // of clientFormats
		target    string
		header    string
		flags     string
		more      []string
		want      string
		announced []string
	}{
		{1, "messages", "anthropic-beta", "a-2025,b-2025", nil, "a-2025,b-2025", nil},
		{0, "messages", "anthropic-beta", "a-2025,b-2025", nil, "a-2025,b-2025", nil},
		{1, "beta", "anthropic-beta", "a-2025, b-2025", nil, "own-1,a-2025,b-2025", nil},
		{1, "chat", "anthropic-beta", "a-2025, b-2025,", nil, "", both},
		{0, "chat", "anthropic-beta", "a-2025,b-2025", nil, "", both},
		{0, "chat", "anthropic-beta", "a-2025", []string{"x-gateway-forward-headers", "anthropic-beta"}, "a-2025", nil},
		{1, "gemini", "anthropic-beta", "a-2025,b-2025", nil, "", both},
		{0, "chat", "openai-beta", "x=v1", nil, "", []string{`openai-beta;dropped="x=v1"`}},
	} {
		t.Run(fmt.Sprint(clientFormats[tt.client].name, " to ", tt.target, " ", tt.header, tt.more), func(t *testing.T) {
			req := clientFormats[tt.client].ask(t, g, "x-gateway-provider", "@"+tt.target, "m", false)
			req.Header.Set(tt.header, tt.flags)
			for i := 0; i < len(tt.more); i += 2 {
				req.Header.Set(tt.more[i], tt.more[i+1])
			}
			heads := begin(t, req)
			c := u.next()
			c.finish()
			if got := c.Header.Get(tt.header); got != tt.want {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
			params := strings.ReplaceAll(receive(t, heads, "the response").Header.Get("x-gateway-params"), `"`, "")
			for _, want := range tt.announced {
				if !strings.Contains(params, strings.ReplaceAll(want, `"`, "")) {
					t.Errorf("announced %s, want %s", params, want)
				}
			}
			if len(tt.announced) == 0 && strings.Contains(params, "-beta;dropped") {
				t.Errorf("announced %s although the flags were sent", params)
			}
		})
	}
}

// An option of the provider replaces the client's version, and says so.
func TestReplacedVersionsAreAnnounced(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: pairSettings + `
  - {slug: dated, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}", options: {version: "2025-01-01"}}
`})
	const announced = `anthropic-version;ignored="the provider's option version applies"`
	for _, tt := range []struct{ client, target, version, want, params string }{
		{"messages", "dated", "2023-06-01", "2025-01-01", announced},
		{"messages", "dated", "2025-01-01", "2025-01-01", ""},
		{"messages", "dated", "", "2025-01-01", ""},
		{"messages", "messages", "2024-01-01", "2024-01-01", ""},
		{"forwarded", "dated", "2024-01-01", "2025-01-01", announced},
		{"forwarded", "messages", "2024-01-01", "2024-01-01", ""},
	} {
		t.Run(fmt.Sprint(tt.client, " to ", tt.target, " ", tt.version), func(t *testing.T) {
			client := clientFormats[1]
			if tt.client == "forwarded" {
				client = clientFormats[0]
			}
			req := client.ask(t, g, "x-gateway-provider", "@"+tt.target, "m", false)
			if tt.version != "" {
				req.Header.Set("anthropic-version", tt.version)
			}
			if tt.client == "forwarded" {
				req.Header.Set("x-gateway-forward-headers", "anthropic-version")
			}
			heads := begin(t, req)
			c := u.next()
			c.finish()
			if got := c.Header.Values("anthropic-version"); !slices.Equal(got, []string{tt.want}) {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
			params := receive(t, heads, "the response").Header.Get("x-gateway-params")
			if tt.params != "" && !strings.Contains(params, tt.params) || tt.params == "" && strings.Contains(params, "anthropic-version") {
				t.Errorf("announced %s, want %q", params, tt.params)
			}
		})
	}
}
