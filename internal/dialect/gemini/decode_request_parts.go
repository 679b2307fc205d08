package gemini

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// maxName is the maximum length of a function name.
// https://ai.google.dev/api/caching#FunctionDeclaration
const maxName = 128

// system reads systemInstruction: a content, or a string instead.
func (d *requestDecoder) system(v jsonedit.Value) {
	m := llm.Message{Role: llm.System, At: "systemInstruction"}
	if words, ok := v.Text(); ok {
		m.Parts = []llm.Part{llm.Text{Text: words}}
	} else if d.Is(m.At, v, jsonedit.Object, "a content") {
		d.parts(&m, v)
	}
	if len(m.Parts) > 0 {
		d.r.Messages = append(d.r.Messages, m)
	}
}

// content reads one turn.
func (d *requestDecoder) content(v jsonedit.Value, path string) {
	if d.Err != nil || !d.Is(path, v, jsonedit.Object, "a content with role and parts") {
		return
	}
	m := llm.Message{Role: llm.User, At: path}
	switch role := field(v, "role"); string(role.Raw()) {
	case "", "null", `""`, `"user"`, `"function"`, `"tool"`:
	case `"model"`:
		m.Role = llm.Assistant
	default:
		d.Refuse(path+".role", dialect.CodeValue, "must be user or model")
		return
	}
	d.parts(&m, v)
	if len(m.Parts) > 0 { // a turn without parts is empty
		d.r.Messages = append(d.r.Messages, m)
	}
}

// parts reads the parts of a content. Members next to a part's data are kept.
func (d *requestDecoder) parts(m *llm.Message, content jsonedit.Value) {
	for key, v := range content.Fields() {
		switch name := camel(key); {
		case v.IsNull() || name == "role":
		case name == "parts":
			each(v, m.At+".parts", func(v jsonedit.Value, path string) { d.part(m, v, path) })
		default:
			m.Extra = append(m.Extra, llm.Member{Name: name, Value: v.Raw()})
		}
	}
}

func (d *requestDecoder) part(m *llm.Message, v jsonedit.Value, path string) {
	if d.Err != nil || !d.Is(path, v, jsonedit.Object, "a part") {
		return
	}
	p := pieceOf(v)
	sign := dialect.ReadSignature(llm.Google, plain(p.signature))
	d.unsupportedMembers(p)
	switch p.kind {
	case "text", "":
		d.words(m, p, sign, path)
	case "functionCall":
		d.call(m, p, sign, path)
	case "functionResponse":
		d.result(m, p, path)
	case "inlineData", "fileData":
		if sign.Value != "" { // media cannot carry it
			m.Parts = append(m.Parts, llm.Thinking{Signature: sign})
		}
		if media := d.media(p, path); d.Err == nil {
			m.Parts = append(m.Parts, media)
		}
	default:
		m.Parts = append(m.Parts, llm.Native{Dialect: own, Type: p.kind, Raw: v.Raw(), At: path, Parts: describe(p)})
	}
}

// partMembers begins the names of parameters that are members of parts.
const partMembers = "contents.parts."

// unsupportedMembers records the members next to a part's data, which other
// dialects do not have. The level of detail is neutral.
func (d *requestDecoder) unsupportedMembers(p piece) {
	for _, m := range p.extra {
		if _, neutral := detailOf(m.Value); neutral && m.Name == "mediaResolution" {
			continue
		}
		d.r.Extra = append(d.r.Extra, llm.Member{Name: partMembers + m.Name, Value: m.Value})
	}
}

// describe returns a part that only this dialect has as text, nil if it says
// nothing to a model.
func describe(p piece) []llm.Part {
	member := func(name string) string { return dialect.ReadableText(field(p.value, name)) }
	switch p.kind {
	case "executableCode":
		return []llm.Part{llm.Text{Text: "```" + strings.ToLower(member("language")) + "\n" + member("code") + "\n```"}}
	case "codeExecutionResult":
		return dialect.Described("result of the code", member("output"))
	case "toolCall":
		return dialect.Described("call of "+member("toolType"), member("args"))
	case "toolResponse":
		return dialect.Described("result of "+member("toolType"), member("response"))
	case "audioTranscription":
		return []llm.Part{llm.Text{Text: member("text")}}
	}
	return nil
}

