// Package alerttest has receivers of alerts for tests.
//
// It guarantees that a mail server behaves as a test says, misbehaviour included. It
// does not check what is sent.
package alerttest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/alert"
)

// MailServer is a mail server whose replies a test chooses. The fields are set before
// it is used.
type MailServer struct {
	net.Listener
	config *tls.Config
	Pool   *x509.CertPool

	TLS      string            // starttls, tls or none
	Auth     string            // offered mechanisms
	Replies  map[string]string // instead of the usual ones, by command with its argument or without
	SilentAt string            // command that is not answered
	CloseAt  string            // command at which the connection is closed
	Flood    bool              // the greeting does not end

	mu       sync.Mutex
	commands []string // all commands, each with "tls " in front if encrypted; guarded by mu
	messages []string // guarded by mu
}

// NewMailServer starts a mail server on this host, after set has changed it. It is
// stopped with the test.
func NewMailServer(t testing.TB, mode string, set ...func(*MailServer)) *MailServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, priv.Public(), priv)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s := &MailServer{Listener: l, TLS: mode, Pool: x509.NewCertPool(), Replies: map[string]string{},
		config: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: priv}}}}
	s.Pool.AddCert(cert)
	for _, change := range set {
		change(s)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { l.Close(); running.Wait() })
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(10 * time.Second))
				s.serve(conn)
			})
		}
	})
	return s
}

// Commands returns all commands, each with "tls " in front if it was encrypted.
func (s *MailServer) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

// Messages returns the messages that were accepted.
func (s *MailServer) Messages() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

func (s *MailServer) serve(conn net.Conn) {
	if s.TLS == alert.ImplicitTLS {
		conn = tls.Server(conn, s.config)
	}
	_, encrypted := conn.(*tls.Conn)
	if s.Flood {
		for {
			if _, err := io.WriteString(conn, "220-"+strings.Repeat("x", 1000)+"\r\n"); err != nil {
				return
			}
		}
	}
	r := bufio.NewReader(conn)
	io.WriteString(conn, "220 mail\r\n")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		verb, _, _ := strings.Cut(line, " ")
		s.mu.Lock()
		entry := line
		if encrypted {
			entry = "tls " + line
		}
		s.commands = append(s.commands, entry)
		s.mu.Unlock()
		answer := map[string]string{"EHLO": "250-mail\r\n250 8BITMIME", "MAIL": "250 ok", "RCPT": "250 ok", "DATA": "354 go on",
			"QUIT": "221 bye", "AUTH": "235 ok", "STARTTLS": "220 go on"}[verb]
		if verb == "EHLO" && s.TLS == alert.StartTLS && !encrypted {
			answer = "250-mail\r\n250 STARTTLS"
		}
		if verb == "EHLO" && s.Auth != "" && encrypted {
			answer = "250-mail\r\n250 AUTH " + s.Auth
		}
		if line == "AUTH LOGIN" {
			answer = "334 " + base64.StdEncoding.EncodeToString([]byte("Username:"))
		}
		if answer == "" { // part of AUTH LOGIN
			answer = "235 ok"
			if n := len(s.Commands()); strings.HasSuffix(s.Commands()[n-2], "AUTH LOGIN") {
				answer = "334 " + base64.StdEncoding.EncodeToString([]byte("Password:"))
			}
		}
		for _, k := range []string{line, verb} {
			if own, ok := s.Replies[k]; ok {
				answer = own
				break
			}
		}
		switch {
		case s.CloseAt == verb:
			return
		case s.SilentAt == verb:
			io.Copy(io.Discard, r)
			return
		}
		io.WriteString(conn, answer+"\r\n")
		switch {
		case verb == "STARTTLS" && strings.HasPrefix(answer, "220"):
			conn = tls.Server(conn, s.config)
			r, encrypted = bufio.NewReader(conn), true
		case verb == "DATA" && strings.HasPrefix(answer, "354"):
			var message strings.Builder
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				message.WriteString(line)
			}
			end := s.Replies["."]
			if end == "" {
				end = "250 queued"
			}
			if strings.HasPrefix(end, "250") {
				s.mu.Lock()
				s.messages = append(s.messages, message.String())
				s.mu.Unlock()
			}
			io.WriteString(conn, end+"\r\n")
		}
	}
}
