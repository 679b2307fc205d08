// Package oserr describes errors of connections and files to the people who run a program.
//
// It guarantees that the description of a connection's error comes from this package or
// from fixed tables of the system: it contains no address, no credential, nothing that the
// other side sent and none of the words that drivers put around a cause. It does not say
// what to change; callers know the setting.
package oserr

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// ConnectionReason returns why a connection could not be made or ended, for example
// "connection refused". It is empty if the cause is not an error of a connection.
func ConnectionReason(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return dnsReason(e)
	}
	if reason := TLSReason(err); reason != "" {
		return reason
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return "unexpected end"
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return "timeout"
	}
	return ""
}

func dnsReason(e *net.DNSError) string {
	switch {
	case e.IsNotFound:
		return "no such host"
	case e.IsTimeout:
		return "the name server did not respond in time"
	}
	return "the name server did not respond properly"
}

// TLSReason returns why an encrypted connection could not be made. It is empty if the
// cause is not an error of TLS.
func TLSReason(err error) string {
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
	// An alert of the peer; its text is from a fixed table.
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" {
		return "the server responded " + strings.TrimPrefix(e.Err.Error(), "tls: ")
	}
	return ""
}
