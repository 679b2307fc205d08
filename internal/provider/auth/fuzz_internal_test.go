package auth

import (
	"strings"
	"testing"

	"modelgate/internal/provider"
)

// FuzzServiceAccount reads the service account that a client sends. An error
// never quotes it.
func FuzzServiceAccount(f *testing.F) {
	f.Add(`{"type":"service_account","client_email":"a@b","private_key":"canary-of-a-private-key","token_uri":"https://oauth2.googleapis.com/token"}`)
	f.Add(`{"type":"external_account","credential_source":{"file":"x","url":"http://169.254.169.254"}}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := readAccount(&provider.Target{Spec: &provider.Spec{ID: "vertex-ai"}}, text); err != nil && len(text) > 20 && strings.Contains(err.Error(), text) {
			t.Errorf("the error quotes the account: %v", err)
		}
	})
}
