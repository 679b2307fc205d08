package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
	"modelgate/internal/upstream"
)

// wire is a provider that keeps each request's bytes and answers with bytes as
// they are given, after which it closes the connection.
type wire struct {
	t        *testing.T
	listen   net.Listener
	got      chan rawRequest
	response chan string
}

// rawRequest is a request as on the wire.
type rawRequest struct {
	line    string
	fields  []string
	body    string
	trailer string
}

func (r rawRequest) field(name string) (value string, ok bool) {
	for _, f := range r.fields {
		if n, v, _ := strings.Cut(f, ":"); strings.EqualFold(n, name) {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t, l, make(chan rawRequest, 1), make(chan string, 1)}
	ended := make(chan struct{})
	go func() { defer close(ended); w.serve() }()
	t.Cleanup(func() { l.Close(); <-ended })
	return w
}

func (w *wire) serve() {
	for {
		conn, err := w.listen.Accept()
		if err != nil {
			return
		}
		w.exchange(conn)
	}
}

func (w *wire) exchange(conn net.Conn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(conn)
	req, err := readRaw(in)
	if err != nil {
		w.t.Errorf("reading the request at the provider: %v", err)
		return
	}
	w.got <- req
	io.WriteString(conn, <-w.response)
}

// readRaw reads a request, of a chunked body what the chunks hold.
func readRaw(in *bufio.Reader) (r rawRequest, err error) {
	var lines []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return r, err
		}
		if line == "\r\n" {
			break
		}
		lines = append(lines, strings.TrimSuffix(line, "\r\n"))
	}
	r.line, r.fields = lines[0], lines[1:]
	if v, ok := r.field("Content-Length"); ok {
		n, _ := strconv.Atoi(v)
		body := make([]byte, n)
		_, err = io.ReadFull(in, body)
		r.body = string(body)
	} else if _, ok := r.field("Transfer-Encoding"); ok {
		var body []byte
		body, err = io.ReadAll(httputil.NewChunkedReader(in))
		r.body, r.trailer = string(body), trailer(in)
	}
	return r, err
}

// trailer reads what follows a chunked body.
func trailer(in *bufio.Reader) string {
	var fields string
	for {
		line, err := in.ReadString('\n')
		if err != nil || line == "\r\n" {
			return fields
		}
		fields += line
	}
}

// gateway returns a gateway in front of w whose provider @wire has this base
// address.
func (w *wire) gateway(base string) *gatewaytest.Gateway {
	return gatewaytest.New(w.t, gatewaytest.Options{Settings: quiet,
		Managed: []snapshot.ManagedProvider{{Slug: "wire", Provider: "openai-compatible",
			Settings: provider.Settings{Key: secret.New("wire-key"), CustomHost: base}}},
		Reach: upstream.Options{Resolver: publicAddress{}, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, w.listen.Addr().String())
		}},
	})
}

// ask sends a request as it is written, with the gateway key after its first
// line, and returns what came to the provider and to the client. The client
// reads until the gateway closes the connection.
func (w *wire) ask(t *testing.T, g *gatewaytest.Gateway, text, response string) (rawRequest, string) {
	t.Helper()
	w.response <- response
	conn := open(t, g, text)
	var got rawRequest
	select {
	case got = <-w.got:
	case <-time.After(time.Minute):
		waittest.Receive(t, w.response, "the response, which nobody asked for")
		t.Fatalf("nothing came to the provider for %.200q", text)
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("reading the response: %v", err)
	}
	return got, string(all)
}

func open(t *testing.T, g *gatewaytest.Gateway, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.Root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	line, rest, _ := strings.Cut(text, "\r\n")
	fmt.Fprintf(conn, "%s\r\nHost: gateway\r\nx-gateway-api-key: %s\r\nx-gateway-provider: @wire\r\n%s", line, gatewaytest.Key, rest)
	return conn
}
