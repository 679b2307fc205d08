package simulator_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// sink is a client that takes everything and costs nothing.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Flush()                      {}

func BenchmarkChat(b *testing.B) {
	long := `"messages":[{"role":"system","content":"` + strings.Repeat("Be brief and kind. ", 200) + `"},{"role":"user","content":"Say it"}]}`
	for _, bb := range []struct{ name, body string }{
		{"plain", plain("sim-1")},
		{"4KB in, 8KB out", `{"model":"sim-1+tokens=2000",` + long},
		{"4KB in, stream of 100", `{"stream":true,"model":"sim-1+tokens=100",` + long},
	} {
		b.Run(bb.name, func(b *testing.B) {
			sim := simulator.New(simulator.Options{})
			r, err := http.NewRequest("POST", "/v1/chat/completions", nil)
			if err != nil {
				b.Fatal(err)
			}
			r.ContentLength = int64(len(bb.body))
			w := &sink{header: make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				r.Body = io.NopCloser(strings.NewReader(bb.body))
				clear(w.header)
				sim.ServeHTTP(w, r)
			}
		})
	}
}
