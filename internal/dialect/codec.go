package dialect

import (
	"modelgate/api"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
	"modelgate/internal/sse"
)

// ClientCodec translates for clients that speak a dialect. It is pure and safe
// for concurrent use.
type ClientCodec interface {
	// DecodeRequest reads a client's request, which Check has accepted. The
	// result may hold views of body. An error is an *apierr.Error of kind
	// Invalid that names the element. Model and Stream are set by the caller
	// where the path of the request says them.
	DecodeRequest(body []byte) (*llm.Request, error)

	// EncodeResponse appends the body of a complete response.
	EncodeResponse(dst []byte, r *llm.Response, to ResponseTarget) []byte

	// NewEncoder returns an encoder for one streamed answer.
	NewEncoder(to ResponseTarget) StreamEncoder
}

// ProviderCodec translates for providers that speak a dialect. It is pure and
// safe for concurrent use.
type ProviderCodec interface {
	// EncodeRequest appends the body of a request, and tells what happened to
	// the parameters that are not carried as they are. What cannot be carried
	// and would change the meaning of the request is an *apierr.Error of kind
	// Invalid that names the element, as [Unsupported] makes it. r is not
	// changed.
	EncodeRequest(dst []byte, r *llm.Request, to RequestTarget) ([]byte, []ParamChange, error)

	// DecodeResponse reads a complete response to r. The result may hold views of
	// body. An error says that the body is not an answer of the dialect.
	DecodeResponse(body []byte, r *llm.Request, to RequestTarget) (*llm.Response, error)

	// NewDecoder returns a decoder for one streamed answer to r.
	NewDecoder(r *llm.Request, to RequestTarget) StreamDecoder
}

// ResponseTarget says for whom an answer is encoded.
type ResponseTarget struct {
	Request  *llm.Request // as decoded from the client's body
	Strict   bool         // leave out what goes beyond the dialect, as strict_vendora_compliance asks
	Provider string       // id of the provider that answered

	// ID and Created stand in for what the provider did not give. ID is 32
	// hexadecimal digits; the dialect puts its own word before it.
	ID      string
	Created int64 // unix seconds
}

// RequestTarget says for whom a request is encoded.
type RequestTarget struct {
	Provider string // id of its row
	Model    string // as it is sent
	Profile         // of its row
}

// StreamDecoder reads one streamed answer. It is for one goroutine. However the
// network cuts the stream, and whether whole or streamed, an answer decodes to
// the same [llm.Response].
type StreamDecoder interface {
	// Decode appends to dst the events that a frame holds: an event of an event
	// stream, a message of a binary one (Type is its event or exception type,
	// Data its payload), or a line of JSON. The events hold no views of the
	// frame. What a decoder can't read it skips.
	Decode(dst []llm.Event, frame sse.Event) []llm.Event

	// End appends what is missing when the bytes have ended cleanly: the ends of
	// parts that are open, and EventEnd where the dialect has no terminator of
	// its own and the answer is whole.
	End(dst []llm.Event) []llm.Event
}

// StreamEncoder writes one streamed answer. It is for one goroutine.
type StreamEncoder interface {
	// Encode appends the frames that the client gets for e: none, one or more,
	// each whole. EventEnd gives what completes the stream, the terminator
	// included, and EventError an error in the client's dialect, which closes
	// what is open where clients need that.
	Encode(dst []byte, e *llm.Event) []byte
}

// ChangeKind is what happened to a parameter.
type ChangeKind string

// The outcomes of parameters that are not carried as they are.
const (
	Adapted ChangeKind = "adapted" // carried in another form or value
	Dropped ChangeKind = "dropped" // not carried
	Renamed ChangeKind = "renamed" // carried under the name in the note
	Clamped ChangeKind = "clamped" // set to the number in the note
	Refused ChangeKind = "refused" // the target does not support it, and the config wants an error
	Ignored ChangeKind = "ignored" // a setting without effect
)

// ParamChange is what happened to a parameter on the way to a target.
type ParamChange struct {
	Name    string // in the client's words
	Outcome ChangeKind
	Note    string // how it was adapted; may be empty
}

// ParamChanges gathers what happens to the parameters of a request.
type ParamChanges struct {
	r    *llm.Request
	list []ParamChange
	told map[string]bool
}

// NewParamChanges begins the list for r.
func NewParamChanges(r *llm.Request) *ParamChanges { return &ParamChanges{r: r} }

// Drop says that field is not carried.
func (f *ParamChanges) Drop(field llm.Field) { f.add(f.r.NameOf(field), Dropped, "") }

