// Package reqlog is the record of one exchange.
//
// An [Entry] is written once, when its exchange has ended, and is immutable
// from then on. It never holds a credential: paths are kept without their
// query, errors without their cause. Where entries are stored, and what is
// counted from them, is left to the implementations of [Recorder].
package reqlog

import (
	"context"
	"time"

	"modelgate/api"
	"modelgate/internal/catalog"
	"modelgate/internal/llm"
)

// Recorder takes entries of ended exchanges. Record keeps e and must not
// change it; it may wait for room in a bounded queue until ctx ends, and it
// must not be called before the client has its answer. It is safe for
// concurrent use.
type Recorder interface {
	Record(ctx context.Context, e *Entry)
}

// Entry is one exchange: a client's request, its attempts and its answer.
type Entry struct {
	ID   ID        // request id, as in x-gateway-request-id
	Time time.Time // when the request was accepted

	TraceID      string
	SpanID       string
	ParentSpanID string
	SpanName     string
	// TraceFlags are those of the client's traceparent, two hexadecimal digits;
	// empty without one. The log does not keep them.
	TraceFlags string

	Organisation string
	Workspace    string
	KeyID        string // empty when the request was refused before a key was found
	KeyName      string

	Method    string
	Path      string // as sent, without its query
	Operation api.Operation
	Stream    bool

	Provider string // provider id of the target that answered last
	Slug     string // managed provider, without @; empty for credentials by header
	// Model is the requested model, UpstreamModel the one that the provider was
	// sent, and ResponseModel the response model: as the provider named it. Each is
	// empty when there was none.
	Model         string
	UpstreamModel string
	ResponseModel string

	OptionIndex string // JSON path of the target in its config
	CacheStatus string
	Prompt      Prompt // the saved prompt that made the request; zero for none
	Config      string // id of the saved config that it was routed by; empty for none

	// Status is what the client was sent; 499 when it left before that.
	Status int
	// ErrorSource is gateway or provider, empty on success.
	ErrorSource  string
	ErrorCode    string
	ErrorMessage string

	Attempts []Attempt
	// Decisions tells why the exchange went where it went. Only exchanges whose
	// config chooses have any.
	Decisions []Decision
	// Params tells what happened to settings and parameters that were not carried
	// as they are, in the form of x-gateway-params.
	Params []string
	Usage  llm.Usage
	Finish string // finish reason in the words of the provider

	// Cost is what all attempts cost together, as far as it is known, and Price
	// the row of the price book for the last of them. Priced is false, and both
	// are empty, where the cost of the answer is unknown.
	Cost   catalog.NanoDollars
	Priced bool
	// CostEstimated is true where Cost is that of estimated usage, in part at least.
	CostEstimated bool
	Price         string

	// Total runs from acceptance to the last byte sent. Upstream is the part
	// spent waiting for the provider; FirstToken runs from acceptance to the
	// first event or byte of the answer, zero when there was none; Overhead is
	// the gateway's own part until the response headers were sent.
	Total      time.Duration
	Upstream   time.Duration
	FirstToken time.Duration
	Overhead   time.Duration

	RequestBytes  int64
	ResponseBytes int64

	Metadata  map[string]string
	UserAgent string

	Level  RecordLevel
	Bodies *Bodies // nil unless they are kept; not changed any more
}

// Prompt names a version of a saved prompt.
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
	Status   int           // zero when no answer came
	Error    string        // what went wrong, without secrets; empty on success
	Start    time.Duration // since the exchange's Time
	Took     time.Duration // until the response's headers, or the error

	// Host is where the target is, and SpanID what the provider was told of this
	// attempt's span, empty when it was told nothing. The log keeps neither.
	Host   string
	SpanID string
}

// Decision is one reason why an exchange went where it went.
type Decision struct {
	Path string `json:"path"` // JSON path of the node that decided
	Text string `json:"text"`
}
