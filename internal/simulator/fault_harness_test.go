package simulator_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/simulator"
)

// stream asks for a stream with faults and returns its body.
func (h *fixture) stream(faults string) string {
	h.t.Helper()
	a := h.mustPost("/v1/chat/completions", streamBody("m+"+faults))
	if a.err != nil {
		h.t.Fatalf("%s: %v", faults, a.err)
	}
	return a.body
}

func (h *fixture) wantStatuses(t *testing.T, faults string, want ...int) {
	t.Helper()
	for i, status := range want {
		if a := h.mustPost("/v1/chat/completions", plain("m+"+faults)); a.StatusCode != status {
			t.Errorf("%s: call %d has status %d, want %d", faults, i+1, a.StatusCode, status)
		}
	}
}

func (h *fixture) wantHeader(t *testing.T, faults string, status int, name, value string) {
	t.Helper()
	a := h.mustPost("/v1/chat/completions", plain("m"), simulator.HeaderFault, faults)
	if a.StatusCode != status || a.Header.Get(name) != value {
		t.Errorf("%s: %d with %s %q, want %d with %q", faults, a.StatusCode, name, a.Header.Get(name), status, value)
	}
}

func (h *fixture) wantCode(t *testing.T, faults string, status int, code string) {
	t.Helper()
	a := h.mustPost("/v1/chat/completions", streamBody("m+"+faults))
	if e := a.mustDecode(t).Error; a.StatusCode != status || e == nil || deref(e.Code) != code {
		t.Errorf("%s: %d %s, want %d with code %s", faults, a.StatusCode, a.body, status, code)
	}
}

// wantSlow checks when the headers and when the end came: headers not before
// the first delay, and, where the delay is behind them, well before the end.
func (h *fixture) wantSlow(t *testing.T, faults string, body func(string) string, headers, end time.Duration) {
	t.Helper()
	start := time.Now()
	resp, err := http.Post(h.url+"/v1/chat/completions", "application/json", strings.NewReader(body("m+"+faults)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	atHeaders := time.Since(start)
	_, err = io.Copy(io.Discard, resp.Body)
	atEnd := time.Since(start)
	if err != nil || atHeaders < headers || atEnd < end || headers == 0 && atHeaders >= end {
		t.Errorf("%s: headers after %s, end after %s, %v; want %s and %s", faults, atHeaders, atEnd, err, headers, end)
	}
}

// leaveAfter sends a request, leaves, and returns what the client saw.
func (h *fixture) leaveAfter(d time.Duration, body string) error {
	ctx, cancel := context.WithTimeout(h.t.Context(), d)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", h.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// raw returns the bytes of a response as on the wire.
func (h *fixture) raw(t *testing.T, body string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	got, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func mustUnzip(t *testing.T, a *response) string {
	t.Helper()
	if a.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("content encoding = %q", a.Header.Get("Content-Encoding"))
	}
	z, err := gzip.NewReader(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

var withTools = question{user: "Say it", tools: []string{"weather", "news"}}

// wantScript checks a response of the chat protocol, whole and streamed.
func (h *fixture) wantScript(t *testing.T, faults string, q question, ok func(parsed) bool) {
	t.Helper()
	if one, two := protocolCases[0].readComplete(t, h, "m+"+faults, q), protocolCases[0].readStream(t, h, "m+"+faults, q); !ok(one) || !ok(two) {
		t.Errorf("%s: heard %+v\nand in the stream %+v", faults, one, two)
	}
}
