package upstream_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"modelgate/internal/upstream"
)

// A provider may refuse a request before it has read all of it and close the
// connection, so that the rest can't be written.
func TestEarlyResponsesReachTheCaller(t *testing.T) {
	addr := mustServe(t, func(conn *net.TCPConn, r *bufio.Reader) {
		io.WriteString(conn, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
	})
	c := upstream.New(upstream.Options{})
	defer c.Close()
	for i := range 300 {
		got := outcomeOf(c, mustRequest(t, t.Context(), "POST", "http://"+addr, strings.NewReader(strings.Repeat("x", 32<<10))))
		if got.Status != "401 Unauthorized" || got.Body != "no" {
			t.Fatalf("response %d: %+v, want 401 and its body", i+1, got)
		}
	}
}

func TestRequestsThatCannotBeWrittenAreResets(t *testing.T) {
	addr := mustServe(t, func(conn *net.TCPConn, _ *bufio.Reader) { conn.SetLinger(0) })
	c := upstream.New(upstream.Options{})
	defer c.Close()
	for i := range 300 {
		got := outcomeOf(c, mustRequest(t, t.Context(), "POST", "http://"+addr, strings.NewReader(strings.Repeat("x", 32<<10))))
		if got.Kind != upstream.Reset.String() {
			t.Fatalf("request %d: %+v, want a reset", i+1, got)
		}
	}
}
