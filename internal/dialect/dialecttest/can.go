package dialecttest

import (
	"slices"

	"modelgate/internal/llm"
)

// Capabilities says what a dialect can say, in requests and in answers. The zero value is
// text alone, in turns of user and assistant.
type Capabilities struct {
	// Fields are the parameters of requests. FieldTools brings calls and results,
	// FieldN answers of several choices, FieldLogprobs those of answers.
	Fields  []llm.Field
	Choices []llm.ChoiceMode   // of FieldToolChoice; all when empty
	Formats []llm.FormatKind   // of FieldFormat; all when empty
	Efforts []string           // of FieldEffort; low, medium and high when empty
	Modes   []llm.ThinkingMode // of FieldThinking; enabled, with a budget, and disabled when empty

	// PathModel and PathStream say that the model, and whether to stream, are not
	// part of the body.
	PathModel, PathStream bool

	Developer  bool // developer messages
	LateSystem bool // system messages between turns
	NoSystem   bool // none at all
	Names      bool // of participants
	OneText    bool // a message of user or system has one text
	AnyOrder   bool // parts of an assistant are in any order, several of a kind too
	TwoUsers   bool // a user's message may follow another, one with results too
	Cache      bool // marks on texts of users

	Media       map[llm.MediaKind]Medium // in messages of users
	ResultMedia map[llm.MediaKind]Medium // in results of tools
	AnswerMedia map[llm.MediaKind]Medium // in answers

	Thinking bool // in answers and in messages of assistants
	// Signed is the vendor of signatures of thinking, and Unsigned says that
	// thinking may go without. Redacted is thinking that is only a signature.
	Signed             llm.Vendor
	Unsigned, Redacted bool
	CallSigned         llm.Vendor // the vendor of signatures of tool calls

	Refusal     bool
	Citations   bool // of answers: address, title, place
	CustomTools bool
	OneCall     bool // no parallel calls
	ResultNames bool // results name the tool
	Failed      bool // results say that they failed
	StrictTools bool

	Stops    []llm.StopReason // besides those for tools; stop and length when empty
	StopText bool
	ID       bool // answers say these
	Model    bool
	Created  bool
	Tier     bool
	Mark     bool      // Fingerprint
	Usage    llm.Usage // counters that are not zero may be

	// Fit and FitAnswer, when given, take out of what was made up what the
	// dialect can't say together.
	Fit       func(*llm.Request)
	FitAnswer func(*llm.Response)
}

// Medium says how a kind of media can be carried.
type Medium struct {
	Types     []string // of data; it is carried as data when there are any
	URL       bool
	TypedURL  bool // an address comes with a type
	FileID    bool
	Text      bool // a document of text
	Name      bool // has a name
	NeedsName bool
	Details   []string
}

func (c *Capabilities) says(f llm.Field) bool { return slices.Contains(c.Fields, f) }

func or[T any](list []T, usual ...T) []T {
	if len(list) == 0 {
		return usual
	}
	return list
}
