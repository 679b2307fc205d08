package manifest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/identity/access"
	"modelgate/internal/settings"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func file(t *testing.T) place {
	t.Helper()
	return world(t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db"), master)
}

const hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestAChangeIsReportedByItsFields(t *testing.T) {
	w := file(t)
	w.mustApply(t, completeManifest(t), manifest.Apply{})
	for _, tt := range []struct{ old, new, want string }{
		{"name: Acme", "name: Acme Ltd", "~ organisation default [name]"},
		{"GET /files/**", "/files/**", "~ organisation default [settings]"},
		{"custom_hosts: []", "custom_hosts: [a.example.com]", "~ workspace default [settings]"},
		{"custom_hosts: [models.example.com]", "custom_hosts: []", "~ key default/ci 9f86d081884c [egress_policy]"},
		{"managed_providers_only: true", "managed_providers_only: false", "~ key default/ci 9f86d081884c [egress_policy]"},
		{"icon: rocket", "icon: boat", "~ workspace ws-team [icon]"},
		{"credit_limit: 12.5", "credit_limit: 13", "~ workspace ws-team [usage_limits]"},
		{"role: admin", "role: member", "~ member ann@example.com [role]"},
		{"ws-team: manager", "ws-team: admin", "~ member bob@example.com [workspaces]"},
		{"rule: \"\\\\d{4}\"", "rule: a", "~ guardrail pg-org [checks]"},
		{"secret_path: kv/openai", "secret_path: kv/other", "~ secret_reference sr-vault [secret_path]"},
		{"allowed_providers: [azure-openai]", "allowed_providers: [azure-openai, openai]", "~ secret_reference sr-vault [allowed_providers]"},
		{"https://*.openai.azure.com", "https://res.openai.azure.com", "~ secret_reference sr-vault [allowed_hosts]"},
		{"${VAULT_TOKEN}", "${VAULT_TOKEN2}", "~ secret_reference sr-vault [auth_config]"},
		{"description: paid by us", "description: paid", "~ integration openai-prod [description]"},
		{"${OPENAI_API_KEY}", "${OPENAI_API_KEY2}", "~ integration openai-prod [api_key]"},
		{"${AWS_SECRET}", "${AWS_SECRET2}", "~ integration bedrock [options]"},
		{"region: us-east-1", "region: us-east-2", "~ integration bedrock [options]"},
		{"{slug: o3, disabled: true}", "{slug: o3}", "~ integration openai-prod [models]"},
		{"${MODEL_HEADER}", "${MODEL_HEADER2}", "~ integration openai-prod [models]"},
		{"credit_limit: 5000", "credit_limit: 6000", "~ integration openai-prod [workspaces]"},
		{"${GROQ_API_KEY}", "${GROQ_API_KEY2}", "~ integration fast [api_key]"},
		{"tags: {a: b}", "tags: {a: c}", "~ provider default/main [tags]"},
		{"${CONFIG_KEY}", "${CONFIG_KEY2}", "~ config default/pc-main [config]"},
		{"${CONFIG_ACCOUNT_JSON}", "${CONFIG_ACCOUNT2_JSON}", "~ config default/pc-main [config]"},
		{"canary-plain", "canary-other", "~ config default/pc-main [config]"},
		{"weight: 0.25", "weight: 0.5", "~ config default/pc-main [config]"},
		{"inactive: true", "inactive: false", "~ deployment dp-eu [inactive]"},
		{"name: ci\n", "name: ci-2\n", "~ key default/ci-2 9f86d081884c [name]"},
		{"scopes: []", "scopes: [models.list]", "~ key default/nothing 60303ae22b99 [scopes]"},
		{"rotation_period: weekly", "rotation_period: monthly", "~ key default/ci 9f86d081884c [rotation_policy]"},
	} {
		text := strings.Replace(completeManifest(t), tt.old, tt.new, 1)
		if text == completeManifest(t) {
			t.Fatalf("%q is not in the file", tt.old)
		}
		for _, a := range []manifest.Apply{{DryRun: true}, {}} {
			if got := w.mustApply(t, text, a); !slices.Equal(got, []string{tt.want}) {
				t.Errorf("%q for %q, %+v: %q, want %q", tt.new, tt.old, a, got, tt.want)
			}
		}
		if got := w.mustApply(t, text, manifest.Apply{}); len(got) != 0 {
			t.Errorf("%q a second time: %q", tt.new, got)
		}
		w.mustApply(t, completeManifest(t), manifest.Apply{})
	}
}

func TestAFileWithoutSecretsLeavesThoseThatAreStored(t *testing.T) {
	w := file(t)
	w.mustApply(t, completeManifest(t), manifest.Apply{})
	before, _ := w.mustExport(t, manifest.Sealed)
	bare, _ := w.mustExport(t, manifest.None)
	if strings.Contains(bare, "sealed:") {
		t.Errorf("without secrets the file is\n%s", bare)
	}
	text := strings.Replace(bare, "description: paid by us", "description: x", 1)
	if got := w.mustApply(t, text, manifest.Apply{Prune: true}); !slices.Equal(got, []string{"~ integration openai-prod [description]"}) {
		t.Errorf("changes: %q", got)
	}
	after, _ := w.mustExport(t, manifest.Sealed)
	if diff := cmp.Diff(strings.Replace(before, "paid by us", "x", 1), after); diff != "" {
		t.Errorf("secrets did not stay:\n%s", diff)
	}
	moved := strings.Replace(bare, "    provider: openai\n", "    provider: openai\n    custom_host: \"https://elsewhere.example.com/v1\"\n", 1)
	if _, err := w.apply(t, moved, manifest.Apply{}); err == nil || !strings.Contains(err.Error(), "are not sent to a new address") {
		t.Errorf("a stored secret to another address: %v", err)
	}
	for _, change := range [][2]string{
		{"provider: openai\n          api_key: \"***\"", "provider: openai\n          custom_host: \"https://elsewhere.example.com/v1\"\n          api_key: \"***\""},
		{"provider: openai\n          api_key", "provider: groq\n          api_key"},
		{"https://tools.example.com", "https://elsewhere.example.com"},
	} {
		text := strings.Replace(bare, change[0], change[1], 1)
		if _, err := w.apply(t, text, manifest.Apply{}); text == bare || err == nil || !strings.Contains(err.Error(), "send the credential itself") {
			t.Errorf("%q for %q: %v\n%s", change[1], change[0], err, text)
		}
	}
	if _, err := file(t).apply(t, bare, manifest.Apply{}); err == nil || !strings.Contains(err.Error(), "guardrail_credentials[0]: credentials.apiKey is required") {
		t.Errorf("a file without secrets elsewhere: %v", err)
	}
	before, rest, _ := strings.Cut(bare, "guardrail_credentials:\n")
	_, rest, _ = strings.Cut(rest, "\nintegrations:")
	if _, err := file(t).apply(t, before+"integrations:"+rest, manifest.Apply{}); err == nil || !strings.Contains(err.Error(), "is a mask, not a credential") {
		t.Errorf("a file without secrets of integrations elsewhere: %v", err)
	}
}

func TestPruningRemovesWhatTheSectionsOfTheFileDoNotHave(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		w.mustApply(t, completeManifest(t), manifest.Apply{})
		const some = "version: 1\nconfigs: []\nproviders:\n  - {slug: aws, workspace: ws-team, integration: bedrock}\nkeys: []\n"
		if got := w.mustApply(t, some, manifest.Apply{}); len(got) != 0 {
			t.Errorf("without --prune: %q", got)
		}
		want := []string{
			"- key ws-team/bob's a4e624d686e0", "- key default/nothing 60303ae22b99", "- key default/ci 9f86d081884c",
			"- key default/builds 0a5b1f4d6c2e", "- key default/all fd61a03af4f7",
			"- key admin a140c0c1eda2", "- config ws-team/pc-main", "- config default/pc-main", "- provider ws-team/azure", "- provider default/main", "- provider default/fast",
		}
		if got := w.mustApply(t, some, manifest.Apply{Prune: true}); !slices.Equal(got, want) {
			t.Errorf("with --prune: %q, want %q", got, want)
		}
		text, _ := w.mustExport(t, manifest.None)
		if strings.Contains(text, "slug: fast") || !strings.Contains(text, "slug: openai-prod") {
			t.Errorf("the implicit integration stays, or another went:\n%s", text)
		}
		const empty = "organisation: {}\nworkspaces: [{slug: default}]\nmembers: []\nguardrails: []\nguardrail_credentials: []\nsecret_references: []\nintegrations: []\nproviders: []\ndeployments: []\npolicies: []\n"
		w.mustApply(t, empty, manifest.Apply{Prune: true})
		if again := w.mustApply(t, empty, manifest.Apply{Prune: true}); len(again) != 0 {
			t.Errorf("pruned twice: %q", again)
		}
		if _, err := w.apply(t, completeManifest(t), manifest.Apply{}); err == nil || !strings.Contains(err.Error(), "revoked") {
			t.Errorf("a revoked key comes back: %v", err)
		}
		text, _, _ = strings.Cut(completeManifest(t), "\nworkload_identities:")
		w.mustApply(t, text, manifest.Apply{})
		if again := w.mustApply(t, text, manifest.Apply{}); len(again) != 0 {
			t.Errorf("what was archived came back and changes again: %q", again)
		}
	})
}

