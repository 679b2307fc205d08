// Package config is the routing config object, with which a client says where
// its requests are sent and how.
//
// [Parse] reads the object strictly and reports all faults at once, each with
// its path and what to do about it. A [Config] is a tree: the root and every
// target have the same shape. [Inherit] returns a target with the settings of
// its parents, [Config.Canonical] the canonical form of a config, and [Schema]
// its JSON Schema. One table of properties is the source of reading, writing
// and the schema, so that they agree.
//
// The package does not choose targets, wait or call providers, and does not
// check whether a provider id, a slug or a saved guardrail exists, or how large
// a header is. A Config returned by Parse does not change and is safe for
// concurrent use.
package config

import (
	"slices"
	"time"

	"modelgate/api"
)

// Config is one node of a routing tree: the root, or a target at any depth. A
// node with a Strategy chooses among its Targets; a node without one is a leaf
// and names a provider. Zero values mean that a property is not set; a list
// that is set to empty is not nil.
type Config struct {
	// Path is the path of this node in responses: "config" for the root,
	// "config.targets[1].targets[0]" for a target.
	Path string

	Name     string // name of this target in conditions of its parent
	Provider string // provider id, or "@slug" of a managed provider
	APIKey   Secret
	// VirtualKey is the legacy name of a managed provider.
	VirtualKey string
	CustomHost string // base address of a private endpoint
	PromptID   string

	OverrideParams Object   // replace parameters of the request
	DefaultParams  Object   // add parameters that the request lacks
	DropParams     []string // paths of parameters to remove, for example "messages[*].name"

	Weight *float64 // share in loadbalance mode; nil means 1
	// OnStatusCodes are the statuses that trigger a fallback. Nil means every
	// status except success, an empty list none.
	OnStatusCodes  []int
	RequestTimeout time.Duration // of one attempt; zero means not set
	ForwardHeaders []string      // in their original spelling
	Strict         *bool         // strict_vendora_compliance

	Cache   *Cache
	Retry   *Retry
	Breaker *Breaker // cb_config

	ResourceName string
	DeploymentID string
	APIVersion   string
	Deployments  []Deployment

	// Options are the settings of particular providers by wire name, such as
	// cloud_a_region or vendora_project.
	Options Options
	// ServiceAccount is cloud_b_service_account_json as JSON text.
	ServiceAccount Secret

	BeforeHooks      []Hook
	AfterHooks       []Hook
	InputGuardrails  []Guardrail
	OutputGuardrails []Guardrail
	InputMutators    []Guardrail
	OutputMutators   []Guardrail

	Strategy *Strategy
	Targets  []*Config

	// StreamContinuation allows the next target to continue a broken stream.
	StreamContinuation *bool
	// PromptCache marks the prefix of requests for the provider's prompt cache.
	PromptCache *bool
	Hedge       *Hedge
	// OnUnsupported says what happens to a parameter that the target does not
	// support; empty means not set.
	OnUnsupported UnsupportedPolicy
	// ResponseModel says which name responses give their model; empty means not
	// set.
	ResponseModel api.ResponseModel
	// Passthrough marks a target whose provider is named by the request, in a
	// header or in a model of the form "@slug/model".
	Passthrough bool
	// FetchModels is fetch_integrated_models.
	FetchModels bool

	size int // of the root; see Size
}

// Mode is the way in which a strategy chooses among targets.
type Mode string

// Modes. Latency and Cost are extensions of the specification.
const (
	Single      Mode = "single"
	Loadbalance Mode = "loadbalance"
	Fallback    Mode = "fallback"
	Conditional Mode = "conditional"
	Latency     Mode = "latency"
	Cost        Mode = "cost"
)

// Strategy chooses among the targets of a node.
type Strategy struct {
	Mode       Mode
	Conditions []Condition // evaluated in order
	Default    string      // name of the target if no condition is true
	// OnStatusCodes is like the field of Config. It applies in fallback mode
	// only.
	OnStatusCodes []int
	Sticky        *Sticky
	Breaker       *Breaker // cb_config for every target of this node
}

// Condition sends requests that match Query to the sibling target named Then.
type Condition struct {
	Query *Query
	Then  string
}

