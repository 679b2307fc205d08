package outbox

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/base/webhook"
	"modelgate/internal/upstream"
)

// Slack answers with 429 if it gets more than a message a second.
func TestDestinationsSayWhenTheyWantAnAlertAgain(t *testing.T) {
	for _, tt := range []struct {
		status  int
		header  string
		pause   time.Duration
		waiting int
	}{
		{429, "90", 90 * time.Second, 1}, {429, "", 0, 1}, {429, "never", 0, 1}, {429, "-5", 0, 1}, {503, "7", 7 * time.Second, 1}, {500, "", 0, 1}, {200, "", 0, 0}, {410, "", 0, 0},
	} {
		hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", tt.header)
			w.WriteHeader(tt.status)
		}))
		defer hook.Close()
		a := &alertQueue{out: &Outbox{Client: upstream.New(upstream.Options{TrustLoopback: true}), CountAlerts: func(string, string, int) {}}}
		got := a.sendWebhook(t.Context(), alert.Webhook{URL: hook.URL, Format: webhook.Slack}, &alert.Alert{ID: "a", Type: alert.Test}, slog.New(slog.DiscardHandler))
		if got.pause != tt.pause || got.waiting != tt.waiting || (got.err == nil) != (tt.waiting == 0) {
			t.Errorf("%d with Retry-After %q: %+v", tt.status, tt.header, got)
		}
	}
}
