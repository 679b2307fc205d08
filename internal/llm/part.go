package llm

import "encoding/json"

// Part is a piece of a message: one of the types below, as a value.
type Part interface{ part() }

// Text is words.
type Text struct {
	Text      string
	Citations []Citation
	Cache     *Cache
	// Signature is what some models sign plain text with; mostly zero.
	Signature Signature
}

// Thinking is what a model thought before it spoke.
type Thinking struct {
	Text      string
	Signature Signature
	// Redacted is thinking that only the vendor can read. Text is empty then
	// and Signature holds the vendor's data.
	Redacted bool
	// Summary is true when Text tells of the thinking rather than being it.
	Summary bool
	ID      string // of the item, in dialects that number them; mostly empty
}

// MediaKind says what a Media shows.
type MediaKind string

// The kinds of media.
const (
	Image    MediaKind = "image"
	Document MediaKind = "document"
	Audio    MediaKind = "audio"
	Video    MediaKind = "video"
)

// Media is an image, a document, sound or film. Exactly one of Data, URL,
// FileID, Text and Parts holds it.
type Media struct {
	Kind MediaKind
	Type string // MIME type, empty when unknown

	Data   string // base64 as it stood, checked by the dialect that read it
	URL    string // https:, gs: or s3:, never data:
	FileID string // of a file that was uploaded to the provider
	Text   string // a document of plain text
	Parts  []Part // a document made of parts

	Name    string // file name or title
	Context string // what the document is, for the model
	Detail  string // resolution asked for: low, high, auto, original
	Cite    bool   // the model is to cite the document
	Cache   *Cache
	Extra   []Member // further fields of the dialect in Request.Dialect
	At      string   // path in the client's body, for errors; empty in answers
}

// ToolCall asks the caller to run a tool.
type ToolCall struct {
	ID   string
	Name string
	// Arguments is JSON text, an object; for a custom tool it is free text.
	// Empty stands for no arguments.
	Arguments string
	Custom    bool
	Signature Signature
	Cache     *Cache
	Extra     []Member
	At        string
}

// ToolResult is what a tool gave.
type ToolResult struct {
	ID     string // of the call
	Name   string // of the tool, empty where the dialect names only the call
	Parts  []Part
	Failed bool // the parts tell of an error
	Custom bool // it answers a call of a custom tool
	Cache  *Cache
	Extra  []Member
	At     string
}

// Refusal is the model's own words for declining.
type Refusal struct {
	Text string
}

// Native is a piece that only one dialect knows, such as a call of a tool that
// runs at the provider and its result. Raw is the whole piece as it stood.
type Native struct {
	Dialect string // api.Dialect as a string
	Type    string
	Raw     json.RawMessage
	At      string
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
	Text  string // what is cited
	// Start and End are where in the text the citation applies, in characters;
	// both zero where the dialect does not say.
	Start, End int
	Raw        json.RawMessage // as it stood, nil when made by the gateway
	Dialect    string          // of Raw
}
