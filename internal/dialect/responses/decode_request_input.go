package responses

import (
	"slices"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// inputDecoder groups the items of an input into messages.
//
// Consecutive items of the model (a message, thinking, tool calls) become one
// assistant message, so that tool results follow their calls directly. A
// message directly after another starts a new one, and so does a later one with
// additional members, unless calls are still without results.
type inputDecoder struct {
	*requestDecoder
	list  []llm.Message
	calls map[string]bool // ids of the calls so far; true while without a result
	open  int             // number of calls without a result
	said  bool            // the last message has a message item
	sign  llm.Signature   // of the next call

	approvals map[string]int // index of the message that approves a request, by its id
}

func (q *requestDecoder) readInput() {
	in := &inputDecoder{requestDecoder: q, calls: map[string]bool{}}
	if q.instructions != nil {
		in.list = append(in.list, *q.instructions)
	}
	if text, ok := q.input.Text(); ok {
		in.list = append(in.list, llm.Message{Role: llm.User, Parts: []llm.Part{llm.Text{Text: text}}, At: "input"})
		q.r.Messages = in.list
		return
	}
	if q.input.IsNull() {
		q.RefuseMissing("input", inputForms)
	}
	for path, e := range q.Elements("input", q.input) {
		if q.Err != nil {
			return
		}
		in.item(e, path)
	}
	q.r.Messages = in.list
}

func (in *inputDecoder) item(v jsonedit.Value, at string) {
	if !in.Is(at, v, jsonedit.Object, "an object") {
		return
	}
	typ := in.member(v, at, "type")
	if _, ok := v.Get("role"); ok && typ == "" {
		typ = "message"
	}
	switch typ {
	case "message":
		in.message(v, at)
	case "reasoning":
		in.reasoning(v, at)
	case "function_call":
		in.call(v, at, "arguments")
	case "custom_tool_call":
		in.call(v, at, "input")
	case "function_call_output", "custom_tool_call_output":
		in.result(v, at, typ == "custom_tool_call_output")
	case "image_generation_call":
		in.image(v, at)
	case "":
		in.RefuseMissing(at+".type", "a string")
	default:
		in.native(v, typ, at)
	}
}

// message is the message that is being built.
type message struct{ m *llm.Message }

func (m message) add(parts ...llm.Part) { m.m.Parts = append(m.m.Parts, parts...) }

// assistant returns the assistant message that new items are added to.
func (in *inputDecoder) assistant(at string) message {
	if n := len(in.list); n > 0 && in.list[n-1].Role == llm.Assistant {
		return message{&in.list[n-1]}
	}
	return in.begin(llm.Message{Role: llm.Assistant, At: at})
}

func (in *inputDecoder) begin(m llm.Message) message {
	in.said = false
	in.list = append(in.list, m)
	return message{&in.list[len(in.list)-1]}
}

func (in *inputDecoder) message(v jsonedit.Value, at string) {
	role := llm.Role(in.needed(v, at, "role"))
	content, _ := v.Get("content")
	parts := in.content(content, at)
	extra := extraOf(v, "type", "role", "content")
	switch role {
	case llm.Assistant:
		if in.said && in.open == 0 && (in.inContent() || len(extra) > 0) {
			in.begin(llm.Message{Role: role, At: at})
		}
		m := in.assistant(at)
		m.add(parts...)
		if !in.said {
			m.m.Extra = extra
		} else {
			in.LoseUnknown(at, v, "type", "role", "content", "id", "status")
		}
		in.said = true
	case llm.User, llm.System, llm.Developer:
		in.begin(llm.Message{Role: role, Parts: parts, Extra: extra, At: at})
	default:
		in.Refuse(at+".role", dialect.CodeValue, "must be user, assistant, system or developer")
	}
}

// inContent reports whether the last part is message content.
func (in *inputDecoder) inContent() bool {
	parts := in.list[len(in.list)-1].Parts
	return len(parts) == 0 || isContent(parts[len(parts)-1])
}

// extraOf returns the members of an object that are neither null nor in known.
func extraOf(v jsonedit.Value, known ...string) []llm.Member {
	var extra []llm.Member
	for key, m := range v.Fields() {
		if name := key.String(); !m.IsNull() && !hasName(known, name) {
			extra = append(extra, llm.Member{Name: name, Value: m.Raw()})
		}
	}
	return extra
}

func hasName(list []string, name string) bool {
	return slices.Contains(list, name)
}

// reasoning reads thinking. Thinking without text that Google signed carries
// the signature of the next call, for which the protocol has no place.
func (in *inputDecoder) reasoning(v jsonedit.Value, at string) {
	parts := thoughts(v, llm.OpenAI)
	in.LoseUnknown(at, v, "type", "summary", "content", "encrypted_content", "id", "status")
	summary, _ := v.Get("summary")
	for e := range summary.Elements() {
		in.LoseUnknown(at+".summary", e, "type", "text")
	}
	if len(parts) == 1 {
		t := parts[0].(llm.Thinking)
		if google := t.Text == "" && t.Signature.Vendor == llm.Google; google && t.Redacted && in.signText(t.Signature) {
			return
		} else if google {
			in.sign = t.Signature
			return
		}
	}
	in.assistant(at).add(parts...)
}

// signText sets the signature of the text before it, for which the protocol has
// no place. It returns false if there is none.
func (in *inputDecoder) signText(s llm.Signature) bool {
	if len(in.list) == 0 {
		return false
	}
	parts := in.list[len(in.list)-1].Parts
	if len(parts) == 0 {
		return false
	}
	text, ok := parts[len(parts)-1].(llm.Text)
	if ok {
		text.Signature = s
		parts[len(parts)-1] = text
	}
	return ok
}

// call reads a tool call, whose arguments are in the named member.
func (in *inputDecoder) call(v jsonedit.Value, at, arguments string) {
	c := llm.ToolCall{
		ID: in.needed(v, at, "call_id"), Name: in.needed(v, at, "name"), Arguments: in.member(v, at, arguments),
		Custom: arguments == "input", At: at, Signature: in.sign,
	}
	in.sign = llm.Signature{}
	if len(c.Name) > maxName {
		in.Refuse(at+".name", dialect.CodeValue, "must be at most %d characters, not %d", maxName, len(c.Name))
	}
	c.Extra = extraOf(v, "type", "call_id", "name", arguments, spaceMember)
	if space := in.member(v, at, spaceMember); space != "" {
		s := &namespace{name: space}
		c.Extra = append(c.Extra, llm.Member{Name: spaceMember, Value: s.member(c.Name)})
		c.Name = nameIn(in.r, space, c.Name)
	}
	in.called(c.ID)
	in.assistant(at).add(c)
}

func (in *inputDecoder) called(id string) {
	if !in.calls[id] {
		in.calls[id] = true
		in.open++
	}
}

// resolve records that a call has a result, and reports whether there is such
// a call.
func (in *inputDecoder) resolve(id string) bool {
	open, known := in.calls[id]
	if open {
		in.calls[id] = false
		in.open--
	}
	return known
}

// result reads a tool result. Consecutive results become one message.
func (in *inputDecoder) result(v jsonedit.Value, at string, custom bool) {
	r := llm.ToolResult{ID: in.needed(v, at, "call_id"), Custom: custom, At: at}
	if !in.resolve(r.ID) {
		in.Refuse(at+".call_id", dialect.CodeValue, "belongs to no call of an earlier item")
	}
	output, _ := v.Get("output")
	r.Parts = in.content(output, at)
	r.Extra = extraOf(v, "type", "call_id", "output")
	in.addResult(r)
}

// addResult adds a result to the message of the results before it.
func (in *inputDecoder) addResult(p llm.Part) {
	if n := len(in.list); n > 0 && onlyResults(&in.list[n-1]) {
		message{&in.list[n-1]}.add(p)
		return
	}
	in.begin(llm.Message{Role: llm.User, Parts: []llm.Part{p}, At: pathOf(p)})
}

// pathOf returns the path of a result.
func pathOf(p llm.Part) string {
	switch p := p.(type) {
	case llm.ToolResult:
		return p.At
	case llm.Native:
		return p.At
	}
	return ""
}

func onlyResults(m *llm.Message) bool {
	if m.Role != llm.User || len(m.Parts) == 0 {
		return false
	}
	switch p := m.Parts[len(m.Parts)-1].(type) {
	case llm.ToolResult:
		return true
	case llm.Native:
		return !strings.HasPrefix(p.Type, partMark)
	}
	return false
}

// image reads an image generated by the model.
func (in *inputDecoder) image(v jsonedit.Value, at string) {
	media, ok := imagePart(v).(llm.Media)
	if !ok {
		in.native(v, "image_generation_call", at)
		return
	}
	media.Data, media.At = in.Base64(at+".result", media.Data), at
	in.assistant(at).add(media)
}
