package alert_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/base/secret"
	"modelgate/internal/upstream"
)

const key = "a key of a test with 32 bytes ok"

var (
	hookSecret = secret.New("whsec_" + base64.StdEncoding.EncodeToString([]byte(key)))
	now        = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	limit      = 50.0
	exhausted  = &alert.Alert{ID: "id-1", Type: alert.Exhausted, Time: now, Data: alert.Data{
		Organisation: "o", Workspace: "w", Object: "api_key", ID: "k", Name: "ci", Measure: "cost", Used: 50.25, Limit: &limit,
	}}
)

func trusting() *upstream.Client { return upstream.New(upstream.Options{TrustLoopback: true}) }

func TestAWebhookCanVerifyWhatItReceives(t *testing.T) {
	var head http.Header
	var body []byte
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer hook.Close()
	w := alert.Webhook{URL: hook.URL, Secret: hookSecret}
	if err := w.Send(t.Context(), trusting(), exhausted, now); err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(key))
	io.WriteString(mac, "id-1.1777636800."+string(body))
	if got, want := head.Get("webhook-signature"), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want || head.Get("webhook-id") != "id-1" || head.Get("webhook-timestamp") != "1777636800" {
		t.Errorf("headers %v, want the signature %s", head, want)
	}
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil || got["type"] != "budget.exhausted" || got["timestamp"] != "2026-05-01T12:00:00Z" || got["data"].(map[string]any)["used"] != 50.25 {
		t.Errorf("payload %s, %v", body, err)
	}
}

func TestAWebhookThatDoesNotReceiveIsAnError(t *testing.T) {
	for name, tt := range map[string]struct {
		respond http.HandlerFunc
		want    string
	}{
		"an error":   {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "a secret of the receiver", 500) }, "status 500"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, "status 302"},
		"a break":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			hook := httptest.NewServer(tt.respond)
			defer hook.Close()
			w := alert.Webhook{URL: hook.URL + "/secret-path", Secret: hookSecret}
			err := w.Send(t.Context(), trusting(), exhausted, now)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Send() = %v, want %q without secrets", err, tt.want)
			}
		})
	}
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	defer gone.Close()
	if err := (&alert.Webhook{URL: gone.URL, Secret: hookSecret}).Send(t.Context(), trusting(), exhausted, now); !errors.Is(err, alert.ErrGone) {
		t.Errorf("Send() = %v, want ErrGone", err)
	}
}

func TestAWebhookAtAPrivateAddressIsRefused(t *testing.T) {
	reached := false
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer hook.Close()
	for _, url := range []string{hook.URL, strings.Replace(hook.URL, "127.0.0.1", "localhost", 1), "http://169.254.169.254/latest", "http://10.0.0.1/"} {
		err := (&alert.Webhook{URL: url, Secret: hookSecret}).Send(t.Context(), upstream.New(upstream.Options{}), exhausted, now)
		if err == nil || reached {
			t.Errorf("%s was reached: %v", url, err)
		}
	}
}

func TestAHangingWebhookEndsWithTheContext(t *testing.T) {
	stop := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-stop
	}))
	defer hook.Close()
	defer close(stop)
	if err := (&alert.Webhook{URL: hook.URL, Secret: hookSecret}).Send(ctx, trusting(), exhausted, now); err == nil {
		t.Error("Send() succeeded without a response")
	}
}
