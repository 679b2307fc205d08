// Package webhook signs messages in the form of Standard Webhooks, or writes them in that of a
// chat program, and sends them.
//
// It guarantees that an error contains neither the address, whose path may be a secret,
// nor what the receiver returned, that a redirect is not followed, and that text in a chat
// message notifies nobody. It does not decide
// which addresses may be reached, which is the job of the [Client], or whether a message
// is sent again.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/secret"
)

// Timeout limits one attempt to send a message, until the response is read.
const Timeout = 10 * time.Second

// MaxRetryAfter is the longest pause that a receiver may ask for with Retry-After.
const MaxRetryAfter = 10 * time.Minute

// secretPrefix begins the secrets of webhooks.
const secretPrefix = "whsec_"

// maxDrained is the length in bytes up to which the body of a response is read, so that
// its connection can be used again.
const maxDrained = 4 << 10

// Client sends requests; a guarded request goes only to allowed addresses.
// upstream.Client implements it.
type Client interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Message is a message to a webhook.
type Message struct {
	ID   string // the same for each attempt
	Body []byte // JSON
}

// NewSecret returns a new secret that [CheckSecret] accepts.
func NewSecret() secret.String {
	key := make([]byte, 32)
	rand.Read(key) // never fails: crypto/rand aborts the program instead
	return secret.New(secretPrefix + base64.StdEncoding.EncodeToString(key))
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

// Sign returns the signatures of an attempt at a time, one for each secret, separated by
// spaces. Each secret must be one that [CheckSecret] accepts.
func (m *Message) Sign(at time.Time, secrets ...secret.String) (string, error) {
	signatures := make([]string, len(secrets))
	for i, s := range secrets {
		key, err := signingKey(s)
		if err != nil {
			return "", err
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%d.%s", m.ID, at.Unix(), m.Body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " "), nil
}

// Response is the response to a message.
type Response struct {
	Status int
	Header http.Header
}

// Send posts the message to an address and returns the response, whichever it is. An error
// means that there was none. Without a secret the message is not signed.
func (m *Message) Send(ctx context.Context, c Client, address string, at time.Time, secrets ...secret.String) (Response, error) {
	signatures, err := m.Sign(at, secrets...)
	if err != nil {
		return Response{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(m.Body))
	if err != nil {
		return Response{}, errors.New("the address of the webhook is invalid")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", m.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	if signatures != "" {
		req.Header.Set("Webhook-Signature", signatures)
	}
	res, err := c.Do(req, true)
	if err != nil {
		return Response{}, err
	}
	defer res.Body.Close()
	if res.ContentLength > 0 && res.ContentLength <= maxDrained {
		io.CopyN(io.Discard, res.Body, res.ContentLength) // an error only costs the connection
	}
	return Response{res.StatusCode, res.Header}, nil
}
