package dialect

import (
	"cmp"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// Support says what requests of a dialect can hold.
type Support struct {
	Dialect string
	// InAssistant reports whether messages of the assistant can hold media. Nil
	// means that they can hold all.
	InAssistant func(llm.Media) bool
	// DistinctCalls is true if providers reject two calls with one id.
	DistinctCalls bool
	// Choices is true if a request can ask for several responses.
	Choices bool
	// Contexts is true if documents have descriptions. Elsewhere these become texts.
	Contexts bool
	// Params are the parameters of other dialects that the target has, among
	// those that a request depends on.
	Params []string
}

// Portable returns the request with the content that only other dialects than
// the target's have in another form: as parts that every dialect has, or left
// out and recorded. Malformed arguments of calls become text in an object. Ids
// that the client did not send are recorded. Media
// that messages of the assistant cannot hold move to the next message of the user.
// A request that needs no change is returned as it is. Content and parameters
// without which the request makes no sense are an error.
func (f *ParamChanges) Portable(to RequestTarget, s Support) (*llm.Request, *apierr.Error) {
	f.foreign = f.r.Dialect != s.Dialect
	p := porter{changes: f, own: s.Dialect, to: to, inAssistant: s.InAssistant, contexts: s.Contexts}
	if !f.foreign {
		// The client knows what its messages can hold, and what ids.
		p.inAssistant, s.DistinctCalls = nil, false
	}
	for _, m := range f.r.Extra {
		if why := neededParams[m.Name]; why != "" && f.foreign && !slices.Contains(s.Params, m.Name) && string(m.Value) != "null" {
			return nil, Unsupported(m.Name, to, "%s", why)
		}
	}
	if c := &f.r.ToolChoice; f.foreign && c.Mode == "" && c.Raw != nil {
		f.Drop(llm.FieldToolChoice)
	}
	if n := f.r.N; n != nil && *n > 1 && !s.Choices {
		return nil, Unsupported(f.r.NameOf(llm.FieldN), to, "it gives one response to a request")
	}
	if s.DistinctCalls && repeatsCallIDs(f.r.Messages) {
		p.calls = newRenamedCalls(f.r.Messages)
	}
	if p.calls == nil && !slices.ContainsFunc(f.r.Messages, p.changesMessage) {
		return f.r, nil
	}
	r := *f.r
	r.Messages = make([]llm.Message, 0, len(f.r.Messages)+1)
	for _, m := range f.r.Messages {
		r.Messages = p.message(r.Messages, m)
	}
	if len(p.held) > 0 || len(r.Messages) == 0 {
		r.Messages = append(r.Messages, llm.Message{Role: llm.User, Parts: p.held})
	}
	return &r, p.err
}

// neededParams are the parameters that a request depends on: a target that does
// not have them would respond without the protection or the content that the
// client relies on.
var neededParams = map[string]string{
	"guardrailConfig":  unguarded,
	"guardrail_config": unguarded,
	"modelArmorConfig": unguarded, "model_armor_config": unguarded,
	"moderation":     unguarded,
	"cachedContent":  "the content is cached at its provider: send it with the request",
	"cached_content": "the content is cached at its provider: send it with the request",
}

const unguarded = "only its own provider checks the conversation"

// porter replaces content that a target's dialect does not have.
type porter struct {
	changes     *ParamChanges
	own         string
	to          RequestTarget
	inAssistant func(llm.Media) bool
	contexts    bool
	calls       *renamedCalls // nil if all ids are distinct
	held        []llm.Part    // media for the next message of the user
	err         *apierr.Error
}

func (p *porter) changesMessage(m llm.Message) bool {
	return slices.ContainsFunc(m.Parts, func(part llm.Part) bool { return p.foreign(part) || p.moves(m.Role, part) })
}

// foreign reports whether a part is, or has in it, one of another dialect.
func (p *porter) foreign(part llm.Part) bool {
	switch part := part.(type) {
	case llm.Native:
		return part.Dialect != p.own
	case llm.ToolCall:
		return isMalformed(&part) || part.Numbered
	case llm.ToolResult:
		return slices.ContainsFunc(part.Parts, p.foreign)
	case llm.Media:
		return part.Context != "" && !p.contexts || typeOf(&part) != part.Type || slices.ContainsFunc(part.Parts, p.foreign)
	}
	return false
}

// moves reports whether a part moves to the next message of the user.
func (p *porter) moves(role llm.Role, part llm.Part) bool {
	m, ok := part.(llm.Media)
	return ok && role == llm.Assistant && p.inAssistant != nil && !p.inAssistant(m)
}

// message appends m with its parts in the form of the target, unless nothing is
// left of it.
func (p *porter) message(list []llm.Message, m llm.Message) []llm.Message {
	before := len(m.Parts)
	m.Parts = p.parts(m.Role, m.Parts)
	if m.Role == llm.User && len(p.held) > 0 {
		m.Parts = afterResults(m.Parts, p.held)
		p.held = nil
	}
	if before > 0 && len(m.Parts) == 0 {
		return list
	}
	return append(list, m)
}

// afterResults inserts parts after the tool results of a message, which must
// follow their calls directly.
func afterResults(parts, inserted []llm.Part) []llm.Part {
	at := 0
	for i, part := range parts {
		if _, ok := part.(llm.ToolResult); ok {
			at = i + 1
		}
	}
	return slices.Concat(parts[:at], inserted, parts[at:])
}

func (p *porter) parts(role llm.Role, parts []llm.Part) []llm.Part {
	out := make([]llm.Part, 0, len(parts))
	for _, part := range parts {
		switch part := part.(type) {
		case llm.Native:
			if part.Dialect != p.own {
				out = append(out, p.parts(role, p.native(&part))...)
				continue
			}
		case llm.ToolCall:
			part.ID = p.callID(&part)
			if isMalformed(&part) {
				p.changes.AdaptNamed(cmp.Or(part.At, "arguments"), MalformedAsText)
				part.Arguments = wrapMalformed(part.Arguments)
			}
			out = append(out, part)
			continue
		case llm.ToolResult:
			if p.foreign(part) {
				part.Parts = p.parts(llm.User, part.Parts)
			}
			if p.calls != nil {
				part.ID = p.calls.result(part.ID)
			}
			out = append(out, part)
			continue
		case llm.Media:
			if p.moves(role, part) {
				p.changes.AdaptNamed(cmp.Or(part.At, string(part.Kind)), InNextUserMessage)
				p.held = append(p.held, llm.Text{Text: "The assistant's " + string(part.Kind) + ":"}, part)
				continue
			}
			if t := typeOf(&part); t != part.Type {
				p.changes.AdaptNamed(cmp.Or(part.At, string(part.Kind))+".type", sentAs(t))
				part.Type, part.Kind = t, MediaKindOf(t)
			}
			if part.Context != "" && !p.contexts {
				out = append(out, llm.Text{Text: part.Context})
				part.Context = ""
			}
			if p.foreign(part) {
				part.Parts = p.parts(llm.User, part.Parts)
			}
			out = append(out, part)
			continue
		}
		out = append(out, part)
	}
	return out
}

// callID returns the id under which a call is sent.
func (p *porter) callID(c *llm.ToolCall) string {
	id := c.ID
	if p.calls != nil {
		id = p.calls.call(id)
	}
	if id != c.ID || c.Numbered {
		p.changes.AdaptNamed(cmp.Or(c.At, "calls")+".id", sentAs(id))
	}
	return id
}

// native returns the parts that replace n, and records what happens to it.
func (p *porter) native(n *llm.Native) []llm.Part {
	switch {
	case n.Needed != "":
		if p.err == nil {
			p.err = Unsupported(n.At, p.to, "%s", n.Needed)
		}
	case n.Parts == nil:
		p.changes.add(cmp.Or(n.At, n.Type), Dropped, n.Type)
	default:
		p.changes.AdaptNamed(n.Type, formOf(n.Parts))
	}
	return n.Parts
}

// formOf describes the parts that replace content.
func formOf(parts []llm.Part) string {
	if len(parts) == 0 {
		return "tools"
	}
	switch part := parts[0].(type) {
	case llm.ToolCall:
		return "a tool call"
	case llm.ToolResult:
		return "a tool result"
	case llm.Media:
		return string(part.Kind)
	}
	return "text"
}

// Described returns text that stands for content of one dialect, in parts.
// What describes the content; empty content is left out.
func Described(what, content string) []llm.Part {
	if content != "" {
		what += ": " + content
	}
	return []llm.Part{llm.Text{Text: "[" + what + "]"}}
}

// ReadableText returns the content of a value for a model: a string, what text
// blocks say together, or JSON without data that only a vendor can read.
func ReadableText(v jsonedit.Value) string {
	if text, ok := v.Text(); ok {
		return text
	}
	if text, ok := blockTexts(v); ok {
		return text
	}
	if v.IsNull() {
		return ""
	}
	var b jsonedit.Builder
	appendReadable(&b, v, readableDepth)
	return string(b.Bytes())
}

// blockTexts joins a list of blocks that hold only text.
func blockTexts(v jsonedit.Value) (string, bool) {
	text := []byte(nil)
	n := 0
	for e := range v.Elements() {
		inner, _ := e.Get("text")
		words, ok := inner.TextBytes()
		if !ok {
			return "", false
		}
		n++
		text = append(text, words...)
	}
	return string(text), n > 0
}

// readableDepth limits the depth to which ReadableText looks for unreadable
// data: the results of all known tools are shallower.
const readableDepth = 6

func appendReadable(b *jsonedit.Builder, v jsonedit.Value, depth int) {
	switch {
	case depth == 0:
		b.Raw(v.Raw())
	case v.Kind() == jsonedit.Object:
		b.Open('{')
		for key, m := range v.Fields() {
			if name := key.String(); !unreadable[name] && !m.IsNull() {
				b.Key(name)
				appendReadable(b, m, depth-1)
			}
		}
		b.Close('}')
	case v.Kind() == jsonedit.Array:
		b.Open('[')
		for e := range v.Elements() {
			appendReadable(b, e, depth-1)
		}
		b.Close(']')
	default:
		b.Raw(v.Raw())
	}
}

// unreadable are the members with data that only the vendor can read.
var unreadable = map[string]bool{"encrypted_content": true, "encrypted_index": true, "encrypted_stdout": true, "signature": true}
