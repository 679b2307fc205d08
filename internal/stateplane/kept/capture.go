package kept

import (
	"maps"
	"net/http"
	"strconv"

	"modelgate/internal/base/apierr"
)

// maxCapture limits the response of a call that is read before it is passed on: objects and
// lists of them.
const maxCapture = 16 << 20

// Capture is a response in memory.
type Capture struct {
	Status  int
	Body    []byte
	TooLong bool // the body is longer than 16 MB and incomplete
	header  http.Header
}

// Header implements [http.ResponseWriter].
func (c *Capture) Header() http.Header {
	if c.header == nil {
		c.header = make(http.Header)
	}
	return c.header
}

// WriteHeader implements [http.ResponseWriter].
func (c *Capture) WriteHeader(status int) {
	if c.Status == 0 {
		c.Status = status
	}
}

// Write implements [http.ResponseWriter].
func (c *Capture) Write(b []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	if len(c.Body)+len(b) > maxCapture {
		c.TooLong = true
		return 0, apierr.New(apierr.UpstreamFailed, "the provider's response is larger than %d bytes", maxCapture)
	}
	c.Body = append(c.Body, b...)
	return len(b), nil
}

// OK reports whether the response is a complete success.
func (c *Capture) OK() bool { return c.Status >= 200 && c.Status < 300 && !c.TooLong }

// Send writes the response as it came, with the headers of the call that it is of.
func (c *Capture) Send(w http.ResponseWriter) error {
	if below, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok { // the call has set the gateway's headers
		w = below.Unwrap()
	}
	h := w.Header()
	maps.Copy(h, c.header)
	h.Del("Transfer-Encoding")
	h.Set("Content-Length", strconv.Itoa(len(c.Body)))
	w.WriteHeader(c.Status)
	w.Write(c.Body) // a client that has left is recorded by the call
	return nil
}
