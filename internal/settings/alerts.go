package settings

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/base/oserr"
	"modelgate/internal/base/secret"
	"modelgate/internal/base/webhook"
)

// Alerts configures where alerts about budgets and expiries are sent. They are sent to
// nobody without a webhook and a mail server.
type Alerts struct {
	Webhooks []AlertWebhook `json:"webhooks,omitempty" maxItems:"5"`
	Email    AlertEmail     `json:"email,omitzero"`

	// ExpiryNotice is how long before its expiry a key is reported; default 168h. A
	// negative duration reports no keys before they expire.
	ExpiryNotice Duration `json:"expiry_notice,omitempty"`
}

// AlertWebhook receives alerts by HTTP, signed as standard-webhooks describes.
type AlertWebhook struct {
	URL    string `json:"url" maxLength:"2048" doc:"Address that alerts are posted to. With a format, ${NAME} for an environment variable or a sealed value too, because the address lets anybody post"`
	Secret string `json:"secret,omitempty" doc:"Key of the signature, whsec_ and 24 to 64 bytes in base64: ${NAME} for an environment variable, or a sealed value. Required without a format"`
	Format string `json:"format,omitempty" enum:",slack,teams" doc:"Form of the message: slack for an incoming webhook of Slack, teams for a workflow of Teams that posts a card. Without it, signed JSON"`

	secret, address secret.String
}

// Webhook returns the webhook with its opened address and secret.
func (w *AlertWebhook) Webhook() alert.Webhook {
	return alert.Webhook{URL: w.address.Reveal(), Secret: w.secret, Format: webhook.Format(w.Format)}
}

// AlertEmail is the mail server that accepts alerts. It is disabled without a server.
type AlertEmail struct {
	Server   string   `json:"server,omitempty" maxLength:"255" doc:"Host and port, such as smtp.example.com:587"`
	TLS      string   `json:"tls,omitempty" enum:",starttls,tls,none" doc:"Defaults to starttls"`
	CA       string   `json:"ca,omitempty" maxLength:"4096" doc:"File with the authorities that sign the server's certificate; defaults to the system's"`
	User     string   `json:"user,omitempty" maxLength:"320"`
	Password string   `json:"password,omitempty" doc:"${NAME} for an environment variable, or a sealed value"`
	From     string   `json:"from,omitempty" maxLength:"320" doc:"Sender, such as Gateway <gateway@example.com>"`
	To       []string `json:"to,omitempty" maxItems:"20" doc:"Recipients of all alerts, in addition to the users concerned"`

	password secret.String
}

// Mail returns the mail server with its opened password and the authorities in the file.
func (e *AlertEmail) Mail() (*alert.Mail, error) {
	m := &alert.Mail{Server: e.Server, TLS: cmp.Or(e.TLS, alert.StartTLS), User: e.User, Password: e.password, From: e.From}
	if e.CA == "" {
		return m, nil
	}
	pem, err := os.ReadFile(e.CA)
	if err != nil {
		return nil, fmt.Errorf("reading the authorities of the mail server (ca): %w", oserr.File(err))
	}
	m.RootCAs = x509.NewCertPool()
	if !m.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("the file of the mail server's authorities contains no certificate")
	}
	return m, nil
}

// longestNotice is how long before its expiry a key can be reported.
const longestNotice = 90 * 24 * time.Hour

func (a *Alerts) check(o SecretResolver) (f *fault) {
	for i := range a.Webhooks {
		w := &a.Webhooks[i]
		if err := webhook.CheckFormat(webhook.Format(w.Format)); err != nil {
			return at(err, "alerts.webhooks[%d].format", i)
		}
		var err error
		if w.address = secret.New(w.URL); w.Format != "" && !strings.Contains(w.URL, "://") {
			if w.address, err = o.Open(w.URL); err != nil {
				return at(err, "alerts.webhooks[%d].url", i)
			}
		}
		u, err := url.Parse(w.address.Reveal())
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
			return at(errors.New("must be an http or https address without credentials"), "alerts.webhooks[%d].url", i)
		}
		if slices.ContainsFunc(a.Webhooks[:i], func(v AlertWebhook) bool { return v.address.Reveal() == w.address.Reveal() }) {
			return at(errors.New("this address is duplicated"), "alerts.webhooks[%d].url", i)
		}
		if w.Format != "" && w.Secret == "" {
			continue // the program does not verify a signature
		}
		if w.secret, err = o.Open(w.Secret); err == nil {
			err = webhook.CheckSecret(w.secret)
		}
		if err != nil {
			return at(err, "alerts.webhooks[%d].secret", i)
		}
	}
	if d := time.Duration(a.ExpiryNotice); d > longestNotice {
		return at(errors.New("must be at most 2160h"), "alerts.expiry_notice")
	}
	return a.Email.check(o)
}

func (e *AlertEmail) check(o SecretResolver) (f *fault) {
	if e.Server == "" && e.From == "" && e.TLS == "" && e.CA == "" && e.User == "" && e.Password == "" && e.To == nil {
		return nil
	}
	if host, port, err := net.SplitHostPort(e.Server); err != nil || host == "" || port == "" {
		return at(errors.New("must be a host and a port, such as smtp.example.com:587"), "alerts.email.server")
	}
	switch e.TLS {
	case "", alert.StartTLS, alert.ImplicitTLS, alert.NoTLS:
	default:
		return at(errors.New("must be starttls, tls or none"), "alerts.email.tls")
	}
	if e.CA != "" && e.TLS == alert.NoTLS {
		return at(errors.New("requires the connection to be encrypted"), "alerts.email.ca")
	}
	if _, err := mail.ParseAddress(e.From); err != nil {
		return at(errors.New("must be an e-mail address"), "alerts.email.from")
	}
	for i, to := range e.To {
		if a, err := mail.ParseAddress(to); err != nil || a.Address != to {
			return at(errors.New("must be an e-mail address without a name"), "alerts.email.to[%d]", i)
		}
	}
	var err error
	if e.password, err = o.Open(e.Password); err != nil {
		return at(err, "alerts.email.password")
	}
	switch {
	case (e.User == "") != e.password.Empty():
		return at(errors.New("user and password must be set together"), "alerts.email.user")
	case e.User != "" && e.TLS == alert.NoTLS:
		return at(errors.New("must not be none, because the password would be sent in plain text"), "alerts.email.tls")
	}
	return nil
}
