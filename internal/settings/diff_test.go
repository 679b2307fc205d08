package settings_test

import (
	"slices"
	"strings"
	"testing"

	"modelgate/internal/settings"
)

func TestADiffNamesWhatIsOtherwise(t *testing.T) {
	const before = `providers:
  - {slug: a, provider: openai, api_key: "${ONE}"}
  - {slug: b, provider: groq}
configs:
  - {slug: pc-a, config: {provider: "@a"}}
keys:
  - {name: ci, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
limits: {json_body: 8 MB}
`
	for _, tt := range []struct {
		name, old, new string
		env            string
		want           []string
	}{
		{"nothing", "8 MB", "8388608", "1", nil},
		{"the order of an object", `{provider: "@a"}`, `{"provider": '@a'}`, "1", nil},
		{"a credential", "${ONE}", "${TWO}", "1", []string{"~ provider a [api_key]"}},
		{"a credential of the environment", "", "", "2", []string{"~ provider a [api_key]"}},
		{"a provider", "slug: b", "slug: c", "1", []string{"+ provider c", "- provider b"}},
		{"a config", `"@a"`, `"@b"`, "1", []string{"~ config pc-a [config]"}},
		{"a key", "sha256: 9f", "scopes: [], sha256: 9f", "1", []string{"~ key ci 9f86d081884c [scopes]"}},
		{"a limit", "json_body", "event", "1", []string{"~ limits [event json_body]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parse := func(text, value string) *settings.Settings {
				s, err := settings.Parse("f", []byte(text), settings.SecretResolver{Env: func(string) (string, bool) { return "canary-" + value, true }})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			got := settings.Diff(parse(before, "1"), parse(strings.Replace(before, tt.old, tt.new, 1), tt.env))
			if !slices.Equal(got, tt.want) {
				t.Errorf("Diff = %q, want %q", got, tt.want)
			}
		})
	}
}
