package foreign

// node is a config or a target.
type node struct {
	Name        string         `json:"name,omitempty"`
	Strategy    *strategy      `json:"strategy,omitempty"`
	Provider    string         `json:"provider,omitempty"`
	Passthrough bool           `json:"passthrough,omitempty"`
	Weight      *float64       `json:"weight,omitempty"`
	Override    map[string]any `json:"override_params,omitempty"`
	Default     map[string]any `json:"default_params,omitempty"`
	Timeout     int64          `json:"request_timeout,omitempty"` // in milliseconds
	Retry       *retry         `json:"retry,omitempty"`
	Breaker     *breaker       `json:"cb_config,omitempty"`
	Cache       *cache         `json:"cache,omitempty"`
	Targets     []node         `json:"targets,omitempty"`
}

type strategy struct {
	Mode       string      `json:"mode"`
	Conditions []condition `json:"conditions,omitempty"`
	Default    string      `json:"default,omitempty"`
}

type condition struct {
	Query map[string]any `json:"query"`
	Then  string         `json:"then"`
}

type retry struct {
	Attempts int `json:"attempts"`
}

type breaker struct {
	Failures int64 `json:"failure_threshold"`
	Cooldown int64 `json:"cooldown_interval"`
}

type cache struct {
	Mode   string `json:"mode"`
	MaxAge int64  `json:"max_age,omitempty"` // in seconds
}

// balance returns a node that divides requests among targets.
func balance(targets []node, mode string) node {
	if len(targets) == 1 {
		targets[0].Weight = nil
		return targets[0]
	}
	return node{Strategy: &strategy{Mode: mode}, Targets: targets}
}

// fallback returns a node that tries nodes in turn.
func fallback(nodes []node) node {
	if len(nodes) == 1 {
		return nodes[0]
	}
	return node{Strategy: &strategy{Mode: "fallback"}, Targets: nodes}
}
