// Package settings reads modelgate.yaml, the settings file of an installation.
//
// It guarantees that a file is accepted completely or not at all, and that an error is
// one line with the file, the line and the path. Credentials are references to
// environment variables or sealed, never plain text. The package does not apply
// settings or watch the file (see server).
package settings

import (
	"cmp"
	"time"

	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/records/redact"
)

// Settings is the content of modelgate.yaml. The zero value is an empty file: every
// field then has the default in its comment.
type Settings struct {
	// Version is the version of the file format. 1 is the only one; absent means 1.
	Version int `json:"version,omitempty" minimum:"0" maximum:"1"`

	// Control-plane objects. A running gateway reads providers, keys and configs of the
	// first workspace from its file; the rest is for `modelgate apply`. Nil is a
	// section that is not in the file.
	Organisation         *Organisation         `json:"organisation,omitempty"`
	Workspaces           []Workspace           `json:"workspaces,omitempty"`
	Members              []Member              `json:"members,omitempty"`
	Guardrails           []Guardrail           `json:"guardrails,omitempty"`
	SecretReferences     []SecretReference     `json:"secret_references,omitempty"`
	GuardrailCredentials []GuardrailCredential `json:"guardrail_credentials,omitempty"`
	Integrations         []Integration         `json:"integrations,omitempty"`
	Providers            []Provider            `json:"providers,omitempty"`
	PromptLabels         []PromptLabel         `json:"prompt_labels,omitempty"`
	PromptCollections    []PromptCollection    `json:"prompt_collections,omitempty"`
	PromptPartials       []Partial             `json:"prompt_partials,omitempty"`
	Prompts              []Prompt              `json:"prompts,omitempty"`
	Configs              []Config              `json:"configs,omitempty"`
	Deployments          []Deployment          `json:"deployments,omitempty"`
	Keys                 []Key                 `json:"keys,omitempty"`
	Policies             []LimitPolicy         `json:"policies,omitempty"`
	IdentityProviders    []IdentityProvider    `json:"identity_providers,omitempty"`
	Domains              []Domain              `json:"domains,omitempty"`
	DirectoryMappings    []DirectoryMapping    `json:"directory_mappings,omitempty"`
	WorkloadIdentities   []WorkloadIdentity    `json:"workload_identities,omitempty"`
	MCPIntegrations      []MCPIntegration      `json:"mcp_integrations,omitempty"`
	MCPServers           []MCPServer           `json:"mcp_servers,omitempty"`
	MCPBundles           []MCPBundle           `json:"mcp_bundles,omitempty"`
	AgentIntegrations    []AgentIntegration    `json:"agent_integrations,omitempty"`
	AgentServers         []AgentServer         `json:"agent_servers,omitempty"`

	Prices   []Price  `json:"prices,omitempty"`
	Listener Listener `json:"listener,omitzero"`
	Sessions Sessions `json:"sessions,omitzero"`
	OAuth    OAuth    `json:"oauth,omitzero"`
	Audit    Audit    `json:"audit,omitzero"`
	Alerts   Alerts   `json:"alerts,omitzero"`
	Limits   Limits   `json:"limits,omitzero"`
	Timeouts Timeouts `json:"timeouts,omitzero"`
	Drain    Drain    `json:"drain,omitzero"`
	Upstream Upstream `json:"upstream,omitzero"`
	Compat   Compat   `json:"compat,omitzero"`
	Log      Log      `json:"log,omitzero"`
	Logs     Logs     `json:"logs,omitzero"`
	Ledger   Ledger   `json:"ledger,omitzero"`
	Cache    Cache    `json:"cache,omitzero"`

	// PublicURL is the address of the gateway for users and programs, the prefix of its
	// links. Empty is the listen address.
	PublicURL string `json:"public_url,omitempty" maxLength:"2048" doc:"Address of the gateway for users, the prefix of its links, such as https://gateway.example.com"`

	Telemetry Telemetry `json:"telemetry,omitzero"`

	Realtime Realtime `json:"realtime,omitzero"`

	Tools Tools `json:"tools,omitzero"`

	Blob    Blob    `json:"blob,omitzero"`
	Exports Exports `json:"exports,omitzero"`
	Files   Files   `json:"files,omitzero"`
	Batches Batches `json:"batches,omitzero"`

	Responses Responses `json:"responses,omitzero"`

	References References `json:"secrets,omitzero"`

	file     string   // path of the file
	source   []byte   // content of the file, for positions of errors
	sections []string // in the file
}

