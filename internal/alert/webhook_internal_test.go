package alert

import (
	"encoding/base64"
	"testing"
)

// The values are those of the test suites of the reference libraries.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/go/webhook_test.go
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("sign() = %s, want %s", got, want)
	}
}
