package alert_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/alert"
	"modelgate/internal/base/webhook"
)

// receiver keeps what was posted to it last, and answers as told.
type receiver struct {
	*httptest.Server
	head http.Header
	body string
}

func newReceiver(t *testing.T, respond http.HandlerFunc) *receiver {
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		r.head, r.body = req.Header, string(b)
		if respond != nil {
			respond(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func TestChatProgramsReceiveNamesAmountsAndPartsOfTheBudget(t *testing.T) {
	eighty := 40.0
	a := *exhausted
	a.Type, a.Data.Threshold, a.Data.Used = alert.Threshold, &eighty, 40.25
	a.Data.WorkspaceName, a.Data.OrganisationName, a.Data.Name, a.Data.Last = "Team <!here>", "Acme", "ci <!channel>", true
	for format, hostile := range map[webhook.Format]string{webhook.Slack: "ci &lt;!channel&gt;", webhook.Teams: "ci <!channel>"} {
		r := newReceiver(t, nil)
		w := alert.Webhook{URL: r.URL, Format: format}
		if err := w.Send(t.Context(), trusting(), &a, now); err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal([]byte(r.body), &v); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		for _, part := range []string{
			"budget alert threshold reached", hostile, "Acme (o)", " (w)", "$40.25 (80.5%)", "$40 (80%)", "$50", "Further alerts",
		} {
			if !strings.Contains(r.body, part) {
				t.Errorf("%s: %q is not in %s", format, part, r.body)
			}
		}
		if r.head.Get("webhook-signature") != "" || r.head.Get("webhook-id") != "id-1" {
			t.Errorf("%s: without a secret, the headers are %v", format, r.head)
		}
		w.Secret = hookSecret
		if err := w.Send(t.Context(), trusting(), &a, now); err != nil || !strings.HasPrefix(r.head.Get("webhook-signature"), "v1,") {
			t.Errorf("%s: with a secret, the headers are %v, %v", format, r.head, err)
		}
	}
}

// A program that is asked too often says when it wants the message again.
func TestRefusedChatMessagesSayTheirStatusAndNothingElse(t *testing.T) {
	for status, header := range map[int]string{429: "30", 500: "", 404: ""} {
		r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			http.Error(w, "no_service for /services/T0/secret", status)
		})
		w := alert.Webhook{URL: r.URL + "/services/T0/secret", Format: webhook.Slack}
		err := w.Send(t.Context(), trusting(), exhausted, now)
		refused, ok := errors.AsType[*alert.StatusError](err)
		if !ok || refused.Status != status || refused.Header.Get("Retry-After") != header || strings.Contains(err.Error(), "secret") {
			t.Errorf("status %d: %v", status, err)
		}
	}
}
