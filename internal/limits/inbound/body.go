package inbound

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"modelgate/internal/base/apierr"
)

// BodyLimits are the time limits of a request body. Only the time that the
// gateway waits for the client counts against the minimum rate.
type BodyLimits struct {
	// Grace is how long the gateway waits for bytes before the minimum rate
	// applies, and at most again after every pause. Zero or less means no
	// minimum rate.
	Grace time.Duration

	// Rate is the minimum in bytes per second: each byte that arrives adds
	// 1/Rate seconds to the remaining time, up to Grace.
	Rate int64

	// Held is the limit of the time for which an incomplete body may be held in
	// memory, from [Body.Hold] on.
	Held Total
}

// Total is a limit of the complete time from the request headers to the end of
// the body.
type Total struct {
	Time    time.Duration // zero or less means no limit
	Setting string        // its name, for the error
}

// Body is a request body with deadlines. A nil Body means a request without
// one. It has one reader at a time.
type Body struct {
	io.ReadCloser
	rc     http.ResponseController
	http1  bool
	limits BodyLimits
	total  Total
	begun  time.Time
	left   time.Duration // until the client is too slow
	until  time.Time     // the current read deadline
	err    error         // why reading ended
	late   atomic.Pointer[apierr.Error]

	// waiting is the deadline of the read in progress, in Unix nanoseconds.
	// Zero means none.
	waiting atomic.Int64

	// held is when the part that is held in memory began, in Unix nanoseconds. Zero means
	// that what arrives is passed on.
	held atomic.Int64
}

// Limit returns r with deadlines on its body, and that body, nil if r has none.
// The first deadline is set immediately, because net/http reads a body to its
// end if the handler does not.
func Limit(w http.ResponseWriter, r *http.Request, l BodyLimits, t Total) (*http.Request, *Body) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	// The request is copied, since net/http checks the type of r's body.
	limited := &struct {
		http.Request
		Body
	}{*r, Body{ReadCloser: r.Body, rc: *http.NewResponseController(w), http1: r.ProtoMajor == 1, limits: l, total: t, begun: time.Now(),
		left: l.Grace}}
	b := &limited.Body
	limited.Request.Body = b
	b.extend(b.begun)
	return &limited.Request, b
}

// EndConnection closes the connection of r after its response if a proxy in
// front of the gateway may disagree on where r ends. net/http silently drops a
// Content-Length next to a Transfer-Encoding and unfolds a folded one (RFC
// 9112, section 6.1), and it ignores a Transfer-Encoding in HTTP/1.0. Such
// requests look like ordinary ones, so every chunked request and every HTTP/1.0
// request is the last of its connection.
func EndConnection(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && (len(r.TransferEncoding) > 0 || r.ProtoMinor == 0 || disguised(r.Header)) {
		w.Header().Set("Connection", "close")
	}
}

// disguised reports whether a Transfer-Encoding is hidden in another header: as
// the continuation of its line, which net/http joins to the value, or with an
// underscore, which some proxies read as a hyphen.
func disguised(h http.Header) bool {
	const name = "transfer-encoding"
	if _, ok := h["Transfer_encoding"]; ok {
		return true
	}
	for _, values := range h {
		for _, v := range values {
			for at := strings.IndexByte(v, ':'); at >= 0; {
				before := strings.TrimRight(v[:at], " \t")
				if n := len(before) - len(name); n >= 0 && strings.EqualFold(before[n:], name) {
					return true
				}
				next := strings.IndexByte(v[at+1:], ':')
				if next < 0 {
					break
				}
				at += 1 + next
			}
		}
	}
	return false
}

// ResponseBegun removes the read deadline once the beginning of a long response
// has been flushed. By then net/http has read the rest of the body (of HTTP/1)
// and waits for the client to disconnect; an expired deadline would look like
// that. It may be called during a read in another goroutine.
func (b *Body) ResponseBegun() {
	if b != nil && b.http1 {
		b.rc.SetReadDeadline(time.Time{})
	}
}

// TimeoutError returns the error of a read that took too long, nil if there is
// none. net/http cancels the context of the request before such a read returns,
// as if the client had disconnected; therefore a read whose deadline has passed
// counts too. It may be called during a read in another goroutine.
func (b *Body) TimeoutError() *apierr.Error {
	if b == nil {
		return nil
	}
	if at := b.waiting.Load(); at != 0 && time.Now().UnixNano() >= at {
		return b.timeout()
	}
	return b.late.Load()
}

