package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const (
	large = 100 << 20
	// flat bounds everything that gateway, client and provider allocate together
	// while a large body passes, and so how much the heap can grow.
	flat = 16 << 20
)

// pattern is a body of n bytes that no compression shortens.
type pattern struct {
	random *rand.ChaCha8
	left   int64
	sum    hash.Hash
}

func newPattern(n int64) *pattern {
	return &pattern{rand.NewChaCha8([32]byte{7}), n, sha256.New()}
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.left))
	p.random.Read(b[:n])
	p.left -= int64(n)
	p.sum.Write(b[:n])
	return n, nil
}

// sumOf reads r to its end.
func sumOf(r io.Reader) (n int64, sum string, err error) {
	h := sha256.New()
	n, err = io.CopyBuffer(h, struct{ io.Reader }{r}, make([]byte, 64<<10))
	return n, hex.EncodeToString(h.Sum(nil)), err
}

// allocates returns the bytes that f allocates in this process.
func allocates(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// taker is a provider that says the length and the hash of what it got.
func taker(w http.ResponseWriter, r *http.Request) {
	n, sum, err := sumOf(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("X-Announced", strconv.FormatInt(r.ContentLength, 10))
	w.Header().Set("X-Encoding", r.Header.Get("Content-Encoding"))
	io.WriteString(w, strconv.FormatInt(n, 10)+" "+sum)
}

func TestLargeUploadsPassWithoutBeingHeld(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(taker)})
	const head = "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n"
	const tail = "\r\n--edge--\r\n"
	for _, tt := range []struct {
		name, path, contentType, encoding string
		announced                         bool
	}{
		{"binary of announced length", "/things/upload", "application/octet-stream", "", true},
		{"binary in chunks", "/things/upload", "application/octet-stream", "", false},
		{"JSON of announced length", "/vectors", "application/json", "", true},
		{"compressed JSON", "/vectors", "application/json", "gzip", true},
		{"form", "/files", "multipart/form-data; boundary=edge", "", true},
		{"form of a unified route", "/audio/transcriptions", "multipart/form-data; boundary=edge", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := newPattern(large)
			length := int64(large + len(head) + len(tail))
			hash := sha256.New()
			req := g.Request(http.MethodPost, tt.path, "", "Content-Type", tt.contentType, "Content-Encoding", tt.encoding)
			req.Body = io.NopCloser(io.TeeReader(io.MultiReader(strings.NewReader(head), body, strings.NewReader(tail)), hash))
			req.ContentLength = -1
			announced := int64(-1)
			if tt.announced {
				req.ContentLength, announced = length, length
			}
			var res gatewaytest.Response
			grown := allocates(func() { res = send(t, req) })
			if want := strconv.FormatInt(length, 10) + " " + hex.EncodeToString(hash.Sum(nil)); string(res.Body) != want || res.Status != 200 {
				t.Errorf("status %d, the provider got %s, want %s", res.Status, res.Body, want)
			}
			if got := res.Header.Get("X-Announced"); got != strconv.FormatInt(announced, 10) {
				t.Errorf("announced length at the provider %s, want %d", got, announced)
			}
			if got := res.Header.Get("X-Encoding"); got != tt.encoding {
				t.Errorf("content encoding at the provider %q, want %q", got, tt.encoding)
			}
			checkFlat(t, g, grown)
		})
	}
}

func TestLargeResponsesPassWithoutBeingHeld(t *testing.T) {
	for _, tt := range []struct {
		name, contentType, encoding string
		announced                   bool
	}{
		{"binary of announced length", "application/octet-stream", "", true},
		{"binary in chunks", "application/octet-stream", "", false},
		{"said to be compressed", "application/json", "gzip", true},
		{"JSON in chunks", "application/json", "", false},
		{"events", "text/event-stream", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sums := make(chan string, 1)
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				h := w.Header()
				h.Set("Content-Type", tt.contentType)
				if tt.encoding != "" {
					h.Set("Content-Encoding", tt.encoding)
				}
				if tt.announced {
					h.Set("Content-Length", strconv.Itoa(large))
				}
				body := newPattern(large)
				io.CopyBuffer(struct{ io.Writer }{w}, body, make([]byte, 64<<10))
				sums <- hex.EncodeToString(body.sum.Sum(nil))
			})})
			var n int64
			var sum string
			var err error
			var res *http.Response
			grown := allocates(func() {
				if res, err = client.RoundTrip(g.Request(http.MethodGet, "/things/a/content", "")); err == nil {
					n, sum, err = sumOf(res.Body)
					res.Body.Close()
				}
			})
			if want := waittest.Receive(t, sums, "the hash of what the provider sent"); err != nil || n != large || sum != want {
				t.Fatalf("got %d bytes with hash %s, %v; want %d with %s", n, sum, err, large, want)
			}
			length := int64(-1)
			if tt.announced {
				length = large
			}
			if res.ContentLength != length || res.Header.Get("Content-Encoding") != tt.encoding {
				t.Errorf("length %d, encoding %q, want %d and %q", res.ContentLength, res.Header.Get("Content-Encoding"), length, tt.encoding)
			}
			checkFlat(t, g, grown)
		})
	}
}

// checkFlat checks what a transfer took, and that nothing of it is kept.
func checkFlat(t *testing.T, g *gatewaytest.Gateway, grown uint64) {
	t.Helper()
	t.Logf("%d KiB allocated", grown>>10)
	if grown > flat {
		t.Errorf("%d MiB were allocated on the way, want at most %d", grown>>20, flat>>20)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.AdminURL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if metrics := string(send(t, req).Body); !strings.Contains(metrics, "\nmodelgate_body_memory_bytes 0\n") {
		t.Errorf("memory is still lent to bodies after the transfer")
	}
}
