package chat

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewTap returns a tap for one response to op.
func (Dialect) NewTap(op api.Operation) dialect.Tap { return &tap{op: op} }

// tap reads responses of the chat dialect in a single pass and skips what the
// gateway does not record. It keeps only the strings of its ResponseInfo.
type tap struct {
	op     api.Operation
	seen   dialect.ResponseInfo
	counts counts

	choices, finished choiceSet
	noChoices         bool  // the list of choices is empty
	answers           bool  // has choices or usage
	finishOf          int64 // the choice that seen.Finish is of, plus 1
}

// Info returns what was read so far.
func (t *tap) Info() *dialect.ResponseInfo {
	t.seen.Usage = t.counts.usage(t.hasChoices())
	if t.op == api.Embeddings && t.seen.Usage.Total() == 0 { // no input has no tokens: the count is unknown
		t.seen.Usage.Known = false
	}
	t.seen.AudioMillis = max(t.seen.AudioMillis, t.counts.millis)
	return &t.seen
}

// Event reads one event of a streamed response.
func (t *tap) Event(e sse.Event) {
	if e.Data == nil {
		return
	}
	data := e.Data
	if len(data) < 16 { // short enough to be the terminator, including white space
		if string(bytes.TrimSpace(data)) == "[DONE]" {
			t.seen.Terminated = true
			t.failWithoutContent()
			return
		}
	}
	t.read(data)
	if t.seen.Failed == "" && (string(e.Type) == "error" || t.isBlank() && dialect.IsFailure(data)) {
		t.seen.Failed = failure(data)
	}
	t.seen.Blank = t.isBlank() && t.answers
}

// isBlank reports whether no choice of the response has been read.
func (t *tap) isBlank() bool {
	return t.isCompletion() && t.choices == choiceSet{} && t.seen.Failed == ""
}

// isCompletion reports whether the response has choices, each with content or a finish
// reason.
func (t *tap) isCompletion() bool { return t.op == api.Chat || t.op == api.Completions }

func (t *tap) failWithoutContent() {
	if t.answers && t.isCompletion() && t.seen.Failed == "" && !t.seen.Begun && !t.seen.Finished {
		t.seen.Failed = dialect.NoContent
	}
}

// Body reads a complete response. A body that is not an object, for example
// speech, counts as content without details.
func (t *tap) Body(b []byte) {
	c := jsonedit.NewCursor(b)
	if c.Peek() != '{' && !t.isCompletion() {
		t.seen.Begun = t.seen.Begun || len(b) > 0
		t.seen.Finished = t.seen.Begun && !t.hasChoices()
		return
	}
	t.read(b)
	switch {
	case t.seen.Failed != "":
	case t.noChoices && t.op != api.Proxy:
		t.seen.Failed = "the response has no choices"
	case !t.hasChoices():
		t.seen.Begun, t.seen.Finished = true, true
	case dialect.FindError(b) != nil:
		t.answers = true
		fallthrough
	default:
		t.failWithoutContent()
	}
}

// hasChoices reports whether the response ends with finish reasons. On
// pass-through routes it does if it has choices.
func (t *tap) hasChoices() bool {
	return t.isCompletion() || t.op == api.Proxy && t.choices != choiceSet{}
}

// read reads one JSON object: a body, or the data of an event.
func (t *tap) read(b []byte) {
	c := jsonedit.NewCursor(b)
	if !c.Enter('{') {
		return
	}
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		switch string(key) {
		case "choices":
			t.answers = true
			t.readChoices(c)
		case "model":
			t.readModel(c)
		case "usage":
			t.answers = true
			t.counts.read(c)
		case "service_tier":
			t.readTier(c)
		case "x_groq": // usage of streams, before usage became a top-level member as well
			t.readInner(c)
		case "error":
			t.readError(c)
		case "object":
			if string(c.Raw()) == `"error"` && t.seen.Failed == "" { // vLLM, inside streams
				t.seen.Failed = failure(b)
			}
		case "type":
			t.readType(c)
		case "data":
			t.readData(c)
		case "duration": // of a transcription in verbose_json
			t.seen.AudioMillis = max(t.seen.AudioMillis, readMillis(c))
		default:
			c.Skip()
		}
	}
}

func (t *tap) readModel(c *jsonedit.Cursor) {
	if t.seen.Model == "" && c.Peek() == '"' {
		t.seen.Model = string(c.Text())
		return
	}
	c.Skip()
}

func (t *tap) readTier(c *jsonedit.Cursor) {
	if c.Peek() != '"' {
		c.Skip()
		return
	}
	t.seen.SetTier(c.Text())
}

func (t *tap) readInner(c *jsonedit.Cursor) {
	if !c.Enter('{') {
		c.Skip()
		return
	}
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		switch string(key) {
		case "usage":
			t.counts.read(c)
		case "error":
			t.readError(c)
		default:
			c.Skip()
		}
	}
}

func (t *tap) readError(c *jsonedit.Cursor) {
	if c.Peek() == 'n' {
		c.Skip()
		return
	}
	if raw := c.Raw(); t.seen.Failed == "" {
		t.seen.Failed = failure(raw)
	}
}

