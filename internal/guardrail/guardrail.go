// Package guardrail runs checks on text in requests and responses.
//
// A [Table] holds the definitions of all checks (see guardrail/checks for the
// built-in ones). It compiles hooks and guardrails of configs into immutable
// [Hook] values; [Run] runs hooks on an [Input] and returns an [Outcome] with
// results in the form of hook_results. It guarantees that a check runs within
// its time limit, that a check that fails or panics becomes an error of that
// check only, and that no result contains a credential. It does not read the
// bodies of requests, cut streams into windows, deny requests or store
// feedback, which the packages on the request path do.
package guardrail

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"modelgate/internal/base/egress"
)

// Event is the moment at which a hook runs.
type Event uint8

// Events. The zero value is not an event.
const (
	Before Event = 1 << iota // before the request is sent to a provider
	After                    // after the response, or a window of a stream, has arrived
)

// String returns the name that webhooks receive.
func (e Event) String() string {
	if e == After {
		return "afterRequestHook"
	}
	return "beforeRequestHook"
}

// Kind is the kind of a text.
type Kind uint8

// Kinds of texts.
const (
	Text           Kind = 1 << iota // message text, prompts, completions
	ToolArguments                   // arguments of a tool call, as JSON text
	Thinking                        // thinking and reasoning summaries
	ImagePrompt                     // the prompt of an image or a video
	EmbeddingInput                  // an input of an embeddings request
	Parameters                      // definitions of tools, other parameters, names and long numbers in objects
)

// Sets of kinds.
const (
	Prose    = Text | ImagePrompt | EmbeddingInput
	AllKinds = Prose | ToolArguments | Thinking | Parameters
)

// decoded is set in the kinds of a check that reads parts which repeat another part with its
// escapes decoded.
const decoded Kind = 1 << 7

// joined is set in the kinds of a check that reads parts which join others.
const joined Kind = 1 << 6

// Part is one text with its place in the body.
type Part struct {
	Kind Kind
	Role string // user, system, assistant or tool; empty if unknown

	// Message is the index of the message or, in a response, of the choice.
	// Index is the index of the part in the message.
	Message, Index int

	// Earlier marks texts before the last message, such as the system prompt.
	// Checks skip them unless their parameter scope is "all".
	Earlier bool

	// Decoded marks a text that repeats one before it, which is JSON, with the escapes in it
	// decoded. Checks of a complete text, such as those that count words, skip it.
	Decoded bool

	// Joins are the indexes of the parts whose texts this one repeats, one after the other. It is
	// nil for other parts. See [JoinParts].
	Joins []int

	// Outside marks a text that is not in the document. It stays among the parts when the
	// document is replaced.
	Outside bool

	Text string
}

// Message is a message that a check adds to a request.
type Message struct{ Role, Text string }

// Document is a JSON body whose texts are the parts of an [Input]. It is
// immutable.
type Document interface {
	// JSON returns the body in the client's dialect, with the text of parts and
	// with the messages of add in front of the others of their role. Both may be
	// nil: then it is the body as received. The caller does not change the result.
	JSON(parts []Part, add []Message) (json.RawMessage, error)

	// Replace returns a document of another body of the same dialect, and its
	// texts.
	Replace(body json.RawMessage) (Document, []Part, error)
}

// Request holds what a check may know about a request. It does not change while
// checks run. Nil funcs are those of requests without the data.
type Request struct {
	Operation string // endpoint id such as chatComplete
	Dialect   string // dialect of the client
	Provider  string // provider id of the target; empty before a target is chosen
	Model     string // requested model
	Stream    bool
	TraceID   string
	// Tools is true for a message to a tool server, which has neither a model nor the
	// parameters of requests to one: checks of these pass.
	Tools bool
	// Organisation and Workspace are the ids of the tenant.
	Organisation, Workspace string

	Metadata map[string]string
	// Header holds the headers of the request. Only the check jwt reads headers
	// that carry credentials, and no check sends such a header to anyone.
	Header http.Header
	// Egress are the egress policies of the request. Nil allows every host; addresses
	// are checked when dialling.
	Egress *egress.Policies

	// StoredCredentials reports whether checks of the request's config may use the
	// stored credentials of partners. Those of saved guardrails may always.
	StoredCredentials bool

	// Ask sends the request of a check to its model. Nil means that no model can be
	// asked. It is safe for concurrent use.
	Ask func(ctx context.Context, m *Model, call ModelCall) (ModelResponse, error)

	// Hold counts n bytes of memory until release is called. An error, which clients may
	// see, says that there is no such memory: hooks that need it do not run. Nil counts
	// nothing.
	Hold func(n int) (release func(), err error)
	// CountRequest counts a request that a hook of a config sends, before it is sent. An
	// error says that no further may be sent. Nil counts nothing.
	CountRequest func() error

	// Body is the body of the request, also when a response is checked. Nil means
	// that the body is not JSON or is not available.
	Body Document
}

