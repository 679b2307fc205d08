package dataplane_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// The headers of a response that passes through do not wait for its body, which a
// provider may begin much later.
func TestHeadersArriveBeforeTheBody(t *testing.T) {
	t.Parallel()
	speech := `{"model":"m","input":"x","voice":"v"}`
	for _, tt := range []struct {
		name, path, body, contentType string
		length                        int
	}{
		{"events on an unknown route", "/any/path", `{"stream":true}`, "text/event-stream", 0},
		{"JSON of unknown length", "/any/path", "{}", "application/json", 0},
		{"a long file", "/any/path", "", "application/octet-stream", 1 << 20},
		{"speech", "/audio/speech", speech, "audio/mpeg", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := newScripted(t)
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: u})
			heads := begin(t, g.Request("POST", tt.path, tt.body, "Content-Type", "application/json"))
			c := u.next()
			c.w.Header().Set("Content-Type", tt.contentType)
			rest := "data: 1\n\n"
			if tt.length > 0 {
				rest = strings.Repeat("x", tt.length)
				c.w.Header().Set("Content-Length", strconv.Itoa(tt.length))
			}
			c.send("")
			res := receive(t, heads, "the headers of a silent response")
			if res.StatusCode != 200 || res.Header.Get("Content-Type") != tt.contentType || res.Header.Get("X-Gateway-Request-Id") == "" {
				t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
			}
			c.send(rest)
			c.finish()
			if got := readRest(t, bufio.NewReader(res.Body)); got != rest {
				t.Errorf("%d bytes, want %d", len(got), len(rest))
			}
		})
	}
}

// A provider may send its headers before it has read the request. What the client
// still sends must reach it.
func TestEarlyHeadersDoNotEndAnUpload(t *testing.T) {
	t.Parallel()
	const size = 128 << 10 // net/http drops up to twice as much
	begun, sum := make(chan struct{}), make(chan int, 1)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.EnableFullDuplex()
		w.Header().Set("Content-Type", "text/event-stream")
		rc.Flush()
		close(begun)
		body, _ := io.ReadAll(r.Body)
		sum <- bytes.Count(body, []byte("x"))
		io.WriteString(w, "data: 1\n\n")
	})})
	in, out := io.Pipe()
	req := g.Request("POST", "/any/path", "", "Content-Type", "application/octet-stream")
	req.Body, req.ContentLength = in, size
	heads := begin(t, req)
	piece := bytes.Repeat([]byte("x"), size/2)
	out.Write(piece)
	receive(t, begun, "the provider's headers")
	for part := range slices.Chunk(piece, 1<<10) {
		time.Sleep(time.Millisecond) // so that each is read by itself
		out.Write(part)
	}
	out.Close()
	if n := receive(t, sum, "the end of the upload"); n != size {
		t.Errorf("%d bytes arrived, want %d", n, size)
	}
	if body := readRest(t, receive(t, heads, "the response").Body); body != "data: 1\n\n" {
		t.Errorf("the client has %q", body)
	}
}