func (d *requestDecoder) words(m *llm.Message, p piece, sign llm.Signature, path string) {
	words := ""
	if p.kind == "text" && !p.value.IsNull() {
		words = d.Text(path+".text", p.value)
	}
	switch {
	case p.thought:
		t := llm.Thinking{Text: words}
		t.Redacted, t.Signature = unredacted(sign)
		m.Parts = appendThinking(m.Parts, t)
	case p.kind == "text" || sign.Value != "":
		m.Parts = append(m.Parts, llm.Text{Text: words, Signature: sign})
	}
}

// appendThinking appends thinking. Clients send streamed thinking back in
// pieces, of which the last has the signature; they are joined.
func appendThinking(parts []llm.Part, t llm.Thinking) []llm.Part {
	if n := len(parts); n > 0 && !t.Redacted {
		if before, ok := parts[n-1].(llm.Thinking); ok && before.Signature.Value == "" && !before.Redacted {
			t.Text = before.Text + t.Text
			parts = parts[:n-1]
		}
	}
	return append(parts, t)
}

// media reads inlineData or fileData.
func (d *requestDecoder) media(p piece, path string) llm.Media {
	path += "." + p.kind
	if !d.Is(path, p.value, jsonedit.Object, "an object") {
		return llm.Media{}
	}
	d.LoseUnknown(path, p.value, "mimeType", "mime_type", "data", "displayName", "display_name", "fileUri", "file_uri")
	m := mediaOf(p)
	m.At = path
	switch {
	case p.kind == "inlineData":
		m.Data = d.Base64(path+".data", m.Data) // Google's Python client sends the URL-safe alphabet
		if m.Type == "" {
			d.Refuse(path+".mimeType", dialect.CodeMissing, "is required: send the MIME type of the data")
		}
	case m.URL == "":
		d.Refuse(path+".fileUri", dialect.CodeMissing, "is required: send the address of the file")
	}
	m.Extra = slices.DeleteFunc(m.Extra, func(e llm.Member) bool {
		if e.Name != "mediaResolution" {
			return false
		}
		var ok bool
		m.Detail, ok = detailOf(e.Value)
		return ok
	})
	return m
}

// detailOf reads the resolution of an image if it has a neutral equivalent.
func detailOf(raw json.RawMessage) (string, bool) {
	v, err := jsonedit.ParseValue(raw)
	level := field(v, "level")
	if err != nil || size(v) != 1 {
		return "", false
	}
	switch string(level.Raw()) {
	case `"MEDIA_RESOLUTION_LOW"`:
		return "low", true
	case `"MEDIA_RESOLUTION_HIGH"`:
		return "high", true
	}
	return "", false
}

// call reads a functionCall of the history. A call without an id gets its
// number in the conversation as id.
func (d *requestDecoder) call(m *llm.Message, p piece, sign llm.Signature, path string) {
	path += ".functionCall"
	if !d.Is(path, p.value, jsonedit.Object, "an object") {
		return
	}
	call := llm.ToolCall{Signature: sign, At: path}
	for key, v := range p.value.Fields() {
		if v.IsNull() {
			continue
		}
		switch name := camel(key); name {
		case "id":
			call.ID = d.Text(path+".id", v)
		case "name":
			call.Name = d.name(v, path+".name")
		case "args":
			call.Arguments = dialect.Arguments(v)
		default:
			call.Extra = append(call.Extra, llm.Member{Name: name, Value: v.Raw()})
		}
	}
	if call.Name == "" {
		d.Refuse(path+".name", dialect.CodeMissing, "is required: send the name of the function")
	}
	n := len(d.calls)
	if call.ID == "" {
		call.ID = numberedID(n)
	}
	d.calls = append(d.calls, pendingCall{id: call.ID, name: call.Name})
	d.byID[call.ID] = n
	d.byName[call.Name] = append(d.byName[call.Name], n)
	m.Parts = append(m.Parts, call)
}

