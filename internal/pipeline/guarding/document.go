package guarding

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"modelgate/api"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
)

// document is a JSON body whose texts are checked. It is immutable.
type document struct {
	request *exchange.Request
	form    bodytext.Form
	raw     []byte
	body    bodytext.Body
	parts   []guardrail.Part
}

// newDocument returns the document of a body, which must be JSON. It holds a view
// of raw.
func newDocument(r *exchange.Request, form bodytext.Form, raw []byte) *document {
	if r.Operation == api.Proxy {
		form = anyForm(form)
	}
	d := &document{request: r, form: form, raw: raw, body: bodytext.Find(raw, form)}
	d.parts = partsOf(r, form, d.body.Texts)
	if isConversation(r) || form == bodytext.ToolResult {
		d.parts = guardrail.JoinParts(d.parts)
	}
	return d
}

// anyForm returns the form for bodies of unknown APIs.
func anyForm(form bodytext.Form) bodytext.Form {
	if form == bodytext.Event {
		return bodytext.AnyEvent
	}
	return bodytext.AnyJSON
}

func partsOf(r *exchange.Request, form bodytext.Form, texts []bodytext.Text) []guardrail.Part {
	last := -1
	if form == bodytext.Request && isConversation(r) {
		last = lastTurn(texts)
	}
	parts := make([]guardrail.Part, len(texts))
	for i, t := range texts {
		p := guardrail.Part{Kind: kindOf(r.Operation, t.Kind), Role: string(t.Role), Message: max(t.Message, 0),
			Decoded: t.Decoded, Text: t.Value}
		if i > 0 && parts[i-1].Message == p.Message {
			p.Index = parts[i-1].Index + 1
		}
		switch {
		case p.Role != "" || form == bodytext.Request:
		case form == bodytext.ToolResult:
			p.Role = "tool"
		default:
			p.Role = "assistant"
		}
		if t.Kind == bodytext.Parameter && t.Message < 0 && form == bodytext.Request && isConversation(r) {
			p.Role = "system" // such as definitions of tools
		}
		p.Earlier = last >= 0 && t.Message < last || form == bodytext.Request && p.Role == "system" && isConversation(r)
		parts[i] = p
	}
	return parts
}

// lastTurn returns the number of the last message that is not of the model. What
// follows it, such as the beginning of a response that the client prescribes,
// belongs to the same turn.
func lastTurn(texts []bodytext.Text) int {
	last := -1
	for _, t := range texts {
		if t.Role != "assistant" && t.Role != "model" && t.Role != "system" && t.Role != "developer" {
			last = max(last, t.Message)
		}
	}
	return last
}

func kindOf(op api.Operation, k bodytext.Kind) guardrail.Kind {
	switch {
	case k == bodytext.Arguments:
		return guardrail.ToolArguments
	case k == bodytext.Thinking:
		return guardrail.Thinking
	case k == bodytext.Parameter:
		return guardrail.Parameters
	case op == api.Images || op == api.ImageEdits:
		return guardrail.ImagePrompt
	case op == api.Embeddings || op == api.GenerateEmbed || op == api.GenerateEmbedBatch:
		return guardrail.EmbeddingInput
	}
	return guardrail.Text
}

// isConversation reports whether the request has messages, of which the last are
// new.
func isConversation(r *exchange.Request) bool {
	switch r.Operation {
	case r.Dialect.ConversationOperation(), api.CountTokens, api.GenerateCount, api.ConverseCount:
		return true
	}
	return false
}

// clone returns a document with its own body, which outlives that of the request.
func (d *document) clone() *document {
	return newDocument(d.request, d.form, bytes.Clone(d.raw))
}

// JSON implements [guardrail.Document].
func (d *document) JSON(parts []guardrail.Part, add []guardrail.Message) (json.RawMessage, error) {
	out := d.raw
	if parts != nil {
		values := make([]string, len(d.body.Texts))
		for i := range values {
			values[i] = parts[i].Text
		}
		out = d.body.Replace(nil, values)
	}
	if len(add) > 0 {
		return d.addMessages(out, add)
	}
	return out, nil
}