// Sticky sends requests with equal fields to the same target of a loadbalance
// node.
type Sticky struct {
	Enabled    bool
	HashFields []string      // paths as in a Query, or PrefixField
	TTL        time.Duration // zero means the default
}

// Lifetime returns how long an assignment is valid.
func (s *Sticky) Lifetime() time.Duration {
	switch {
	case s.TTL > 0:
		return s.TTL
	case slices.Contains(s.HashFields, PrefixField):
		return PrefixTTL
	}
	return DefaultStickyTTL
}

const (
	// PrefixField is the sticky field that means the beginning of a conversation,
	// which providers cache.
	PrefixField = "prefix"
	// PrefixTTL is the default lifetime of an assignment by prefix, since its last
	// use: that of the providers' prompt caches.
	// https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
	PrefixTTL = 5 * time.Minute
)

// DefaultStickyTTL is the default lifetime of a sticky assignment.
const DefaultStickyTTL = time.Hour

// CacheMode is the way in which responses are found in the cache.
type CacheMode string

// Cache modes.
const (
	CacheSimple   CacheMode = "simple"
	CacheSemantic CacheMode = "semantic"
)

// Cache enables caching of responses.
type Cache struct {
	Mode   CacheMode
	MaxAge time.Duration // zero means DefaultMaxAge
	// Threshold is the least similarity of a semantic hit. Zero means the default.
	Threshold float64
	// Embedding is the model that embeds turns. Nil means the built-in embedder.
	Embedding *Embedding
	// ToolCalls stores responses that call tools, too.
	ToolCalls bool
	// OnDisconnect says what happens to a call whose clients have left. Empty means
	// CancelCall.
	OnDisconnect OnDisconnect
}

// Embedding is a model of a managed provider.
type Embedding struct {
	Provider string // @slug
	Model    string
}

// OnDisconnect is what happens to a call of a provider whose clients have left.
type OnDisconnect string

// Values of OnDisconnect.
const (
	CancelCall     OnDisconnect = "cancel"
	FinishAndCache OnDisconnect = "finish_and_cache"
)

// DefaultMaxAge is how long a response is cached if max_age is not set.
const DefaultMaxAge = 7 * 24 * time.Hour

// Retry repeats a failed attempt at the same target.
type Retry struct {
	Attempts int // retries after the first attempt, as written
	// UseRetryAfter waits as long as the provider asks for.
	UseRetryAfter bool
	// OnStatusCodes are the statuses to retry; nil means the usual ones.
	OnStatusCodes []int
}

// MaxAttempts is the maximum number of retries.
const MaxAttempts = 5

// EffectiveAttempts returns the number of retries, and whether the config asks
// for more than MaxAttempts.
func (r *Retry) EffectiveAttempts() (attempts int, clamped bool) {
	if r == nil {
		return 0, false
	}
	return min(r.Attempts, MaxAttempts), r.Attempts > MaxAttempts
}

// Breaker stops sending requests to a failing target for a while. At least one
// of FailureThreshold and FailurePercentage is set.
type Breaker struct {
	FailureThreshold  float64 // number of failures that opens the circuit; zero means not set
	FailurePercentage float64 // percentage of failures that opens it; zero means not set
	MinimumRequests   int     // minimum number of requests for the percentage
	Cooldown          time.Duration
	// FailureStatusCodes are the statuses that count as failures; nil means the
	// usual ones.
	FailureStatusCodes []int
}

// Deployment is one deployment of a cloud resource.
type Deployment struct {
	DeploymentID string
	Alias        string // model name in requests for this deployment
	APIVersion   string
	Default      bool
}

// Hedge starts a second target if the first has no response after a delay.
type Hedge struct {
	Delay time.Duration // without a first token
	Max   int           // maximum number of further targets; zero means 1
}

// UnsupportedPolicy says what happens to a parameter that a target does not
// support.
type UnsupportedPolicy string

// Values of on_unsupported.
const (
	Announce UnsupportedPolicy = "announce" // drop it and announce that in a header
	Refuse   UnsupportedPolicy = "refuse"   // fail the target
	Drop     UnsupportedPolicy = "drop"     // drop it silently
)
