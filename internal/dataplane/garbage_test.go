package dataplane_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
)

// seeds are the responses of the simulator in each protocol, plain and streamed.
func seeds(t *testing.T) map[string][][]byte {
	t.Helper()
	g := newPairs(t)
	out := map[string][][]byte{}
	forms := []string{"report", "thinking=3+tokens=9", "tokens=9", "refusal", "status=429"}
	for _, target := range pairTargets {
		for _, form := range forms {
			for _, stream := range []bool{false, true} {
				g.Sim.Reset()
				c := clientFormats[0]
				if target == "chat" {
					c = clientFormats[1]
				}
				out[target] = append(out[target], recordedBytes(t, g, c, target, "sim-1+"+form, stream))
			}
		}
	}
	return out
}

// recordedBytes is what the simulator itself answers to the translated request.
func recordedBytes(t *testing.T, g *gatewaytest.Gateway, c clientFormat, target, model string, stream bool) []byte {
	t.Helper()
	c.send(t, g, "@"+target, model, stream)
	list := g.Sim.Requests()
	if len(list) == 0 {
		return nil
	}
	last := list[len(list)-1]
	s := simulator.New(simulator.Options{Key: gatewaytest.SimulatorKey})
	w := &sink{h: http.Header{}}
	r, err := http.NewRequest(last.Method, "http://sim"+last.URI, strings.NewReader(string(last.Body)))
	if err != nil {
		t.Fatal(err)
	}
	r.RequestURI, r.Header = last.URI, last.Header
	s.ServeHTTP(w, r)
	return w.b
}

// sink keeps what a handler writes.
type sink struct {
	h http.Header
	b []byte
}

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Flush()                      {}
func (s *sink) Write(b []byte) (int, error) { s.b = append(s.b, b...); return len(b), nil }

// spoil changes a response in one of the ways that answers are spoilt.
func spoil(r *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	for range 1 + r.IntN(4) {
		if len(b) == 0 {
			return b
		}
		i, j := r.IntN(len(b)), r.IntN(len(b))
		i, j = min(i, j), max(i, j)
		switch r.IntN(6) {
		case 0:
			b[i] = byte(r.IntN(256))
		case 1:
			b = b[:j]
		case 2:
			b = slices.Delete(b, i, j)
		case 3:
			b = slices.Insert(b, j, b[i:min(j, i+300)]...)
		case 4:
			b = slices.Insert(b, i, []byte(`{"[]}:,"null-1e999`)[r.IntN(17):]...)
		case 5:
			if at := strings.Index(string(b[i:]), `":`); at >= 0 { // another value for a member
				b = slices.Insert(b, i+at+2, []byte([]string{"null,", "[],", "{},", `"",`, "-1,", "1e400,", `[{"type":"text"}],`}[r.IntN(7)])...)
			}
		}
	}
	return b
}

// Whatever a provider answers, a client gets a response of its own protocol.
func TestGarbageOfAProviderNeverReachesAClientOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	responses := seeds(t)
	rounds := 60
	if raceEnabled || testing.Short() {
		rounds = 20
	}
	kinds := []string{"application/json", "text/event-stream", "application/vnd.amazon.eventstream", "application/x-ndjson", "text/plain", ""}
	var now atomic.Pointer[func(w http.ResponseWriter)]
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		(*now.Load())(w)
	})})
	random := rand.New(rand.NewPCG(4, 11))
	for _, target := range pairTargets {
		for n := range rounds {
			body := spoil(random, responses[target][n%len(responses[target])])
			if n%10 == 9 {
				for i := range body {
					body[i] = byte(random.IntN(256))
				}
			}
			kind := kinds[random.IntN(len(kinds))]
			if random.IntN(2) == 0 { // what the seed is
				kind = kinds[n%2]
			}
			if kind == kinds[1] && target == "converse" {
				kind = kinds[2]
			}
			status := []int{200, 200, 200, 200, 201, 400, 429, 503}[random.IntN(8)]
			response := func(w http.ResponseWriter) {
				w.Header()["Content-Type"] = []string{kind}
				w.WriteHeader(status)
				w.Write(body)
			}
			now.Store(&response)
			if everyone(t, g, target); t.Failed() {
				t.Fatalf("the provider answered %d, %s: %q", status, kind, body)
			}
		}
	}
	if strings.Contains(g.Log.String(), "panic") {
		t.Errorf("a handler panicked:\n%.3000s", fmt.Sprint(g.Log))
	}
}

// everyone asks a target in each protocol that it does not speak, and checks
// that the response is of the client's.
func everyone(t *testing.T, g *gatewaytest.Gateway, target string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, client := range clientFormats {
		for _, stream := range []bool{false, true} {
			if !translates(client.name, target) {
				continue
			}
			ends := []string{"complete", "error body"}
			if stream {
				ends = []string{"done", "error", "error body"}
			}
			wg.Go(func() {
				res := client.send(t, g, "@"+target, "m", stream)
				if h := client.readResponse(t, res); !slices.Contains(ends, h.end) || res.Err != nil {
					t.Errorf("%s to %s, stream=%t: end %s, %v: %q", client.name, target, stream, h.end, res.Err, res.Body[max(0, len(res.Body)-600):])
				}
			})
		}
	}
	wg.Wait()
}
