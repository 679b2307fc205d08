package settings_test

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/settings"
)

const whole = `version: 1
providers:
  - slug: openai-prod
    provider: openai
    api_key: ${OPENAI_API_KEY}
    models: [gpt-4.1, o3]
  - slug: local
    provider: openai-compatible
    custom_host: http://10.0.0.7:8000/v1
keys:
  - name: ci
    sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    providers: [openai]
limits:
  json_body: 8 MB
  event: 4096
timeouts:
  first_token: 1500ms
  total: -1s
drain: {min: 2s, max: 1m}
upstream:
  trusted_hosts: [10.0.0.7]
compat:
  header_prefixes: [x-example-]
log: {level: debug}
`

func env(name string) (string, bool) {
	if name == "OPENAI_API_KEY" {
		return "sk-canary", true
	}
	return "", false
}

func TestParseReadsEveryLine(t *testing.T) {
	s, err := settings.Parse("modelgate.yaml", []byte(whole), settings.SecretResolver{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Providers[0].Key().Reveal(); got != "sk-canary" {
		t.Errorf("credential = %q, want that of the environment", got)
	}
	if got := s.Limits.JSONBody.Or(1); got != 8<<20 {
		t.Errorf("json_body = %d, want 8 MB", got)
	}
	if got := s.Limits.Decoded.Or(7); got != 7 {
		t.Errorf("decoded = %d, want the default", got)
	}
	if got := s.Timeouts.FirstToken.Or(1); got != 1500*time.Millisecond {
		t.Errorf("first_token = %v", got)
	}
	if got := s.Timeouts.Total.Or(time.Hour); got != 0 {
		t.Errorf("total = %v, want no limit", got)
	}
	if got := s.Timeouts.Idle.Or(time.Hour); got != time.Hour {
		t.Errorf("idle = %v, want the default", got)
	}
	if len(s.Keys) != 1 || len(s.Upstream.TrustedHosts) != 1 || s.Drain.Max.Or(0) != time.Minute {
		t.Errorf("settings = %+v", s)
	}
}

func TestParseTakesAnEmptyFile(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "version: 1\n"} {
		if _, err := settings.Parse("f", []byte(text), settings.SecretResolver{Env: env}); err != nil {
			t.Errorf("Parse(%q) = %v", text, err)
		}
	}
}

func TestParseOpensSealedCredentials(t *testing.T) {
	box, err := secret.NewBox(secret.New("a master key of some length"))
	if err != nil {
		t.Fatal(err)
	}
	text := "providers:\n  - slug: a\n    provider: openai\n    api_key: " + box.Seal(secret.New("sk-sealed")) + "\n"
	s, err := settings.Parse("f", []byte(text), settings.SecretResolver{Env: env, Box: box})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Providers[0].Key().Reveal(); got != "sk-sealed" {
		t.Errorf("credential = %q", got)
	}
	if _, err := settings.Parse("f", []byte(text), settings.SecretResolver{Env: env}); err == nil || !strings.Contains(err.Error(), "MODELGATE_MASTER_KEY") {
		t.Errorf("without a master key: %v, want a word about it", err)
	}
}

func TestParseNamesTheLineAndThePath(t *testing.T) {
	const hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	provider := "providers:\n  - slug: a\n    provider: openai\n"
	for _, tt := range []struct{ name, text, want string }{
		{"unknown field", "version: 1\nprovidrs: []\n", `f:2:1: unknown field "providrs"`},
		{"wrong type", "providers: 7\n", "f:1:12: "},
		{"not YAML", "a: [\n", "f:1:"},
		{"version", "version: 2\n", "f:1:10: version: "},
		{"slug", "providers:\n  - slug: a b\n    provider: openai\n", "f:2:11: providers[0].slug: "},
		{"slug twice", provider + "  - slug: a\n    provider: groq\n", "f:4:11: providers[1].slug: "},
		{"no provider", "providers:\n  - slug: a\n", "f:2:5: providers[0].provider: "},
		{"plain credential", provider + "    api_key: sk-plain\n", "f:4:14: providers[0].api_key: plaintext credentials are not allowed"},
		{"unset variable", provider + "    api_key: ${NOWHERE}\n", "f:4:14: providers[0].api_key: the environment variable NOWHERE is not set"},
		{"hash", "keys:\n  - sha256: abc\n", "f:2:13: keys[0].sha256: "},
		{"a key's scope", "keys:\n  - {sha256: " + hash + ", scopes: [\"*\", logs.read]}\n", `keys[0].scopes[1]: unknown scope "logs.read"`},
		{"a version of a key's config", "configs: [{slug: pc-1, config: {retry: {attempts: 2}}}]\nkeys:\n  - {sha256: " + hash + ", config: pc-1@2}\n", `keys[0].config: must not name a version`},
		{"a key's config", "keys:\n  - {sha256: " + hash + ", config: pc-1}\n", `keys[0].config: config "pc-1" not found`},
		{"a saved config", "configs:\n  - slug: a\n    config:\n      strategy: {mode: never}\n", "configs[0].config: AB01"},
		{"a config's slug", "configs:\n  - slug: a\n    config: {virtual_key: x}\n  - slug: a\n    config: {virtual_key: x}\n", "f:4:11: configs[1].slug: "},
		{"a price below zero", "prices:\n  - {provider: openai, model: b, input: -1}\n", "prices[0]: a price is"},
		{"a price from no day", "prices:\n  - {provider: openai, model: b, input: 1, from: tomorrow}\n", "prices[0]: from must be a day"},
		{"long requests without a length", "prices:\n  - {provider: openai, model: b, input: 1, long: {input: 2}}\n", "prices[0].long"},
		{"a batch that pays more", "prices:\n  - {provider: openai, model: b, input: 1, batch: 150}\n", "prices[0].batch: "},
		{"a cached token below zero", "prices:\n  - {provider: openai, model: b, input: 1, cached_input: -1}\n", "prices[0]"},
		{"a price of an unknown provider", "prices:\n  - {provider: opnai, model: b, input: 1}\n", `f:2:16: prices[0].provider: provider "opnai" not found; did you mean "openai"?`},
		{"an option that the provider lacks", "providers:\n  - {slug: a, provider: bedrock, options: {regoin: eu-west-1}}\n", `f:2:52: providers[0].options.regoin: is not a setting of provider "bedrock"; did you mean "region"?`},
		{"an option with a word that it does not have", "providers:\n  - {slug: a, provider: bedrock, options: {auth_type: servicerole}}\n", "providers[0].options.auth_type: must be one of accessKey, assumedRole, serviceRole, apiKey"},
		{"a price of a provider like no other", "prices:\n  - {provider: somebody-else, model: b, input: 1}\n", "prices[0].provider: provider \"somebody-else\" not found; `modelgate providers` lists the ids"},
		{"a price with an unknown field", "prices:\n  - {provider: openai, model: b, ouput: 1}\n", `unknown field "ouput"`},
		{"a request below zero", "prices:\n  - {provider: openai, model: b, request: -1}\n", "prices[0].request: "},
		{"a star within a model", "prices:\n  - {provider: openai, model: \"gpt-*-mini\", input: 1}\n", "prices[0].model: * is allowed only as the last character"},
		{"a price twice, once by an alias", "prices:\n  - {provider: openai, model: b, input: 1}\n  - {provider: vendora, model: b, input: 2}\n", "f:3:32: prices[1].model: the price of \"b\" of \"vendora\" is duplicated"},
		{"a price of nothing", "prices:\n  - {provider: a, input: 1}\n", "prices[0]: a price must name"},
		{"prefix", "compat:\n  header_prefixes: [x-a]\n", "f:2:21: compat.header_prefixes[0]: "},
		{"size", "limits:\n  json_body: 5 parsecs\n", "a size must be"},
		{"duration", "drain:\n  max: 5\n", "a duration must be"},
		{"a variable of the gateway", "secrets:\n  environment: [APP_KEY, MODELGATE_*]\n", "secrets.environment[1]: must not be one of the gateway's own"},
		{"a folder", "secrets:\n  files: [run]\n", "f:2:11: secrets.files[0]: must be the absolute path"},
		{"a refresh", "secrets:\n  refresh: 10ms\n", "f:2:12: secrets.refresh: must be"},
		{"level", "log:\n  level: loud\n", "f:2:10: log.level: "},
		{"level of logging", "logs:\n  level: some\n", "f:2:10: logs.level: "},
		{"level of logging of a key", "keys:\n  - sha256: " + strings.Repeat("a", 64) + "\n    request_logging: some\n", "f:3:22: keys[0].request_logging: "},
		{"size of kept bodies", "logs:\n  body_size: 2 MB\n", "f:2:14: logs.body_size: "},
		{"pattern to redact", "logs:\n  redact: {patterns: [email, name]}\n", "f:2:30: logs.redact.patterns[1]: "},
		{"expression to redact", "logs:\n  redact: {custom: [{name: a, pattern: (}]}\n", "f:2:40: logs.redact.custom[0].pattern: "},
		{"days of the audit log", "audit:\n  retention: {days: -2}\n", "f:2:15: audit.retention: days must be 1 to 36500, or -1 to keep all"},
		{"bytes of the audit log", "audit:\n  retention: {bytes: 1 MB}\n", "f:2:15: audit.retention: the audit log must be at least 64 MB"},
		{"field to redact", "logs:\n  redact: {fields: [a..b]}\n", "f:2:21: logs.redact.fields[0]: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := settings.Parse("f", []byte(tt.text), settings.SecretResolver{Env: env})
			if err == nil {
				t.Fatal("Parse took it")
			}
			got := err.Error()
			if !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
				t.Errorf("error %q, want one line with %q", got, tt.want)
			}
			if strings.Contains(got, "sk-plain") {
				t.Errorf("the error shows a credential: %q", got)
			}
		})
	}
}
