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

	"modelgate/internal/egress"
	"modelgate/internal/redact"
	"modelgate/internal/secret"
)

// Settings is the content of modelgate.yaml. The zero value is a file that
// says nothing: every field then has the default named in its comment.
type Settings struct {
	// Version of the file's form. 1 is the only one; absent means 1.
	Version int `json:"version,omitempty" minimum:"0" maximum:"1"`

	// What the control plane has in its database and a file may hold as well. A
	// running gateway takes providers, keys and configs of the first workspace
	// from its file; the rest is for `modelgate apply`. Nil is a section that the
	// file does not have.
	Organisation      *Organisation      `json:"organisation,omitempty"`
	Workspaces        []Workspace        `json:"workspaces,omitempty"`
	Members           []Member           `json:"members,omitempty"`
	Guardrails        []Guardrail        `json:"guardrails,omitempty"`
	SecretReferences  []SecretReference  `json:"secret_references,omitempty"`
	Integrations      []Integration      `json:"integrations,omitempty"`
	Providers         []Provider         `json:"providers,omitempty"`
	PromptLabels      []PromptLabel      `json:"prompt_labels,omitempty"`
	PromptCollections []PromptCollection `json:"prompt_collections,omitempty"`
	PromptPartials    []Partial          `json:"prompt_partials,omitempty"`
	Prompts           []Prompt           `json:"prompts,omitempty"`
	Configs           []Config           `json:"configs,omitempty"`
	Deployments       []Deployment       `json:"deployments,omitempty"`
	Keys              []Key              `json:"keys,omitempty"`

	Prices   []Price  `json:"prices,omitempty"`
	Listener Listener `json:"listener,omitzero"`
	Sessions Sessions `json:"sessions,omitzero"`
	Audit    Audit    `json:"audit,omitzero"`
	Limits   Limits   `json:"limits,omitzero"`
	Timeouts Timeouts `json:"timeouts,omitzero"`
	Drain    Drain    `json:"drain,omitzero"`
	Upstream Upstream `json:"upstream,omitzero"`
	Compat   Compat   `json:"compat,omitzero"`
	Log      Log      `json:"log,omitzero"`
	Logs     Logs     `json:"logs,omitzero"`
	Ledger   Ledger   `json:"ledger,omitzero"`

	// PublicURL is the address by which people and programs reach the gateway. Links
	// that it makes begin with it. Empty is the address that it listens on.
	PublicURL string `json:"public_url,omitempty" maxLength:"2048" doc:"Address that links of the gateway begin with, such as https://gateway.example.com"`

	Telemetry Telemetry `json:"telemetry,omitzero"`

	Blob    Blob    `json:"blob,omitzero"`
	Exports Exports `json:"exports,omitzero"`

	References References `json:"secrets,omitzero"`

	file   string // where it was read
	source []byte // what was read, for the lines of faults
}