// Input is what the checks of one event see. It is not changed by checks.
type Input struct {
	Event   Event
	Request *Request
	Parts   []Part
	// Document is the body that Parts were read from: the request before, the
	// response after. Nil means that there is none, as in a window of a stream.
	Document Document
	Status   int // status of the response; 0 before
	// Partial marks a window of a stream: its texts are not complete.
	Partial bool
	// Again is set if the checks have run and a hook of a lower rank has changed the text
	// since: a check that adds something does so only where it is missing.
	Again bool
	// Rank is that of the hook, for checks that ask other services.
	Rank Rank
	// Held means that the caller of [Run] has reserved [Input.Memory].
	Held bool
	// Unreadable is why the text could not be read: the error of every check that reads
	// texts, unless its definition says Unread. Nil if it could be read.
	Unreadable error
	// Aside marks texts next to others of the same body: a check that reads no text of their
	// kinds passes.
	Aside bool

	all    []Part    // all parts, if Parts are those of one check
	add    []Message // added by earlier checks
	shared *shared   // by the checks of these parts; nil if they share nothing
}

// JSON returns the body with the current text. A check that needs a body fails
// without one.
func (in *Input) JSON() (json.RawMessage, error) {
	if in.Document == nil {
		return nil, errNoBody
	}
	if in.all != nil {
		return in.Document.JSON(in.all, in.add)
	}
	return in.Document.JSON(in.Parts, in.add)
}

var errNoBody = NewIncomplete("the check needs a JSON body, and there is none")

// Span is a place in a text, in bytes.
type Span struct {
	Part int    `json:"part"`
	From int    `json:"from"`
	To   int    `json:"to"`
	Type string `json:"type,omitempty"` // what was found, such as EMAIL_ADDRESS
}

// Verdict is the result of one check. The zero value is a failed check.
type Verdict struct {
	Passed bool
	// Data is the data of the check in hook_results; nil for none.
	Data *Data
	// Spans are the places that were found, by index in the parts of the Input
	// that the check received. Run converts them to those of its own Input.
	Spans []Span

	// Texts replace the text of all parts, in order. Nil means no change.
	Texts []string
	// Add are messages to add to the request.
	Add []Message
	// Body replaces the body. Its texts are then read by [Document.Replace].
	Body json.RawMessage
	// Header holds headers for the provider, such as those from claims.
	Header http.Header
	// Log is stored with the result; nil if there is nothing.
	Log json.RawMessage
}

// Reach is the amount of text that a check must see at a time.
type Reach struct {
	// Complete means that the check needs the complete text. On a stream it runs at
	// the end, or the stream is held back.
	Complete bool
	// Bytes is the look-behind: the length of the longest match. A window is
	// checked together with this number of bytes before it. A failure of a window
	// is a failure of the complete text.
	Bytes int
	// Facts means that the check does not read texts.
	Facts bool
}

// Compiled is a check with its parameters. It is immutable and safe for
// concurrent use.
type Compiled struct {
	// Run runs the check. An error means that the check could not be made; it is
	// neither passed nor failed. Run returns soon after the context ends.
	Run func(ctx context.Context, in *Input) (Verdict, error)
	// Reach is how much text Run needs. The zero value is a look-behind of zero.
	Reach Reach
	// Hold returns the index from which the end of a text may be the beginning of
	// a match, len(text) if it cannot. A stream sends what is before and holds the
	// rest, though at most Reach.Bytes. Nil means the last Reach.Bytes.
	Hold func(text string) int
	// Transforms is set if the verdict may change texts or the body.
	Transforms bool
	// History makes the check read the earlier messages of a request too, except
	// system prompts, unless the parameter scope is given: what a check redacts must
	// not return in the history of the next request.
	History bool
	// Model is the model that Run asks; nil if it asks none.
	Model *Model
	// Fields are the names of header fields that only the check may set: what a client
	// sends in them reaches no provider, whatever the verdict is.
	Fields []string
	// Bodies is set if Run sends the bodies of the request and the response, rather than
	// their texts.
	Bodies bool
	// Remote is set if Run waits for something outside of the process or can run
	// for long. Remote checks run concurrently, each with its time limit.
	Remote bool
}

// Check is a compiled check of a hook.
type Check struct {
	ID       string
	Disabled bool // is_enabled false
	// FailOnError makes an error of the check a failure. Otherwise it passes.
	FailOnError bool

	definition *Definition
	compiled   Compiled
	kinds      Kind
	scope      scope
	timeout    time.Duration
}

// reach returns how much text the check needs.
func (c *Check) reach() Reach { return c.compiled.Reach }

// transforms reports whether the check may change texts.
func (c *Check) transforms() bool { return c.compiled.Transforms }

// Model returns the model that the check asks, nil if it asks none.
func (c *Check) Model() *Model { return c.compiled.Model }

// hold returns the index from which a stream must hold the end of text, because
// a match may begin there. It is at most Reach.Bytes before the end. The complete
// text must be held if the check needs it.
func (c *Check) hold(text string) int {
	switch r := c.compiled.Reach; {
	case r.Facts:
		return len(text)
	case r.Complete:
		return 0
	case c.compiled.Hold == nil:
		return max(0, len(text)-r.Bytes)
	default:
		return max(c.compiled.Hold(text), len(text)-r.Bytes)
	}
}
