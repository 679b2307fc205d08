package security

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Types, flags and error codes of frames (RFC 9113).
const (
	h2Data, h2Headers, h2Reset, h2Settings, h2Ping, h2Window, h2Continuation = 0, 1, 3, 4, 6, 8, 9

	h2EndStream, h2Ack, h2EndHeaders = 1, 1, 4

	h2ProtocolError = 1
)

// h2Frame is a frame as it was received.
type h2Frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

// code returns the error code of a frame that ends a stream.
func (f h2Frame) code() uint32 { return binary.BigEndian.Uint32(f.payload) }

// h2Conn is a connection of HTTP/2 whose client follows no rule by itself, but
// acknowledges settings, answers pings and opens the window of the connection.
// Frames may be sent concurrently.
type h2Conn struct {
	net.Conn
	settings map[uint16]uint32 // of the gateway
	frames   chan h2Frame      // closed with the connection
	read     func(f h2Frame)   // called with each frame that await reads; may be nil
}

// http2 opens a connection, by TLS when trust is given, with the settings of a
// client.
func (g *gateway) http2(t *testing.T, trust *tls.Config, settings ...uint32) *h2Conn {
	t.Helper()
	_, address, _ := strings.Cut(g.root, "://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if trust != nil {
		conn = tls.Client(conn, trust)
	}
	t.Cleanup(func() { conn.Close() })
	c := &h2Conn{Conn: conn, settings: map[uint16]uint32{}, frames: make(chan h2Frame, 1<<20)}
	var payload []byte
	for i := 0; i+1 < len(settings); i += 2 {
		payload = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(payload, uint16(settings[i])), settings[i+1])
	}
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	c.send(h2Settings, 0, 0, payload)
	go c.receive()
	first := c.await(t, "settings", func(f h2Frame) bool { return f.kind == h2Settings && f.flags&h2Ack == 0 })
	for p := first.payload; len(p) >= 6; p = p[6:] {
		c.settings[binary.BigEndian.Uint16(p)] = binary.BigEndian.Uint32(p[2:])
	}
	c.await(t, "acknowledged settings", func(f h2Frame) bool { return f.kind == h2Settings && f.flags&h2Ack != 0 })
	return c
}

// receive reads frames until the connection ends.
func (c *h2Conn) receive() {
	defer close(c.frames)
	r := bufio.NewReader(c)
	for {
		var head [9]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		f := h2Frame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:])}
		f.payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(r, f.payload); err != nil {
			return
		}
		if (f.kind == h2Settings || f.kind == h2Ping) && f.flags&h2Ack == 0 {
			response := f.payload
			if f.kind == h2Settings {
				response = nil
			}
			c.send(f.kind, h2Ack, 0, response)
		}
		if f.kind == h2Data && len(f.payload) > 0 { // of the connection; that of a stream lasts
			c.send(h2Window, 0, 0, binary.BigEndian.AppendUint32(nil, uint32(len(f.payload))))
		}
		c.frames <- f
	}
}

// frame returns the bytes of a frame.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	head := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream)
	return append(head, payload...)
}

// send reports whether the frame was written.
func (c *h2Conn) send(kind, flags byte, stream uint32, payload []byte) bool {
	c.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.Write(frame(kind, flags, stream, payload))
	return err == nil
}

// await returns the first frame for which the claim holds.
func (c *h2Conn) await(t *testing.T, name string, holds func(h2Frame) bool) h2Frame {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case f, open := <-c.frames:
			if !open {
				t.Fatalf("the connection ended before %s came", name)
			}
			if c.read != nil {
				c.read(f)
			}
			if holds(f) {
				return f
			}
		case <-late:
			t.Fatalf("no %s after a minute", name)
		}
	}
}

// ended waits until the gateway ends the connection.
func (c *h2Conn) ended(t *testing.T) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case _, open := <-c.frames:
			if !open {
				return
			}
		case <-late:
			t.Fatal("the connection is open after a minute")
		}
	}
}

// block encodes header fields without compression (RFC 7541, section 6.2.2).
func block(fields ...string) []byte {
	var b []byte
	for i := 0; i+1 < len(fields); i += 2 {
		b = append(b, 0)
		b = appendText(appendText(b, fields[i]), fields[i+1])
	}
	return b
}

// appendText appends a string with its length.
func appendText(b []byte, s string) []byte {
	if len(s) < 127 {
		return append(append(b, byte(len(s))), s...)
	}
	b = append(b, 127)
	n := len(s) - 127
	for ; n >= 128; n >>= 7 {
		b = append(b, byte(n)|128)
	}
	return append(append(b, byte(n)), s...)
}

// h2Request encodes a request with further fields.
func h2Request(method, path string, more ...string) []byte {
	return block(append([]string{":method", method, ":scheme", "http", ":authority", "a", ":path", path}, more...)...)
}

// bodyOf returns the body of the response on a stream.
func (c *h2Conn) bodyOf(t *testing.T, stream uint32) string {
	t.Helper()
	var body bytes.Buffer
	c.await(t, "end of the response", func(f h2Frame) bool {
		if f.stream != stream {
			return false
		}
		if f.kind == h2Data {
			body.Write(f.payload)
		}
		return f.flags&h2EndStream != 0 && (f.kind == h2Data || f.kind == h2Headers) || f.kind == h2Reset
	})
	return body.String()
}
