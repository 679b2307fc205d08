package dataplane_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

func TestStatusesThatAreNotReturned(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nbare bytes",
		"HTTP/1.1 099 Odd\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 000 Odd\r\nContent-Length: 2\r\n\r\n{}",
		"nonsense\r\n\r\n",
	} {
		g := gatewaytest.New(t, gatewaytest.Options{Upstream: raw(line)})
		for _, path := range []string{"/chat/completions", "/any/path"} {
			res := g.Post(path, plainChat)
			if res.Status != 502 || errorOf(t, string(res.Body))["source"] != "gateway" {
				t.Errorf("%s of %.20q: %d %s, want 502", path, line, res.Status, res.Body)
			}
			recorded(t, g.Entry(res), map[string]any{"status": 502, "error.source": "gateway"})
		}
		if strings.Contains(g.Log.String(), "panic") {
			t.Errorf("%.20q made a handler panic:\n%s", line, g.Log)
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// peak reads r to its end and returns its length and how much memory grew
// beyond what was in use before.
func peak(r io.Reader, before uint64) (length int64, grown uint64) {
	most := uint64(0)
	buf := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(r, buf)
		if length%(8<<20) == 0 {
			most = max(most, heap())
		}
		length += int64(n)
		if err != nil {
			return length, most - min(before, most)
		}
	}
}

func TestAHugeResponseStreamsThroughInBoundedMemory(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	runtime.GC()
	before := heap()
	res, _ := open(t, g.Request("POST", "/chat/completions", simChat("sim-1+huge=100MB", false)))
	n, grown := peak(res.Body, before)
	if n != 100e6 || res.StatusCode != 200 {
		t.Errorf("status %d, %d bytes, want 200 and %d", res.StatusCode, n, int64(100e6))
	}
	if grown > 48<<20 {
		t.Errorf("memory grew by %d MiB for a response of 100 MB", grown>>20)
	}
}

func TestAHugeUploadStreamsThrough(t *testing.T) {
	const size = 100 << 20
	arrived := make(chan int64, 1)
	most := make(chan uint64, 1)
	runtime.GC()
	before := heap()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, grown := peak(r.Body, before)
		arrived <- n
		most <- grown
	})})
	req := g.Request("POST", "/things", "", "content-type", "application/octet-stream")
	req.Body = io.NopCloser(io.LimitReader(zeros{}, size))
	req.ContentLength = size
	if res := g.Do(req); res.Status != 200 {
		t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	if n := receive(t, arrived, "the upload at the provider"); n != size {
		t.Errorf("%d bytes arrived, want %d", n, size)
	}
	if grown := receive(t, most, "the size of memory"); grown > 48<<20 {
		t.Errorf("memory grew by %d MiB for an upload of 100 MiB", grown>>20)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAGreatModelNameFillsNeitherTheLogNorAHeader(t *testing.T) {
	t.Parallel()
	handler, seen := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler})
	model := strings.Repeat("m", 1<<20)
	res := g.Post("/chat/completions", strings.Replace(plainChat, `"m"`, `"`+model+`"`, 1))
	if n := len(res.Header.Get("x-gateway-model")); n > 1000 {
		t.Errorf("x-gateway-model has %d bytes", n)
	}
	if got, _ := g.Entry(res)["model"].(string); len(got) > 1000 {
		t.Errorf("the recorded model has %d bytes", len(got))
	}
	if res.Status == 200 {
		receive(t, seen, "the request at the provider")
	}
}

func TestHeadersOfAResponse(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/chat/completions", "/any/path"} {
		// A gateway each: the upstream closes its connection after one response.
		g := gatewaytest.New(t, gatewaytest.Options{Upstream: raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Vendor: yes\r\nX-Gateway-Provider: forged\r\nSet-Cookie: a=1\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: " +
			fmt.Sprint(len(chatBody)) + "\r\n\r\n" + chatBody)})
		res := g.Post(path, plainChat, "x-gateway-trace-id", "t-1")
		for name, want := range map[string]string{
			"X-Vendor": "yes", "X-Gateway-Provider": "openai-compatible", "X-Hop": "", "X-Gateway-Trace-Id": "t-1",
			"X-Gateway-Model": "m", "X-Gateway-Retry-Attempt-Count": "0", "X-Gateway-Cache-Status": "DISABLED", "X-Gateway-Last-Used-Option-Index": "config",
		} {
			if got := strings.Join(res.Header.Values(name), ","); got != want {
				t.Errorf("%s: %s = %q, want %q", path, name, got, want)
			}
		}
		if got := res.Header.Get("Set-Cookie") != ""; got != (path == "/any/path") {
			t.Errorf("%s: a provider's cookie passed = %t", path, got)
		}
		if res.Header.Get("X-Gateway-Overhead-Us") == "" || !bytes.Equal(res.Body, []byte(chatBody)) {
			t.Errorf("%s: overhead %q, body %s", path, res.Header.Get("X-Gateway-Overhead-Us"), res.Body)
		}
	}
}