// numberedID returns the id of call n of a conversation, for a call without its
// own id.
func numberedID(n int) string { return "call_" + strconv.Itoa(n) }

// name reads the name of a function.
func (d *requestDecoder) name(v jsonedit.Value, path string) string {
	s := d.Text(path, v)
	if len(s) > maxName {
		d.Refuse(path, dialect.CodeValue, "must have at most %d characters, not %d", maxName, len(s))
	}
	return s
}

// result reads a functionResponse. It belongs to the call with its id or,
// without one, to the first call of its name without a result.
func (d *requestDecoder) result(m *llm.Message, p piece, path string) {
	path += ".functionResponse"
	if !d.Is(path, p.value, jsonedit.Object, "an object") {
		return
	}
	out := llm.ToolResult{At: path}
	var response, parts jsonedit.Value
	for key, v := range p.value.Fields() {
		if v.IsNull() {
			continue
		}
		switch name := camel(key); name {
		case "id":
			out.ID = d.Text(path+".id", v)
		case "name":
			out.Name = d.name(v, path+".name")
		case "response":
			response = v
			d.Is(path+".response", v, jsonedit.Object, "an object")
		case "parts":
			parts = v
		default:
			out.Extra = append(out.Extra, llm.Member{Name: name, Value: v.Raw()})
		}
	}
	if !d.matchCall(&out) {
		return
	}
	if response.Kind() == jsonedit.Object {
		out.Parts, out.Failed = functionResult(response)
	}
	each(parts, path+".parts", func(v jsonedit.Value, path string) { d.resultPart(&out, v, path) })
	m.Parts = append(m.Parts, out)
}

// matchCall connects a result with its call.
func (d *requestDecoder) matchCall(r *llm.ToolResult) bool {
	n, ok := d.waiting(*r)
	if !ok {
		d.Refuse(r.At, dialect.CodeValue, "belongs to no functionCall before it: send the call of %.100q with the turn of the model", r.Name)
		return false
	}
	call := &d.calls[n]
	call.hasResult, r.ID = true, call.id
	if r.Name == "" {
		r.Name = call.name
	}
	return true
}

// waiting finds the call that a result belongs to. Where hosts send no ids,
// clients invent their own.
func (d *requestDecoder) waiting(r llm.ToolResult) (int, bool) {
	if n, ok := d.byID[r.ID]; ok && r.ID != "" {
		return n, true
	}
	list := d.byName[r.Name]
	for len(list) > 0 && d.calls[list[0]].hasResult {
		list = list[1:]
	}
	d.byName[r.Name] = list
	if len(list) == 0 {
		return 0, false
	}
	return list[0], true
}

// functionResult reads the result of a function: the text if it holds nothing
// else, otherwise the object as received.
// https://ai.google.dev/api/caching#FunctionResponse
func functionResult(response jsonedit.Value) (parts []llm.Part, failed bool) {
	if size(response) == 1 {
		for key, v := range response.Fields() {
			words, ok := v.Text()
			switch failed = key.Is("error"); {
			case !ok:
			case failed, key.Is("output") && !isObject(words):
				return []llm.Part{llm.Text{Text: words}}, failed
			}
		}
	}
	return []llm.Part{llm.Text{Text: string(response.Raw())}}, false
}

// isObject reports whether text is a JSON object.
func isObject(text string) bool {
	v, err := jsonedit.ParseValue([]byte(text))
	return err == nil && v.Kind() == jsonedit.Object
}

// resultPart reads a part of a functionResponse, normally media.
func (d *requestDecoder) resultPart(out *llm.ToolResult, v jsonedit.Value, path string) {
	if d.Err != nil || v.IsNull() || !d.Is(path, v, jsonedit.Object, "a part") {
		return
	}
	p := pieceOf(v)
	if p.kind != "inlineData" && p.kind != "fileData" {
		out.Parts = append(out.Parts, llm.Native{Dialect: own, Type: p.kind, Raw: v.Raw(), At: path})
		return
	}
	if media := d.media(p, path); d.Err == nil {
		out.Parts = append(out.Parts, media)
	}
}