func TestErrorsNameLineAndPathAndNothingIsApplied(t *testing.T) {
	w := file(t)
	other, err := secret.NewBox(secret.New("a different master key of some length"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"an unknown kind", "version: 1\nrobots: []\n", `f:2:1: unknown field "robots"`},
		{"a newer version", "version: 2\n", "f:1:10: version: must be 1, not 2"},
		{"a slug twice", "workspaces:\n  - slug: a\n  - slug: a\n", `f:3:11: workspaces[1].slug: duplicate slug "a"`},
		{"a config twice", "configs:\n  - {slug: a, config: {provider: \"@x\"}}\n  - {slug: a, workspace: default, config: {provider: \"@x\"}}\n", "configs[1]: default/a is duplicated"},
		{"a person twice", "members: [{email: a@b.example}, {email: A@b.example}]\n", "members[1].email: "},
		{"no address", "members: [{email: nobody}]\n", "members[0].email: "},
		{"a key twice", "keys:\n  - sha256: " + hash + "\n  - sha256: " + hash + "\n", "f:3:13: keys[1].sha256: this key is duplicated"},
		{"a missing workspace", "configs:\n  - {slug: a, workspace: ws-9, config: {provider: \"@x\"}}\n", `f:2:26: configs[0].workspace: workspace "ws-9" not found`},
		{"a missing integration", "providers: [{slug: a, integration: none}]\n", `providers[0].integration: integration "none" not found`},
		{"a secret for a host that its reference does not name", "secret_references: [{slug: s, manager_type: environment, secret_path: APP}]\nintegrations: [{slug: a, provider: openai, custom_host: \"https://models.example.com\", secret_mappings: [{target_field: key, secret_reference: s}]}]\n", "integrations[0].secret_mappings[0]: the secret reference \"s\" may not be sent to https://models.example.com"},
		{"a secret for a provider that its reference does not name", "secret_references: [{slug: s, manager_type: environment, secret_path: APP, allowed_providers: [groq]}]\nintegrations: [{slug: a, provider: openai, secret_mappings: [{target_field: key, secret_reference: s}]}]\n", "integrations[0].secret_mappings[0]: the secret reference \"s\" may not be sent to the provider"},
		{"a reference for every host", "secret_references: [{slug: s, manager_type: environment, secret_path: APP, allowed_hosts: [\"*\"]}]\n", "allowed_hosts[0]"},
		{"an egress policy of the organisation with a malformed host", "organisation: {settings: {egress_policy: {custom_hosts: [\"a/b\"]}}}\n", "egress_policy.custom_hosts[0]"},
		{"an egress policy of a workspace with a malformed path", "workspaces: [{slug: default, name: Main, settings: {egress_policy: {pass_through: [files]}}}]\n", "egress_policy.pass_through[0]"},
		{"an egress policy with an unknown field", "workspaces: [{slug: default, name: Main, settings: {egress_policy: {hosts: []}}}]\n", "egress_policy"},
		{"a missing reference", "integrations: [{slug: a, provider: openai, secret_mappings: [{target_field: key, secret_reference: none}]}]\n", "integrations[0].secret_mappings[0].secret_reference: "},
		{"guardrails of an organisation", "organisation: {settings: {input_guardrails: [none]}}\n", `organisation.settings.input_guardrails[0]: guardrail "none" not found`},
		{"exclusions of an organisation", "organisation: {settings: {output_guardrail_exclusions: [default, none]}}\n", `organisation.settings.output_guardrail_exclusions[1]: workspace "none" not found`},
		{"guardrails of a workspace", "workspaces: [{slug: a, defaults: {output_guardrails: [none]}}]\n", `workspaces[0].defaults.output_guardrails[0]: guardrail "none" not found`},
		{"a missing member", "keys: [{sha256: " + hash + ", type: workspace-user, member: a@b.example, scopes: [models.list]}]\n", `keys[0].member: member "a@b.example" not found`},
		{"a version of a missing config", "keys: [{sha256: " + hash + ", config: none@2}]\n", `keys[0].config: config "none" not found`},
		{"a version of a new config", "configs:\n  - {slug: a, config: {provider: \"@x\"}}\nkeys: [{sha256: " + hash + ", config: a@1}]\n", `keys[0].config: config "a" has no versions yet`},
		{"a missing config", "keys: [{sha256: " + hash + ", config: none}]\n", `keys[0].config: config "none" not found`},
		{"a place that is missing", "members: [{email: a@b.example, workspaces: {none: admin}}]\n", `members[0].workspaces.none: workspace "none" not found`},
		{"a role", "members: [{email: a@b.example, workspaces: {default: king}}]\n", "members[0].workspaces.default: the role must be one of"},
		{"a provider that nobody knows", "integrations: [{slug: a, provider: nobody}]\n", "integrations[0]: "},
		{"a setting that nobody knows", "integrations: [{slug: a, provider: openai, options: {colour: red}}]\n", "options.colour is not a setting"},
		{"a plain credential", "integrations:\n  - {slug: a, provider: openai, api_key: sk-plain}\n", "f:2:42: integrations[0].api_key: plaintext credentials are not allowed"},
		{"a plain option", "integrations: [{slug: a, provider: bedrock, options: {secret_access_key: sk-plain}}]\n", "integrations[0].options.secret_access_key: plaintext credentials are not allowed"},
		{"a plain header", "integrations: [{slug: a, provider: openai, custom_headers: {X-A: sk-plain}}]\n", "custom_headers.X-A: plaintext credentials are not allowed"},
		{"a plain credential of a config", "configs:\n  - {slug: a, config: {provider: openai, apiKey: sk-plain}}\n", "configs[0].config: $.api_key: plaintext credentials are not allowed"},
		{"a plain service account", "configs:\n  - {slug: a, config: {provider: vertex-ai, cloud_b_region: r, cloud_b_service_account_json: {private_key: sk-plain}}}\n", "$.cloud_b_service_account_json: plaintext credentials are not allowed"},
		{"a credential of a config without a provider", "configs:\n  - {slug: a, config: {retry: {attempts: 1}, api_key: \"${KEY}\"}}\n", "$.api_key is a credential without a provider"},
		{"a token of a config without a provider", "configs:\n  - {slug: a, config: {retry: {attempts: 1}, override_params: {token: sk-plain}}}\n", "$.override_params.token is a credential without a provider"},
		{"a plain token", "secret_references: [{slug: a, manager_type: hashicorp_vault, secret_path: x, auth_config: {type: token, address: \"https://v.example\", token: sk-plain}}]\n", "auth_config.token: plaintext credentials are not allowed"},
		{"a sealed region", "integrations: [{slug: a, provider: bedrock, options: {region: \"${REGION}\"}}]\n", "options.region: this is not a credential"},
		{"a different master key", "integrations: [{slug: a, provider: openai, api_key: \"" + other.Seal(secret.New("sk-plain")) + "\"}]\n", "integrations[0].api_key: the sealed value does not open with this master key"},
		{"a private host", "integrations: [{slug: a, provider: openai-compatible, custom_host: \"http://10.0.0.7/v1\"}]\n", "custom_host names an address that is not allowed"},
		{"a check", "guardrails: [{slug: a, checks: [{id: nonsense}]}]\n", "guardrails[0]: checks[0]: "},
		{"an unknown check", "guardrails: [{slug: a, checks: [{id: default.nonsense}]}]\n", `guardrails[0]: AB01: checks[0].id check "default.nonsense" not found`},
		{"a parameter of a check", "guardrails: [{slug: a, checks: [{id: default.regexMatch, parameters: {rule: \"(\"}}]}]\n", `guardrails[0]: AB01: checks[0].parameters.rule must be a regular expression`},
		{"a workspace's setting", "workspaces: [{slug: a, settings: {colour: red}}]\n", "workspaces[0]: settings.colour is not a setting"},
		{"a workspace's logging level that its organisation sets", "workspaces: [{slug: a, settings: {request_logging: full}}]\n", "workspaces[0]: settings.request_logging of a workspace has no effect"},
		{"a workspace's switch", "workspaces: [{slug: a, security_settings: {kings: true}}]\n", "workspaces[0]: security_settings.kings"},
		{"an organisation's setting", "organisation: {settings: {colour: red}}\n", `organisation.settings: unknown field "colour"`},
		{"a budget", "workspaces: [{slug: a, usage_limits: [{type: tokens, credit_limit: 5}]}]\n", "usage_limits[0].credit_limit: must be at least 100"},
		{"a rate", "workspaces: [{slug: a, rate_limits: [{type: requests, unit: rps, value: 5}]}]\n", "workspaces[0].rate_limits[0].unit: must be one of"},
		{"a rate of zero", "workspaces: [{slug: a, rate_limits: [{type: requests, unit: rpm, value: 0}]}]\n", "workspaces[0].rate_limits[0].value: "},
		{"a rate of an integration", "integrations: [{slug: a, provider: openai, global: {rate_limits: [{type: requests, unit: rpw, value: 5}]}}]\n", "rate_limits[0].unit: must be one of"},
		{"a rate of a workspace's integration", "integrations: [{slug: a, provider: openai, workspaces: [{workspace: default, rate_limits: [{type: requests, unit: rpw, value: 5}]}]}]\n", "rate_limits[0].unit: must be one of"},
		{"a rate of a provider", "providers: [{slug: a, provider: openai, rate_limits: [{type: requests, unit: rpw, value: 5}]}]\n", "providers[0].rate_limits[0].unit: must be one of"},
		{"a rate of a key", "keys: [{sha256: " + hash + ", rate_limits: [{type: requests, unit: rpm, value: 5}, {type: requests, unit: rpm, value: 6}]}]\n", "keys[0].rate_limits[1]: has the same type and unit"},
		{"a long name", "workspaces: [{slug: a, name: " + strings.Repeat("x", 256) + "}]\n", "f:1:30: workspaces[0].name: "},
		{"a scope that does not suit", "keys: [{sha256: " + hash + ", scopes: [workspaces.create]}]\n", "keys[0].scopes: a key of type workspace-service cannot have"},
		{"a time", "keys: [{sha256: " + hash + ", expires_at: tomorrow}]\n", "keys[0].expires_at: a time must have the form"},
		{"an address", "deployments: [{slug: a, client_sha256: " + hash + ", auth_settings: {gateway_base_url: \"ftp://x\"}}]\n", "auth_settings.gateway_base_url must be"},
		{"both kinds of credentials", "providers: [{slug: a, integration: b, provider: openai}]\n", "providers[0].integration: "},
		{"a provider in a workspace without the integration", "integrations: [{slug: b, provider: openai}]\nproviders: [{slug: a, integration: b}]\n", "f:2:36: providers[0].integration: the workspace \"default\" does not have the integration \"b\"; add it"},
		{"a missing workspace of an integration", "integrations: [{slug: b, provider: openai, workspaces: [{workspace: default}, {workspace: ab}]}]\n", `f:1:91: integrations[0].workspaces[1].workspace: workspace "ab" not found`},
		{"a slug that is needed twice", "integrations: [{slug: a, provider: openai}]\nproviders: [{slug: a, provider: openai}]\n", "providers[0].slug: an integration with this slug"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := w.revision(t)
			_, err := w.apply(t, tt.text, manifest.Apply{})
			if err == nil {
				t.Fatal("it was applied")
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "sk-plain") {
				t.Errorf("error %q, want one line with %q", err, tt.want)
			}
			if _, ok := errors.AsType[*settings.FileError](err); !ok || !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("error %q does not begin with the line", err)
			}
			if after := w.revision(t); after != before {
				t.Errorf("the revision went from %d to %d", before, after)
			}
		})
	}
}

func TestAnErrorOfTheLastObjectLeavesNothingOfTheFirst(t *testing.T) {
	w := file(t)
	w.mustApply(t, completeManifest(t), manifest.Apply{})
	before, _ := w.mustExport(t, manifest.Sealed)
	text := strings.Replace(completeManifest(t), "name: Acme", "name: Other", 1)
	// Another organisation's key has this hash; that comes out as it is stored.
	err := w.DB.CreateKey(t.Context(), store.Key{ID: "k", Name: "theirs", Organisation: "another", Hash: access.HashKey("aa"), CreatedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	text += "  - {name: last, sha256: " + access.HashKey("aa").String() + "}\n"
	if _, err := w.apply(t, text, manifest.Apply{}); err == nil || !strings.Contains(err.Error(), "nothing was applied") {
		t.Errorf("Apply = %v", err)
	}
	if after, _ := w.mustExport(t, manifest.Sealed); after != before {
		t.Errorf("half of it was applied:\n%s", cmp.Diff(before, after))
	}
}
