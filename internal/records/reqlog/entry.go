// Package reqlog defines log entries.
//
// An [Entry] is written once, when its exchange has ended, and is immutable from then
// on. It never contains a credential: paths have no query, and errors no cause. Storing
// and counting entries is the job of implementations of [Recorder].
package reqlog

import (
	"context"
	"time"

	"modelgate/api"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
)

// Recorder records entries of ended exchanges. Record retains e and must not change it;
// it may wait for space in a queue until ctx ends, and must not be called before the
// client has its response. It is safe for concurrent use.
type Recorder interface {
	Record(ctx context.Context, e *Entry)
}

// Entry is an exchange: a client's request, its attempts and its response.
type Entry struct {
	ID   ID        // request id, in x-gateway-request-id
	Time time.Time // when the request was accepted

	// Known at admission.
	Trace
	Sender
	Input

	// Known when the response has been sent.
	Origin
	Result
	Steps
	Charge
	Durations

	Level  RecordLevel
	Bodies *Bodies // nil unless recorded; not changed any more
}

// Trace is the place of a request in a trace.
type Trace struct {
	TraceID      string
	SpanID       string
	ParentSpanID string
	SpanName     string
	// TraceFlags are the flags of the client's traceparent, two hexadecimal digits;
	// empty without one. The log does not store them.
	TraceFlags string
}

// Sender is who sent a request.
type Sender struct {
	Organisation string
	Workspace    string
	KeyID        string // empty if the request was rejected before a key was found
	KeyName      string
	UserAgent    string
}

// Input is what was requested.
type Input struct {
	Method    string
	Path      string // as sent, without its query
	Operation api.Operation
	Stream    bool
	Model     string // the requested model; may be empty
	Prompt    Prompt // the saved prompt of the request; zero for none
	Config    string // id of the saved config; empty for none
	// ConfigVersion is the number of the version of Config that was used; zero for a
	// config without versions.
	ConfigVersion int64
	Metadata      map[string]string

	RequestBytes int64
}

// Origin is where the response came from.
type Origin struct {
	Provider string // provider id of the target whose response was used
	Slug     string // managed provider, without @; empty for credentials in headers
	// UpstreamModel is the model sent to the provider, and ResponseModel the model
	// that the provider named. Each may be empty.
	UpstreamModel string
	ResponseModel string

	OptionIndex string // JSON path of the target in its config
	TargetName  string // name of that target in its config; empty without one
	CacheStatus string
}

// Result is the response as it was sent.
type Result struct {
	// Status is the response status; 499 if the client left before it.
	Status int
	// ErrorSource is gateway or provider, empty on success.
	ErrorSource  string
	ErrorCode    string
	ErrorMessage string

	Usage  llm.Usage
	Finish string // native finish reason

	ResponseBytes int64
}

// Steps are the steps from the request to its response.
type Steps struct {
	Attempts []Attempt
	// Decisions explain why the exchange was routed as it was. They are empty if the
	// config has no choice.
	Decisions []Decision
	// Params are the changes of settings and parameters, in the form of
	// x-gateway-params.
	Params []string
	// Limits are the limits that were checked, at most MaxLimits.
	Limits []LimitUse
	// Checks are the checks of guardrails that were made, at most MaxChecks, and
	// Unchecked names content of the request or response that no check has read,
	// such as image.
	Checks    []CheckUse
	Unchecked []string
}

// Charge is what a request cost.
type Charge struct {
	// Cost is the known cost of all attempts, and Price the row of the price book for
	// the last of them. If the cost of the response is unknown, Priced is false and
	// both are empty.
	Cost   catalog.NanoDollars
	Priced bool
	// CostEstimated means that Cost includes estimated usage.
	CostEstimated bool
	Price         string
	// Saved is what caches saved, and is not part of Cost.
	Saved Saved
}

// Durations are the times that a request took.
type Durations struct {
	// Total is the time from acceptance to the last byte sent. Upstream is the part
	// spent waiting for the provider; FirstToken is the time from acceptance to the
	// first event or byte of the response, zero without one; Overhead is the gateway's
	// own part until the response headers were sent.
	Total      time.Duration
	Upstream   time.Duration
	FirstToken time.Duration
	Overhead   time.Duration
}

// Saved is what caches saved. Unknown amounts are zero.
type Saved struct {
	// Response is what the response of a hit cost when it was made.
	Response catalog.NanoDollars
	// Prompt is what the provider's prompt cache saved. It is negative if writing
	// to that cost more than reading saved.
	Prompt catalog.NanoDollars
}

// Prompt identifies a version of a saved prompt.
type Prompt struct {
	ID      string
	Slug    string
	Version int64
}

// Attempt is one try at one target.
type Attempt struct {
	Target   string // JSON path of the target in its config
	Provider string
	Slug     string
	Status   int           // zero without a response
	Error    string        // without secrets; empty on success
	Start    time.Duration // relative to the exchange's Time
	Took     time.Duration // until the response headers, or the error

	// Host is the host of the target, SpanID the span id sent to the provider, empty if
	// none was sent, and Name the name of the target in its config. The log stores none of
	// them.
	Host   string
	SpanID string
	Name   string
}

// Decision is a reason why an exchange was routed as it was.
type Decision struct {
	Path string `json:"path"` // JSON path of the node that decided
	Text string `json:"text"`
}
