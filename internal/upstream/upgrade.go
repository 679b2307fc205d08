package upstream

import (
	"net/http"
)

// socketBuffer is the size in bytes of the buffers of a connection that changes its protocol.
// Sessions are many and long, and have buffers of their own.
const socketBuffer = 4 << 10

// newSocketTransport returns a transport for connections that change their protocol, which HTTP/2
// has no way to do.
func newSocketTransport(o Options, dial dialFunc) *http.Transport {
	t := newTransport(o, dial)
	t.TLSClientConfig = t.TLSClientConfig.Clone()
	t.TLSClientConfig.NextProtos = []string{"http/1.1"}
	t.DialTLSContext = (&handshaker{dial: dial, config: t.TLSClientConfig, timeout: o.TLSHandshakeTimeout}).DialContext
	t.ForceAttemptHTTP2, t.HTTP2 = false, nil
	t.ReadBufferSize, t.WriteBufferSize = socketBuffer, socketBuffer
	return t
}

// Upgrade sends a request that changes the protocol of its connection, with the rules of
// [Client.Do]. The body of a response with the status 101 is the connection, an
// io.ReadWriteCloser, which outlasts the context of the request.
func (c *Client) Upgrade(req *http.Request, guarded bool) (*http.Response, error) {
	t := c.sockets[0]
	if guarded {
		if err := c.guard.check(req.URL); err != nil {
			closeBody(req)
			return nil, failure(req, nil, &unsentError{err})
		}
		t = c.sockets[1]
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header["User-Agent"] = c.userAgent
	}
	c.mark(req, guarded)
	traced, written := traceWriting(req)
	resp, err := t.RoundTrip(traced)
	if err == nil {
		return resp, nil
	}
	if !written.Load() {
		err = &unsentError{err}
	}
	return nil, failure(req, nil, err)
}