// Provider is a managed provider, which clients name by @slug. It has its own
// credentials or those of an integration.
type Provider struct {
	Slug        string `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace   string `json:"workspace,omitempty" maxLength:"255" doc:"Slug; defaults to the first workspace"`
	Name        string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Integration string `json:"integration,omitempty" maxLength:"255" doc:"Slug of the integration whose credentials it uses"`
	Provider    string `json:"provider,omitempty" maxLength:"128" doc:"Id of a provider, if it has its own credentials"`

	// APIKey is "${NAME}" for an environment variable or the output of `modelgate
	// seal`. It is empty for providers that need no key.
	APIKey string `json:"api_key,omitempty" doc:"${NAME} for an environment variable, or a sealed value"`

	CustomHost string            `json:"custom_host,omitempty" maxLength:"2048" doc:"Replaces the provider's base address"`
	Options    map[string]string `json:"options,omitempty" doc:"Settings of the provider, such as resource_name"`
	Models     []string          `json:"models,omitempty" doc:"Models listed by GET /v1/models; by default the provider is asked"`

	Note        string            `json:"note,omitempty" maxLength:"1024"`
	UsageLimits *Usage            `json:"usage_limits,omitempty"`
	RateLimits  []Rate            `json:"rate_limits,omitempty" maxItems:"7"`
	Tags        map[string]string `json:"tags,omitempty" maxProperties:"64"`
	ExpiresAt   string            `json:"expires_at,omitempty" format:"date-time"`
	MadeByGrant bool              `json:"made_by_grant,omitempty" doc:"Created because the workspace got the integration"`

	key secret.String
}

// Key returns the opened credential.
func (p *Provider) Key() secret.String { return p.key }

// Key is a gateway key identified by its hash, in the form that modelgate keys create
// prints.
type Key struct {
	Name          string   `json:"name,omitempty" maxLength:"255"`
	SHA256        string   `json:"sha256" pattern:"^[0-9A-Fa-f]{64}$"`
	Scopes        []string `json:"scopes,omitzero" maxItems:"300" doc:"Defaults to every scope"`
	Providers     []string `json:"providers,omitempty" doc:"Ids and slugs; defaults to every provider"`
	Tools         []string `json:"tools,omitzero" maxItems:"500" doc:"Patterns of what it may use of MCP servers; defaults to all, and [] is nothing"`
	Config        string   `json:"config,omitempty" maxLength:"255" doc:"Slug of the config of requests that name none"`
	Logging       string   `json:"request_logging,omitempty" enum:",full,metadata,none" doc:"Logging level"`
	ResponseModel string   `json:"response_model,omitempty" enum:",requested,served" doc:"Name that responses give their model; a config takes precedence"`
	Addresses     []string `json:"allowed_addresses,omitempty" maxItems:"100" doc:"Client addresses and CIDRs that may use the key; defaults to all"`

	Egress *egress.Policy `json:"egress_policy,omitempty" doc:"Destinations that its requests may use"`

	Type           string            `json:"type,omitempty" enum:"organisation-service,workspace-service,workspace-user" doc:"Defaults to workspace-service"`
	Workspace      string            `json:"workspace,omitempty" maxLength:"255" doc:"Slug; defaults to the first workspace"`
	Member         string            `json:"member,omitempty" maxLength:"320" doc:"E-mail address of the user the key belongs to"`
	Description    string            `json:"description,omitempty" maxLength:"1024"`
	Mask           string            `json:"mask,omitempty" maxLength:"16" doc:"Visible part by which users recognise the key"`
	WithoutSecret  bool              `json:"without_secret,omitempty" doc:"Nobody knows the secret; only workload identities have keys of it"`
	Metadata       map[string]string `json:"metadata,omitempty" maxProperties:"64"`
	ConfigFixed    bool              `json:"config_fixed,omitempty" doc:"Rejects requests that name another config"`
	Disabled       bool              `json:"disabled,omitempty" doc:"Rejects requests with the key"`
	UsageLimits    *Usage            `json:"usage_limits,omitempty"`
	RateLimits     []Rate            `json:"rate_limits,omitempty" maxItems:"11"`
	AlertEmails    []string          `json:"alert_emails,omitempty" maxItems:"50"`
	RotationPolicy *Rotation         `json:"rotation_policy,omitempty"`
	ExpiresAt      string            `json:"expires_at,omitempty" format:"date-time"`
}

