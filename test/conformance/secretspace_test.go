package conformance

import (
	"strings"
	"testing"
)

func TestSecretsAreReadWithoutLineBreaks(t *testing.T) {
	p := newProvider(t, nil)
	const settings = `
version: 1
providers:
  - {slug: mine, provider: openai, api_key: "${STORED_KEY}", custom_host: "BASE/v1"}
`
	text := strings.ReplaceAll(settings, "BASE", p.root)
	chat := modelRoutes[0]
	prove(t, "M-324", "white space around them", func(t *testing.T) {
		g := launchFor(t, text, "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_BOOTSTRAP_KEY="+bootstrapKey+"\n", "STORED_KEY= \t"+storedKey+"\r\n\n")
		g.do(t, "POST", chat.path, chat.body, managed("@mine")...).wantOK(t)
		if got := p.only(t).header.Get("Authorization"); got != "Bearer "+storedKey {
			t.Errorf("Authorization at the provider = %q", got)
		}
	})
	prove(t, "M-324", "other control characters", func(t *testing.T) {
		for name, env := range map[string]string{
			"STORED_KEY": "STORED_KEY=sk-1\x1b[2Jmore", "MODELGATE_BOOTSTRAP_KEY": "MODELGATE_BOOTSTRAP_KEY=" + bootstrapKey + "\nmore",
			"MODELGATE_MASTER_KEY": "MODELGATE_MASTER_KEY=0123456789abcdef\x7f0123456789abcdef",
		} {
			g, err := launch(text, "MODELGATE_TRUSTED_HOSTS=127.0.0.1", env)
			if err == nil {
				g.stop()
				t.Errorf("%s: the gateway starts", name)
				continue
			}
			said := err.Error()
			if !strings.Contains(said, name) && !strings.Contains(said, "api_key") || !strings.Contains(said, "control character") || strings.Contains(said, "more") || strings.ContainsAny(said, "\x1b\x7f") {
				t.Errorf("%s: it says %q", name, said)
			}
		}
	})
}
