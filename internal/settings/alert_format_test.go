package settings

import (
	"strings"
	"testing"

	"modelgate/internal/base/webhook"
)

func TestAddressesOfChatProgramsMayBeVariables(t *testing.T) {
	const address = "https://hooks.example.com/services/T0/secret"
	o := SecretResolver{Env: func(name string) (string, bool) { return address, name == "HOOK" }}
	a := Alerts{Webhooks: []AlertWebhook{{URL: "${HOOK}", Format: "slack"}, {URL: "https://flows.example.com/x", Format: "teams"}}}
	if f := a.check(o); f != nil {
		t.Fatal(f)
	}
	if w := a.Webhooks[0].Webhook(); w.URL != address || w.Format != webhook.Slack || !w.Secret.Empty() {
		t.Errorf("the webhook is %q with the format %q", w.Host(), w.Format)
	}
	for text, w := range map[string]AlertWebhook{
		"format":    {URL: address, Format: "discord"},
		"url":       {URL: "${OTHER}", Format: "slack"},
		"secret":    {URL: address}, // signed JSON needs one
		"address":   {URL: "${HOOK}", Secret: "${HOOK}"},
		"duplicate": {URL: address, Format: "teams"},
	} {
		f := (&Alerts{Webhooks: []AlertWebhook{a.Webhooks[0], w}}).check(o)
		if f == nil || strings.Contains(f.err.Error(), "T0/secret") {
			t.Errorf("%s: %v", text, f)
		}
	}
}
