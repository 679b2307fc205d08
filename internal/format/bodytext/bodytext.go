// Package bodytext finds the text in JSON bodies of model APIs, and replaces it.
//
// It reads requests, complete responses and stream events of every client
// dialect by one table of field names, so that a text is found wherever a
// dialect puts it. It guarantees that replacing a text changes no other byte of
// the body. It says which content has no text that it can read. It does not know
// what is done with the text; see guardrail and pipeline.
package bodytext

import (
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// Kind is the kind of a text.
type Kind string

// Kinds of texts.
const (
	Content   Kind = "text"
	Arguments Kind = "arguments" // of tool calls, and their results as objects
	Thinking  Kind = "thinking"
	// Parameter is text outside of messages: definitions of tools, other parameters of a
	// request, and the names and long numbers in objects of arguments.
	Parameter Kind = "parameter"
)

// Role is the role of the message that a text belongs to; empty if the body has
// none.
type Role string

// Text is one string of text in a body.
type Text struct {
	Kind Kind
	Role Role
	// Message is the number of the message, input or choice that the text belongs
	// to, and -1 for text outside of their list, such as a system prompt.
	Message int
	// Key identifies the text that a stream event adds to. Events whose texts
	// have the same key continue one text.
	Key string
	// Complete is true for text of a stream event that no other event continues. It
	// may have the key of other such text.
	Complete bool
	// Repeats is true for text of a stream event that repeats what earlier
	// events have sent, completely.
	Repeats bool
	Value   string
	// Decoded is true for a reading of the text before it that is not decoded: JSON in
	// that text with its escapes decoded. Events have none.
	Decoded bool
	// Data is true for a value in the structured content of the result of a tool, which
	// repeats other text of the result.
	Data bool

	reading  Reading // if Decoded
	from, to int     // the literal in the body, with its quotes
	system   bool    // in a field for system prompts
	dropped  bool    // not text
}

// Form is the form of a body.
type Form uint8

// Forms of bodies.
const (
	Request Form = iota
	Response
	Event
	// AnyJSON is a body of an unknown API: every string that may be text is.
	AnyJSON
	// AnyEvent is an event of the stream of an unknown API.
	AnyEvent
	// ToolArguments are the arguments of a call of a tool server, and ToolResult is the result
	// of a message to one, such as that of a tool, a prompt or a resource.
	ToolArguments
	ToolResult
)

// Tokens is the name of uncovered content that is text for a model: the numbers of its tokens.
const Tokens = "tokens"

// Body is the text of a body.
type Body struct {
	Texts []Text
	// Uncovered names the content whose text was not read, such as image or [Tokens].
	Uncovered []string

	raw      []byte
	logprobs []jsonedit.Value
}

// Find returns the text in raw, which must be valid JSON. The result holds views
// of raw. It takes time in proportion to the length of raw, however deep it is.
func Find(raw []byte, form Form) Body {
	w := walker{Body: Body{raw: raw}, form: form, message: -1}
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return w.Body
	}
	w.c.Reset(raw)
	if form == Event || form == AnyEvent {
		w.readIndexes(v)
	}
	switch {
	case form == AnyJSON || form == AnyEvent:
		w.any(content)
	case form == ToolArguments:
		w.all(Arguments)
	case form == ToolResult:
		w.toolResult()
	default: // an object, or an array of them
		w.value("", content)
	}
	w.finish()
	return w.Body
}

// Replace appends the body with its text replaced by values, which has a value
// for each of b.Texts, in their order. If several readings of a text change, the
// last one counts. Log probabilities, which repeat the text
// token by token, are removed if a text changes.
func (b *Body) Replace(dst []byte, values []string) []byte {
	type splice struct {
		from, to int
		text     []byte
	}
	var list []splice
	for i, t := range b.Texts {
		if values[i] == t.Value {
			continue
		}
		changed := values[i]
		if t.Decoded { // the reading replaces the text, and the readings before it
			if changed = t.reading.Unread(changed); len(list) > 0 && list[len(list)-1].from == t.from {
				list = list[:len(list)-1]
			}
		}
		list = append(list, splice{t.from, t.to, jsonedit.AppendString(nil, changed)})
	}
	if len(list) == 0 {
		return append(dst, b.raw...)
	}
	for _, v := range b.logprobs {
		from, to := b.span(v)
		empty := "null"
		if v.Kind() == jsonedit.Array {
			empty = "[]"
		}
		list = append(list, splice{from, to, []byte(empty)})
	}
	slices.SortFunc(list, func(a, c splice) int { return a.from - c.from })
	at := 0
	for _, s := range list {
		dst = append(append(dst, b.raw[at:s.from]...), s.text...)
		at = s.to
	}
	return append(dst, b.raw[at:]...)
}

