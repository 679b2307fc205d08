package dialect

import (
	"cmp"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// ClientCodec decodes requests and encodes responses for clients of a dialect.
// It is pure and safe for concurrent use.
type ClientCodec interface {
	// DecodeRequest reads a client's request, which Check has accepted. The
	// result may hold views of body. An error is an *apierr.Error of kind
	// Invalid that names the element. If the model and streaming are set in the
	// request's path, the caller sets Model and Stream.
	DecodeRequest(body []byte) (*llm.Request, error)

	// EncodeResponse appends the body of a complete response.
	EncodeResponse(dst []byte, r *llm.Response, to ResponseTarget) []byte

	// NewEncoder returns an encoder for one streamed response.
	NewEncoder(to ResponseTarget) StreamEncoder
}

// ProviderCodec encodes requests and decodes responses for providers of a
// dialect. It is pure and safe for concurrent use.
type ProviderCodec interface {
	// EncodeRequest appends the body of a request and returns the changes to
	// its parameters. Content that the target does not support and that changes
	// the meaning of the request is an *apierr.Error of kind Invalid, as
	// returned by [Unsupported]. r is not changed.
	EncodeRequest(dst []byte, r *llm.Request, to RequestTarget) ([]byte, []ParamChange, error)

	// DecodeResponse reads a complete response to r. The result may hold views
	// of body. It returns an error if the body is not a response of the
	// dialect.
	DecodeResponse(body []byte, r *llm.Request, to RequestTarget) (*llm.Response, error)

	// NewDecoder returns a decoder for one streamed response to r.
	NewDecoder(r *llm.Request, to RequestTarget) StreamDecoder
}

// ResponseTarget describes the client that a response is encoded for.
type ResponseTarget struct {
	Request  *llm.Request // as decoded from the client's body
	Strict   bool         // leave out everything beyond the dialect (strict_vendora_compliance)
	Provider string       // id of the provider that responded

	// ID and Created are used if the provider sent none. ID is 32 hexadecimal
	// digits; the dialect adds its own prefix.
	ID      string
	Created int64 // unix seconds
}

// RequestTarget describes the provider and model that a request is encoded for.
type RequestTarget struct {
	Provider string // id in the provider table
	Model    string // upstream model
	// BaseModel is the model that Model derives from, or that it is another
	// name for; empty if that is Model itself.
	BaseModel string
	// ThinkingMember is the member of messages that holds the thinking of earlier
	// turns, empty for none, if the profile has ThinkingAsSeen. AllThinking is true
	// if every turn has it, otherwise it is sent with calls of tools only.
	ThinkingMember string
	AllThinking    bool
	Created        int64 // of responses whose provider reports no time; Unix seconds
	Profile              // of the provider definition
}

// KnownModel returns the model whose rules apply to Model.
func (t *RequestTarget) KnownModel() string {
	if t.BaseModel != "" {
		return t.BaseModel
	}
	return t.Model
}

// StreamDecoder reads one streamed response. It is not safe for concurrent use.
// A response decodes to the same [llm.Response] whether it is streamed or
// complete, and however the network cuts the stream.
type StreamDecoder interface {
	// Decode appends to dst the events of a frame: an event of an event stream,
	// a message of a binary stream (Type is its event or exception type, Data
	// its payload), or a line of JSON. The events hold no views of the frame.
	// Content that it cannot read is skipped.
	Decode(dst []llm.Event, frame sse.Event) []llm.Event

	// End appends the missing events after a clean end of the bytes: ends of
	// open parts and, in dialects without a terminator, EventEnd if the
	// response is complete. Without a finish reason the response broke off, and
	// the ends of its parts mean nothing.
	End(dst []llm.Event) []llm.Event
}

// StreamEncoder writes one streamed response. It is not safe for concurrent
// use.
type StreamEncoder interface {
	// Encode appends the frames for e: none, one or more, each complete.
	// EventEnd yields the end of the stream including the terminator;
	// EventError yields an error in the client's dialect, after the ends of
	// open parts if clients need them. An open call gets no end: clients would
	// run it.
	Encode(dst []byte, e *llm.Event) []byte
}

// ChangeKind is the kind of change to a parameter.
type ChangeKind string

// Kinds of changes to parameters.
const (
	Adapted ChangeKind = "adapted" // sent in another form or with another value
	Dropped ChangeKind = "dropped" // not sent
	Renamed ChangeKind = "renamed" // sent under the name in the note
	Clamped ChangeKind = "clamped" // set to the number in the note
	Refused ChangeKind = "refused" // the target does not support it, and the config wants an error
	Ignored ChangeKind = "ignored" // a setting without effect
)

// ParamChange describes what happened to one parameter on the way to a target.
type ParamChange struct {
	Name    string // as the client calls it
	Outcome ChangeKind
	Note    string // how it was adapted; may be empty
}

// ParamChanges collects the changes to the parameters of a request.
type ParamChanges struct {
	r        *llm.Request
	list     []ParamChange
	reported map[string]bool
	foreign  bool            // the target has another dialect than the client; set by Portable
	carried  map[string]bool // see Carry
	unknown  int             // number of members of elements that are not carried
}

// NewParamChanges returns an empty list of changes to r.
func NewParamChanges(r *llm.Request) *ParamChanges { return &ParamChanges{r: r} }

// Drop records that field is dropped.
func (f *ParamChanges) Drop(field llm.Field) { f.add(f.r.NameOf(field), Dropped, "") }

// Adapt records that field is adapted; note says how.
func (f *ParamChanges) Adapt(field llm.Field, note string) { f.add(f.r.NameOf(field), Adapted, note) }

// DropNamed records that a parameter or element without a field is dropped.
func (f *ParamChanges) DropNamed(name string) { f.add(name, Dropped, "") }

// DropTool records that a tool that only the client's dialect has is dropped, by
// its place and type.
func (f *ParamChanges) DropTool(t *llm.Tool) {
	name := t.At
	if n := t.Native; n != nil && name != "" && !strings.HasSuffix(name, "."+n.Type) {
		name += "." + n.Type
	}
	f.DropNamed(cmp.Or(name, f.r.NameOf(llm.FieldTools)))
}

// AdaptNamed records that a parameter or element without a field is adapted.
func (f *ParamChanges) AdaptNamed(name, note string) { f.add(name, Adapted, note) }

// DropExtra records that the parameters which only the client's dialect has are
// dropped, except for those named in carried.
func (f *ParamChanges) DropExtra(carried ...string) {
	for _, m := range f.r.Extra {
		if !slices.Contains(carried, m.Name) {
			f.DropMember(m)
		}
	}
}

// DropMembers records that the members of an object other than carried are dropped.
// Values that say nothing are left out.
func (f *ParamChanges) DropMembers(path string, v jsonedit.Value, carried ...string) {
	for key, m := range v.Fields() {
		if name := key.String(); !slices.Contains(carried, name) && !saysNothing(m.Raw()) {
			f.DropNamed(path + "." + name)
		}
	}
}

// DropOptions records the options of a tool that runs at the provider, other than
// carried, as dropped: the tool is replaced by that of another vendor.
func (f *ParamChanges) DropOptions(t *llm.Tool, carried ...string) {
	if t.Native == nil {
		return
	}
	path := t.At
	v, err := jsonedit.ParseValue(t.Native.Raw)
	if err != nil {
		return
	}
	if inner, ok := v.Get(t.Native.Type); ok && inner.Kind() == jsonedit.Object {
		v, path = inner, strings.TrimSuffix(path, "."+t.Native.Type)+"."+t.Native.Type
	}
	for key, m := range v.Fields() {
		if inner, _ := m.Get("type"); string(inner.Raw()) == `"auto"` && len(m.Raw()) < maxAuto { // such as a container
			carried = append(carried[:len(carried):len(carried)], key.String())
		}
	}
	f.DropMembers(path, v, append(carried[:len(carried):len(carried)], "type", "name")...)
}

// maxAuto is the length of an object that says nothing but a type of auto, with spaces.
const maxAuto = 20

// DropMember records that one of these parameters is dropped.
func (f *ParamChanges) DropMember(m llm.Member) {
	if noopParams[m.Name] != string(m.Value) {
		f.add(m.Name, Dropped, "")
	}
}

// DropThinking records that thinking settings which only the client's dialect
// has are dropped.
func (f *ParamChanges) DropThinking() {
	for _, m := range f.r.Reasoning.Extra {
		if string(m.Value) != encryptedThinking {
			f.add(f.r.NameOf(llm.FieldThinkingObject)+"."+m.Name, Dropped, "")
		}
	}
}

// encryptedThinking is the value of the responses dialect's include that
// requests thinking with its signature. Every response has it, so it is never
// reported as dropped.
const encryptedThinking = `"reasoning.encrypted_content"`

// noopParams are parameters with the value that a target without the parameter
// behaves by. Dropping them changes nothing.
var noopParams = map[string]string{"store": "false", "background": "false"}

// List returns the changes, nil if every parameter is sent unchanged. For a target of
// another dialect they end with the unknown members.
func (f *ParamChanges) List() []ParamChange {
	if f.foreign {
		f.dropUnknown()
	}
	return f.list
}

// add records the first change of a name and ignores later ones.
func (f *ParamChanges) add(name string, o ChangeKind, note string) {
	if f.reported[name] {
		return
	}
	if f.reported == nil {
		f.reported = map[string]bool{}
	}
	f.reported[name] = true
	f.list = append(f.list, ParamChange{name, o, note})
}

// ForeignContentCleaner is implemented by codecs of dialects that carry
// signatures of other vendors. It cleans bodies that are forwarded as the
// client sent them. It is optional.
type ForeignContentCleaner interface {
	// Clean returns the edits that remove content which only models of other
	// vendors, or other providers than the target, understand, and that replace ids of calls
	// which the target refuses, and the changes to report. Most bodies need none.
	Clean(body *jsonedit.Doc, to RequestTarget) ([]jsonedit.Edit, []ParamChange)
}

// TurnArranger is implemented by codecs of dialects whose providers have [TurnRules]. It is
// optional.
type TurnArranger interface {
	// ArrangeTurns returns the edits that give a body the roles and the order of messages
	// that the target demands, and the changes. Most bodies need none. earlier are edits of
	// the same body, which the edits repeat where they change the same member.
	ArrangeTurns(body *jsonedit.Doc, earlier []jsonedit.Edit, to RequestTarget) ([]jsonedit.Edit, []ParamChange)
}

// OperationTranslator is implemented by dialects whose providers have their own
// format for operations other than conversations, such as embeddings. It is
// optional.
type OperationTranslator interface {
	// Translator returns the translator of op for a target, or false if there
	// is none.
	Translator(op api.Operation, to RequestTarget) (Translator, bool)
}

// ClientOperationTranslator is implemented by dialects whose clients have their
// own format for an operation of the chat dialect, such as embeddings. It is
// optional.
type ClientOperationTranslator interface {
	// ClientTranslator returns the translator of op, or false if there is none.
	ClientTranslator(op api.Operation) (ClientTranslator, bool)
}

// ClientTranslator translates one operation of a dialect's clients to an
// operation of the chat dialect. Its functions are pure.
type ClientTranslator struct {
	Operation api.Operation // of the chat dialect
	// Request appends the chat dialect's body for a client's body. The appended
	// body names model.
	Request func(dst, body []byte, model string) ([]byte, error)
	// Response appends the client's body for a response of the chat dialect.
	Response func(dst, body []byte) ([]byte, error)
	// Names maps parameters of the chat dialect's body to the client's names
	// for them.
	Names map[string]string
	// ExtraFields are members of that body which are not part of the chat
	// dialect but which formats of providers may have.
	ExtraFields []string
}

// Translator translates one operation between the chat dialect and a provider's
// format. Its functions are pure.
type Translator struct {
	// Request appends the provider's body for a client's body and returns the
	// changes to parameters, like ProviderCodec.EncodeRequest. It reads only
	// the parameters of body; the model is to.Model.
	Request func(dst, body []byte, to RequestTarget) ([]byte, []ParamChange, error)
	// Response appends the client's body for a provider's complete response.
	// request is the client's.
	Response func(dst, body, request []byte, to RequestTarget) ([]byte, error)

	// Split returns one request for each input if the provider accepts one
	// input at a time, and nil if a single request is enough. Join appends the
	// client's response for the responses to these requests, in their order.
	// Both are nil if the provider accepts several inputs.
	Split func(body []byte, to RequestTarget) ([][]byte, error)
	Join  func(dst []byte, responses [][]byte) ([]byte, error)
}
