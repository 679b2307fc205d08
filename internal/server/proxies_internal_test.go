package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// echo starts a gateway with the settings whose model routes answer the
// client's address.
func echo(t *testing.T, text string) *Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "modelgate.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), Options{Data: t.TempDir(), Listen: "127.0.0.1:0", Config: file})
	if err != nil {
		t.Fatal(err)
	}
	s.plane = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) })
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, nil) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// get sends a request behind the prefix and returns the body of the response,
// empty when the connection is closed.
func get(t *testing.T, s *Server, prefix, headers string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "%sGET /v1/models HTTP/1.1\r\nHost: a\r\n%s\r\n", prefix, headers)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return res.Status
	}
	return string(b)
}

func TestClientAddressComesFromTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	const own, claim = "127.0.0.1:", "X-Forwarded-For: 6.6.6.6, 192.0.2.1\r\nForwarded: for=192.0.2.2\r\n"
	const proxy = "PROXY TCP4 192.0.2.3 10.0.0.1 4000 443\r\n"
	for _, tt := range []struct{ name, settings, prefix, headers, want string }{
		{"no proxy is trusted", "version: 1\n", "", claim, own},
		{"another proxy is trusted", "listener: {trusted_proxies: [10.0.0.1]}\n", "", claim, own},
		{"trusted", "listener: {trusted_proxies: [127.0.0.0/8]}\n", "", claim, "192.0.2.1:0"},
		{"trusted, Forwarded", "listener: {trusted_proxies: [127.0.0.1], client_header: Forwarded}\n", "", claim, "192.0.2.2:0"},
		{"PROXY header", "listener: {trusted_proxies: [127.0.0.1], proxy_protocol: true}\n", proxy, claim, "192.0.2.3:4000"},
		{"PROXY header names a trusted proxy", "listener: {trusted_proxies: [127.0.0.1, 192.0.2.3], proxy_protocol: true}\n", proxy, claim, "192.0.2.1:0"},
		{"PROXY header is missing", "listener: {trusted_proxies: [127.0.0.1], proxy_protocol: true}\n", "", claim, ""},
		{"PROXY header of an untrusted peer", "listener: {trusted_proxies: [10.0.0.1], proxy_protocol: true}\n", proxy, claim, "400 Bad Request"},
		{"PROXY header that nobody asked for", "listener: {trusted_proxies: [127.0.0.1]}\n", proxy, claim, "400 Bad Request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := get(t, echo(t, tt.settings), tt.prefix, tt.headers)
			if got != tt.want && (tt.want != own || !strings.HasPrefix(got, own)) {
				t.Errorf("client address = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTrustedProxiesChangeByReload(t *testing.T) {
	t.Parallel()
	s := echo(t, "listener: {trusted_proxies: [10.0.0.1]}\n")
	const claim = "X-Forwarded-For: 192.0.2.1\r\n"
	if got := get(t, s, "", claim); !strings.HasPrefix(got, "127.0.0.1:") {
		t.Fatalf("client address = %q before the reload", got)
	}
	if err := os.WriteFile(s.Config, []byte("listener: {trusted_proxies: [127.0.0.1]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "", claim); got != "192.0.2.1:0" {
		t.Errorf("client address = %q after the reload, want 192.0.2.1:0", got)
	}
}
