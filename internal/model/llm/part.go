package llm

import "encoding/json"

// Part is a piece of a message: one of the types below, as a value.
type Part interface{ part() }

// Text is text of a message.
type Text struct {
	Text      string
	Citations []Citation
	Cache     *Cache
	// Signature is set by the few models that sign plain text.
	Signature Signature
}

// Thinking is thinking of a model.
type Thinking struct {
	Text      string
	Signature Signature
	// Redacted is true for thinking that only the vendor can read. Text is
	// empty then and Signature holds the vendor's data.
	Redacted bool
	// Summary is true if Text is a summary of the thinking.
	Summary bool
	ID      string // of the item, in dialects that have one; usually empty
}

// MediaKind is the kind of a Media.
type MediaKind string

// Kinds of media.
const (
	Image    MediaKind = "image"
	Document MediaKind = "document"
	Audio    MediaKind = "audio"
	Video    MediaKind = "video"
)

// Media is an image, a document, audio or video. Exactly one of Data, URL,
// FileID, Text and Parts holds its content.
type Media struct {
	Kind MediaKind
	Type string // MIME type, empty when unknown

	Data   string // base64 as received, checked by the dialect that decoded it
	URL    string // https:, gs: or s3:, never data:
	FileID string // of a file uploaded to the provider
	Text   string // of a plain-text document
	Parts  []Part // of a document with parts

	Name    string // file name or title
	Context string // description of the document for the model
	Detail  string // requested resolution: low, high, auto, original
	Cite    bool   // whether the model should cite the document
	Cache   *Cache
	Extra   []Member // additional fields of the dialect in Request.Dialect
	At      string   // path in the client's body, for errors; empty in responses
}

// ToolCall is a model's request to run a tool.
type ToolCall struct {
	ID   string
	Name string
	// Arguments is a JSON object as text, or plain text for a custom tool.
	// Empty means no arguments.
	Arguments string
	Custom    bool
	// Numbered is true if the client sent no id, so that the decoder made it.
	Numbered bool
	// Broken is true if the response ended inside the arguments, at a token limit
	// for example.
	Broken    bool
	Signature Signature
	Cache     *Cache
	Extra     []Member
	At        string
}

// ToolResult is the result of a tool call.
type ToolResult struct {
	ID     string // of the call
	Name   string // of the tool; empty if the dialect names only the call
	Parts  []Part
	Failed bool // the parts describe an error
	Custom bool // result of a custom tool
	Cache  *Cache
	Extra  []Member
	At     string
}

// Refusal is the text in which a model declines.
type Refusal struct {
	Text string
}

// Native is a part that only one dialect has, such as the call of a tool that
// runs at the provider, or its result. Raw is the complete part as received.
type Native struct {
	Dialect string // api.Dialect as a string
	Type    string
	Raw     json.RawMessage
	At      string

	// Parts is the content in parts that every dialect has. It is nil if there
	// is none, and empty if other parts of the request hold it.
	Parts []Part
	// Needed says why a request must not be sent without the part. It is empty
	// if the part may be left out.
	Needed string
}

func (Text) part()       {}
func (Thinking) part()   {}
func (Media) part()      {}
func (ToolCall) part()   {}
func (ToolResult) part() {}
func (Refusal) part()    {}
func (Native) part()     {}

// Citation is a source of a piece of text.
type Citation struct {
	URL   string
	Title string
	Text  string // the cited text
	// Start and End are the range of the text that the citation supports, in
	// characters; both are zero if the dialect does not report it.
	Start, End int
	Raw        json.RawMessage // as received, nil if the gateway made it
	Dialect    string          // of Raw
}