// Provider is a managed provider, used by clients as @slug. It has credentials
// of its own, or those of an integration.
type Provider struct {
	Slug        string `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace   string `json:"workspace,omitempty" maxLength:"255" doc:"Slug; the first workspace when absent"`
	Name        string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Integration string `json:"integration,omitempty" maxLength:"255" doc:"Slug of the integration whose credentials it uses"`
	Provider    string `json:"provider,omitempty" maxLength:"128" doc:"Id of a row of the provider table, for credentials of its own"`

	// APIKey is "${NAME}" for an environment variable or what `modelgate seal`
	// printed. Empty is for providers that need none.
	APIKey string `json:"api_key,omitempty" doc:"${NAME} for an environment variable, or a sealed value"`

	CustomHost string            `json:"custom_host,omitempty" maxLength:"2048" doc:"Replaces the provider's base address"`
	Options    map[string]string `json:"options,omitempty" doc:"Settings of the provider, such as resource_name"`
	Models     []string          `json:"models,omitempty" doc:"Listed by GET /v1/models; absent asks the provider"`

	Note        string            `json:"note,omitempty" maxLength:"1024"`
	UsageLimits *Usage            `json:"usage_limits,omitempty"`
	RateLimits  []Rate            `json:"rate_limits,omitempty" maxItems:"6"`
	Tags        map[string]string `json:"tags,omitempty" maxProperties:"64"`
	ExpiresAt   string            `json:"expires_at,omitempty" format:"date-time"`
	MadeByGrant bool              `json:"made_by_grant,omitempty" doc:"It was made because the workspace was given the integration"`

	key secret.String
}

// Key returns the opened credential.
func (p *Provider) Key() secret.String { return p.key }

// Key is a gateway key known by its hash, as `modelgate keys create` prints it.
type Key struct {
	Name      string   `json:"name,omitempty" maxLength:"255"`
	SHA256    string   `json:"sha256" pattern:"^[0-9A-Fa-f]{64}$"`
	Scopes    []string `json:"scopes,omitzero" maxItems:"300" doc:"Absent means every scope"`
	Providers []string `json:"providers,omitempty" doc:"Ids and slugs; absent means every provider"`
	Config    string   `json:"config,omitempty" maxLength:"255" doc:"Slug of the config used when a request brings none"`
	Logging   string   `json:"request_logging,omitempty" enum:",full,metadata,none" doc:"How much is kept of exchanges"`
	Addresses []string `json:"allowed_addresses,omitempty" maxItems:"100" doc:"Addresses and CIDRs of clients that may use the key; absent means all"`

	Egress *egress.Policy `json:"egress_policy,omitempty" doc:"Where its requests may go"`

	Type           string            `json:"type,omitempty" enum:"organisation-service,workspace-service,workspace-user" doc:"workspace-service when absent"`
	Workspace      string            `json:"workspace,omitempty" maxLength:"255" doc:"Slug; the first workspace when absent"`
	Member         string            `json:"member,omitempty" maxLength:"320" doc:"E-mail address of the person whose key it is"`
	Description    string            `json:"description,omitempty" maxLength:"1024"`
	Mask           string            `json:"mask,omitempty" maxLength:"16" doc:"For people to recognise the key by"`
	Metadata       map[string]string `json:"metadata,omitempty" maxProperties:"64"`
	ConfigFixed    bool              `json:"config_fixed,omitempty" doc:"Refuses requests that bring another config"`
	UsageLimits    *Usage            `json:"usage_limits,omitempty"`
	RateLimits     []Rate            `json:"rate_limits,omitempty" maxItems:"10"`
	AlertEmails    []string          `json:"alert_emails,omitempty" maxItems:"50"`
	RotationPolicy *Rotation         `json:"rotation_policy,omitempty"`
	ExpiresAt      string            `json:"expires_at,omitempty" format:"date-time"`
}

// Config is a saved routing config, used by its slug in x-gateway-config.
type Config struct {
	Slug      string `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace string `json:"workspace,omitempty" maxLength:"255" doc:"Slug; the first workspace when absent"`
	Name      string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Default   bool   `json:"default,omitempty" doc:"It is its workspace's default, which is not archived"`
	Config    Object `json:"config" doc:"As GET /v1/schema/config describes it, credentials as ${NAME} or sealed"`

	text secret.String
}

// Text returns the config as JSON with its opened credentials.
func (c *Config) Text() secret.String { return c.text }

// Object is a mapping of the file as JSON text.
type Object []byte

// Limits bounds what clients and providers may send, in bytes.
type Limits struct {
	JSONBody   Size `json:"json_body,omitempty"`   // default 50 MB
	UploadBody Size `json:"upload_body,omitempty"` // default 512 MB
	BodyMemory Size `json:"body_memory,omitempty"` // all bodies held at a time; default 1 GB
	Event      Size `json:"event,omitempty"`       // one event of a stream; default 16 MB
	Decoded    Size `json:"decoded,omitempty"`     // a compressed answer after decoding; default 64 MB

	Attempts int `json:"attempts,omitempty" minimum:"0" maximum:"1000" doc:"Attempts at providers of one request; 32 when absent"`

	RequestHeaders Size `json:"request_headers,omitempty"`                                    // of one request; default 128 KB
	HeaderCount    int  `json:"header_count,omitempty" minimum:"-1" maximum:"100000"`         // names of headers of one request; default 200, -1 removes the limit
	BodyRate       Size `json:"body_rate,omitempty"`                                          // bytes per second that a request body must bring after timeouts.body_grace; default 512
	Keyless        int  `json:"keyless_connections,omitempty" minimum:"-1" maximum:"1000000"` // open connections of one address that have shown no valid key; default 256, -1 removes the limit
}

