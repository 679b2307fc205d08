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
	Secret secret.String // in the form that webhook.CheckSecret accepts; empty only with a format
	Format webhook.Format
}

// StatusError is the error of a webhook that did not accept an alert.
type StatusError struct {
	Status int
	Header http.Header // of the response
}

// Error implements error.
func (e *StatusError) Error() string { return fmt.Sprintf("the webhook returned status %d", e.Status) }

// Host returns the host of the webhook's address, whose path may be a secret.
func (w *Webhook) Host() string {
	u, err := url.Parse(w.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// Send posts a in the format of the webhook. It returns nil once the webhook has answered with 2xx. Errors contain
// neither the address, whose path may be a secret, nor what the webhook returned.
func (w *Webhook) Send(ctx context.Context, c Client, a *Alert, now time.Time) error {
	m := webhook.Message{ID: a.ID, Body: a.body(w.Format)}
	var secrets []secret.String
	if !w.Secret.Empty() {
		secrets = append(secrets, w.Secret)
	}
	switch res, err := m.Send(ctx, c, w.URL, now, secrets...); {
	case err != nil:
		return fmt.Errorf("the webhook cannot be reached: %w", err)
	case res.Status == http.StatusGone:
		return ErrGone
	case res.Status/100 != 2:
		return &StatusError{res.Status, res.Header}
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
