package config

import (
	"strings"
	"unicode"
)

// foreignNames are names of properties in the configs of other gateways, with those of this
// one. A name that ends in _ is the beginning of names.
var foreignNames = []struct{ theirs, ours string }{
	{"strict_open_ai_compliance", "strict_vendora_compliance"},
	{"strict_openai_compliance", "strict_vendora_compliance"},
	{"azure_auth_mode", "cloud_c_auth_mode"},
	{"vertex_service_account_json", "cloud_b_service_account_json"},
	{"openai_", "vendora_"},
	{"anthropic_", "vendorb_"},
	{"aws_", "cloud_a_"},
	{"vertex_", "cloud_b_"},
	{"azure_", "cloud_c_"},
	{"options", "targets"},
	{"params", "override_params"},
	{"override", "override_params"},
	{"model", "override_params"},
	{"timeout", "request_timeout"},
	{"base_url", "custom_host"},
	{"api_base", "custom_host"},
	{"retries", "retry"},
	{"num_retries", "retry"},
	{"max_retries", "retry"},
	{"count", "attempts"},
	{"status_codes", "on_status_codes"},
	{"on_status", "on_status_codes"},
	{"ttl", "max_age"},
	{"type", "mode"},
	{"circuit_breaker", "cb_config"},
	{"headers", "forward_headers"},
	{"guardrails", "input_guardrails"},
}

// OwnName returns the name that a property of another gateway's config has here, in snake
// case. It is empty if none is known.
func OwnName(theirs string) string {
	if len(theirs) > 64 {
		return ""
	}
	var snake strings.Builder
	for i, r := range theirs {
		if i > 0 && unicode.IsUpper(r) {
			snake.WriteByte('_')
		}
		snake.WriteRune(unicode.ToLower(r))
	}
	name := snake.String()
	for _, f := range foreignNames {
		rest, begins := strings.CutPrefix(name, f.theirs)
		if rest == "" && begins || begins && strings.HasSuffix(f.theirs, "_") {
			return f.ours + rest
		}
	}
	return ""
}
