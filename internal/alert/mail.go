package alert

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/secret"
)

const (
	mailTime  = 30 * time.Second // limit of one delivery
	mailReads = 256 << 10        // bytes that a server may send in one delivery
	quitTime  = 2 * time.Second  // after a message was accepted
)

// Ways to protect the connection to a mail server.
const (
	StartTLS    = "starttls" // begins in plain text, and does nothing before it is encrypted
	ImplicitTLS = "tls"
	NoTLS       = "none"
)

// Mail is a mail server that accepts alerts (RFC 5321).
type Mail struct {
	Server   string // host:port
	TLS      string // one of the constants above
	User     string // empty does not authenticate
	Password secret.String
	From     string         // address, with or without a name
	RootCAs  *x509.CertPool // nil is the system's

	// Dial connects to the server. Nil means a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Delivery is what happened to the recipients of a message. Those in neither list must
// be tried again.
type Delivery struct {
	Sent     []string
	Rejected []string // for good, by a reply of 5xx to the address
}

// Send sends a to each recipient that the server accepts. The error is that of the
// delivery, or of a recipient to be tried again.
func (m *Mail) Send(ctx context.Context, a *Alert, to []string, now time.Time) (d Delivery, err error) {
	ctx, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	c, err := m.connect(ctx)
	if err != nil {
		return d, err
	}
	defer c.Close()
	from, err := mail.ParseAddress(m.From)
	if err != nil {
		return d, errors.New("the sender is not an e-mail address")
	}
	if d, err = send(c, from, a.message(from, now), to); err == nil {
		stop := time.AfterFunc(quitTime, func() { c.Close() })
		c.Quit() // after any reply to it, the server has the message
		stop.Stop()
	}
	return d, err
}

// Contact connects to the server and signs in, without a message.
func (m *Mail) Contact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mailTime)
	defer cancel()
	c, err := m.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Quit()
}

// send sends a message over a connection.
func send(c *smtp.Client, from *mail.Address, message []byte, to []string) (d Delivery, err error) {
	if err := c.Mail(from.Address); err != nil {
		return d, reply("the sender was not accepted", err)
	}
	var accepted []string
	var later error
	for _, r := range to {
		switch err := c.Rcpt(r); {
		case err == nil:
			accepted = append(accepted, r)
		case permanent(err):
			d.Rejected = append(d.Rejected, r)
		default:
			later = reply("a recipient was not accepted", err)
		}
	}
	if len(accepted) == 0 {
		return d, later
	}
	w, err := c.Data()
	if err != nil {
		return d, reply("the message was not accepted", err)
	}
	_, err = w.Write(message)
	if end := w.Close(); err == nil {
		err = end
	}
	if err != nil {
		return d, reply("the message was not accepted", err)
	}
	d.Sent = accepted
	return d, later
}

// connect returns a connection that is encrypted and authenticated as configured, and
// is closed when ctx ends.
func (m *Mail) connect(ctx context.Context) (c *smtp.Client, err error) {
	host, _, err := net.SplitHostPort(m.Server)
	if err != nil {
		return nil, errors.New("the mail server is not a host and a port")
	}
	dial := m.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	dialled, err := dial(ctx, "tcp", m.Server)
	if err != nil {
		return nil, fmt.Errorf("connecting to the mail server: %w", err)
	}
	context.AfterFunc(ctx, func() { dialled.Close() })
	defer func() {
		if err != nil {
			dialled.Close()
		}
	}()
	deadline, _ := ctx.Deadline()
	if err := dialled.SetDeadline(deadline); err != nil {
		return nil, err
	}
	var conn net.Conn = &limitedConn{dialled, mailReads}
	config := &tls.Config{ServerName: host, RootCAs: m.RootCAs, MinVersion: tls.VersionTLS12}
	if m.TLS == ImplicitTLS {
		conn = tls.Client(conn, config)
	}
	if c, err = smtp.NewClient(conn, host); err != nil {
		return nil, reply("the mail server did not greet", err)
	}
	if err := c.Hello(domain(m.From)); err != nil {
		return nil, reply("the mail server rejected the greeting", err)
	}
	if m.TLS == StartTLS {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return nil, errors.New("the mail server does not offer STARTTLS; use tls or none if that is intended")
		}
		if err := c.StartTLS(config); err != nil {
			return nil, reply("STARTTLS failed", err)
		}
	}
	if m.User == "" {
		return c, nil
	}
	if err := m.authenticate(c, host); err != nil {
		return nil, err
	}
	return c, nil
}

