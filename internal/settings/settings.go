// Package settings reads modelgate.yaml, the file of an installation.
//
// It promises that a file is taken whole or not at all, and that an error is
// one line with the file, the line and the path of what is wrong. Credentials
// are references to the environment or sealed texts, never plain. What the
// settings mean at run time is left to server, which also watches the file.
package settings

import (
	"cmp"
	"time"

	"modelgate/internal/secret"
)

// Settings is the content of modelgate.yaml. The zero value is a file that
// says nothing: every field then has the default named in its comment.
type Settings struct {
	// Version of the file's form. 1 is the only one; absent means 1.
	Version int `yaml:"version"`

	Providers []Provider `yaml:"providers"`
	Keys      []Key      `yaml:"keys"`
	Configs   []Config   `yaml:"configs"`
	Prices    []Price    `yaml:"prices"`
	Limits    Limits     `yaml:"limits"`
	Timeouts  Timeouts   `yaml:"timeouts"`
	Drain     Drain      `yaml:"drain"`
	Upstream  Upstream   `yaml:"upstream"`
	Compat    Compat     `yaml:"compat"`
	Log       Log        `yaml:"log"`
}

// Provider is a managed provider, used by clients as @slug.
type Provider struct {
	Slug     string `yaml:"slug"`
	Provider string `yaml:"provider"` // id of a row of the provider table

	// APIKey is "${NAME}" for an environment variable or what `modelgate seal`
	// printed. Empty is for providers that need none.
	APIKey string `yaml:"api_key"`

	CustomHost string            `yaml:"custom_host"` // replaces the provider's base address
	Options    map[string]string `yaml:"options"`     // settings of the row, such as resource_name
	Models     []string          `yaml:"models"`      // listed by GET /v1/models; absent asks the provider

	key secret.String
}

// Key returns the opened credential.
func (p *Provider) Key() secret.String { return p.key }

// Key is a gateway key known by its hash, as `modelgate keys create` prints it.
type Key struct {
	Name      string   `yaml:"name"`
	SHA256    string   `yaml:"sha256"`
	Scopes    []string `yaml:"scopes"`    // absent means every scope
	Providers []string `yaml:"providers"` // absent means every provider
	Config    string   `yaml:"config"`    // slug of the config used when a request brings none
}

// Config is a saved routing config, used by its slug in x-gateway-config.
type Config struct {
	Slug   string `yaml:"slug"`
	Config Object `yaml:"config"`
}

// Object is a mapping of the file as JSON text.
type Object []byte

// Price is what a model costs, in US dollars for a million tokens.
type Price struct {
	Provider string  `yaml:"provider"` // id of a row of the provider table
	Model    string  `yaml:"model"`    // a star at the end means all that begin so
	Input    float64 `yaml:"input"`
	Output   float64 `yaml:"output"`
}

// Limits bounds what clients and providers may send, in bytes.
type Limits struct {
	JSONBody   Size `yaml:"json_body"`   // default 50 MB
	UploadBody Size `yaml:"upload_body"` // default 512 MB
	BodyMemory Size `yaml:"body_memory"` // all bodies held at a time; default 1 GB
	Event      Size `yaml:"event"`       // one event of a stream; default 16 MB
	Decoded    Size `yaml:"decoded"`     // a compressed answer after decoding; default 64 MB
}

// Timeouts bounds the phases of an attempt. Zero takes the default, a negative
// value lifts the limit.
type Timeouts struct {
	Connect    Duration `yaml:"connect"`     // default 10s
	Header     Duration `yaml:"header"`      // until the answer's head; default 10m
	FirstToken Duration `yaml:"first_token"` // from the head to the first event; default 5m
	Idle       Duration `yaml:"idle"`        // between events; default 2m
	Total      Duration `yaml:"total"`       // the whole attempt; default none
	Budget     Duration `yaml:"budget"`      // all attempts of a config, until one answers; default 10m
	Client     Duration `yaml:"client"`      // a client that takes nothing of its answer; default 5m
	KeepAlive  Duration `yaml:"keep_alive"`  // silence before a comment is sent; default 15s
}

// Drain is how the gateway stops: it stays reachable for Min, so that load
// balancers notice, and gives open requests until Max.
type Drain struct {
	Min Duration `yaml:"min"` // default 0s
	Max Duration `yaml:"max"` // default 30s
}

// Upstream is how providers are reached.
type Upstream struct {
	// TrustedHosts may be custom hosts although their address is private.
	TrustedHosts []string `yaml:"trusted_hosts"`
}

// Compat lets clients of other gateways move over.
type Compat struct {
	// HeaderPrefixes are read like x-gateway- and mirrored on responses.
	HeaderPrefixes []string `yaml:"header_prefixes"`
}

// Log is how the gateway tells what it does.
type Log struct {
	Level string `yaml:"level"` // debug, info, warn or error; default info
	Queue int    `yaml:"queue"` // entries waiting for the log file; default 8192
}

// Size is a number of bytes: 1048576, "512 KB", "50 MB", "1 GB" (powers of 1024).
type Size int64

// Or returns s, or def when s is zero.
func (s Size) Or(def int64) int64 { return cmp.Or(int64(s), def) }

// Duration is a span such as "150ms", "30s" or "10m".
type Duration time.Duration

// Or returns d, def when d is zero, and zero when d is negative.
func (d Duration) Or(def time.Duration) time.Duration {
	return max(time.Duration(cmp.Or(d, Duration(def))), 0)
}
