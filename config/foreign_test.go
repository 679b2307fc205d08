package config_test

import (
	"strings"
	"testing"

	"modelgate/config"
)

func TestUnknownPropertiesOfOtherGatewaysSuggestOwn(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{"provider":"openai","strict_open_ai_compliance":true}`, `$.strict_open_ai_compliance is not a property of the config; did you mean "strict_vendora_compliance"?`},
		{`{"provider":"openai","strictOpenAiCompliance":true}`, `did you mean "strict_vendora_compliance"?`},
		{`{"provider":"bedrock","aws_access_key_id":"x"}`, `did you mean "cloud_a_access_key_id"?`},
		{`{"provider":"vertex-ai","vertexProjectId":"x"}`, `did you mean "cloud_b_project_id"?`},
		{`{"provider":"vertex-ai","vertex_service_account_json":{}}`, `did you mean "cloud_b_service_account_json"?`},
		{`{"provider":"openai","openai_organization":"x"}`, `did you mean "vendora_organization"?`},
		{`{"provider":"anthropic","anthropic_beta":"x"}`, `did you mean "vendorb_beta"?`},
		{`{"provider":"openai","timeout":3}`, `did you mean "request_timeout"?`},
		{`{"provider":"openai","model":"m"}`, `did you mean "override_params"?`},
		{`{"provider":"openai","base_url":"m"}`, `did you mean "custom_host"?`},
		{`{"provider":"openai","retry":{"count":3}}`, `$.retry.count is not a property of the config; did you mean "attempts"?`},
		{`{"provider":"openai","retry":{"attempts":3,"status_codes":[500]}}`, `did you mean "on_status_codes"?`},
		{`{"provider":"openai","cache":{"mode":"simple","ttl":3}}`, `did you mean "max_age"?`},
		{`{"strategy":{"type":"fallback"},"targets":[{"provider":"openai"}]}`, `did you mean "mode"?`},
		{`{"strategy":{"mode":"fallback"},"options":[{"provider":"openai"}]}`, `did you mean "targets"?`},
		{`{"provider":"openai","virtal_key":"x"}`, `did you mean "virtual_key"?`},
		{`{"provider":"openai","aws_nothing":"x"}`, `$.aws_nothing is not a property of the config; remove it`},
		{`{"provider":"openai","cache":{"mode":"simple","aws_region":"x"}}`, `$.cache.aws_region is not a property of the config; remove it`},
	} {
		_, err := config.Parse([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Parse(%s): %v, want %q", tt.text, err, tt.want)
		}
	}
}

// TestOwnNamesAreProperties checks that each word of the table is a property somewhere.
func TestOwnNamesAreProperties(t *testing.T) {
	for _, name := range []string{"resourceName", "deploymentId", "apiVersion", "request_timeout", "override_params", "virtual_key"} {
		if got := config.OwnName(name); got != "" {
			t.Errorf("OwnName(%q) = %q, but it is the name here too", name, got)
		}
	}
	if got := config.OwnName(strings.Repeat("A", 65)); got != "" {
		t.Errorf("a name of 65 bytes has the name %q", got)
	}
}
