package oserr_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"modelgate/internal/base/oserr"
)

func TestErrorsOfConnectionsAreDescribedWithoutAddresses(t *testing.T) {
	for _, tt := range []struct {
		err    error
		reason string
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "connection refused"},
		{&net.DNSError{Name: "secret.example", IsNotFound: true}, "no such host"},
		{&net.DNSError{Name: "secret.example", IsTimeout: true}, "the name server did not respond in time"},
		{&net.DNSError{Name: "secret.example"}, "the name server did not respond properly"},
		{x509.CertificateInvalidError{Reason: x509.Expired}, "the certificate has expired or is not yet valid"},
		{x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}, "the certificate is not valid"},
		{x509.HostnameError{Host: "secret.example", Certificate: new(x509.Certificate)}, "the certificate is for another name"},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "the certificate is signed by an unknown authority"},
		{tls.RecordHeaderError{Msg: "secret"}, "the server does not speak TLS"},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, "the server responded handshake failure"},
		{io.ErrUnexpectedEOF, "unexpected end"},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "timeout"},
		{errors.New("secret"), ""},
	} {
		if got := oserr.ConnectionReason(fmt.Errorf("secret: %w", tt.err)); got != tt.reason {
			t.Errorf("ConnectionReason(%v) = %q, want %q", tt.err, got, tt.reason)
		}
	}
}

func TestErrorsOfFilesNameThePathAndTheCause(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent"): filepath.Join(dir, "absent") + " does not exist",
		dir:                          dir + " is a folder, not a file",
		filepath.Join(file, "below"): filepath.Join(file, "below") + " cannot be used: a part of its path is a file, not a folder",
	} {
		_, err := os.ReadFile(path)
		if got := oserr.File(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("File(%v) = %v, want %q and the cause", err, got, want)
		}
	}
	if err := oserr.File(&os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}); err.Error() != "the disk of f is full" {
		t.Errorf("a full disk: %v", err)
	}
	other := errors.New("other")
	if oserr.File(other) != other || oserr.File(nil) != nil {
		t.Error("another error, or none, is not returned as it is")
	}
}
