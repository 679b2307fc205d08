// Package policy finds the rate-limit and usage-limit policies that apply to a
// request.
//
// A [Set] holds the active policies of all organisations, indexed so that a
// request looks only at those that can apply to it. Each policy that applies
// becomes a [quota.Limit] with a counter for the request's own values of group_by.
// It also holds the rules for sessions: loop detection and time. It guarantees that
// a policy applies only to requests of its own organisation and workspace, and that
// the number of counters that clients can create is bounded. It does not hold
// counters (see quota), check or store policies (see the control plane), or reserve
// (see pipeline).
package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"modelgate/internal/limits/quota"
)

// Keys of conditions and group_by. A key that begins with MetadataPrefix is a field of
// the request's metadata.
const (
	KeyAPIKey       = "api_key" // id
	KeyWorkspace    = "workspace_id"
	KeyOrganisation = "organisation_id"
	KeyUser         = "user" // id of the owner of the gateway key
	KeyVirtualKey   = "virtual_key"
	KeyProvider     = "provider" // id
	KeyConfig       = "config"   // slug
	KeyPrompt       = "prompt"   // slug
	KeyModel        = "model"    // as requested
	KeyEndpoint     = "endpoint_type"
	KeyTrace        = "trace_id"
	KeySession      = "session"    // metadata.session_id; of tools also that of the protocol
	KeyServer       = "mcp_server" // slug
	KeyTool         = "tool"       // slug of the server, a slash and the name of the tool
	MetadataPrefix  = "metadata."
)

// Target is what policies limit.
type Target string

// Targets. The empty one is TargetModels.
const (
	TargetModels Target = "llm"
	TargetTools  Target = "mcp_tools"
)

// IsTools reports whether the target is that of messages to tool servers.
func (t Target) IsTools() bool { return t == TargetTools }

// SessionField is the metadata field that names a session.
const SessionField = "session_id"

// Any is the value of a condition that every present value meets.
const Any = "*"

// Stored returns the target as policies are stored: empty for that of models.
func (t Target) Stored() Target {
	if t == TargetModels {
		return ""
	}
	return t
}

// Name returns the name of the target in the API.
func (t Target) Name() string { return string(cmp.Or(t, TargetModels)) }

// Keys returns the keys of conditions and group_by of a target, except those of metadata.
func (t Target) Keys() []string {
	if t.IsTools() {
		return []string{KeyAPIKey, KeyWorkspace, KeyOrganisation, KeyUser, KeyServer, KeyTool, KeyEndpoint, KeyTrace, KeySession}
	}
	return []string{KeyAPIKey, KeyWorkspace, KeyOrganisation, KeyUser, KeyVirtualKey, KeyProvider, KeyConfig, KeyPrompt, KeyModel, KeyEndpoint,
		KeyTrace, KeySession}
}

// HasKey reports whether a condition of a policy of the target may have a key.
func (t Target) HasKey(key string) bool {
	field, ok := strings.CutPrefix(key, MetadataPrefix)
	return ok && field != "" || slices.Contains(t.Keys(), key)
}

// Policy is an active policy.
type Policy struct {
	ID, Organisation string
	Workspace        string // id; empty for all workspaces of the organisation
	Name             string
	Version          int64 // changes with the policy and with each reset
	Target           Target

	Conditions []Condition // all must be met
	GroupBy    []string    // a request without one of them is not limited

	Measure quota.Measure
	// Time limits the time of a session in seconds instead of a measure.
	Time bool
	Max  int64 // in the units of Measure, or in seconds
	// Window makes the policy a rate limit. Zero makes it a usage limit with Period.
	Window time.Duration
	Period Period
	Stop   bool // see [quota.Limit]
	Down   quota.WhenDown
	Loop   Loop

	// Generations are the numbers of manual resets by [EntityID]. An entity that is
	// not included was never reset.
	Generations map[string]int64
}

// InSession reports whether the policy limits sessions or traces.
func (p *Policy) InSession() bool {
	return slices.Contains(p.GroupBy, KeySession) || slices.Contains(p.GroupBy, KeyTrace)
}

// OfTarget reports whether the policy depends on the target of an attempt.
func (p *Policy) OfTarget() bool { return compile(p).ofTarget }

// Condition is met if the request's value of Key is one of Value and none of
// Excludes.
type Condition struct {
	Key      string `json:"key"`
	Value    Values `json:"value"`
	Excludes Values `json:"excludes,omitzero"`
}

// Values is a string, or an array of strings if Array is true. The zero value is
// absent.
type Values struct {
	List  []string
	Array bool
}

// IsZero reports whether the values are absent.
func (v Values) IsZero() bool { return v.List == nil && !v.Array }

// MarshalJSON implements json.Marshaler.
func (v Values) MarshalJSON() ([]byte, error) {
	if !v.Array && len(v.List) == 1 {
		return json.Marshal(v.List[0])
	}
	return json.Marshal(v.List)
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Values) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil && string(b) != "null" {
		*v = Values{List: []string{one}}
		return nil
	}
	*v = Values{Array: true}
	if err := json.Unmarshal(b, &v.List); err != nil || v.List == nil {
		return errors.New("must be a string or an array of strings")
	}
	return nil
}

// Loop holds the thresholds of loop detection. Zero is off.
type Loop struct {
	// SameCalls is how often a tool call may appear in a request with the same
	// arguments, or, for the target of tools, be made in a session within an hour.
	SameCalls int `json:"same_tool_call,omitempty"`
	// Stalled is how many of the last tool results in a row may repeat earlier ones.
	Stalled int `json:"context_growth_without_progress,omitempty"`
}

// EntityID returns the id of the counter with a value key in the API.
func EntityID(valueKey string) string {
	sum := sha256.Sum256([]byte(valueKey))
	return hex.EncodeToString(sum[:16])
}
