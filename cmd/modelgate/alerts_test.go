package main

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/alert"
	"modelgate/internal/testing/alerttest"
)

func TestAlertDestinationsAreListedAndOnlySentToOnRequest(t *testing.T) {
	received := 0
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			received++
		}
	}))
	defer hook.Close()
	mails := alerttest.NewMailServer(t, alert.NoTLS)
	mails.Replies["RCPT TO:<gone@example.com>"] = "550 no such user"
	t.Setenv("TEST_ALERT_SECRET", "whsec_"+base64.StdEncoding.EncodeToString([]byte("a key of a test with 32 bytes ok")))
	file := filepath.Join(t.TempDir(), "modelgate.yaml")
	text := `alerts:
  webhooks: [{url: "` + hook.URL + `/secret-path", secret: "${TEST_ALERT_SECRET}"}]
  email: {server: "` + mails.Addr().String() + `", tls: none, from: gateway@example.com, to: [ops@example.com, gone@example.com]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		want []string
		sent int
	}{
		{nil, 1, []string{"webhook at 127.0.0.1", "cannot be used", "mail server 127.0.0.1"}, 0},
		{[]string{"--trusted-hosts", "127.0.0.1"}, 0, []string{": ok"}, 0},
		{[]string{"--trusted-hosts", "127.0.0.1", "--send"}, 1, []string{": sent", "e-mail to ops@example.com: sent", "e-mail to gone@example.com: the mail server did not accept", "1 of 3 destinations"}, 1},
	} {
		code, out, errs := invoke(t, nil, "", append([]string{"alerts", "test", "--config", file}, tt.args...)...)
		for _, w := range tt.want {
			if !strings.Contains(out+errs, w) {
				t.Errorf("%q: %s%s, want %q", tt.args, out, errs, w)
			}
		}
		if code != tt.code || received != tt.sent || len(mails.Messages()) != tt.sent || strings.Contains(out+errs, "secret-path") {
			t.Errorf("%q: exit %d, %d alerts and %d e-mails: %s%s", tt.args, code, received, len(mails.Messages()), out, errs)
		}
	}
}

func TestAlertDestinationsThatCannotBeReachedAreNotOK(t *testing.T) {
	hook := httptest.NewServer(http.NotFoundHandler())
	hook.Close()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	t.Setenv("TEST_ALERT_SECRET", "whsec_"+base64.StdEncoding.EncodeToString([]byte("a key of a test with 32 bytes ok")))
	file := filepath.Join(t.TempDir(), "modelgate.yaml")
	text := "alerts:\n  webhooks: [{url: \"" + hook.URL + "\", secret: \"${TEST_ALERT_SECRET}\"}]\n" +
		"  email: {server: \"" + server.Addr().String() + "\", tls: none, from: gateway@example.com, to: [ops@example.com]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := invoke(t, nil, "", "alerts", "test", "--config", file, "--trusted-hosts", "127.0.0.1")
	if code != 1 || strings.Contains(out, ": ok") || !strings.Contains(out, "the webhook cannot be reached") || !strings.Contains(out, "connecting to the mail server") {
		t.Errorf("exit %d: %s%s; want neither to be ok", code, out, errs)
	}
}