// Config is a saved routing config, named by its slug in x-gateway-config.
type Config struct {
	Slug      string `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace string `json:"workspace,omitempty" maxLength:"255" doc:"Slug; defaults to the first workspace"`
	Name      string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Default   bool   `json:"default,omitempty" doc:"The default of its workspace, which cannot be archived"`
	Config    Object `json:"config" doc:"As GET /v1/schema/config describes it, credentials as ${NAME} or sealed"`

	text secret.String
}

// Text returns the config as JSON with its opened credentials.
func (c *Config) Text() secret.String { return c.text }

// Object is a mapping in the file, as JSON.
type Object []byte

// Limits are limits of what clients and providers send, in bytes.
type Limits struct {
	JSONBody   Size `json:"json_body,omitempty"`   // default 50 MB
	UploadBody Size `json:"upload_body,omitempty"` // default 512 MB
	BodyMemory Size `json:"body_memory,omitempty"` // all bodies in memory; default 1 GB
	Event      Size `json:"event,omitempty"`       // one event of a stream; default 16 MB
	Decoded    Size `json:"decoded,omitempty"`     // a compressed response after decoding; default 64 MB

	Attempts int `json:"attempts,omitempty" minimum:"0" maximum:"1000" doc:"Attempts at providers per request; defaults to 32"`

	RequestHeaders Size `json:"request_headers,omitempty"` // of one request; default 128 KB
	// names of headers of one request; default 200, -1 removes the limit
	HeaderCount int `json:"header_count,omitempty" minimum:"-1" maximum:"100000"`
	// minimum bytes per second of a request body after timeouts.body_grace; default 512
	BodyRate Size `json:"body_rate,omitempty"`
	// open connections of one address without a valid key; default 256, -1 removes the limit
	Keyless int `json:"keyless_connections,omitempty" minimum:"-1" maximum:"1000000"`

	Counters    Counters    `json:"counters,omitzero"`
	Concurrency Concurrency `json:"concurrency,omitzero"`
}

// Concurrency limits the requests in progress in one gateway. Zero means the default.
type Concurrency struct {
	Requests int      `json:"requests,omitempty" minimum:"-1" maximum:"10000000" doc:"Requests in progress; defaults to 40000, -1 removes the limit"`
	Key      int      `json:"key,omitempty" minimum:"-1" maximum:"10000000" doc:"Requests in progress of one key; defaults to three quarters of requests, -1 removes the limit"`
	Queue    int      `json:"queue,omitempty" minimum:"-1" maximum:"1000000" doc:"Requests that wait; defaults to 10000, -1 lets none wait"`
	Wait     Duration `json:"wait,omitempty"` // of a request for room; default 1s, negative lets none wait
}

// Timeouts limit the phases of an attempt. Zero means the default, a negative value no
// limit.
type Timeouts struct {
	Connect    Duration `json:"connect,omitempty"`     // default 10s
	Header     Duration `json:"header,omitempty"`      // until the response's headers; default 10m
	FirstToken Duration `json:"first_token,omitempty"` // from the response headers to the first event; default 5m
	Idle       Duration `json:"idle,omitempty"`        // between events; default 2m
	Total      Duration `json:"total,omitempty"`       // the complete attempt; default none
	Budget     Duration `json:"budget,omitempty"`      // all attempts of a config, until one has a usable response; default 10m
	Client     Duration `json:"client,omitempty"`      // a client that does not read its response; default 5m
	KeepAlive  Duration `json:"keep_alive,omitempty"`  // silence before a comment is sent; default 15s

	RequestHeader Duration `json:"request_header,omitempty"` // until the headers of a request are complete; default 10s
	// how long a request body may pause before limits.body_rate applies; default 30s
	BodyGrace   Duration `json:"body_grace,omitempty"`
	RequestBody Duration `json:"request_body,omitempty"` // a complete body of a model request; default 6h
	// a body, or a part of one, that is held in memory until it is complete; default 10m
	HeldBody       Duration `json:"held_body,omitempty"`
	ControlBody    Duration `json:"control_body,omitempty"`    // a complete body of any other request; default 2m
	ConnectionIdle Duration `json:"connection_idle,omitempty"` // an idle connection; default 2m
}

// Drain configures how the gateway stops: it stays reachable for Min, so that load
// balancers notice, and lets open requests continue until Max.
type Drain struct {
	Min Duration `json:"min,omitempty"` // default 0s
	Max Duration `json:"max,omitempty"` // default 30s
}

// Upstream configures connections to providers.
type Upstream struct {
	// TrustedHosts are custom hosts that are allowed although their addresses are
	// private.
	TrustedHosts []string `json:"trusted_hosts,omitempty"`

	CA     string `json:"ca,omitempty" maxLength:"262144" doc:"Authorities that sign certificates of providers and other services, in addition to the system's: a file, or PEM"`
	OnlyCA bool   `json:"only_ca,omitempty" doc:"Trusts the authorities of ca alone, and none of the system"`
}

// Compat configures compatibility with clients of other gateways.
type Compat struct {
	// HeaderPrefixes are read like x-gateway- and mirrored on responses.
	HeaderPrefixes []string `json:"header_prefixes,omitempty"`

	// PromptEnvelopeOnly omits the fields of a saved prompt's response from the
	// envelope, in which they otherwise appear in addition to its body.
	PromptEnvelopeOnly bool `json:"prompt_envelope_only,omitempty"`

	// Status246 answers requests with status 246 instead of 200 if a guardrail
	// failed that does not deny.
	Status246 bool `json:"status_246,omitempty"`
}

// Realtime configures realtime sessions.
type Realtime struct {
	// UnmeteredCalls lets keys with limits of tokens or money begin calls, whose media pass by
	// the gateway, so that nobody counts what they use.
	UnmeteredCalls bool `json:"unmetered_calls,omitempty"`
	// MeterCalls counts what calls use by a connection of the gateway to each, and ends calls
	// whose limits are reached. Default true.
	MeterCalls *bool `json:"meter_calls,omitempty"`
}

// Log configures the process log.
type Log struct {
	Level string `json:"level,omitempty" enum:",debug,info,warn,error"` // debug, info, warn or error; default info
	Queue int    `json:"queue,omitempty"`                               // entries waiting to be written to the log; default 8192
}

// Logs configures the request log.
type Logs struct {
	Level    string `json:"level,omitempty" enum:",full,metadata,none"` // if no organisation sets one; default metadata
	BodySize Size   `json:"body_size,omitempty"`                        // of each body, at level full; default 128 KB, at most 1 MB
	Redact   Redact `json:"redact,omitzero"`

	// KeylessPerDay is how many bytes per day requests without a valid key may take, in
	// the log and in the audit log each. Default 4 MB.
	KeylessPerDay Size `json:"keyless_per_day,omitempty"`

	Retention Retention `json:"retention,omitzero"`
}

// Redact configures what is removed from bodies and errors before they are recorded.
type Redact struct {
	Patterns []string        `json:"patterns,omitempty" maxItems:"20" doc:"email, phone, credit_card, ssn, iban, ipv4, ipv6, secret"`
	Custom   []RedactPattern `json:"custom,omitempty" maxItems:"50"`
	Fields   []string        `json:"fields,omitempty" maxItems:"100" maxLength:"200" doc:"JSON fields: a name, or a path from the root with * for any name or index"`
}

// RedactPattern is a custom regular expression.
type RedactPattern struct {
	Name    string `json:"name" pattern:"^[A-Za-z0-9_-]{1,40}$" doc:"Name in the mark that replaces matches"`
	Pattern string `json:"pattern" minLength:"1" maxLength:"1000" doc:"In RE2 syntax"`
}

// Rules returns r in the form of [redact.New].
func (r Redact) Rules() redact.Rules {
	out := redact.Rules{Patterns: r.Patterns, Fields: r.Fields}
	for _, c := range r.Custom {
		out.Custom = append(out.Custom, redact.Custom(c))
	}
	return out
}

// Retention is the retention of the log. -1 days retains all.
type Retention struct {
	Days       int  `json:"days,omitempty" minimum:"-1" maximum:"36500"`        // age of the oldest entry; default 90
	Bytes      Size `json:"bytes,omitempty"`                                    // approximate size of all entries; default 8 GB
	BodiesDays int  `json:"bodies_days,omitempty" minimum:"-1" maximum:"36500"` // age of the oldest bodies; default as long as entries
	SumsDays   int  `json:"sums_days,omitempty" minimum:"-1" maximum:"36500"`   // age of the oldest rollups; default 400
}

// Ledger configures the ledger of attempts.
type Ledger struct {
	OnFull  string `json:"on_full,omitempty" enum:",block,drop_bodies,drop_rows,reject"` // default reject
	Sync    string `json:"sync,omitempty" enum:",grouped,strict"`                        // default grouped
	MaxSize Size   `json:"max_size,omitempty"`                                           // of all segments; default 1 GB
}

// Size is a number of bytes: 1048576, "512 KB", "50 MB", "1 GB" (powers of 1024).
type Size int64

// Or returns s, or def when s is zero.
func (s Size) Or(def int64) int64 { return cmp.Or(int64(s), def) }

// Duration is a duration such as "150ms", "30s" or "10m".
type Duration time.Duration

// Or returns d, def when d is zero, and zero when d is negative.
func (d Duration) Or(def time.Duration) time.Duration {
	return max(time.Duration(cmp.Or(d, Duration(def))), 0)
}
