package config

import (
	"maps"
	"slices"
	"strings"
)

// groups are sets of properties, one of which a valid config must have.
var groups = [][]string{
	{"provider", "api_key"},
	{"provider", "custom_host"},
	{"virtual_key"},
	{"strategy", "targets"},
	{"cache"},
	{"retry"},
	{"prompt_id"},
	{"forward_headers"},
	{"request_timeout"},
	{"provider", "cloud_a_access_key_id", "cloud_a_secret_access_key"},
	{"provider", "cloud_b_region", "cloud_b_service_account_json"},
	{"provider", "cloud_b_region", "cloud_b_project_id"},
	{"provider", "cloud_c_deployment_name", "cloud_c_deployment_type", "cloud_c_region", "cloud_c_api_version"},
	{"provider", "cloud_c_endpoint_name", "cloud_c_deployment_type"},
	{"after_request_hooks"},
	{"before_request_hooks"},
	{"input_guardrails"},
	{"output_guardrails"},
	// Extensions: a role or a ready-made token instead of a key.
	{"provider", "cloud_a_role_arn"},
	{"provider", "cloud_c_ad_token"},
	{"passthrough"},
}

// keyless are the providers without a credential.
var keyless = []string{"ollama", "triton"}

// namesProvider reports whether the root has one of the groups, or names a
// provider that needs nothing else.
func (c *Config) namesProvider() bool {
	return c.selfContained() || c.holds(groups)
}

// isReachable reports whether a target, including inherited settings, names a
// provider and a credential for it.
func (c *Config) isReachable() bool {
	return c.selfContained() || c.VirtualKey != "" || c.PromptID != "" || c.Passthrough || c.holds(providerGroups)
}

// providerGroups are the groups that name a provider.
var providerGroups = slices.DeleteFunc(slices.Clone(groups), func(g []string) bool { return g[0] != "provider" })

// selfContained reports whether the provider is named in a way that needs no
// other property.
func (c *Config) selfContained() bool {
	model, _ := c.OverrideParams.Text("model")
	return strings.HasPrefix(c.Provider, "@") || strings.HasPrefix(model, "@") ||
		slices.Contains(keyless, c.Provider) || c.Provider != "" && c.usesCloudIdentity()
}

// usesCloudIdentity reports whether the gateway's own cloud identity is used.
func (c *Config) usesCloudIdentity() bool {
	mode := c.Options["cloud_c_auth_mode"]
	return c.Options["cloud_a_auth_type"] == "serviceRole" || mode != "" && mode != "apiKey"
}

// holds reports whether all properties of one of the groups are set.
func (c *Config) holds(groups [][]string) bool {
	given := nodes.write(writer{nodes: nodes, reveal: true}, c.withoutTargets())
	names := make(map[string]bool, len(given.members))
	for _, m := range given.members {
		names[m.name] = true
	}
	return slices.ContainsFunc(groups, func(group []string) bool {
		return !slices.ContainsFunc(group, func(name string) bool { return !names[name] })
	})
}

// withoutTargets returns a copy of the node without its targets.
func (c *Config) withoutTargets() *Config {
	one := *c
	one.Targets = nil
	return &one
}

// missingProviderAdvice returns what a root lacks.
func (c *Config) missingProviderAdvice() string {
	if c.Provider != "" {
		return c.unreachableAdvice()
	}
	return "has no effect on a request; add provider with api_key, virtual_key, strategy with targets, " +
		"or one of cache, retry, prompt_id, forward_headers, request_timeout, hooks and guardrails"
}

// unreachableAdvice returns what a target lacks.
func (c *Config) unreachableAdvice() string {
	if c.Provider == "" {
		return "names no provider; add provider with api_key, provider \"@slug\" or virtual_key (a target does not inherit them)"
	}
	return "names provider " + quote(c.Provider) +
		" without a way to reach it; add api_key, custom_host or the settings of its cloud, or name a managed provider as \"@slug\""
}

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