// readType reads the type of an event in a stream without choices: images,
// speech and transcriptions.
// https://platform.openai.com/docs/api-reference/images-streaming
func (t *tap) readType(c *jsonedit.Cursor) {
	word := c.Raw()
	if t.hasChoices() || len(word) < 2 || word[0] != '"' {
		return
	}
	word = word[1 : len(word)-1]
	last := string(word[bytes.LastIndexByte(word, '.')+1:])
	if last == "done" || last == "completed" {
		t.seen.Finished = true
	}
	t.seen.Begun = true
}

// readData counts the images of a response.
func (t *tap) readData(c *jsonedit.Cursor) {
	switch t.op {
	case api.Images, api.ImageEdits, api.ImageVariations:
	default:
		c.Skip()
		return
	}
	if !c.Enter('[') {
		c.Skip()
		return
	}
	for t.seen.Images = 0; c.Element(); t.seen.Images++ {
		c.Skip()
	}
}

// readMillis reads a number of seconds.
func readMillis(c *jsonedit.Cursor) int64 {
	seconds, err := strconv.ParseFloat(strings.Trim(string(c.Raw()), `"`), 64)
	if err != nil || !(seconds > 0 && seconds < 1e9) {
		return 0
	}
	return int64(math.Round(seconds * 1000))
}

func (t *tap) readChoices(c *jsonedit.Cursor) {
	if !c.Enter('[') {
		c.Skip()
		return
	}
	for n := int64(0); c.Element(); n++ {
		t.readChoice(c, n)
	}
	t.noChoices = t.choices == choiceSet{}
	t.seen.Finished = !t.noChoices && t.choices == t.finished
}

// readChoice reads one choice, whose index is n unless it has one.
func (t *tap) readChoice(c *jsonedit.Cursor, n int64) {
	if !c.Enter('{') {
		c.Skip()
		return
	}
	var reason []byte
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		switch string(key) {
		case "index":
			if i, ok := readCount(c); ok {
				n = i
			}
		case "finish_reason":
			if c.Peek() == '"' {
				reason = c.Text()
			} else {
				c.Skip()
			}
		case "delta", "message":
			t.readDelta(c)
		case "text":
			t.begin(c)
		case "error": // OpenRouter
			t.readError(c)
		default:
			c.Skip()
		}
	}
	t.choices.add(n)
	if len(reason) == 0 { // some providers send an empty one with every chunk
		return
	}
	t.finished.add(n)
	if t.finishOf == 0 || n+1 < t.finishOf {
		t.seen.Finish, t.finishOf = string(reason), n+1
	}
}

// readDelta counts the content of a delta or a message.
func (t *tap) readDelta(c *jsonedit.Cursor) {
	if !c.Enter('{') {
		c.Skip()
		return
	}
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		switch string(key) {
		case "tool_calls":
			t.readCalls(c)
		case "function_call":
			t.readCall(c)
		case "content", "refusal", "audio", "images",
			"reasoning_content", "reasoning", "reasoning_details", "content_blocks", "executed_tools":
			t.begin(c)
		default:
			c.Skip()
		}
	}
}

// readCalls counts the names and arguments of calls.
func (t *tap) readCalls(c *jsonedit.Cursor) {
	if !c.Enter('[') {
		c.Skip()
		return
	}
	for c.Element() {
		t.seen.Begun = true
		t.readCall(c)
	}
}

// readCall counts the names and arguments in a call, or in its member function or
// custom.
func (t *tap) readCall(c *jsonedit.Cursor) {
	if !c.Enter('{') {
		c.Skip()
		return
	}
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		switch string(key) {
		case "name", "arguments", "input":
			t.begin(c)
		case "function", "custom":
			t.readCall(c)
		default:
			c.Skip()
		}
	}
}

// begin reads a value and counts it as content unless it is null or empty.
func (t *tap) begin(c *jsonedit.Cursor) {
	raw := c.Raw()
	if c.Failed() {
		return
	}
	switch jsonedit.KindOf(raw) {
	case jsonedit.String:
		t.seen.Written += llm.TextSize(raw[1 : len(raw)-1])
		t.seen.Begun = t.seen.Begun || len(raw) > 2
	case jsonedit.Array, jsonedit.Object:
		inner := bytes.TrimSpace(raw[1:max(1, len(raw)-1)])
		t.seen.Written += llm.TextSize(inner)
		t.seen.Begun = t.seen.Begun || len(inner) > 0
	}
}

// readCount reads a value and returns it if it is a plausible counter: an
// integer, not negative and not too large.
func readCount(c *jsonedit.Cursor) (int64, bool) {
	raw := c.Raw()
	if c.Failed() {
		return 0, false
	}
	n := int64(0)
	for i, ch := range raw {
		if ch-'0' > 9 {
			return n, i > 0 && ch == '.'
		}
		if n = n*10 + int64(ch-'0'); n > math.MaxInt64>>16 {
			return 0, false
		}
	}
	return n, len(raw) > 0
}

// choiceSet is a set of choice indexes. The specification allows 128 choices; a
// larger index counts as 127.
type choiceSet [2]uint64

func (s *choiceSet) add(i int64) {
	i = min(i, 127)
	s[i/64] |= 1 << (i % 64)
}

func (s *choiceSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
