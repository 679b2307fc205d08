package config_test

import (
	"fmt"

	"modelgate/config"
)

// A config is read completely or not at all. The error names every problem with its path.
func ExampleParse() {
	c, err := config.Parse([]byte(`{"strategy": {"mode": "fallback"}, "targets": [{"provider": "@fast"}, {"provider": "@safe"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, target := range c.Targets {
		fmt.Println(target.Path, target.Provider)
	}
	_, err = config.Parse([]byte(`{"strategy": {"mode": "fallbak"}, "targets": [{"provider": "@fast"}]}`))
	fmt.Println(err)
	// Output:
	// config.targets[0] @fast
	// config.targets[1] @safe
	// AB01: invalid config: $.strategy.mode must be one of single, loadbalance, fallback, conditional, latency, cost, not "fallbak"
}

// Two texts with the same meaning have one canonical form, in which credentials are
// fingerprints.
func ExampleConfig_Canonical() {
	for _, text := range []string{
		`{"provider": "openai", "retry": {"attempts": 2}}`,
		`{"retry": {"attempts": 2.0}, "provider": "openai"}`,
	} {
		c, err := config.Parse([]byte(text))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(c.Canonical()))
	}
	// Output:
	// {"provider":"openai","retry":{"attempts":2}}
	// {"provider":"openai","retry":{"attempts":2}}
}

// A target has the settings of its parents, unless it has its own.
func ExampleInherit() {
	c, err := config.Parse([]byte(`{"request_timeout": 20000, "strategy": {"mode": "loadbalance"},
		"targets": [{"provider": "@fast"}, {"provider": "@safe", "request_timeout": 5000}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, target := range c.Targets {
		fmt.Println(target.Provider, config.Inherit(c, target).RequestTimeout)
	}
	// Output:
	// @fast 20s
	// @safe 5s
}
