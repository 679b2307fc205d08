package dataplane

import (
	"bytes"
	"net/url"

	"modelgate/internal/format/sse"
)

// jsonArrayWriter converts the events of a stream to a JSON array, element by
// element: the format of Google's streams without alt=sse.
// https://cloud.google.com/apis/docs/system-parameters
type jsonArrayWriter struct {
	open bool
	buf  []byte
}

// wantsEvents reports whether a query asks for server-sent events.
func wantsEvents(query string) bool {
	q, err := url.ParseQuery(query)
	return err == nil && (q.Get("alt") == "sse" || q.Get("$alt") == "sse")
}

// take returns the elements for complete events, valid until the next call.
func (a *jsonArrayWriter) take(raw []byte) []byte {
	a.buf = a.buf[:0]
	r := sse.NewReader(bytes.NewReader(raw), len(raw)+1)
	for {
		e, err := r.Next()
		if err != nil {
			return a.buf
		}
		if len(e.Data) == 0 {
			continue
		}
		if a.open {
			a.buf = append(a.buf, ",\r\n"...)
		} else {
			a.buf = append(a.buf, '[')
			a.open = true
		}
		a.buf = append(a.buf, e.Data...)
	}
}

// close returns the elements for the last events and the end of the array.
func (a *jsonArrayWriter) close(raw []byte) []byte {
	out := a.take(raw)
	if !a.open {
		out = append(out, '[')
	}
	return append(out, ']')
}
