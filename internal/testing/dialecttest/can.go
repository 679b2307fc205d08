package dialecttest

import (
	"slices"

	"modelgate/internal/model/llm"
)

// Capabilities describes what a dialect can express in requests and responses.
// The zero value means text only, in turns of user and assistant.
type Capabilities struct {
	// Fields are the parameters of requests. FieldTools includes calls and
	// results, FieldN responses with several choices, FieldLogprobs log
	// probabilities in responses.
	Fields  []llm.Field
	Choices []llm.ChoiceMode   // of FieldToolChoice; all when empty
	Formats []llm.FormatKind   // of FieldFormat; all when empty
	Efforts []string           // of FieldEffort; low, medium and high when empty
	Modes   []llm.ThinkingMode // of FieldThinking; enabled, with a budget, and disabled when empty

	// PathModel and PathStream are true if the model and streaming are not part
	// of the body.
	PathModel, PathStream bool

	Developer  bool // developer messages
	LateSystem bool // system messages between turns
	NoSystem   bool // no system messages
	Names      bool // of participants
	OneText    bool // a system or user message has one text
	AnyOrder   bool // parts of an assistant may have any order, and several may be of one kind
	TwoUsers   bool // a user message may follow another, also after results
	Cache      bool // cache marks on text of users

	Media         map[llm.MediaKind]Medium // in user messages
	ResultMedia   map[llm.MediaKind]Medium // in tool results
	ResponseMedia map[llm.MediaKind]Medium // in responses

	Thinking bool // in responses and in assistant messages
	// Signed is the vendor of signatures of thinking. Unsigned is true if
	// thinking may have no signature, Redacted if thinking may be only a
	// signature.
	Signed             llm.Vendor
	Unsigned, Redacted bool
	CallSigned         llm.Vendor // the vendor of signatures of tool calls

	Refusal     bool
	Citations   bool // of responses: URL, title, place
	CustomTools bool
	OneCall     bool // no parallel calls
	ResultNames bool // results name the tool
	Failed      bool // results can be marked as failed
	StrictTools bool

	Stops    []llm.StopReason // in addition to tool calls; stop and length when empty
	StopText bool
	ID       bool // responses have these
	Model    bool
	Created  bool
	Tier     bool
	Mark     bool      // Fingerprint
	Usage    llm.Usage // counters may be nonzero if they are nonzero here

	// Fit and FitAnswer, if set, remove generated combinations that the dialect
	// cannot express.
	Fit         func(*llm.Request)
	FitResponse func(*llm.Response)
}

// Medium describes how a kind of media can be sent.
type Medium struct {
	Types     []string // of data; no types means that data cannot be sent
	URL       bool
	TypedURL  bool // a URL has a type
	FileID    bool
	Text      bool // a document of text
	Name      bool // has a name
	NeedsName bool
	Details   []string
}

func (c *Capabilities) has(f llm.Field) bool { return slices.Contains(c.Fields, f) }

func or[T any](list []T, usual ...T) []T {
	if len(list) == 0 {
		return usual
	}
	return list
}