// authenticate logs in by PLAIN, or LOGIN if the server offers only that.
func (m *Mail) authenticate(c *smtp.Client, host string) error {
	_, offered := c.Extension("AUTH")
	names := strings.Fields(strings.ToUpper(offered))
	if slices.Contains(names, "PLAIN") {
		return reply("the mail server rejected the credentials", c.Auth(smtp.PlainAuth("", m.User, m.Password.Reveal(), host)))
	}
	if slices.Contains(names, "LOGIN") {
		return reply("the mail server rejected the credentials", c.Auth(&loginAuth{m.User, m.Password}))
	}
	return errors.New("the mail server offers neither AUTH PLAIN nor AUTH LOGIN")
}

// loginAuth is the mechanism LOGIN.
// https://datatracker.ietf.org/doc/html/draft-murchison-sasl-login-00
type loginAuth struct {
	user     string
	password secret.String
}

// Start implements smtp.Auth.
func (l *loginAuth) Start(s *smtp.ServerInfo) (string, []byte, error) {
	if !s.TLS {
		return "", nil, errors.New("the connection is not encrypted")
	}
	return "LOGIN", nil, nil
}

// Next implements smtp.Auth.
func (l *loginAuth) Next(asked []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	switch strings.ToLower(strings.TrimRight(string(asked), ":\x00 ")) {
	case "username", "user name":
		return []byte(l.user), nil
	case "password":
		return []byte(l.password.Reveal()), nil
	}
	return nil, errors.New("the server asked for neither the user name nor the password")
}

// limitedConn ends reading after some bytes, because a reply has no limit of its own.
type limitedConn struct {
	net.Conn
	left int
}

// Read implements net.Conn.
func (l *limitedConn) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("the mail server sent too much")
	}
	n, err := l.Conn.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// permanent reports whether a reply rejects for good.
func permanent(err error) bool {
	e, ok := errors.AsType[*textproto.Error](err)
	return ok && e.Code >= 500
}

// reply returns err with the step that failed. It keeps only the code of the server's
// reply, because the text may repeat addresses or credentials.
func reply(what string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*textproto.Error](err); ok {
		return fmt.Errorf("%s: reply %d", what, e.Code)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the connection was closed")
	}
	return fmt.Errorf("%s: %w", what, err)
}

// domain returns the domain of an address, "localhost" without one.
func domain(address string) string {
	if a, err := mail.ParseAddress(address); err == nil {
		return a.Address[strings.LastIndexByte(a.Address, '@')+1:]
	}
	return "localhost"
}

// message returns a as a message. Recipients are not listed, so that they do not learn
// each other's addresses.
func (a *Alert) message(from *mail.Address, now time.Time) []byte {
	var b bytes.Buffer
	for _, h := range [...][2]string{
		{"Date", now.UTC().Format(time.RFC1123Z)},
		{"From", from.String()},
		{"To", "undisclosed-recipients:;"},
		{"Subject", mime.QEncoding.Encode("utf-8", strings.Map(printable, a.subject()))},
		{"Message-ID", "<" + strings.Map(atom, a.ID) + "@" + domain(from.Address) + ">"},
		{"Auto-Submitted", "auto-generated"}, // RFC 3834: no automatic replies
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	w.Write([]byte(strings.ReplaceAll(a.text(), "\n", "\r\n"))) // a buffer accepts all
	w.Close()
	return b.Bytes()
}

// printable replaces control characters, which would end a header.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// atom replaces what a message id cannot contain.
func atom(r rune) rune {
	if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '-'
}