// BodyOf returns the body of a request that [Limit] returned, nil if it has
// none.
func BodyOf(r *http.Request) *Body {
	b, _ := r.Body.(*Body)
	return b
}

// SetTotal replaces the limit of the complete time.
func (b *Body) SetTotal(t Total) {
	if b != nil {
		b.total = t
		b.extend(b.begun)
	}
}

// Hold limits the time until the body, or a part of it that cannot be passed on before it
// is complete, has arrived. A client that is fast enough for the minimum rate could make
// the gateway hold it for hours. It may be called again for the next part. Nil is allowed.
func (b *Body) Hold() {
	if b != nil && b.limits.Held.Time > 0 {
		b.held.Store(time.Now().UnixNano())
	}
}

// Pass ends what Hold began: what has arrived is passed on. Nil is allowed.
func (b *Body) Pass() {
	if b != nil {
		b.held.Store(0)
	}
}

// end returns when the complete time ends, and its limit. The time is zero without one.
func (b *Body) end() (end time.Time, of Total) {
	if of = b.total; of.Time > 0 {
		end = b.begun.Add(of.Time)
	}
	since := b.held.Load()
	if since == 0 {
		return end, of
	}
	if held := time.Unix(0, since).Add(b.limits.Held.Time); end.IsZero() || held.Before(end) {
		return held, b.limits.Held
	}
	return end, of
}

// Read implements io.Reader. An error because of a limit is an *apierr.Error of
// kind Timeout, and the connection ends with the response.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	before := time.Now()
	b.extend(before)
	if !b.until.IsZero() {
		b.waiting.Store(b.until.UnixNano())
		defer b.waiting.Store(0)
	}
	n, err := b.ReadCloser.Read(p)
	if b.limits.Grace > 0 {
		b.left = min(b.left-time.Since(before)+b.worth(n), b.limits.Grace)
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		// The deadline stays: whatever follows on this connection cannot be
		// trusted to be another request.
		late := b.timeout()
		b.late.Store(late)
		err = late
	default:
		b.rc.SetReadDeadline(time.Time{})
	}
	b.err = err
	return n, err
}

// worth returns the time that n bytes add.
func (b *Body) worth(n int) time.Duration {
	return time.Duration(float64(n) / float64(max(b.limits.Rate, 1)) * float64(time.Second))
}

// slack is how much later than its limit a deadline may be, so that it is not
// moved with every read.
const slack = time.Second

// extend sets the deadline for a read that begins at now.
func (b *Body) extend(now time.Time) {
	var want time.Time
	if b.limits.Grace > 0 {
		want = now.Add(max(b.left, 0))
	}
	if end, _ := b.end(); !end.IsZero() && (want.IsZero() || end.Before(want)) {
		want = end
	}
	switch {
	case want.IsZero() && b.until.IsZero(), !want.IsZero() && !b.until.Before(want) && b.until.Sub(want) <= slack:
		return
	case want.IsZero(): // after Pass
		b.until = want
		b.rc.SetReadDeadline(want)
		return
	}
	b.until = want.Add(min(slack, b.limits.Grace/16))
	b.rc.SetReadDeadline(b.until)
}

// timeout returns the error for a body that took too long.
func (b *Body) timeout() *apierr.Error {
	if end, of := b.end(); !end.IsZero() && !time.Now().Before(end) {
		return apierr.New(apierr.Timeout, "the request body did not arrive within %s; send it faster or in parts (%s)", of.Time, of.Setting).
			WithCode("request_body_timeout")
	}
	return apierr.New(apierr.Timeout,
		"the request body arrives too slowly: after %s it needs %d bytes per second; send it faster (timeouts.body_grace, limits.body_rate)",
		b.limits.Grace, b.limits.Rate).
		WithCode("request_body_timeout")
}

// TooManyHeaders returns the error for a request with more than limit header
// names, nil when it has no more. Zero or less means no limit.
func TooManyHeaders(r *http.Request, limit int) *apierr.Error {
	if limit <= 0 || len(r.Header) <= limit {
		return nil
	}
	return apierr.New(apierr.HeadersTooLarge, "the request has %d headers, more than the limit of %d; send fewer (limits.header_count)",
		len(r.Header), limit)
}
