package chat

import (
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// rawMessage holds the undecoded members of a message; members that are null
// are left out.
type rawMessage struct {
	path, role, name, callID string

	content, blocks, images, calls, call, refusal, audio jsonedit.Value
	thought, details, cache                              jsonedit.Value

	extra []llm.Member
}

func (d *requestDecoder) messages() {
	for path, v := range d.Elements("messages", d.list) {
		m := d.message(path, v)
		switch m.role {
		case "system", "developer":
			d.plain(llm.Role(m.role), &m)
		case "user":
			d.plain(llm.User, &m)
		case "assistant":
			d.assistant(&m)
		case "tool", "function":
			d.result(&m)
		default:
			d.Refuse(path+".role", dialect.CodeValue, "must be system, developer, user, assistant, tool or function")
		}
		if d.Err != nil {
			return
		}
	}
}

func (d *requestDecoder) message(path string, v jsonedit.Value) rawMessage {
	m := rawMessage{path: path}
	for key, value := range d.fields(path, v) {
		if value.IsNull() || isPlaceholder(value) {
			continue
		}
		switch name := key.String(); name {
		case "role":
			m.role = d.Text(path+".role", value)
		case "name":
			m.name = d.Text(path+".name", value)
		case "tool_call_id":
			m.callID = d.Text(path+".tool_call_id", value)
		case "content":
			m.content = value
		case "content_blocks":
			m.blocks = value
		case "images":
			m.images = value
		case "tool_calls":
			m.calls = value
		case "function_call":
			m.call = value
		case "refusal":
			m.refusal = value
		case "audio":
			m.audio = value
		case "reasoning_content", "reasoning":
			m.thought = value
		case "reasoning_details":
			m.details = value
		case "cache_control":
			m.cache = value
		default:
			m.extra = append(m.extra, llm.Member{Name: name, Value: value.Raw()})
		}
	}
	if !m.images.IsNull() && (m.role != "assistant" || m.images.Kind() != jsonedit.Array) { // not OpenRouter's
		m.extra, m.images = append(m.extra, llm.Member{Name: "images", Value: m.images.Raw()}), jsonedit.Value{}
	}
	return m
}

// isPlaceholder reports whether v is an object without content, which some hosts
// write in place of null: all of its members are null, zero or empty strings.
func isPlaceholder(v jsonedit.Value) bool {
	if v.Kind() != jsonedit.Object {
		return false
	}
	members := 0
	for _, m := range v.Fields() {
		if raw := string(m.Raw()); raw != `""` && raw != "0" && raw != "null" {
			return false
		}
		members++
	}
	return members > 0
}

func (d *requestDecoder) add(m llm.Message, results bool) {
	d.r.Messages = append(d.r.Messages, m)
	d.results = results
}

func (d *requestDecoder) plain(role llm.Role, m *rawMessage) {
	parts := d.content(m.path+".content", m.content)
	d.markLast(parts, m)
	d.add(llm.Message{Role: role, Name: m.name, Parts: parts, Extra: m.extra, At: m.path}, false)
}

// markLast applies the message's cache mark to its last part.
func (d *requestDecoder) markLast(parts []llm.Part, m *rawMessage) {
	if m.cache.IsNull() || len(parts) == 0 {
		return
	}
	if text, ok := parts[len(parts)-1].(llm.Text); ok && text.Cache == nil {
		text.Cache = d.cache(m.path+".cache_control", m.cache)
		parts[len(parts)-1] = text
	}
}

// assistant reads an assistant message. content_blocks win over content, since
// they hold more.
func (d *requestDecoder) assistant(m *rawMessage) {
	var parts []llm.Part
	if m.blocks.Kind() == jsonedit.Array {
		parts = d.content(m.path+".content_blocks", m.blocks)
	} else {
		parts = d.thoughts(m)
		parts = append(parts, d.content(m.path+".content", m.content)...)
		parts = append(parts, d.content(m.path+".images", m.images)...)
	}
	if text := d.Text(m.path+".refusal", m.refusal); text != "" {
		parts = append(parts, llm.Refusal{Text: text})
	}
	if id, ok := m.audio.Get("id"); ok {
		parts = append(parts, llm.Media{Kind: llm.Audio, FileID: d.Text(m.path+".audio.id", id), At: m.path + ".audio"})
	}
	d.markLast(parts, m)
	if !m.calls.IsNull() {
		d.numbered = numberedCalls{}
		for path, v := range d.Elements(m.path+".tool_calls", m.calls) {
			parts = append(parts, d.call(path, v))
		}
	}
	if !m.call.IsNull() {
		parts = append(parts, d.legacyCall(m.path+".function_call", m.call))
	}
	for _, p := range parts {
		if call, ok := p.(llm.ToolCall); ok {
			d.remember(call)
		}
	}
	d.add(llm.Message{Role: llm.Assistant, Name: m.name, Parts: parts, Extra: m.extra, At: m.path}, false)
}

// remember stores a call, which its result refers to.
func (d *requestDecoder) remember(call llm.ToolCall) {
	if d.calls == nil {
		d.calls, d.functionsCalled = map[string]llm.ToolCall{}, map[string]llm.ToolCall{}
	}
	d.calls[call.ID] = call
	if call.Numbered {
		d.numbered.add(call)
	}
	d.functionsCalled[call.Name] = call
}

func (d *requestDecoder) thoughts(m *rawMessage) []llm.Part {
	if m.details.Kind() == jsonedit.Array {
		if parts := readDetails(m.details); len(parts) > 0 {
			return parts
		}
	}
	if text, _ := m.thought.Text(); text != "" {
		return []llm.Part{llm.Thinking{Text: text}}
	}
	return nil
}

func (d *requestDecoder) call(path string, v jsonedit.Value) llm.ToolCall {
	call := llm.ToolCall{At: path}
	for key, m := range d.fields(path, v) {
		switch name := key.String(); name {
		case "id":
			if !m.IsNull() {
				call.ID = d.Text(path+".id", m)
			}
		case "function":
			d.callTarget(&call, path+".function", m)
		case "custom":
			if !m.IsNull() && !isPlaceholder(m) {
				call.Custom = true
				d.callTarget(&call, path+".custom", m)
			}
		case "extra_content":
			call.Signature = googleSignature(m)
		case "cache_control":
			call.Cache = d.cache(path+".cache_control", m)
		case "type", "index":
		default:
			call.Extra = append(call.Extra, llm.Member{Name: name, Value: m.Raw()})
		}
	}
	if call.Name == "" {
		d.Refuse(path, dialect.CodeMissing, "needs the name of a function")
	}
	if call.ID == "" {
		call.ID, call.Numbered = d.numberedID(), true
	}
	return call
}

// callTarget reads the function or the custom tool of a call.
func (d *requestDecoder) callTarget(call *llm.ToolCall, path string, v jsonedit.Value) {
	for key, m := range d.fields(path, v) {
		switch key.String() {
		case "name":
			call.Name = d.toolName(path+".name", m)
		case "arguments":
			call.Arguments = dialect.Arguments(m)
		case "input":
			call.Arguments = d.Text(path+".input", m)
		case "thought_signature":
			call.Signature = dialect.ReadSignature(llm.Google, d.Text(path+".thought_signature", m))
		default:
			d.Lose(path, key.String(), m)
		}
	}
}

// googleSignature reads the signature that Google's endpoint for this dialect
// adds to calls.
// https://ai.google.dev/gemini-api/docs/thought-signatures
func googleSignature(v jsonedit.Value) llm.Signature {
	google, _ := v.Get("google")
	sign, _ := google.Get("thought_signature")
	text, _ := sign.Text()
	return dialect.ReadSignature(llm.Google, text)
}

// legacyCall reads a function_call, which has no id.
func (d *requestDecoder) legacyCall(path string, v jsonedit.Value) llm.ToolCall {
	call := llm.ToolCall{ID: "call_function_" + strconv.Itoa(len(d.calls)), At: path}
	d.callTarget(&call, path, v)
	return call
}

// result reads a tool result and appends it to the preceding results.
func (d *requestDecoder) result(m *rawMessage) {
	result := llm.ToolResult{ID: m.callID, Name: m.name, At: m.path, Extra: m.extra}
	if call := d.callOf(m); call != nil {
		result.ID, result.Custom = call.ID, call.Custom
	} else {
		d.orphan(m)
	}
	if !m.content.IsNull() {
		result.Parts = d.content(m.path+".content", m.content)
	}
	if !m.cache.IsNull() {
		result.Cache = d.cache(m.path+".cache_control", m.cache)
	}
	if d.results {
		last := &d.r.Messages[len(d.r.Messages)-1]
		last.Parts = append(last.Parts, result)
		return
	}
	d.add(llm.Message{Role: llm.User, Parts: []llm.Part{result}, At: m.path}, true)
}

// callOf returns the call that m is the result of: the call with its id, without
// one a call that had none either, or for a function the last call of that name.
func (d *requestDecoder) callOf(m *rawMessage) *llm.ToolCall {
	call, ok := d.calls[m.callID]
	switch {
	case m.role == "function":
		call, ok = d.functionsCalled[m.name]
	case m.callID == "":
		return d.numbered.take(m.name)
	}
	if !ok {
		return nil
	}
	return &call
}

func (d *requestDecoder) orphan(m *rawMessage) {
	switch {
	case m.role == "function":
		d.Refuse(m.path+".name", dialect.CodeValue, "no function of this name was called before")
	case m.callID == "":
		d.Refuse(m.path+".tool_call_id", dialect.CodeMissing, "is required in a message with the role tool")
	default:
		d.Refuse(m.path+".tool_call_id", dialect.CodeValue, "no tool call before has this id")
	}
}
