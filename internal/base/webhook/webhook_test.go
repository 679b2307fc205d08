package webhook_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"modelgate/internal/base/secret"
	"modelgate/internal/base/webhook"
)

// direct sends requests to any address.
type direct struct{}

func (direct) Do(req *http.Request, guarded bool) (*http.Response, error) {
	if !guarded {
		return nil, errors.New("the request is not guarded")
	}
	return http.DefaultTransport.RoundTrip(req)
}

// The values are those of the test suites of the reference libraries.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/go/webhook_test.go
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	m := webhook.Message{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Body: []byte(`{"test": 2432232314}`)}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	got, err := m.Sign(time.Unix(1614265330, 0), secret.New("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
	if got != want || err != nil {
		t.Errorf("Sign() = %s, %v, want %s", got, err, want)
	}
}

// TestReceiversVerifyWhatIsSent has a receiver with either of two secrets.
func TestReceiversVerifyWhatIsSent(t *testing.T) {
	var head http.Header
	var body []byte
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer hook.Close()
	current, previous := webhook.NewSecret(), webhook.NewSecret()
	m := webhook.Message{ID: "msg_1", Body: []byte(`{"type":"batch.completed"}`)}
	res, err := m.Send(t.Context(), direct{}, hook.URL, time.Now(), current, previous)
	if res.Status != http.StatusAccepted || err != nil {
		t.Fatalf("Send() = %d, %v", res.Status, err)
	}
	if string(body) != string(m.Body) || head.Get("Content-Type") != "application/json" || head.Get("Webhook-Id") != "msg_1" {
		t.Errorf("%v\n%s", head, body)
	}
	for _, s := range []secret.String{current, previous} {
		receiver, err := standard.NewWebhook(s.Reveal())
		if err == nil {
			err = receiver.Verify(body, head)
		}
		if err != nil {
			t.Error(err)
		}
	}
	other, err := standard.NewWebhook(webhook.NewSecret().Reveal())
	if err != nil || other.Verify(body, head) == nil {
		t.Errorf("another secret verifies it: %v", err)
	}
}

func TestBodiesOfReceiversAreNotRead(t *testing.T) {
	for name, respond := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				w.Write(make([]byte, 1<<16))
			}
		},
		"silent": func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("a"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("a"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			hook := httptest.NewServer(respond)
			defer hook.Close()
			m := webhook.Message{ID: "msg_1", Body: []byte(`{}`)}
			began := time.Now()
			res, err := m.Send(t.Context(), direct{}, hook.URL, began, webhook.NewSecret())
			if res.Status != http.StatusOK || err != nil || time.Since(began) > webhook.Timeout/2 {
				t.Errorf("Send() = %d, %v after %v", res.Status, err, time.Since(began))
			}
		})
	}
}

// hanging never responds.
type hanging struct{}

func (hanging) Do(req *http.Request, _ bool) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func TestAReceiverThatHangsIsLeftAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, began := webhook.Message{ID: "msg_1", Body: []byte(`{}`)}, time.Now()
		res, err := m.Send(t.Context(), hanging{}, "https://hooks.example.com", began, webhook.NewSecret())
		if res.Status != 0 || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != webhook.Timeout {
			t.Errorf("Send() = %d, %v after %v", res.Status, err, time.Since(began))
		}
	})
}

func TestSecretsHaveTheFormOfStandardWebhooks(t *testing.T) {
	short := "whsec_" + base64.StdEncoding.EncodeToString([]byte("too short"))
	key := strings.Repeat("k", 32)
	good := "whsec_" + base64.StdEncoding.EncodeToString([]byte(key))
	for text, want := range map[string]bool{
		good: true, webhook.NewSecret().Reveal(): true, "": false, key: false, "whsec_": false, "whsec_%%%": false, short: false,
	} {
		if err := webhook.CheckSecret(secret.New(text)); (err == nil) != want {
			t.Errorf("CheckSecret(%q) = %v, want ok %t", text, err, want)
		}
	}
	if _, err := (&webhook.Message{}).Sign(time.Now(), secret.New("whsec_")); err == nil {
		t.Error("a message was signed with an empty secret")
	}
}
