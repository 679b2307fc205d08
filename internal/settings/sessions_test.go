package settings_test

import (
	"strings"
	"testing"

	"modelgate/internal/settings"
)

func TestLifetimesOfSessionsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"sessions: {idle: 30m, absolute: 24h}\n": "",
		"sessions: {idle: 1m}\n":                 "",
		"sessions: {idle: 59s}\n":                "sessions.idle",
		"sessions: {idle: -1s}\n":                "sessions.idle",
		"sessions: {absolute: 2161h}\n":          "sessions.absolute",
		"sessions: {max: 1h}\n":                  "max",
		"oauth: {registration: true}\n":          "",
		"oauth: {access_token: 59s}\n":           "oauth.access_token",
		"oauth: {access_token: 25h}\n":           "oauth.access_token",
	} {
		_, err := settings.Parse("modelgate.yaml", []byte(text), settings.SecretResolver{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want an error of %q", text, err, want)
		}
	}
}
