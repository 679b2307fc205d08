// Package config is the routing config object: what a client writes to say
// where its requests go and how.
//
// [Parse] reads the object strictly and reports every fault at once, each with
// its path and what to do about it. A [Config] is a tree: the root and every
// target have the same shape. [Inherit] gives a target the settings it takes
// over from its parents, [Config.Canonical] the one spelling of a config, and
// [Schema] describes the object to other tools. One table of properties drives
// reading, writing and the schema, so they can't disagree.
//
// What a config means at run time (choosing a target, waiting, calling a
// provider), whether a provider id, a slug or a saved guardrail exists, and how
// large a header may be is left to the callers. A Config that was returned by
// Parse is not changed again and is safe for concurrent use.
package config

import "time"

// Config is one node of a routing tree: the root, or a target at any depth.
// A node with a Strategy chooses among its Targets; a node without one is a
// leaf and names a provider. Zero values mean that a property was not given;
// a list that was given empty is not nil.
type Config struct {
	// Path is the place of this node as responses report it: "config" for the
	// root, "config.targets[1].targets[0]" for a target.
	Path string

	Name     string // by which conditions of the parent refer to this target
	Provider string // provider id, or "@slug" of a managed provider
	APIKey   Secret
	// VirtualKey is the legacy name of a managed provider.
	VirtualKey string
	CustomHost string // base address of a private endpoint
	PromptID   string

	OverrideParams Object   // replace parameters of the request
	DefaultParams  Object   // fill parameters that the request lacks
	DropParams     []string // paths of parameters to remove, as "messages[*].name"

	Weight *float64 // share in loadbalance mode; nil counts as 1
	// OnStatusCodes are statuses that trigger fallback. Nil means every status
	// that is not a success, an empty list none.
	OnStatusCodes  []int
	RequestTimeout time.Duration // of one attempt; zero means not set here
	ForwardHeaders []string      // in their original spelling
	Strict         *bool         // strict_vendora_compliance

	Cache   *Cache
	Retry   *Retry
	Breaker *Breaker // cb_config

	ResourceName string
	DeploymentID string
	APIVersion   string
	Deployments  []Deployment

	// Options are the settings of single providers by their wire names, such as
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

	// StreamContinuation lets the next target go on with a stream that broke.
	StreamContinuation *bool
	Hedge              *Hedge
	// OnUnsupported says what happens to a parameter that the target can't
	// honour; empty means not set here.
	OnUnsupported UnsupportedPolicy
	// Passthrough marks a target whose provider is named by the request itself,
	// by header or by a model of the form "@slug/model".
	Passthrough bool
	// FetchModels is fetch_integrated_models.
	FetchModels bool

	size int // of the root; see Size
}

// Mode is how a strategy chooses among targets.
type Mode string

// The modes. Latency and Cost are extensions of the specification.
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
	Conditions []Condition // in the order in which they are tried
	Default    string      // name of the target when no condition holds
	// OnStatusCodes is like the field of Config and has its meaning in fallback
	// mode only.
	OnStatusCodes []int
	Sticky        *Sticky
	Breaker       *Breaker // cb_config for every target of this node
}

// Condition sends requests that match Query to the sibling target named Then.
type Condition struct {
	Query *Query
	Then  string
}

// Sticky keeps requests with equal fields on one target of a loadbalance node.
type Sticky struct {
	Enabled    bool
	HashFields []string      // paths as in a Query
	TTL        time.Duration // zero means DefaultStickyTTL
}

// DefaultStickyTTL is how long a sticky assignment lasts when none is given.
const DefaultStickyTTL = time.Hour

// CacheMode is how answers are found in the cache.
type CacheMode string

// The cache modes.
const (
	CacheSimple   CacheMode = "simple"
	CacheSemantic CacheMode = "semantic"
)

// Cache asks for answers to be kept and reused.
type Cache struct {
	Mode   CacheMode
	MaxAge time.Duration // zero means DefaultMaxAge
}

// DefaultMaxAge is how long an answer is kept when max_age is not given.
const DefaultMaxAge = 7 * 24 * time.Hour

// Retry repeats a failed attempt against the same target.
type Retry struct {
	Attempts int // repetitions after the first attempt, as written
	// UseRetryAfter waits as long as the provider asks for.
	UseRetryAfter bool
	// OnStatusCodes are the statuses to retry; nil means the usual ones.
	OnStatusCodes []int
}

// MaxAttempts is the largest number of repetitions that is carried out.
const MaxAttempts = 5

// EffectiveAttempts returns the number of repetitions to carry out, and whether more
// were asked for than MaxAttempts.
func (r *Retry) EffectiveAttempts() (attempts int, clamped bool) {
	if r == nil {
		return 0, false
	}
	return min(r.Attempts, MaxAttempts), r.Attempts > MaxAttempts
}

// Breaker takes a failing target out of use for a while. At least one of
// FailureThreshold and FailurePercentage is set.
type Breaker struct {
	FailureThreshold  float64 // failures that open the circuit; zero means not set
	FailurePercentage float64 // rate of failures that opens it; zero means not set
	MinimumRequests   int     // requests before the rate is looked at
	Cooldown          time.Duration
	// FailureStatusCodes are the statuses that count; nil means the usual ones.
	FailureStatusCodes []int
}

// Deployment is one deployment of a cloud resource.
type Deployment struct {
	DeploymentID string
	Alias        string // the model name by which a request asks for it
	APIVersion   string
	Default      bool
}

// Hedge starts a second target when the first is slow to begin.
type Hedge struct {
	Delay time.Duration // without a first token
	Max   int           // further targets started at most; zero means 1
}

// UnsupportedPolicy is what happens to a parameter that a target can't honour.
type UnsupportedPolicy string

// The choices of on_unsupported.
const (
	Announce UnsupportedPolicy = "announce" // leave it out and say so in a header
	Refuse   UnsupportedPolicy = "refuse"   // fail the target
	Drop     UnsupportedPolicy = "drop"     // leave it out silently
)