func TestTheTraceOfARequest(t *testing.T) {
	t.Parallel()
	handler, _ := asked(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: handler})
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, tt := range []struct {
		name, parent string
		read         bool
	}{
		{"version 00", "00-" + trace + "-" + span + "-01", true},
		{"not sampled", "00-" + trace + "-" + span + "-00", true},
		{"a later version", "cc-" + trace + "-" + span + "-01", true},
		{"a later version with more", "cc-" + trace + "-" + span + "-01-what-the-future-brings", true},
		{"a later version with more, not set apart", "cc-" + trace + "-" + span + "-01.what", false},
		{"version 00 with more", "00-" + trace + "-" + span + "-01-more", false},
		{"version ff", "ff-" + trace + "-" + span + "-01", false},
		{"capital letters", "00-" + strings.ToUpper(trace) + "-" + span + "-01", false},
		{"zero trace", "00-00000000000000000000000000000000-" + span + "-01", false},
		{"zero span", "00-" + trace + "-0000000000000000-01", false},
		{"too short", "00-" + trace + "-" + span, false},
		{"flags that are not digits", "00-" + trace + "-" + span + "-0x", false},
		{"a version that is no number", ".0-" + trace + "-" + span + "-01", false},
	} {
		res := g.Post("/chat/completions", plainChat, "traceparent", tt.parent)
		got := res.Header.Get("x-gateway-trace-id")
		if (got == trace) != tt.read || got == "" {
			t.Errorf("%s: trace id %q, read = %t, want %t", tt.name, got, got == trace, tt.read)
		}
	}
	res := g.Post("/chat/completions", plainChat, "traceparent", "00-"+trace+"-"+span+"-01", "x-gateway-trace-id", "mine")
	recorded(t, g.Entry(res), map[string]any{"trace_id": "mine", "parent_span_id": span})
}

func TestTheListOfModels(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	o := gatewaytest.Options{Upstream: u, Settings: keysFile(t) + "providers:\n" +
		"  - {slug: listed, provider: groq, models: [b, a], api_key: \"${PATH}\"}\n" +
		"  - {slug: dead, provider: openai-compatible, custom_host: \"http://127.0.0.1:1/v1\"}\n"}
	g := gatewaytest.New(t, o)
	ids := func(res gatewaytest.Response) (list []string) {
		for _, m := range res.JSON(t)["data"].([]any) {
			list = append(list, m.(map[string]any)["id"].(string))
		}
		return list
	}
	u.respond(func(*call) {}) // the simulator's place is taken by one that never answers
	began := time.Now()
	res := g.Get("/models", "x-gateway-provider", "")
	if took := time.Since(began); took > 30*time.Second { // the default timeouts are minutes
		t.Errorf("the list took %v, want it within the deadline of 2s", took)
	}
	if got := fmt.Sprint(ids(res)); got != "[@listed/b @listed/a]" {
		t.Errorf("models = %s, want those of @listed in their order", got)
	}
	if failed := fmt.Sprint(res.JSON(t)["failed_providers"]); !strings.Contains(failed, "@dead") || !strings.Contains(failed, "@simulator") {
		t.Errorf("failed_providers = %s, want @dead and @simulator", failed)
	}
	recorded(t, g.Entry(res), map[string]any{"status": 200, "operation": "models"})
	res = g.Get("/models", "x-gateway-provider", "", "x-gateway-api-key", "mg-key-of-the-narrow")
	if got := fmt.Sprint(ids(res), res.JSON(t)["failed_providers"]); got != "[] <nil>" {
		t.Errorf("a key limited to openai sees %s, want nothing", got)
	}
	if res := g.Get("/models", "x-gateway-provider", "", "x-gateway-api-key", "mg-key-of-the-reader"); res.Status != 403 {
		t.Errorf("a key without models.list got %d, want 403", res.Status)
	}
	g = gatewaytest.New(t, o) // one that has not seen the simulator fail
	u.respond(func(c *call) {
		io.WriteString(c.w, `{"data":[{"id":"x/1"}]}`)
		c.finish()
	})
	res = g.Get("/models", "x-gateway-provider", "", "x-gateway-api-key", "mg-key-of-the-slug")
	if got := fmt.Sprint(ids(res)); got != "[@simulator/x/1]" {
		t.Errorf("a key limited to simulator sees %s", got)
	}
}