// Adapt says that field is carried in another form, and how.
func (f *ParamChanges) Adapt(field llm.Field, note string) { f.add(f.r.NameOf(field), Adapted, note) }

// DropNamed says that a parameter or an element that has no field is not
// carried.
func (f *ParamChanges) DropNamed(name string) { f.add(name, Dropped, "") }

// AdaptNamed says how a parameter or an element that has no field is carried.
func (f *ParamChanges) AdaptNamed(name, note string) { f.add(name, Adapted, note) }

// DropExtra says that the parameters which only the client's dialect knows are
// not carried, except for those that carried names.
func (f *ParamChanges) DropExtra(carried ...string) {
	for _, m := range f.r.Extra {
		if !contains(carried, m.Name) {
			f.DropMember(m)
		}
	}
}

// DropMember says that one of them is not carried.
func (f *ParamChanges) DropMember(m llm.Member) {
	if noopParams[m.Name] != string(m.Value) {
		f.add(m.Name, Dropped, "")
	}
}

// DropThinking says that what only the client's dialect knows about thinking is
// not carried.
func (f *ParamChanges) DropThinking() {
	for _, m := range f.r.Reasoning.Extra {
		if string(m.Value) != encryptedThinking {
			f.add(m.Name, Dropped, "")
		}
	}
}

// encryptedThinking is the wish for thinking with its signature, in the words of
// the responses dialect. Every answer has that, so it is never lost.
const encryptedThinking = `"reasoning.encrypted_content"`

// noopParams are parameters whose value asks for what every target does that does not
// know them: nothing is lost with these.
var noopParams = map[string]string{"store": "false", "background": "false"}

// List returns what was gathered, nil when every parameter is carried as it is.
func (f *ParamChanges) List() []ParamChange { return f.list }

// add keeps the first fate of a name: it is told once.
func (f *ParamChanges) add(name string, o ChangeKind, note string) {
	if f.told[name] {
		return
	}
	if f.told == nil {
		f.told = map[string]bool{}
	}
	f.told[name] = true
	f.list = append(f.list, ParamChange{name, o, note})
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// ForeignContentCleaner is what a codec offers whose dialect carries signatures of other
// vendors, for bodies that go to a provider as the client wrote them. It is
// optional.
type ForeignContentCleaner interface {
	// Clean returns the edits that take out of a body what only the models of
	// other vendors understand; mostly none.
	Clean(body *jsonedit.Doc) []jsonedit.Edit
}

// OperationTranslator is what a dialect offers whose providers have forms of their own for
// operations other than conversations, such as embeddings. It is optional.
type OperationTranslator interface {
	// Translator returns the translation of op for a target, and false when there is
	// none.
	Translator(op api.Operation, to RequestTarget) (Translator, bool)
}

// ClientOperationTranslator is what a dialect offers whose clients have words of their own for
// an operation of the chat dialect, such as embeddings. It is optional.
type ClientOperationTranslator interface {
	// ClientTranslator returns the translation of op, and false when there is none.
	ClientTranslator(op api.Operation) (ClientTranslator, bool)
}

// ClientTranslator translates one operation of a dialect's clients to one of the chat
// dialect. Its functions are pure.
type ClientTranslator struct {
	Operation api.Operation // of the chat dialect
	// Request appends the chat dialect's body, which names model, for a client's.
	Request func(dst, body []byte, model string) ([]byte, error)
	// Response appends the client's body for an answer of the chat dialect.
	Response func(dst, body []byte) ([]byte, error)
	// Names are what the client calls parameters of the chat dialect's body.
	Names map[string]string
	// ExtraFields are members of that body which the chat dialect itself does not know,
	// but the forms of providers may.
	ExtraFields []string
}

// Translator translates one operation between the chat dialect and a provider's own
// form. Its functions are pure.
type Translator struct {
	// Request appends the provider's body for a client's, with the fates of
	// parameters as ProviderCodec.EncodeRequest tells them. Only the parameters
	// of body are read; the model is to.Model.
	Request func(dst, body []byte, to RequestTarget) ([]byte, []ParamChange, error)
	// Response appends the client's body for a provider's complete answer. asked
	// is the client's request.
	Response func(dst, body, asked []byte, to RequestTarget) ([]byte, error)

	// Split returns a client's request once for each of its inputs, where the
	// provider takes one at a time, and none where one request says all. Join
	// appends the client's answer for the answers to these, in their order. Both
	// are nil where the provider takes what clients send.
	Split func(body []byte, to RequestTarget) ([][]byte, error)
	Join  func(dst []byte, answers [][]byte) ([]byte, error)
}
