package dataplane_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

func TestAClientsLargeMessageEndsTheSession(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	c := dialSocket(t, g, "/realtime?model=@chat/gpt-realtime", toChat, "")
	c.until("session.created")
	c.conn.Write(t.Context(), websocket.MessageText, []byte(strings.Repeat("x", 17<<20))) // fails when the gateway closes
	if code, _, _ := c.closed(); code != websocket.StatusMessageTooBig {
		t.Errorf("closed with %d, want 1009", code)
	}
}

// TestFramesThatBreakTheProtocolEndTheSession sends frames that no library sends.
func TestFramesThatBreakTheProtocolEndTheSession(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	h := g.Request(http.MethodGet, "/realtime", "", toChat, "").Header
	h.Set("Sec-Websocket-Extensions", "permessage-deflate; server_no_context_takeover")
	for name, frame := range map[string]string{
		"compressed, which nobody agreed on": "\xC1\x85\x00\x00\x00\x00hello",
		"a size that is announced only":      "\x81\xFF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00\x00\x00\x00",
		"a negative size":                    "\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00\x00\x00\x00",
		"not masked":                         "\x81\x05hello",
		"an unknown kind":                    "\x83\x85\x00\x00\x00\x00hello",
		"a divided ping":                     "\x09\x81\x00\x00\x00\x00x",
		"a long ping":                        "\x89\xFE\x00\x7E\x00\x00\x00\x00" + strings.Repeat("x", 126),
		"a continuation of nothing":          "\x80\x81\x00\x00\x00\x00x",
	} {
		c := dialRaw(t, g.Root, "/v1/realtime?model=@chat/gpt-realtime", h)
		if _, err := c.Write([]byte(frame)); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(waittest.Bound))
		if !endsSoon(c) {
			t.Errorf("%s: the session goes on", name)
		}
	}
}

// endsSoon reads what comes until the connection is closed.
func endsSoon(c net.Conn) bool {
	b := make([]byte, 4096)
	for {
		if _, err := c.Read(b); err != nil {
			timeout, ok := err.(net.Error)
			return !ok || !timeout.Timeout()
		}
	}
}

// TestHandshakesAreNotPassedOn checks what of a handshake reaches the provider.
func TestHandshakesAreNotPassedOn(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	c, res := tryDial(t, g, "/realtime?model=@chat/gpt-realtime&key=sk-in-the-query", []string{"realtime"}, toChat, "",
		"Sec-WebSocket-Extensions", "permessage-deflate", "Origin", "https://evil.example", "Cookie", "session=abc",
		"X-Forwarded-For", "10.0.0.1", "Proxy-Authorization", "Basic abc", "Te", "trailers")
	if c == nil {
		t.Fatalf("status %d", res.StatusCode)
	}
	c.until("session.created")
	id := res.Header.Get("x-gateway-request-id")
	c.conn.Close(websocket.StatusNormalClosure, "")
	if res.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Errorf("the gateway agrees on %q", res.Header.Get("Sec-WebSocket-Extensions"))
	}
	e := entryByID(t, g, id)
	if text := fmt.Sprint(e); strings.Contains(text, "sk-in-the-query") || strings.Contains(text, gatewaytest.Key) {
		t.Errorf("the log has a secret: %s", text)
	}
	if text := g.Log.String(); strings.Contains(text, "sk-in-the-query") || strings.Contains(text, gatewaytest.Key) {
		t.Error("the process log has a secret")
	}
	waittest.Until(t, "the request at the provider", func() bool { return len(g.Sim.Requests()) == 1 })
	sent := g.Sim.Requests()[0].Header
	for _, name := range []string{"Sec-Websocket-Extensions", "Origin", "Proxy-Authorization", "Te", "X-Gateway-Api-Key"} {
		if v := sent.Values(name); len(v) > 0 {
			t.Errorf("the provider gets %s: %q", name, v)
		}
	}
	if key := sent.Values("Sec-Websocket-Key"); len(key) != 1 || key[0] == res.Request.Header.Get("Sec-Websocket-Key") {
		t.Errorf("the provider gets the key %q", key)
	}
}

// TestHandshakesThatHideARequestAreRefused sends heads that two servers could read differently.
func TestHandshakesThatHideARequestAreRefused(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	const hidden = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, more := range map[string]string{
		"two keys":          "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
		"a short key":       "Sec-WebSocket-Key: AAAA\r\n",
		"another version":   "Sec-WebSocket-Version: 8\r\n",
		"two lengths":       "Content-Length: 0\r\nContent-Length: 35\r\n",
		"length and chunks": "Content-Length: 35\r\nTransfer-Encoding: chunked\r\n",
		"spaces in a name":  "Transfer-Encoding : chunked\r\n",
	} {
		head := "GET /v1/realtime?model=@chat/gpt-realtime HTTP/1.1\r\nHost: x\r\nx-gateway-api-key: " + gatewaytest.Key +
			"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		if !strings.Contains(more, "Version") {
			head += "Sec-WebSocket-Version: 13\r\n"
		}
		if name != "a short key" {
			head += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
		}
		c, err := net.Dial("tcp", strings.TrimPrefix(g.Root, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, head+more+"\r\n"+hidden)
		c.SetReadDeadline(time.Now().Add(waittest.Bound))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode == http.StatusSwitchingProtocols {
			t.Errorf("%s: %v, %v", name, res, err)
		}
		c.Close()
	}
	if n := len(g.Sim.Requests()); n != 0 {
		t.Errorf("the provider got %d requests", n)
	}
}

// TestSubprotocolsAreOnlyNames offers sub-protocols that are none.
func TestSubprotocolsAreOnlyNames(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	h := g.Request(http.MethodGet, "/realtime", "", toChat, "", "x-gateway-api-key", "").Header
	for _, offered := range []string{
		"realtime, openai-insecure-api-key." + gatewaytest.Key + ", x;y=\"z\"",
		"openai-insecure-api-key." + gatewaytest.Key + ", openai-insecure-api-key.other",
		"openai-insecure-api-key." + gatewaytest.Key,
	} {
		h.Set("Sec-Websocket-Protocol", offered)
		r, _ := http.NewRequest(http.MethodGet, g.URL+"/realtime?model=@chat/gpt-realtime", nil)
		r.Header = h.Clone()
		for name, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-Websocket-Version": "13",
			"Sec-Websocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} {
			r.Header.Set(name, v)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Header.Values("Sec-Websocket-Protocol"); !slices.Equal(got, []string{"realtime"}) && len(got) > 0 {
			t.Errorf("%s: the gateway chooses %q", offered, got)
		}
		res.Body.Close()
	}
	waittest.Until(t, "the requests at the provider", func() bool { return len(g.Sim.Requests()) == 3 })
	for _, r := range g.Sim.Requests() {
		if text := fmt.Sprint(r.Header); strings.Contains(text, gatewaytest.Key) || strings.Contains(text, "insecure") || strings.Contains(text, "x;y") {
			t.Errorf("the provider gets %s", text)
		}
	}
}
