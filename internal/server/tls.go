package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/base/oserr"
	"modelgate/internal/settings"
)

// certificates are the TLS files of the API listener. A handshake uses the current
// configuration; existing connections keep theirs.
type certificates struct {
	files  settings.TLS
	config atomic.Pointer[tls.Config]
	stamp  string // state of the files when last read; used by the watching goroutine only
}

// loadCertificates reads the files for the first time.
func loadCertificates(files settings.TLS) (*certificates, error) {
	c := &certificates{files: files, stamp: stampOf(files)}
	config, err := readTLS(files)
	if err != nil {
		return nil, err
	}
	c.config.Store(config)
	return c, nil
}

// server returns the configuration of a listener, which uses the current certificates
// at each handshake.
func (c *certificates) server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         nextProtos,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.config.Load(), nil },
	}
}

// expiry returns when the certificate in use expires; zero if it cannot be read.
func (c *certificates) expiry() time.Time {
	leaf := c.config.Load().Certificates[0].Leaf
	if leaf == nil {
		return time.Time{}
	}
	return leaf.NotAfter
}

// renew reads the files again if they have changed. On an error the previous ones stay
// until the files change again.
func (c *certificates) renew() (changed bool, err error) {
	stamp := stampOf(c.files)
	if stamp == c.stamp {
		return false, nil
	}
	c.stamp = stamp
	config, err := readTLS(c.files)
	if err != nil {
		return false, err
	}
	c.config.Store(config)
	return true, nil
}

var nextProtos = []string{"h2", "http/1.1"}

func readTLS(files settings.TLS) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil {
		return nil, loadingError(files, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: nextProtos, Certificates: []tls.Certificate{pair}}
	if files.ClientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(files.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("listener.tls.client_ca: %w", oserr.File(err))
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("listener.tls.client_ca: %s: %w", files.ClientCA, errNoCertificate)
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	if files.ClientAuth == "require" {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// tlsPairError returns the error of loading the certificate and its key.
func loadingError(files settings.TLS, err error) error {
	if missing := oserr.File(err); missing != err {
		return fmt.Errorf("listener.tls: %w", missing) // names the file
	}
	return fmt.Errorf("listener.tls: certificate %s and key %s: must be a certificate and its key in PEM", files.Certificate, files.Key)
}

var errNoCertificate = errors.New("the file contains no PEM certificate")

// stampOf returns a string that identifies the state of the files.
func stampOf(files settings.TLS) string {
	var b strings.Builder
	for _, name := range []string{files.Certificate, files.Key, files.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintln(&b, info.Size(), info.ModTime().UnixNano())
		} else {
			fmt.Fprintln(&b, "missing")
		}
	}
	return b.String()
}

// renewCertificates reloads changed TLS files.
func (s *Server) renewCertificates() {
	if s.certificates == nil {
		return
	}
	changed, err := s.certificates.renew()
	switch {
	case err != nil:
		s.metrics.tls.Set(0)
		s.Logger.Error("TLS files not reloaded; keeping the previous ones", "err", err.Error())
	case changed:
		s.metrics.tls.Set(1)
		s.Logger.Info("TLS files reloaded", "certificate", s.certificates.files.Certificate)
	}
}

// connectionLog receives net/http's messages about connections, and counts failed
// handshakes.
type connectionLog struct {
	failedHandshakes prometheus.Counter
	next             *log.Logger
}

func (l connectionLog) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		l.failedHandshakes.Inc()
	}
	l.next.Print(string(line))
	return len(line), nil
}

func (s *Server) connectionLog() *log.Logger {
	handshakes := s.metrics.refusedConnections.WithLabelValues("tls")
	return log.New(connectionLog{handshakes, slog.NewLogLogger(s.httpLines(), slog.LevelDebug)}, "", 0)
}
