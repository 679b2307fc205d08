package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/secret"
)

// webhookTime is the limit of one delivery.
const webhookTime = 10 * time.Second

// secretPrefix begins the secrets of webhooks.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md#signature-scheme
const secretPrefix = "whsec_"

// ErrGone is the error of a webhook that wants no more alerts: it returned 410.
var ErrGone = errors.New("the webhook returned status 410")

// Client sends requests; a guarded request goes only to allowed addresses.
// upstream.Client implements it.
type Client interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Webhook receives alerts by HTTP.
type Webhook struct {
	URL    string
	Secret secret.String // in the form that CheckSecret accepts
}

// Host returns the host of the webhook's address, whose path may be a secret.
func (w *Webhook) Host() string {
	u, err := url.Parse(w.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// CheckSecret returns an error unless s is whsec_ and 24 to 64 bytes in base64.
func CheckSecret(s secret.String) error {
	_, err := signingKey(s)
	return err
}

func signingKey(s secret.String) ([]byte, error) {
	text, ok := strings.CutPrefix(s.Reveal(), secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("must be whsec_ followed by 24 to 64 bytes in base64, such as the output of: echo whsec_$(openssl rand -base64 32)")
	}
	return key, nil
}

// Send posts a. It returns nil once the webhook has answered with 2xx. Errors contain
// neither the address, whose path may be a secret, nor what the webhook returned.
func (w *Webhook) Send(ctx context.Context, c Client, a *Alert, now time.Time) error {
	key, err := signingKey(w.Secret)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, webhookTime)
	defer cancel()
	body := a.payload()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address of the webhook is invalid")
	}
	at := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", a.ID)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", sign(key, a.ID, at, body))
	res, err := c.Do(req, true)
	if err != nil {
		return fmt.Errorf("the webhook cannot be reached: %w", err)
	}
	res.Body.Close()
	switch {
	case res.StatusCode == http.StatusGone:
		return ErrGone
	case res.StatusCode/100 != 2:
		return fmt.Errorf("the webhook returned status %d", res.StatusCode)
	}
	return nil
}

// Contact connects to the webhook without an alert, by a HEAD request. It returns nil
// once the host has answered, with any status.
func (w *Webhook) Contact(ctx context.Context, c Client) error {
	ctx, cancel := context.WithTimeout(ctx, webhookTime)
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

// sign returns the signature of a message, by HMAC-SHA256.
func sign(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
