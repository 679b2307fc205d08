package config

// Limits of the object.
const (
	// MaxDepth is the maximum nesting of targets, and of queries.
	MaxDepth = 16
	// MaxTargets is the maximum number of targets of the root.
	MaxTargets = 100
	// MaxConditionalTargets is the maximum number of its targets in conditional
	// mode.
	MaxConditionalTargets = 1000
	// MaxNestedTargets is the maximum number of targets at all depths below one
	// target of the root.
	MaxNestedTargets = 50
)

// Parse reads a config. Unknown properties, values out of range, conflicting
// properties and duplicate members are errors; the error is an *Errors with
// every fault. Provider ids are checked by [Config.CheckProviders].
func Parse(b []byte) (*Config, error) {
	var fs faults
	v, ok := decode(b, &fs)
	if !ok {
		return nil, fs.err()
	}
	r := &reader{faults: &fs, nodes: nodes, broken: map[*Config]bool{}, values: v.count()}
	c := r.node("$", "config", v)
	if r.measure(c) {
		r.validate(c)
	}
	if err := fs.err(); err != nil {
		return nil, err
	}
	return c, nil
}
