package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckReportsWhatRequestsWouldMeet checks files that a gateway would start with, or
// whose errors would come one by one, and files for modelgate apply.
func TestCheckReportsWhatRequestsWouldMeet(t *testing.T) {
	dir := t.TempDir()
	absent := filepath.Join(dir, "absent.pem")
	for _, tt := range []struct {
		name, text string
		flags      []string
		code       int
		says       []string // in the output if code is 0, otherwise in the errors
	}{
		{"variables that are not set", "version: 1\nproviders:\n  - {slug: a, provider: groq, api_key: \"${UNSET_A}\"}\n  - {slug: b, provider: groq, api_key: \"${UNSET_B}\"}\n  - {slug: c, provider: groq, api_key: \"${UNSET_A}\"}\n" +
			"configs: [{slug: p, config: {provider: groq, api_key: \"${UNSET_C}\"}}]\n", nil, 1, []string{
			":3:40: providers[0].api_key: the environment variable UNSET_A is not set", ":4:40: providers[1].api_key: the environment variable UNSET_B is not set",
			":5:40: providers[2].api_key: the environment variable UNSET_A is not set", "configs[0].config.api_key: the environment variable UNSET_C is not set"}},
		{"a variable by an anchor", "providers: [{slug: a, provider: groq, note: &k \"${UNSET_A}\", api_key: *k}]\n", nil, 1, []string{"the environment variable UNSET_A is not set"}},
		{"TLS files", "listener: {tls: {certificate: " + absent + ", key: " + absent + "}}\n", nil, 1, []string{"listener.tls", absent}},
		{"the authorities of a syslog server", "audit: {syslog: {address: \"logs.example.com:6514\", ca: " + absent + "}}\n", nil, 1, []string{"audit.syslog.ca", absent}},
		{"the authorities of a mail server", "alerts: {email: {server: \"mail.example.com:587\", from: a@example.com, ca: " + absent + "}}\n", nil, 1, []string{"mail server", absent}},
		{"private hosts", "providers: [{slug: a, provider: openai-compatible, custom_host: \"http://10.0.0.7:8000/v1\"}, {slug: b, provider: openai-compatible, custom_host: \"http://localhost:8000/v1\"}]\n", nil, 1,
			[]string{":1:", `providers[0].custom_host: provider @a: custom host "10.0.0.7" is refused`, "upstream.trusted_hosts", "providers[1].custom_host"}},
		{"a private host of a target", "configs: [{slug: p, config: {strategy: {mode: single}, targets: [{provider: openai, custom_host: \"http://10.0.0.7/v1\"}]}}]\n", nil, 1, []string{"configs[0].config.targets[0].custom_host"}},
		{"private hosts that the file trusts", "providers: [{slug: a, provider: openai-compatible, custom_host: \"http://10.0.0.7:8000/v1\"}]\nupstream: {trusted_hosts: [10.0.0.7]}\n", nil, 0, []string{"is valid"}},
		{"private hosts that a flag trusts", "providers: [{slug: a, provider: openai-compatible, custom_host: \"http://10.0.0.7:8000/v1\"}]\n", []string{"--trusted-hosts", "10.0.0.0/8"}, 0, []string{"is valid"}},
		{"a misspelt option", "providers: [{slug: a, provider: bedrock, options: {regoin: eu-west-1}}]\n", nil, 1, []string{`providers[0].options.regoin: is not a setting of provider "bedrock"; did you mean "region"?`}},
		{"an option twice", "providers: [{slug: a, provider: bedrock, options: {region: eu-west-1, cloud_a_region: eu-west-2}}]\n", nil, 1, []string{"is set twice"}},
		{"options by the names of the API", "providers: [{slug: a, provider: azure-openai, options: {resourceName: r, deployment_id: d, api_version: v}}]\n", nil, 0, []string{"is valid"}},
		{"an address of an operation", "providers: [{slug: a, provider: openai-compatible, custom_host: \"https://models.example.com/v1/chat/completions\"}]\n" +
			"configs: [{slug: p, config: {strategy: {mode: single}, targets: [{provider: anthropic, api_key: \"${SET}\", custom_host: \"https://models.example.com/v1/messages\"}]}}]\n", nil, 0,
			[]string{"is valid\n", `note: providers[0].custom_host: "/chat/completions" was left out`, "note: configs[0].config.targets[0].custom_host: \"/messages\" was left out"}},
		{"a file with control-plane objects", "workspaces: [{slug: team}]\nproviders: [{slug: a, workspace: team, provider: groq}]\n", nil, 0, []string{"is valid\n", "modelgate apply"}},
		{"a file with control-plane objects and a private host", "workspaces: [{slug: team}]\nintegrations: [{slug: a, provider: openai, custom_host: \"http://10.0.0.7/v1\"}]\n", nil, 1, []string{"integrations[0].custom_host"}},
		{"a file with control-plane objects and an error", "workspaces: [{slug: team}, {slug: team}]\n", nil, 1, []string{"workspaces[1].slug"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("SET", "sk-set")
			file := filepath.Join(t.TempDir(), "modelgate.yaml")
			mustWrite(t, file, tt.text)
			code, out, errs := invoke(t, nil, "", append(append([]string{"check"}, tt.flags...), file)...)
			text := out
			if tt.code != 0 {
				text = errs
			}
			if code != tt.code {
				t.Errorf("exit %d, want %d: %s%s", code, tt.code, out, errs)
			}
			for _, want := range tt.says {
				if !strings.Contains(text, want) {
					t.Errorf("it says %q, want %q", text, want)
				}
			}
		})
	}
}
