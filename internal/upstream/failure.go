package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
)

// FailureKind classes failures by what a caller does about them.
type FailureKind uint8

// The kinds of failure.
const (
	// BadResponse is an answer that breaks the protocol.
	BadResponse FailureKind = iota
	// Dial is a connection that could not be made.
	Dial
	// DNS is a name that could not be resolved.
	DNS
	// TLS is a handshake that did not succeed; a certificate above all.
	TLS
	// Refused is a host that the guard does not allow. Nothing was sent.
	Refused
	// Reset is a connection that ended early.
	Reset
	// HeaderTimeout, FirstEventTimeout, IdleTimeout and TotalTimeout are the
	// limits of a [Watchdog].
	HeaderTimeout
	FirstEventTimeout
	IdleTimeout
	TotalTimeout
	// Canceled is a caller that lost interest: the client left.
	Canceled
	// Upload is a request body that could not be read to its end, so the
	// fault is on the client's side.
	Upload
	// BadRequest is a request that HTTP cannot carry. Nothing was sent.
	BadRequest
)

var kindNames = [...]struct{ name, text string }{
	BadResponse:       {"bad_response", "the provider's response is not valid HTTP"},
	Dial:              {"dial", "connection failed"},
	DNS:               {"dns", "the name could not be resolved"},
	TLS:               {"tls", "the TLS handshake did not succeed"},
	Refused:           {"refused", "the host is refused"},
	Reset:             {"reset", "the connection ended early"},
	HeaderTimeout:     {"header_timeout", "no response header came in time"},
	FirstEventTimeout: {"first_event_timeout", "no first event came in time"},
	IdleTimeout:       {"idle_timeout", "the stream was idle for too long"},
	TotalTimeout:      {"total_timeout", "the attempt took too long"},
	Canceled:          {"canceled", "the request was given up"},
	Upload:            {"upload", "the request's body ended early"},
	BadRequest:        {"bad_request", "the request cannot be sent: its address or a header is malformed"},
}

// String returns the kind's stable name, for logs and metrics.
func (k FailureKind) String() string { return kindNames[k].name }

// Timeout reports whether the kind is a limit of a Watchdog.
func (k FailureKind) Timeout() bool { return k >= HeaderTimeout && k <= TotalTimeout }

// Failure is an attempt that brought no response, or not all of one.
type Failure struct {
	Kind FailureKind
	Rule string // of a Refused failure: the rule that refused it
	Host string // host and port as the request named them, never more of its URL

	// Err is the cause, for errors.Is and errors.As. Its text may quote what
	// the provider sent: log the Failure, not Err.
	Err error
}

// Error says what happened to whom, in words of this package and of a few
// types that hold nothing secret. The URL's path and query, headers and bytes
// that the provider sent are never part of it.
func (f *Failure) Error() string { return "calling " + f.Host + ": " + f.Reason() }

// Reason is Error without the host, for those who may not know it: clients of
// a managed provider.
func (f *Failure) Reason() string {
	text := kindNames[f.Kind].text
	if d := f.detail(); d != "" {
		text += " (" + d + ")"
	}
	return text
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Timeout reports whether a limit of a Watchdog ended the attempt.
func (f *Failure) Timeout() bool { return f.Kind.Timeout() }

// detail quotes causes by type; a type that is not listed is not quoted.
func (f *Failure) detail() string {
	if e, ok := errors.AsType[*RefusedError](f.Err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*TimeoutError](f.Err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*net.DNSError](f.Err); ok {
		return dnsDetail(e)
	}
	if d := tlsDetail(f.Err); d != "" {
		return d
	}
	if e, ok := errors.AsType[syscall.Errno](f.Err); ok {
		return e.Error()
	}
	if errors.Is(f.Err, io.ErrUnexpectedEOF) || errors.Is(f.Err, io.EOF) {
		return "unexpected end"
	}
	if e, ok := errors.AsType[net.Error](f.Err); ok && e.Timeout() && f.Kind != Canceled {
		return "timeout"
	}
	return ""
}

func dnsDetail(e *net.DNSError) string {
	switch {
	case e.IsNotFound:
		return "no such host"
	case e.IsTimeout:
		return "the name server did not answer in time"
	}
	return "the name server did not answer properly"
}

func tlsDetail(err error) string {
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if e.Reason == x509.Expired {
			return "the certificate has expired or is not yet valid"
		}
		return "the certificate is not valid"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another name"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate is signed by an unknown authority"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not speak TLS"
	}
	// An alert of the peer; its text is one of a fixed table.
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return "the server answered " + e.Err.Error()
	}
	return ""
}

// Classify puts into words an error that Do returned or that reading the body
// of req's response returned. A Watchdog is asked through req's context, so
// Classify comes before its Stop. It returns nil for nil and for io.EOF, the
// proper end of a body, and an error that is a *Failure already as it is.
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
	f.Kind = kindOf(req, upload, f)
	return f
}

// kindOf asks in the order of precedence: what the gateway decided itself,
// what connecting says, and last what the protocol says.
func kindOf(req *http.Request, upload *upload, f *Failure) FailureKind {
	if e, ok := errors.AsType[*RefusedError](f.Err); ok {
		f.Rule = e.Rule
		return Refused
	}
	if cause := context.Cause(req.Context()); cause != nil {
		f.Err = cause
		return kindOfEnd(cause)
	}
	if err := upload.failed(); err != nil {
		f.Err = err
		return Upload
	}
	if e, ok := errors.AsType[*phaseError](f.Err); ok {
		return kindOfConnect(e)
	}
	// TLS through a proxy, and what a server says once the handshake is done.
	if tlsDetail(f.Err) != "" {
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

// kindOfEnd classes the reason for which a request's context ended.
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

// isConnectionError reports whether err is a connection that ended rather than an answer
// that was wrong.
func isConnectionError(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	// An HTTP/2 stream that the provider reset. The type is private to
	// net/http, which offers it to structs of the same shape.
	var stream h2StreamError
	if errors.As(err, &stream) {
		return stream.Code != h2ProtocolError
	}
	return closedByText(err)
}

// closedByText knows the ends of a connection that net/http tells only in words.
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

// withoutURL takes *url.Error off: its text is the whole URL, query included.
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

// sendable reports whether HTTP can carry the request's address and header.
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
