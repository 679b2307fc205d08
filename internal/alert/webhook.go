package alert

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/base/webhook"
)

// ErrGone is the error of a webhook that wants no more alerts: it returned 410.
var ErrGone = errors.New("the webhook returned status 410")

// Client sends requests; upstream.Client implements it.
type Client = webhook.Client

// Webhook receives alerts by HTTP.
type Webhook struct {
	URL    string
	Secret secret.String // in the form that webhook.CheckSecret accepts
}

// Host returns the host of the webhook's address, whose path may be a secret.
func (w *Webhook) Host() string {
	u, err := url.Parse(w.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// Send posts a. It returns nil once the webhook has answered with 2xx. Errors contain
// neither the address, whose path may be a secret, nor what the webhook returned.
func (w *Webhook) Send(ctx context.Context, c Client, a *Alert, now time.Time) error {
	m := webhook.Message{ID: a.ID, Body: a.payload()}
	switch status, err := m.Send(ctx, c, w.URL, now, w.Secret); {
	case err != nil:
		return fmt.Errorf("the webhook cannot be reached: %w", err)
	case status == http.StatusGone:
		return ErrGone
	case status/100 != 2:
		return fmt.Errorf("the webhook returned status %d", status)
	}
	return nil
}

// Contact connects to the webhook without an alert, by a HEAD request. It returns nil
// once the host has answered, with any status.
func (w *Webhook) Contact(ctx context.Context, c Client) error {
	ctx, cancel := context.WithTimeout(ctx, webhook.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, w.URL, nil)
	if err != nil {
		return errors.New("the address of the webhook is invalid")
	}
	res, err := c.Do(req, true)
	if err != nil {
		return fmt.Errorf("the webhook cannot be reached: %w", err)
	}
	return res.Body.Close()
}
