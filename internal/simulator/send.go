package simulator

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// sendBody sends one complete body.
func (x *exchange) sendBody(status int, contentType []string, body []byte) {
	h := x.w.Header()
	h["Content-Type"] = x.typeOf(contentType)
	if x.faulty {
		x.sendFaulty(status, body)
		return
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.w.WriteHeader(status)
	x.write(body)
}

// typeOf returns the Content-Type to send, which a fault may replace.
func (x *exchange) typeOf(right []string) []string {
	if x.plan.contentType != "" {
		return []string{x.plan.contentType}
	}
	return right
}

// write sends bytes and reports whether the client is still connected.
func (x *exchange) write(b []byte) bool {
	if _, err := x.w.Write(b); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		x.recordDisconnect()
		return false
	}
	return true
}

// sendFaulty sends one complete body with the faults of bodies.
func (x *exchange) sendFaulty(status int, body []byte) {
	p, h := &x.plan, x.w.Header()
	if p.gzip {
		body = zipped(body)
		h.Set("Content-Encoding", "gzip")
	}
	if p.lies != 0 || p.duplicateLength || p.smuggle {
		x.sendRaw(status, body)
		return
	}
	end := len(body)
	if p.cut > 0 {
		end = min(end, p.cut-1)
	}
	if p.trailers {
		h.Set("Trailer", trailerName)
	} else if !p.clean {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	x.w.WriteHeader(status)
	if !x.pauseFirst() || !x.writeStalling(body[:end]) {
		return
	}
	if p.cut > 0 && end < len(body) {
		x.breakOff()
	}
	x.sendTrailer()
}

// pauseFirst sends the headers and waits, if the plan has a slow first token.
func (x *exchange) pauseFirst() bool {
	if x.plan.first == 0 {
		return true
	}
	return x.flush() && x.sleep(x.plan.first)
}

func (x *exchange) writeStalling(body []byte) bool {
	if at := x.plan.stallAt - 1; x.plan.stall > 0 && at < len(body) {
		if !x.write(body[:at]) || !x.flush() || !x.sleep(x.plan.stall) {
			return false
		}
		body = body[at:]
	}
	return x.write(body)
}

func (x *exchange) flush() bool {
	if err := x.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.recordDisconnect()
		return false
	}
	return true
}

const trailerName = "X-Simulator-Trailer"

func (x *exchange) sendTrailer() {
	if x.plan.trailers {
		x.w.Header().Set(trailerName, "request "+strconv.FormatInt(x.number, 10))
	}
}

// breakOff ends a response in the middle: cleanly, as far as HTTP can tell, or
// by a reset.
func (x *exchange) breakOff() {
	x.aborted = true
	x.flush()
	if !x.plan.clean {
		x.resetConn()
	}
}

// resetConn closes the connection so that the client sees a reset. If the
// connection is not available (HTTP/2), net/http resets the stream.
func (x *exchange) resetConn() {
	x.aborted = true
	conn, _, err := x.control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		x.drain(tcp)
		tcp.SetLinger(0) // a failure leaves an ordinary close, which breaks off as well
	}
	conn.Close()
}

// drain waits until the client has received what was written, since a reset
// discards data in transit. It stops waiting for a client that does not read.
func (x *exchange) drain(conn *net.TCPConn) {
	const step, most, blind = time.Millisecond, 500, 20
	for i := range most {
		left := unsent(conn)
		if left == 0 || left < 0 && i == blind || !x.sleep(step) {
			return
		}
	}
}

// sendRaw writes a response with contradictory lengths, which net/http would
// not send, and closes the connection.
func (x *exchange) sendRaw(status int, body []byte) {
	conn, _, err := x.control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\n")
	x.w.Header().Write(&b) // a bytes.Buffer never fails
	b.WriteString("Date: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n")
	size := len(body)
	switch p := &x.plan; {
	case p.smuggle:
		b.WriteString("Content-Length: " + strconv.Itoa(size) + "\r\nTransfer-Encoding: chunked\r\n\r\n")
		b.WriteString(strconv.FormatInt(int64(size), 16) + "\r\n")
		b.Write(body)
		b.WriteString("\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nforged")
	case p.duplicateLength:
		b.WriteString("Content-Length: " + strconv.Itoa(size) + "\r\nContent-Length: " + strconv.Itoa(size/2) + "\r\n\r\n")
		b.Write(body)
	default:
		b.WriteString("Content-Length: " + strconv.Itoa(max(size+p.lies, 0)) + "\r\n\r\n")
		b.Write(body)
	}
	if _, err := conn.Write(b.Bytes()); err != nil {
		x.recordDisconnect()
	}
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(body) // a bytes.Buffer never fails
	z.Close()
	return b.Bytes()
}
