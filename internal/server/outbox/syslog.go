package outbox

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"modelgate/internal/settings"
)

// syslogLine is a connection to a syslog server. It is closed before the first send. It must be
// used by one goroutine only.
type syslogLine struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	conn net.Conn
	to   settings.AuditSyslog
}

// maxDatagram is the limit of a UDP message, in bytes.
const maxDatagram = 8 << 10

// write writes events as RFC 5424 messages, framed for TCP and TLS as in RFC 6587 and
// RFC 5425.
func (l *syslogLine) write(ctx context.Context, set *settings.Audit, events []auditEvent) error {
	if l.conn == nil || l.to != set.Syslog || l.isClosed() {
		l.close()
		conn, err := l.connect(ctx, set.Syslog)
		if err != nil {
			return err
		}
		l.conn, l.to = conn, set.Syslog
	}
	deadline, _ := ctx.Deadline()
	if err := l.conn.SetWriteDeadline(deadline); err != nil {
		l.close()
		return err
	}
	for i := range events {
		message := syslogMessage(&events[i])
		if l.to.Protocol == "udp" {
			message = message[:min(len(message), maxDatagram)]
		} else {
			message = fmt.Sprintf("%d %s", len(message), message)
		}
		if _, err := l.conn.Write([]byte(message)); err != nil {
			l.close()
			return err
		}
	}
	return nil
}

// isClosed reports whether the server has closed the connection. Data written after
// that is lost without an error because it is buffered first.
func (l *syslogLine) isClosed() bool {
	if l.conn.SetReadDeadline(time.Now().Add(10*time.Millisecond)) != nil {
		return true
	}
	_, err := l.conn.Read(make([]byte, 512)) // syslog servers send nothing
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func (l *syslogLine) close() {
	if l.conn != nil {
		l.conn.Close()
	}
	l.conn = nil
}

func (l *syslogLine) connect(ctx context.Context, to settings.AuditSyslog) (net.Conn, error) {
	if to.Protocol == "udp" || to.Protocol == "tcp" {
		return l.dial(ctx, to.Protocol, to.Address)
	}
	c, err := to.TLSConfig()
	if err != nil {
		return nil, err
	}
	conn, err := l.dial(ctx, "tcp", to.Address)
	if err != nil {
		return nil, err
	}
	c.ServerName, _, _ = net.SplitHostPort(to.Address)
	encrypted := tls.Client(conn, c)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return encrypted, nil
}

// syslogMessage returns an event as a message of the audit facility: with severity
// warning if it was refused, otherwise informational. The text is the event's JSON.
func syslogMessage(e *auditEvent) string {
	const audit, warning, informational = 13 * 8, 4, 6
	severity := informational
	if e.Status >= 400 {
		severity = warning
	}
	host, err := os.Hostname()
	if err != nil || host == "" || strings.ContainsAny(host, " \n") {
		host = "-"
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // cannot fail for strings and numbers
	}
	at := e.Time
	if _, err := time.Parse(time.RFC3339, at); err != nil {
		at = "-"
	}
	return fmt.Sprintf("<%d>1 %s %s modelgate %d audit - %s", audit+severity, at, host, os.Getpid(), text)
}
