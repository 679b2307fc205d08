package upstream_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/upstream"
)

// The allocations of Do compared with those of the bare transport, the process's
// provider included: the difference is the package's own.
func BenchmarkAttempt(b *testing.B) {
	response := []byte(strings.Repeat("x", 1500))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write(response)
	}))
	defer s.Close()
	body := strings.Repeat("y", 4<<10)
	bare := &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true, ReadBufferSize: 16 << 10, WriteBufferSize: 8 << 10}
	defer bare.CloseIdleConnections()
	c := upstream.New(upstream.Options{TrustLoopback: true})
	defer c.Close()
	for _, bm := range []struct {
		name string
		do   func(*http.Request) (*http.Response, error)
	}{
		{"transport", bare.RoundTrip},
		{"open", func(r *http.Request) (*http.Response, error) { return c.Do(r, false) }},
		{"guarded", func(r *http.Request) (*http.Response, error) { return c.Do(r, true) }},
		{"watched", func(r *http.Request) (*http.Response, error) {
			w := upstream.NewWatchdog(r.Context(), limits)
			defer w.Stop()
			resp, err := c.Do(r.WithContext(w.Context()), false)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
			}
			return resp, err
		}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := bm.do(mustRequest(b, b.Context(), "POST", s.URL, strings.NewReader(body)))
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}

func BenchmarkCheckHost(b *testing.B) {
	c := upstream.New(upstream.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.CheckHost("https://models.example.com/v1"); err != nil {
			b.Fatal(err)
		}
	}
}
