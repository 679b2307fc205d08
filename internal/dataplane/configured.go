package dataplane

import (
	"maps"
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/apierr"
	"modelgate/internal/jsonedit"
	"modelgate/internal/pipeline"
	"modelgate/internal/secret"
)

// configured returns what answers an exchange that brought a config.
func (p *Plane) configured(x *exchange) (pipeline.Handler, error) {
	root, err := x.parseConfig()
	if err != nil {
		return nil, err
	}
	node, err := only(root)
	if err != nil {
		return nil, err
	}
	t, err := x.target(x.choose(root, node))
	if err != nil {
		return nil, err
	}
	leaf := &pipeline.Leaf{
		Engine:   p.Engine,
		Target:   t,
		Path:     node.Path,
		Timeout:  x.want.timeout,
		Forward:  x.want.forward,
		Override: overrides(node),
	}
	leaf.Model, _ = node.OverrideParams.Text("model")
	// A target's own limit wins over the header, the header over the root's.
	if node.RequestTimeout > 0 && (node != root || leaf.Timeout == 0) {
		leaf.Timeout = node.RequestTimeout
	}
	if node.ForwardHeaders != nil && (node != root || leaf.Forward == nil) {
		leaf.Forward = node.ForwardHeaders
	}
	return leaf, nil
}

func (x *exchange) parseConfig() (*config.Config, error) {
	text := strings.TrimSpace(x.want.config)
	if len(text) > api.MaxConfigHeader {
		return nil, configError("the config is larger than %d bytes", api.MaxConfigHeader)
	}
	if !strings.HasPrefix(text, "{") {
		return nil, apierr.New(apierr.NotFound, "there is no saved config %.60q", text).
			WithParam("x-gateway-config").WithCode("unknown_config")
	}
	c, err := config.Parse([]byte(text))
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "%v", err).WithParam("x-gateway-config").WithCode("AB01")
	}
	return c, nil
}

func configError(format string, args ...any) error {
	return apierr.New(apierr.Invalid, "AB01: "+format, args...).WithParam("x-gateway-config").WithCode("AB01")
}

// only returns the one leaf of a config that does not choose among targets.
func only(node *config.Config) (*config.Config, error) {
	for node.Strategy != nil {
		if node.Strategy.Mode != config.Single {
			return nil, apierr.New(apierr.Unsupported,
				"%s: this version routes configs of mode single; %s is not offered yet", node.Path, node.Strategy.Mode).
				WithParam("x-gateway-config")
		}
		node = config.Inherit(node, node.Targets[0])
	}
	return node, nil
}

// choose returns who a leaf calls. A config without a provider takes provider
// and credential from the headers; one with a provider takes neither.
func (x *exchange) choose(root, node *config.Config) choice {
	c := choice{
		provider:   node.Provider,
		virtualKey: node.VirtualKey,
		key:        secret.New(node.APIKey.Reveal()),
		customHost: node.CustomHost,
		options:    options(node),
	}
	if c.customHost == "" {
		c.customHost = x.want.customHost
	}
	if node == root && c.provider == "" && c.virtualKey == "" {
		c.provider, c.virtualKey = x.want.provider, x.want.virtualKey
		c.options = x.want.options
	}
	return c
}

func options(node *config.Config) map[string]string {
	o := maps.Clone(map[string]string(node.Options))
	for name, value := range map[string]string{
		"resource_name": node.ResourceName,
		"deployment_id": node.DeploymentID,
		"api_version":   node.APIVersion,
	} {
		if value == "" {
			continue
		}
		if o == nil {
			o = make(map[string]string, 3)
		}
		o[name] = value
	}
	return o
}

func overrides(node *config.Config) []jsonedit.Edit {
	edits := make([]jsonedit.Edit, len(node.OverrideParams))
	for i, m := range node.OverrideParams {
		edits[i] = jsonedit.Edit{Name: m.Name, Value: m.Value}
	}
	return edits
}