// Replace implements [guardrail.Document].
func (d *document) Replace(body json.RawMessage) (guardrail.Document, []guardrail.Part, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(body); err != nil {
		return nil, nil, err
	}
	next := newDocument(d.request, d.form, body)
	return next, next.parts, nil
}

var errAddMessage = errors.New("a message of this role cannot be added to this request")

// systemFields are the fields of system prompts in dialects that keep them out of
// the messages, and the text around a prompt that becomes a value or an element.
var systemFields = map[api.Dialect]struct{ name, before, after string }{
	api.DialectMessages:  {"system", `{"type":"text","text":`, `}`},
	api.DialectGemini:    {"systemInstruction", `{"text":`, `}`},
	api.DialectConverse:  {"system", `{"text":`, `}`},
	api.DialectResponses: {"instructions", ``, ``},
}

// addMessages returns the body with system prompts added in front of its own.
func (d *document) addMessages(body []byte, add []guardrail.Message) ([]byte, error) {
	if !isConversation(d.request) || d.form != bodytext.Request {
		return nil, errAddMessage
	}
	for _, m := range slices.Backward(add) {
		var doc jsonedit.Doc
		if m.Role != "system" && m.Role != "developer" {
			return nil, errAddMessage
		}
		if err := doc.Scan(body); err != nil {
			return nil, err
		}
		edit := d.systemEdit(&doc, m)
		body = doc.Apply(nil, edit)
	}
	return body, nil
}

// systemEdit returns the edit that adds one system prompt.
func (d *document) systemEdit(doc *jsonedit.Doc, m guardrail.Message) jsonedit.Edit {
	f, ok := systemFields[d.request.Dialect]
	if !ok {
		element := append(jsonedit.AppendString([]byte(`{"role":"system","content":`), m.Text), '}')
		messages, _ := doc.Find("messages")
		return jsonedit.Edit{Name: "messages", Value: prepend(messages, element)}
	}
	own, found := doc.Find(f.name)
	if !found && f.name == "systemInstruction" {
		if snake, ok := doc.Find("system_instruction"); ok {
			own, f.name = snake, "system_instruction"
		}
	}
	if f.before == "" {
		text, _ := own.Text()
		if text != "" {
			text = "\n\n" + text
		}
		return jsonedit.Edit{Name: f.name, Value: jsonedit.AppendString(nil, m.Text+text)}
	}
	element := append(jsonedit.AppendString([]byte(f.before), m.Text), f.after...)
	switch own.Kind() {
	case jsonedit.Object: // of gemini
		parts, _ := own.Get("parts")
		return jsonedit.Edit{Name: f.name, Value: slices.Concat([]byte(`{"parts":`), prepend(parts, element), []byte(`}`))}
	case jsonedit.String:
		text, _ := own.Text()
		old := append(jsonedit.AppendString([]byte(f.before), text), f.after...)
		return jsonedit.Edit{Name: f.name, Value: slices.Concat([]byte(`[`), element, []byte(`,`), old, []byte(`]`))}
	case jsonedit.Array:
		return jsonedit.Edit{Name: f.name, Value: prepend(own, element)}
	}
	value := slices.Concat([]byte(`[`), element, []byte(`]`))
	if d.request.Dialect == api.DialectGemini {
		value = slices.Concat([]byte(`{"parts":`), value, []byte(`}`))
	}
	return jsonedit.Edit{Name: f.name, Value: value}
}

// prepend returns the array with one more element in front; list may be null.
func prepend(list jsonedit.Value, element []byte) []byte {
	var b jsonedit.Builder
	b.Open('[')
	b.Raw(element)
	for e := range list.Elements() {
		b.Raw(e.Raw())
	}
	b.Close(']')
	return b.Bytes()
}
