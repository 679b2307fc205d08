package gemini

import (
	"bytes"
	"encoding/json"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// piece holds the undecoded members of a part.
type piece struct {
	kind      string // the member that decides the type of the part; empty if none
	value     jsonedit.Value
	thought   bool
	signature string
	extra     []llm.Member // further members, views
}

// pieceOf reads the members of a part.
// https://ai.google.dev/api/caching#Part
func pieceOf(v jsonedit.Value) (p piece) {
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"text"`:
			p.kind, p.value = "text", v
			continue
		case `"thought"`:
			p.thought, _ = v.Bool()
			continue
		}
		switch name := camel(key); {
		case v.IsNull():
		case name == "thoughtSignature":
			p.signature, _ = v.Text()
		case partFields[name]:
			p.extra = append(p.extra, llm.Member{Name: name, Value: v.Raw()})
		case dataFields[name] || p.kind == "":
			p.kind, p.value = name, v
		default:
			p.extra = append(p.extra, llm.Member{Name: name, Value: v.Raw()})
		}
	}
	return p
}

// partFields are the members that a part may have in addition to its data.
var partFields = map[string]bool{"videoMetadata": true, "mediaResolution": true, "partMetadata": true, "speechMetadata": true,
	"mediaProcessing": true}

// dataFields are the members of which a part has one.
var dataFields = map[string]bool{
	"functionCall": true, "functionResponse": true, "inlineData": true, "fileData": true, "executableCode": true,
	"codeExecutionResult": true, "toolCall": true, "toolResponse": true, "audioTranscription": true,
}

// part decodes a part of a choice.
func (d *streamDecoder) part(dst []llm.Event, choice int, v jsonedit.Value) []llm.Event {
	p := pieceOf(v)
	sign := dialect.ReadSignature(llm.Google, plain(p.signature))
	switch p.kind {
	case "text":
		words, _ := p.value.Text()
		return d.words(dst, choice, words, sign, p.thought)
	case "":
		if p.thought || p.signature != "" {
			return d.words(dst, choice, "", sign, p.thought)
		}
		return dst
	case "functionCall":
		return d.call(dst, choice, p.value, sign)
	case "inlineData", "fileData":
		media := mediaOf(p)
		if media.Data == "" && media.URL == "" {
			return dst
		}
		if sign.Value != "" { // media cannot carry it
			dst = d.completePart(dst, choice, llm.Thinking{}, sign)
		}
		return d.completePart(dst, choice, media, llm.Signature{})
	}
	raw := slices.Clone(v.Raw())
	return d.completePart(dst, choice, dialect.TextOfUnknown(llm.Native{Dialect: own, Type: p.kind, Raw: raw}), llm.Signature{})
}

// mediaOf reads inlineData or fileData, without views.
func mediaOf(p piece) llm.Media {
	var m llm.Media
	for key, v := range p.value.Fields() {
		switch camel(key) {
		case "mimeType":
			m.Type, _ = v.Text()
		case "data":
			m.Data, _ = v.Text()
		case "fileUri":
			m.URL, _ = v.Text()
		case "displayName":
			m.Name, _ = v.Text()
		}
	}
	m.Kind = dialect.MediaKindOf(m.Type)
	if m.Type == "" {
		m.Kind = dialect.MediaKindOf(dialect.TypeByName(m.URL))
	}
	if p.thought {
		m.Extra = append(m.Extra, llm.Member{Name: "thought", Value: json.RawMessage("true")})
	}
	for _, e := range p.extra {
		m.Extra = append(m.Extra, llm.Member{Name: e.Name, Value: slices.Clone(e.Value)})
	}
	return m
}

// words decodes text or thinking. It extends the last part if that is of the
// same kind and has no signature yet.
func (d *streamDecoder) words(dst []llm.Event, choice int, words string, sign llm.Signature, thought bool) []llm.Event {
	if words == "" && sign.Value == "" {
		return dst
	}
	c := &d.choices[choice]
	var part llm.Part = llm.Text{}
	if thought {
		part = llm.Thinking{}
	}
	if c.signed || !sameKind(c.open, part) {
		dst = d.begin(dst, choice, part)
	}
	c = &d.choices[choice]
	e := llm.Event{Kind: llm.EventDelta, Choice: choice, Part: c.parts - 1, Text: words}
	if sign.Value != "" {
		e.Signature, c.signed = sign, true
	}
	if !thought {
		e.Logprobs, c.logprobs = c.logprobs, nil
		c.said = append(c.said, words...)
	}
	return append(dst, e)
}

func sameKind(a, b llm.Part) bool {
	switch a.(type) {
	case llm.Text:
		_, ok := b.(llm.Text)
		return ok
	case llm.Thinking:
		_, ok := b.(llm.Thinking)
		return ok
	}
	return false
}

// begin ends the open part and begins another.
func (d *streamDecoder) begin(dst []llm.Event, choice int, p llm.Part) []llm.Event {
	dst = d.close(dst, choice)
	c := &d.choices[choice]
	c.open, c.signed, c.said = p, false, c.said[:0]
	c.parts++
	return append(dst, llm.Event{Kind: llm.EventPartStart, Choice: choice, Part: c.parts - 1, Opened: p})
}

// completePart appends a part that comes in one piece.
func (d *streamDecoder) completePart(dst []llm.Event, choice int, p llm.Part, sign llm.Signature) []llm.Event {
	dst = d.begin(dst, choice, p)
	if sign.Value != "" {
		dst = append(dst, llm.Event{Kind: llm.EventDelta, Choice: choice, Part: d.choices[choice].parts - 1, Signature: sign})
	}
	return d.close(dst, choice)
}

// close ends the open part.
func (d *streamDecoder) close(dst []llm.Event, choice int) []llm.Event {
	c := &d.choices[choice]
	if c.open == nil {
		return dst
	}
	if c.args != nil {
		dst = d.arguments(dst, choice, c.args.end(nil))
	}
	if c.gathered != nil {
		words := dialect.UnwrapText(string(c.gathered))
		c.gathered = nil
		dst = d.arguments(dst, choice, []byte(words))
	}
	c.open, c.args = nil, nil
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Choice: choice, Part: c.parts - 1})
}

// arguments appends a piece of the open call's arguments.
func (d *streamDecoder) arguments(dst []llm.Event, choice int, added []byte) []llm.Event {
	c := &d.choices[choice]
	if c.gathered != nil {
		c.gathered = append(c.gathered, added...)
		return dst
	}
	if len(added) == 0 {
		return dst
	}
	return append(dst, llm.Event{Kind: llm.EventDelta, Choice: choice, Part: c.parts - 1, Text: string(added)})
}

// call decodes a functionCall: a complete call, the start of one, or the
// continuation of the open one. A call without arguments that is not continued
// is complete.
func (d *streamDecoder) call(dst []llm.Event, choice int, v jsonedit.Value, sign llm.Signature) []llm.Event {
	var name, id string
	var args, pieces jsonedit.Value
	more := false
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"name"`:
			name, _ = v.Text()
		case `"id"`:
			id, _ = v.Text()
		case `"args"`:
			args = v
		case `"partialArgs"`:
			pieces = v
		case `"willContinue"`:
			more, _ = v.Bool()
		}
	}
	if name != "" {
		dst = d.beginCall(dst, choice, llm.ToolCall{ID: id, Name: name, Signature: sign})
	}
	c := &d.choices[choice]
	if c.args == nil {
		return dst // of a call without a start
	}
	if args.Kind() == jsonedit.Object {
		c.args = nil
		dst = d.arguments(dst, choice, compact(args.Raw()))
		return d.close(dst, choice)
	}
	var added []byte
	for p := range pieces.Elements() {
		added = c.args.write(added, p)
	}
	dst = d.arguments(dst, choice, added)
	if !more {
		dst = d.close(dst, choice)
	}
	return dst
}

// beginCall begins a call of a tool, or the text that the forced tool stands
// for.
func (d *streamDecoder) beginCall(dst []llm.Event, choice int, call llm.ToolCall) []llm.Event {
	if d.forced && call.Name == formTool {
		dst = d.begin(dst, choice, llm.Text{})
		d.choices[choice].args = new(partial)
		return dst
	}
	if call.ID == "" {
		call.ID = d.callID()
	} else {
		d.calls++
	}
	call.Custom = slices.Contains(d.custom, call.Name)
	dst = d.begin(dst, choice, call)
	c := &d.choices[choice]
	c.called, c.args = true, new(partial)
	if call.Custom {
		c.gathered = []byte{}
	}
	return dst
}

// compact removes white space from JSON.
func compact(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