// WithoutLogprobs appends the body without log probabilities, and returns false
// if it has none.
func (b *Body) WithoutLogprobs(dst []byte) ([]byte, bool) {
	if len(b.logprobs) == 0 {
		return dst, false
	}
	at := 0
	for _, v := range b.logprobs {
		from, to := b.span(v)
		dst = append(dst, b.raw[at:from]...)
		if v.Kind() == jsonedit.Array {
			dst = append(dst, "[]"...)
		} else {
			dst = append(dst, "null"...)
		}
		at = to
	}
	return append(dst, b.raw[at:]...), true
}

// span returns where v is in the body. Its bytes are a view of the body.
func (b *Body) span(v jsonedit.Value) (from, to int) {
	raw := v.Raw()
	from = cap(b.raw) - cap(raw)
	return from, from + len(raw)
}

// walker walks a body in its order, once. What an object says about the text in it
// may come after the text, so it is applied at the end of the object: the lists hold
// the numbers of strings that wait for it, in their order.
type walker struct {
	Body
	c       jsonedit.Cursor
	form    Form
	message int
	index   string // numbers of the event that tell its texts apart
	repeats bool
	// path stands for the numbers of the elements on the way, and in AnyEvent their
	// names, in events.
	path  uint64
	lists int  // on the way
	data  bool // in the structured content of the result of a tool: numbers are text

	noRole   []int       // texts without a role
	noKind   []int       // texts whose kind is Content so far
	unproven []candidate // texts that depend on the type of the innermost object
	dropped  int         // candidates that are not text
}

// candidate is text whose meaning depends on the type of the object that has it.
type candidate struct {
	text  int
	field string
}

// indexes are the members of an event that tell which part of the response it
// continues.
var indexes = [...]string{"index", "output_index", "content_index", "summary_index", "contentBlockIndex"}

func (w *walker) readIndexes(v jsonedit.Value) {
	for _, name := range indexes {
		if n, ok := v.Get(name); ok {
			if i, ok := n.Int(); ok {
				w.index += strconv.FormatInt(i, 10) + "."
			}
		}
	}
	kind := v.TextOf("type")
	for _, end := range [...]string{".done", ".completed", ".incomplete", ".failed"} {
		w.repeats = w.repeats || strings.HasSuffix(kind, end)
	}
}

// inEvents reports whether texts have keys.
func (w *walker) inEvents() bool { return w.form == Event || w.form == AnyEvent }

// add reads a string and adds it.
func (w *walker) add(r rule) {
	w.c.Peek()
	from := w.c.Offset()
	v := w.c.Value()
	text, _ := v.Text()
	w.addText(r, text, from, from+len(v.Raw()))
}

// addText adds a text whose literal is in a place of the body.
func (w *walker) addText(r rule, text string, from, to int) {
	if text == "" {
		return
	}
	t := Text{Kind: r.kind, Message: w.message, Complete: r.complete, Repeats: w.repeats, Value: text, from: from, to: to}
	if w.inEvents() {
		t.Key = w.index + strconv.FormatUint(w.path, 36)
	}
	w.appendText(r, t)
	if w.inEvents() {
		return
	}
	for _, reading := range Readings(text, r.kind) {
		t.Value, t.Decoded, t.reading = reading.Text, true, reading
		w.appendText(r, t)
	}
}

// appendText adds a text whose role and kind may follow.
func (w *walker) appendText(r rule, t Text) {
	n := len(w.Texts)
	w.noRole = append(w.noRole, n)
	if r.kind == Content {
		w.noKind = append(w.noKind, n)
	}
	if r.typed != "" {
		w.unproven = append(w.unproven, candidate{n, r.typed})
	}
	w.Texts = append(w.Texts, t)
}

// setRole sets the role of strings from number first on that have none.
func (w *walker) setRole(first int, role Role) {
	for i := len(w.noRole); i > 0 && w.noRole[i-1] >= first; i-- {
		w.Texts[w.noRole[i-1]].Role = role
		w.noRole = w.noRole[:i-1]
	}
}

// setKind sets the kind of strings from number first on whose kind is Content.
func (w *walker) setKind(first int, kind Kind) {
	for i := len(w.noKind); i > 0 && w.noKind[i-1] >= first; i-- {
		if t := &w.Texts[w.noKind[i-1]]; t.Kind == Content {
			t.Kind = kind
		}
		w.noKind = w.noKind[:i-1]
	}
}

// finish completes the text when all has been read.
func (w *walker) finish() {
	for _, i := range w.noRole {
		if w.Texts[i].system {
			w.Texts[i].Role = "system"
		}
	}
	if w.dropped > 0 {
		w.Texts = slices.DeleteFunc(w.Texts, func(t Text) bool { return t.dropped })
	}
	if w.inEvents() {
		for i := range w.Texts {
			w.Texts[i].Key = string(w.Texts[i].Kind) + " " + w.Texts[i].Key
		}
	}
}

func (w *walker) uncovered(what string) {
	if !slices.Contains(w.Uncovered, what) {
		w.Uncovered = append(w.Uncovered, what)
	}
}
