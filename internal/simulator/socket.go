package simulator

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // the handshake demands it
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Opcodes of frames.
// https://www.rfc-editor.org/rfc/rfc6455#section-5.2
const (
	frameText, frameBinary      = 1, 2
	frameClose, framePing, pong = 8, 9, 10
)

// maxFrame is the limit of a frame that a socket reads.
const maxFrame = 64 << 20

// socket is the server's end of a WebSocket connection. It has its own frames, so that it can
// send what no library sends.
type socket struct {
	conn net.Conn
	in   *bufio.Reader
	mute bool // answers no pings
}

// upgrade accepts a connection. It is nil for a request that is refused.
func (x *exchange) upgrade() *socket {
	h := x.r.Header
	if !strings.EqualFold(h.Get("Upgrade"), "websocket") || h.Get("Sec-Websocket-Version") != "13" {
		x.refuse(http.StatusUpgradeRequired, providerError{kind: "invalid_request_error", message: "Expected a WebSocket handshake."})
		return nil
	}
	conn, buffered, err := x.control.Hijack()
	if err != nil {
		panic(err)
	}
	sum := sha1.Sum([]byte(h.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	head := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	if first, _, _ := strings.Cut(h.Get("Sec-Websocket-Protocol"), ","); first != "" {
		head += "Sec-WebSocket-Protocol: " + strings.TrimSpace(first) + "\r\n"
	}
	conn.SetDeadline(time.Time{})
	io.WriteString(conn, head+"\r\n")
	return &socket{conn: conn, in: buffered.Reader}
}

// write sends a message in one frame.
func (s *socket) write(op byte, data []byte) error {
	head := []byte{0x80 | op}
	switch n := len(data); {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	_, err := s.conn.Write(append(head, data...))
	return err
}

// close sends a close frame with any code, even one that the protocol forbids. Zero has none.
func (s *socket) close(code int, reason string) {
	var data []byte
	if code != 0 {
		data = append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
	}
	s.write(frameClose, data)
}

// errClosed is the error of a connection that the client has closed by a close frame.
var errClosed = errors.New("the client has closed the connection")

// read returns the next message.
func (s *socket) read() (op byte, message []byte, err error) {
	for {
		final, kind, data, err := s.frame()
		if err != nil {
			return 0, nil, err
		}
		switch kind {
		case framePing:
			if !s.mute {
				s.write(pong, data)
			}
			continue
		case pong:
			continue
		case frameClose:
			s.write(frameClose, data)
			return frameClose, data, errClosed
		case frameText, frameBinary:
			op = kind
		}
		if message = append(message, data...); final {
			return op, message, nil
		}
	}
}

// frame reads a frame. Those of clients are masked.
func (s *socket) frame() (final bool, op byte, data []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(s.in, head[:]); err != nil {
		return false, 0, nil, err
	}
	n := uint64(head[1] & 0x7F)
	switch n {
	case 126:
		var size [2]byte
		_, err = io.ReadFull(s.in, size[:])
		n = uint64(binary.BigEndian.Uint16(size[:]))
	case 127:
		var size [8]byte
		_, err = io.ReadFull(s.in, size[:])
		n = binary.BigEndian.Uint64(size[:])
	}
	if err == nil && (head[1]&0x80 == 0 || n > maxFrame) {
		err = errors.New("a frame of a client is not masked, or is too large")
	}
	if err != nil {
		return false, 0, nil, err
	}
	var mask [4]byte
	if _, err = io.ReadFull(s.in, mask[:]); err != nil {
		return false, 0, nil, err
	}
	data = make([]byte, n)
	_, err = io.ReadFull(s.in, data)
	for i := range data {
		data[i] ^= mask[i%4]
	}
	return head[0]&0x80 != 0, head[0] & 0x0F, data, err
}
