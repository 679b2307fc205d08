package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"modelgate/internal/base/oserr"
)

// FailureKind is the kind of a failure, by what a caller can do about it.
type FailureKind uint8

// Kinds of failures.
const (
	// BadResponse is a response that breaks the protocol.
	BadResponse FailureKind = iota
	// Dial is a failure to connect.
	Dial
	// DNS is a failure to resolve a name.
	DNS
	// TLS is a failed handshake, mostly because of a certificate.
	TLS
	// Refused is a host that the guard rejects. Nothing was sent.
	Refused
	// Reset is a connection that ended early.
	Reset
	// HeaderTimeout, FirstEventTimeout, IdleTimeout and TotalTimeout are the
	// limits of a [Watchdog].
	HeaderTimeout
	FirstEventTimeout
	IdleTimeout
	TotalTimeout
	// Canceled is a request that the caller cancelled: the client disconnected.
	Canceled
	// Upload is a failure to read the request body, so the client caused it.
	Upload
	// BadRequest is a request that HTTP cannot carry. Nothing was sent.
	BadRequest
)

var kindNames = [...]struct{ name, text string }{
	BadResponse:       {"bad_response", "the provider's response is not valid HTTP"},
	Dial:              {"dial", "connection failed"},
	DNS:               {"dns", "the name could not be resolved"},
	TLS:               {"tls", "the TLS handshake did not succeed"},
	Refused:           {"refused", "the host is not allowed"},
	Reset:             {"reset", "the connection ended early"},
	HeaderTimeout:     {"header_timeout", "no response header came in time"},
	FirstEventTimeout: {"first_event_timeout", "no first event came in time"},
	IdleTimeout:       {"idle_timeout", "the stream was idle for too long"},
	TotalTimeout:      {"total_timeout", "the attempt took too long"},
	Canceled:          {"canceled", "the request was cancelled"},
	Upload:            {"upload", "the request's body ended early"},
	BadRequest:        {"bad_request", "the request cannot be sent: its address or a header is malformed"},
}

// String returns the kind's stable name, for logs and metrics.
func (k FailureKind) String() string { return kindNames[k].name }

// Timeout reports whether the kind is a timeout of a Watchdog.
func (k FailureKind) Timeout() bool { return k >= HeaderTimeout && k <= TotalTimeout }

// Failure is an attempt without a response, or with an incomplete one.
type Failure struct {
	Kind FailureKind
	Rule string // of a Refused failure: the rule that rejected the host
	Host string // host and port as in the request, without the rest of its URL

	// Unsent is true if nothing of the request was written to the provider. If that is
	// unknown it is false.
	Unsent bool

	// Err is the cause, for errors.Is and errors.As. Its text may quote the
	// provider: log the Failure, not Err.
	Err error
}

// Error describes the failure and names the host. Its text comes from this
// package and from a few types without secrets. It never contains the URL's
// path or query, headers, or bytes from the provider.
func (f *Failure) Error() string { return "calling " + f.Host + ": " + f.Reason() }

// Reason returns the text of Error without the host, for clients of a managed
// provider, who must not know it.
func (f *Failure) Reason() string {
	text := kindNames[f.Kind].text
	if d := f.detail(); d != "" {
		text += " (" + d + ")"
	}
	return text
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Timeout reports whether a timeout of a Watchdog ended the attempt.
func (f *Failure) Timeout() bool { return f.Kind.Timeout() }

// detail returns the text of causes with a listed type, and an empty string for
// others.
func (f *Failure) detail() string {
	if e, ok := errors.AsType[*RefusedError](f.Err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*TimeoutError](f.Err); ok {
		return e.Error()
	}
	reason := oserr.ConnectionReason(f.Err)
	if reason == "timeout" && f.Kind == Canceled {
		return ""
	}
	return reason
}

// Classify returns the failure for an error from Do or from reading the
// response's body. It must be called before Stop of the Watchdog in req's
// context. It returns nil for nil and for io.EOF, the clean end of a body, and
// returns a *Failure unchanged.
func Classify(req *http.Request, err error) *Failure {
	if err == nil || err == io.EOF {
		return nil
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return failure(req, nil, err)
}

func failure(req *http.Request, upload *upload, err error) *Failure {
	f := &Failure{Host: hostOf(req), Err: withoutURL(err)}
	if e, ok := err.(*unsentError); ok {
		f.Unsent, f.Err = true, withoutURL(e.error)
	}
	f.Kind = kindOf(req, upload, f)
	return f
}

// kindOf checks in order of precedence: the gateway's own decisions, then
// connecting, then the protocol.
func kindOf(req *http.Request, upload *upload, f *Failure) FailureKind {
	if e, ok := errors.AsType[*RefusedError](f.Err); ok {
		f.Rule = e.Rule
		return Refused
	}
	if cause := context.Cause(req.Context()); cause != nil {
		f.Err = cause
		return kindOfEnd(cause)
	}
	if err := upload.readError(); err != nil {
		f.Err = err
		return Upload
	}
	if e, ok := errors.AsType[*phaseError](f.Err); ok {
		return kindOfConnect(e)
	}
	// TLS through a proxy, and alerts after the handshake.
	if oserr.TLSReason(f.Err) != "" {
		return TLS
	}
	if isConnectionError(f.Err) {
		return Reset
	}
	if !sendable(req) {
		return BadRequest
	}
	return BadResponse
}

// kindOfEnd returns the kind for the reason for which a request's context
// ended.
func kindOfEnd(cause error) FailureKind {
	if e, ok := errors.AsType[*TimeoutError](cause); ok {
		return e.kind()
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return TotalTimeout
	}
	return Canceled
}

func kindOfConnect(e *phaseError) FailureKind {
	if step, ok := errors.AsType[*phaseError](e.err); ok {
		return step.kind
	}
	if _, ok := errors.AsType[*net.DNSError](e.err); ok {
		return DNS
	}
	return e.kind
}

// isConnectionError reports whether err means that the connection ended, rather
// than that the response was invalid.
func isConnectionError(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	// An HTTP/2 stream reset by the provider. The type is private to net/http,
	// which converts it to structs of the same shape.
	var stream h2StreamError
	if errors.As(err, &stream) {
		return stream.Code != h2ProtocolError
	}
	return closedByText(err)
}

// closedByText reports whether err is a closed connection that net/http reports
// only by its text.
func closedByText(err error) bool {
	text := err.Error()
	return strings.Contains(text, "server closed idle connection") ||
		strings.HasPrefix(text, "http2: ") && (strings.Contains(text, "GOAWAY") || strings.Contains(text, " conn"))
}

type h2StreamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e h2StreamError) Error() string { return "HTTP/2 stream reset" }

const h2ProtocolError = 1 // RFC 9113, section 7

// withoutURL unwraps *url.Error, whose text contains the complete URL including
// the query.
func withoutURL(err error) error {
	for {
		e, ok := err.(*url.Error)
		if !ok {
			return err
		}
		err = e.Err
	}
}

func hostOf(req *http.Request) string {
	if req.URL == nil || req.URL.Host == "" {
		return "an unnamed host"
	}
	return req.URL.Host
}

// sendable reports whether the request's URL and headers are valid in HTTP.
func sendable(req *http.Request) bool {
	if req.URL == nil || req.URL.Host == "" || req.Header == nil {
		return false
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return false
	}
	for name, values := range req.Header {
		if !isToken(name) {
			return false
		}
		for _, v := range values {
			if !isFieldValue(v) {
				return false
			}
		}
	}
	return isToken(req.Method) || req.Method == ""
}
