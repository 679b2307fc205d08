package config

// Limits of the object.
const (
	// MaxDepth is how often targets may stand inside targets, and queries
	// inside queries.
	MaxDepth = 16
	// MaxTargets is how many targets the root may have.
	MaxTargets = 100
	// MaxConditionalTargets is how many it may have in conditional mode.
	MaxConditionalTargets = 1000
	// MaxNestedTargets is how many targets may be below one target of the
	// root, at all depths together.
	MaxNestedTargets = 50
)

// Parse reads a config. Unknown properties, values out of range, properties
// that don't fit together and members given twice are refused; the error is an
// *Errors with every fault. Whether provider ids are known is checked by
// [Config.CheckProviders].
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
