package settings

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"modelgate/internal/base/oserr"
	"modelgate/internal/base/secret"
)

// Audit configures the destinations and the retention of the audit log.
type Audit struct {
	Webhook   AuditWebhook   `json:"webhook,omitzero"`
	Syslog    AuditSyslog    `json:"syslog,omitzero"`
	Retention AuditRetention `json:"retention,omitzero"`
}

// Destinations returns the names of the configured destinations.
func (a *Audit) Destinations() (names []string) {
	if a.Webhook.URL != "" {
		names = append(names, "webhook")
	}
	if a.Syslog.Address != "" {
		names = append(names, "syslog")
	}
	return names
}

// AuditRetention is the retention of the audit log. -1 days retains all.
type AuditRetention struct {
	Days  int  `json:"days,omitempty" minimum:"-1" maximum:"36500"` // age of the oldest row; default 400
	Bytes Size `json:"bytes,omitempty"`                             // approximate size of all rows; default 1 GB
}

// Check returns an error for a retention that is too small.
func (r AuditRetention) Check() error { return checkRetention("the audit log", r.Bytes, r.Days) }

// Effective returns r with its defaults: 400 days and 1 GB.
func (r AuditRetention) Effective() AuditRetention {
	return AuditRetention{Days: cmp.Or(r.Days, 400), Bytes: cmp.Or(r.Bytes, 1<<30)}
}

// String describes the retention for an operator.
func (r AuditRetention) String() string { return Retention{Days: r.Days, Bytes: r.Bytes}.String() }

// AuditWebhook receives rows by HTTP. It is disabled without a URL.
type AuditWebhook struct {
	URL    string `json:"url,omitempty" maxLength:"2048" doc:"Address that rows are posted to"`
	Secret string `json:"secret,omitempty" doc:"Key of the signature: ${NAME} for an environment variable, or a sealed value"`

	secret secret.String
}

// Key returns the opened secret.
func (w *AuditWebhook) Key() secret.String { return w.secret }

// AuditSyslog receives rows as RFC 5424 messages. It is disabled without an address.
type AuditSyslog struct {
	Address  string `json:"address,omitempty" maxLength:"255" doc:"Host and port of the server"`
	Protocol string `json:"protocol,omitempty" enum:",udp,tcp,tls" doc:"Defaults to tls"`
	CA       string `json:"ca,omitempty" maxLength:"4096" doc:"File with the authorities that sign the server's certificate; defaults to the system's"`
}

// TLSConfig returns the TLS configuration of the server with the authorities in the file,
// without the server's name.
func (y *AuditSyslog) TLSConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if y.CA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(y.CA)
	if err != nil {
		return nil, fmt.Errorf("audit.syslog.ca: %w", oserr.File(err))
	}
	if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("audit.syslog.ca contains no PEM certificate")
	}
	return c, nil
}

func (s *Settings) checkAudit(o SecretResolver) (f *fault) {
	w, y := &s.Audit.Webhook, &s.Audit.Syslog
	if err := s.Audit.Retention.Check(); err != nil {
		return at(err, "audit.retention")
	}
	if *w != (AuditWebhook{}) {
		u, err := url.Parse(w.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
			return at(errors.New("must be an http or https address without credentials"), "audit.webhook.url")
		}
		if w.secret, err = o.Open(w.Secret); err != nil {
			return at(err, "audit.webhook.secret")
		}
		if w.secret.Empty() {
			return at(errors.New("is required because the receiver cannot authenticate rows without a signature"), "audit.webhook.secret")
		}
	}
	if *y != (AuditSyslog{}) {
		if host, port, err := net.SplitHostPort(y.Address); err != nil || host == "" || port == "" {
			return at(errors.New("must be a host and a port, such as logs.example.com:6514"), "audit.syslog.address")
		}
		switch y.Protocol {
		case "", "tls", "tcp", "udp":
		default:
			return at(errors.New("must be udp, tcp or tls"), "audit.syslog.protocol")
		}
		if y.CA != "" && y.Protocol != "" && y.Protocol != "tls" {
			return at(errors.New("requires the protocol tls"), "audit.syslog.ca")
		}
	}
	return nil
}