// Timeouts bounds the phases of an attempt. Zero takes the default, a negative
// value lifts the limit.
type Timeouts struct {
	Connect    Duration `json:"connect,omitempty"`     // default 10s
	Header     Duration `json:"header,omitempty"`      // until the response's headers; default 10m
	FirstToken Duration `json:"first_token,omitempty"` // from the head to the first event; default 5m
	Idle       Duration `json:"idle,omitempty"`        // between events; default 2m
	Total      Duration `json:"total,omitempty"`       // the whole attempt; default none
	Budget     Duration `json:"budget,omitempty"`      // all attempts of a config, until one answers; default 10m
	Client     Duration `json:"client,omitempty"`      // a client that takes nothing of its answer; default 5m
	KeepAlive  Duration `json:"keep_alive,omitempty"`  // silence before a comment is sent; default 15s

	RequestHeader  Duration `json:"request_header,omitempty"`  // until the headers of a request are complete; default 10s
	BodyGrace      Duration `json:"body_grace,omitempty"`      // a request body may pause so long, then limits.body_rate applies; default 30s
	RequestBody    Duration `json:"request_body,omitempty"`    // a complete body of a model request; default 6h
	ControlBody    Duration `json:"control_body,omitempty"`    // a complete body of any other request; default 2m
	ConnectionIdle Duration `json:"connection_idle,omitempty"` // a connection between two requests; default 2m
}

// Drain is how the gateway stops: it stays reachable for Min, so that load
// balancers notice, and gives open requests until Max.
type Drain struct {
	Min Duration `json:"min,omitempty"` // default 0s
	Max Duration `json:"max,omitempty"` // default 30s
}

// Upstream is how providers are reached.
type Upstream struct {
	// TrustedHosts may be custom hosts although their address is private.
	TrustedHosts []string `json:"trusted_hosts,omitempty"`
}

// Compat lets clients of other gateways move over.
type Compat struct {
	// HeaderPrefixes are read like x-gateway- and mirrored on responses.
	HeaderPrefixes []string `json:"header_prefixes,omitempty"`

	// PromptEnvelopeOnly leaves the members of the answer to a saved prompt out
	// of the envelope around it, where they stand as well as in its body.
	PromptEnvelopeOnly bool `json:"prompt_envelope_only,omitempty"`
}

// Log is how the gateway tells what it does.
type Log struct {
	Level string `json:"level,omitempty" enum:",debug,info,warn,error"` // debug, info, warn or error; default info
	Queue int    `json:"queue,omitempty"`                               // entries waiting for the log file; default 8192
}

// Logs is what is kept of the records of exchanges.
type Logs struct {
	Level    string `json:"level,omitempty" enum:",full,metadata,none"` // where no organisation says otherwise; default metadata
	BodySize Size   `json:"body_size,omitempty"`                        // of each body, at level full; default 128 KB, at most 1 MB
	Redact   Redact `json:"redact,omitzero"`

	// KeylessPerDay is how many bytes a day requests without a valid key may take,
	// in the log and in the audit log each. Default 4 MB.
	KeylessPerDay Size `json:"keyless_per_day,omitempty"`

	Retention Retention `json:"retention,omitzero"`
}

// Redact is what is taken out of bodies and errors before they are kept.
type Redact struct {
	Patterns []string        `json:"patterns,omitempty" maxItems:"20" doc:"email, phone, credit_card, ssn, iban, ipv4, ipv6, secret"`
	Custom   []RedactPattern `json:"custom,omitempty" maxItems:"50"`
	Fields   []string        `json:"fields,omitempty" maxItems:"100" maxLength:"200" doc:"Members of JSON: a name, or a path from the root with * for any name or index"`
}

// RedactPattern is a regular expression of the installation's own.
type RedactPattern struct {
	Name    string `json:"name" pattern:"^[A-Za-z0-9_-]{1,40}$" doc:"Stands in the mark that replaces what is found"`
	Pattern string `json:"pattern" minLength:"1" maxLength:"1000" doc:"In the syntax of RE2"`
}

// Rules returns r as [redact.New] takes it.
func (r Redact) Rules() redact.Rules {
	out := redact.Rules{Patterns: r.Patterns, Fields: r.Fields}
	for _, c := range r.Custom {
		out.Custom = append(out.Custom, redact.Custom(c))
	}
	return out
}

// Retention is how much is kept. -1 days keep all.
type Retention struct {
	Days       int  `json:"days,omitempty" minimum:"-1" maximum:"36500"`        // of the oldest entry; default 90
	Bytes      Size `json:"bytes,omitempty"`                                    // of all entries, about; default 8 GB
	BodiesDays int  `json:"bodies_days,omitempty" minimum:"-1" maximum:"36500"` // of the oldest bodies; default as their entries
	SumsDays   int  `json:"sums_days,omitempty" minimum:"-1" maximum:"36500"`   // of the oldest sums of entries; default 400
}

// Ledger is how the gateway keeps account of attempts.
type Ledger struct {
	OnFull  string `json:"on_full,omitempty" enum:",block,drop_bodies,drop_rows,reject"` // default block
	Sync    string `json:"sync,omitempty" enum:",grouped,strict"`                        // default grouped
	MaxSize Size   `json:"max_size,omitempty"`                                           // of all segments; default 1 GB
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
