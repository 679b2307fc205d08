package alert_test

import (
	"crypto/x509"
	"encoding/base64"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/base/secret"
	"modelgate/internal/testing/alerttest"
)

func client(s *alerttest.MailServer) *alert.Mail {
	return &alert.Mail{Server: s.Addr().String(), TLS: s.TLS, From: "Gateway <gateway@example.com>", RootCAs: s.Pool}
}

var both = []string{"a@example.com", "b@example.com"}

func TestAnEmailIsSentOverTLS(t *testing.T) {
	for _, mode := range []string{alert.StartTLS, alert.ImplicitTLS} {
		for _, mechanism := range []string{"PLAIN LOGIN", "LOGIN"} {
			t.Run(mode+" "+mechanism, func(t *testing.T) {
				s := alerttest.NewMailServer(t, mode)
				s.Auth = mechanism
				m := client(s)
				m.User, m.Password = "user", secret.New("the password")
				got, err := m.Send(t.Context(), exhausted, both, now)
				if err != nil || !slices.Equal(got.Sent, both) || len(got.Rejected) > 0 || len(s.Messages()) != 1 {
					t.Fatalf("Send() = %+v, %v; %d messages", got, err, len(s.Messages()))
				}
				for _, c := range s.Commands() {
					if !strings.HasPrefix(c, "tls ") && !strings.HasPrefix(c, "EHLO") && c != "STARTTLS" {
						t.Errorf("%q was sent in plain text", c)
					}
				}
				plain := base64.StdEncoding.EncodeToString([]byte("\x00user\x00the password"))
				login := base64.StdEncoding.EncodeToString([]byte("the password"))
				if all := strings.Join(s.Commands(), "\n"); !strings.Contains(all, plain) && !strings.Contains(all, login) {
					t.Errorf("the password was not sent: %s", all)
				}
			})
		}
	}
}

func TestAnEmailSaysWhatHappenedAndNamesNoRecipients(t *testing.T) {
	s := alerttest.NewMailServer(t, alert.NoTLS)
	a := *exhausted
	a.Data.Name = "Zoë\r\nBcc: other@example.com\r\n\r\n.\r\nQUIT"
	if _, err := client(s).Send(t.Context(), &a, both, now); err != nil {
		t.Fatal(err)
	}
	if len(s.Messages()) != 1 {
		t.Fatalf("%d messages", len(s.Messages()))
	}
	raw := s.Messages()[0]
	if strings.Contains(raw, "a@example.com") || strings.Contains(raw, "\nBcc") {
		t.Errorf("the message names recipients:\n%s", raw)
	}
	got, err := mail.ReadMessage(strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if err != nil || !strings.HasPrefix(subject, `API key "Zo`) || !strings.HasSuffix(subject, "budget exhausted") {
		t.Errorf("subject %q, %v", subject, err)
	}
	if got.Header.Get("Message-Id") != "<id-1@example.com>" || got.Header.Get("Auto-Submitted") != "auto-generated" || got.Header.Get("Date") == "" {
		t.Errorf("headers %v", got.Header)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
	if err != nil || !strings.Contains(string(body), "$50.25") || !strings.Contains(string(body), "$50\r\n") || strings.Contains(string(body), "\nBcc") {
		t.Errorf("body %q, %v", body, err)
	}
}

func TestAServerWithoutSTARTTLSGetsNothing(t *testing.T) {
	s := alerttest.NewMailServer(t, alert.NoTLS)
	m := client(s)
	m.TLS, m.User, m.Password = alert.StartTLS, "user", secret.New("the password")
	if _, err := m.Send(t.Context(), exhausted, both, now); err == nil || !strings.Contains(err.Error(), "STARTTLS") {
		t.Errorf("Send() = %v, want an error about STARTTLS", err)
	}
	for _, c := range s.Commands() {
		if !strings.HasPrefix(c, "EHLO") && c != "QUIT" {
			t.Errorf("%q was sent in plain text", c)
		}
	}
}

func TestACertificateOfAnotherAuthorityIsRefused(t *testing.T) {
	for _, mode := range []string{alert.StartTLS, alert.ImplicitTLS} {
		s := alerttest.NewMailServer(t, mode)
		m := client(s)
		m.RootCAs = x509.NewCertPool()
		if got, err := m.Send(t.Context(), exhausted, both, now); err == nil || len(got.Sent) > 0 {
			t.Errorf("%s: Send() = %+v, %v; want an error", mode, got, err)
		}
	}
}

func TestRecipientsAreSentOnceThoughOthersAreNotAccepted(t *testing.T) {
	s := alerttest.NewMailServer(t, alert.NoTLS)
	s.Replies["RCPT TO:<a@example.com>"] = "550 no such user"
	s.Replies["RCPT TO:<b@example.com>"] = "451 greylisted, try later"
	got, err := client(s).Send(t.Context(), exhausted, []string{"a@example.com", "b@example.com", "c@example.com"}, now)
	if err == nil || !slices.Equal(got.Sent, []string{"c@example.com"}) || !slices.Equal(got.Rejected, []string{"a@example.com"}) {
		t.Errorf("Send() = %+v, %v; want c sent, a rejected, and an error about b", got, err)
	}
	s.Replies = map[string]string{"RCPT": "550 no"}
	if got, err = client(s).Send(t.Context(), exhausted, both, now); err != nil || len(got.Sent) > 0 || !slices.Equal(got.Rejected, both) {
		t.Errorf("Send() = %+v, %v; want all rejected", got, err)
	}
}

func TestAMailServerThatMisbehavesIsAnErrorInTime(t *testing.T) {
	for name, tt := range map[string]struct {
		set  func(*alerttest.MailServer)
		want string
	}{
		"greeting refused":   {func(s *alerttest.MailServer) { s.Replies["EHLO"] = "554 go away"; s.Replies["HELO"] = "554 go away" }, "reply 554"},
		"busy":               {func(s *alerttest.MailServer) { s.Replies["MAIL"] = "421 too busy, the password" }, "reply 421"},
		"data refused":       {func(s *alerttest.MailServer) { s.Replies["DATA"] = "554 no" }, "reply 554"},
		"message refused":    {func(s *alerttest.MailServer) { s.Replies["."] = "452 disk full" }, "reply 452"},
		"not a reply":        {func(s *alerttest.MailServer) { s.Replies["MAIL"] = "hello" }, "not accepted"},
		"closes":             {func(s *alerttest.MailServer) { s.CloseAt = "DATA" }, "closed"},
		"silent at MAIL":     {func(s *alerttest.MailServer) { s.SilentAt = "MAIL" }, ""},
		"silent at EHLO":     {func(s *alerttest.MailServer) { s.SilentAt = "EHLO" }, ""},
		"never ends a reply": {func(s *alerttest.MailServer) { s.Flood = true }, "too much"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := alerttest.NewMailServer(t, alert.NoTLS, tt.set)
			began := time.Now()
			got, err := client(s).SendWithin(t.Context(), time.Second, exhausted, both, now)
			if err == nil || len(got.Sent) > 0 || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "password") {
				t.Errorf("Send() = %+v, %v; want %q", got, err, tt.want)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}
