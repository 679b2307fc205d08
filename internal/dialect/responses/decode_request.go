package responses

import (
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/grammar"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// names is what the protocol calls the fields of a request whose name is not
// the field's own.
var names = map[llm.Field]string{
	llm.FieldFormat:    "text.format",
	llm.FieldVerbosity: "text.verbosity",
	llm.FieldMaxTokens: "max_output_tokens",
	llm.FieldEffort:    "reasoning.effort",
	llm.FieldSummary:   "reasoning.summary",
	llm.FieldLogprobs:  "top_logprobs",
	llm.FieldParts:     "input",
}

// requestDecoder is a request while it is read.
type requestDecoder struct {
	r            *llm.Request
	instructions *llm.Message
	input        jsonedit.Value
	err          *apierr.Error // the first
}

// DecodeRequest reads a client's request. What rests on answers that a provider
// keeps is refused: no other provider has them.
func (Dialect) DecodeRequest(body []byte) (*llm.Request, error) {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return nil, apierr.New(apierr.Invalid, "the body is not JSON: %v", err)
	}
	q := &requestDecoder{r: &llm.Request{Dialect: own, Names: names}}
	for key, v := range d.Members() {
		if v.IsNull() {
			continue
		}
		name := key.String()
		if read, ok := parameters[name]; ok {
			read(q, v)
		} else {
			q.r.Extra = append(q.r.Extra, llm.Member{Name: name, Value: v.Raw()})
		}
	}
	q.readInput()
	if q.err != nil {
		return nil, q.err
	}
	return q.r, nil
}

// parameters reads each known parameter, which is not null.
var parameters = map[string]func(q *requestDecoder, v jsonedit.Value){
	"model":  func(q *requestDecoder, v jsonedit.Value) { q.r.Model = q.text(v, "model") },
	"input":  func(q *requestDecoder, v jsonedit.Value) { q.input = v },
	"stream": func(q *requestDecoder, v jsonedit.Value) { q.r.Stream, _ = v.Bool() },
	"instructions": func(q *requestDecoder, v jsonedit.Value) {
		text := q.text(v, "instructions")
		q.instructions = &llm.Message{Role: llm.System, Parts: []llm.Part{llm.Text{Text: text}}, At: "instructions"}
	},
	"tools":               (*requestDecoder).readTools,
	"tool_choice":         (*requestDecoder).readChoice,
	"text":                (*requestDecoder).readText,
	"reasoning":           (*requestDecoder).readReasoning,
	"thinking":            (*requestDecoder).readThinking,
	"include":             (*requestDecoder).readInclude,
	"max_output_tokens":   func(q *requestDecoder, v jsonedit.Value) { q.r.MaxTokens = integer(v) },
	"temperature":         func(q *requestDecoder, v jsonedit.Value) { q.r.Temperature = float(v) },
	"top_p":               func(q *requestDecoder, v jsonedit.Value) { q.r.TopP = float(v) },
	"top_logprobs":        (*requestDecoder).readTopLogprobs,
	"parallel_tool_calls": func(q *requestDecoder, v jsonedit.Value) { q.r.ParallelTools = truth(v) },
	"user":                func(q *requestDecoder, v jsonedit.Value) { q.r.User = q.text(v, "user") },
	"service_tier":        func(q *requestDecoder, v jsonedit.Value) { q.r.ServiceTier = q.text(v, "service_tier") },
	"metadata":            (*requestDecoder).readMetadata,

	// A stream is padded against listeners unless include_obfuscation is false.
	// Streams that the gateway writes hold no padding, so nothing is lost.
	"stream_options": func(*requestDecoder, jsonedit.Value) {},

	"background": func(q *requestDecoder, v jsonedit.Value) {
		if on, _ := v.Bool(); on {
			q.stateful("background", "send background false, or leave it out")
		}
	},
	"conversation": func(q *requestDecoder, _ jsonedit.Value) {
		q.stateful("conversation", "send the whole conversation as input")
	},
	"previous_response_id": func(q *requestDecoder, _ jsonedit.Value) {
		q.stateful("previous_response_id", "send the earlier turns as input")
	},
	"prompt": func(q *requestDecoder, _ jsonedit.Value) {
		q.stateful("prompt", "send the prompt's text as instructions and input")
	},
}

// stateful refuses what rests on something that the provider keeps.
func (q *requestDecoder) stateful(name, instead string) {
	q.fail(name, dialect.CodeUnsupported, "is kept by the provider that speaks this protocol and can't be translated for another: %s", instead)
}

func (q *requestDecoder) fail(path, code, format string, args ...any) {
	if q.err == nil {
		q.err = dialect.Invalid(path, code, format, args...)
	}
}

// text returns the text of a string; null is empty.
func (q *requestDecoder) text(v jsonedit.Value, path string) string {
	text, ok := v.Text()
	if !ok && !v.IsNull() {
		q.fail(path, dialect.CodeType, "must be a string, not %s", grammar.Describe(v.Raw()))
	}
	return text
}

// member returns the text of a member of an object; absent is empty. The path
// is made only when it is needed.
func (q *requestDecoder) member(v jsonedit.Value, at, name string) string {
	m, ok := v.Get(name)
	if !ok {
		return ""
	}
	text, ok := m.Text()
	if !ok && !m.IsNull() {
		q.fail(at+"."+name, dialect.CodeType, "must be a string, not %s", grammar.Describe(m.Raw()))
	}
	return text
}

// needed is member for one that must be there and not be empty.
func (q *requestDecoder) needed(v jsonedit.Value, at, name string) string {
	text := q.member(v, at, name)
	if text == "" {
		q.fail(at+"."+name, dialect.CodeMissing, "is required: send a string")
	}
	return text
}

func integer(v jsonedit.Value) *int64 {
	if n, ok := v.Int(); ok {
		return &n
	}
	return nil
}

func float(v jsonedit.Value) *float64 {
	if f, ok := v.Float(); ok {
		return &f
	}
	return nil
}

func truth(v jsonedit.Value) *bool {
	if b, ok := v.Bool(); ok {
		return &b
	}
	return nil
}

// readTopLogprobs reads how many others to tell of each token, which asks for
// the tokens too.
func (q *requestDecoder) readTopLogprobs(v jsonedit.Value) {
	q.r.TopLogprobs = integer(v)
	if on := true; q.r.TopLogprobs != nil && *q.r.TopLogprobs > 0 {
		q.r.Logprobs = &on
	}
}

func (q *requestDecoder) readMetadata(v jsonedit.Value) {
	for key, m := range v.Fields() {
		if m.Kind() != jsonedit.String {
			q.fail("metadata."+key.String(), dialect.CodeType, "must be a string, not %s", grammar.Describe(m.Raw()))
		}
	}
	q.r.Metadata = v.Raw()
}

// readText reads the form of the answer and how long it should be.
func (q *requestDecoder) readText(v jsonedit.Value) {
	for key, m := range v.Fields() {
		switch {
		case m.IsNull():
		case key.Is("verbosity"):
			q.r.Verbosity = q.text(m, "text.verbosity")
		case key.Is("format"):
			q.readFormat(m)
		}
	}
}

func (q *requestDecoder) readFormat(v jsonedit.Value) {
	const at = "text.format"
	f := &q.r.Format
	switch typ := q.needed(v, at, "type"); typ {
	case "text", "json_object":
		f.Kind = llm.FormatKind(typ)
	case "json_schema":
		f.Kind = llm.FormatSchema
		f.Name = q.needed(v, at, "name")
		f.Description = q.member(v, at, "description")
		strict, _ := v.Get("strict")
		f.Strict = truth(strict)
		schema, _ := v.Get("schema")
		if schema.Kind() != jsonedit.Object {
			q.fail(at+".schema", dialect.CodeType, "must be a JSON Schema, an object, not %s", grammar.Describe(schema.Raw()))
		}
		f.Schema = schema.Raw()
	default:
		q.fail(at+".type", dialect.CodeValue, "must be text, json_object or json_schema")
	}
}

func (q *requestDecoder) readReasoning(v jsonedit.Value) {
	r := &q.r.Reasoning
	for key, m := range v.Fields() {
		switch {
		case m.IsNull():
		case key.Is("effort"):
			r.Effort = q.text(m, "reasoning.effort")
		case key.Is("summary"):
			r.Summary = q.text(m, "reasoning.summary")
		default:
			r.Extra = append(r.Extra, llm.Member{Name: key.String(), Value: m.Raw()})
		}
	}
}

// readThinking reads a parameter of the messages dialect that clients send
// along for its models.
func (q *requestDecoder) readThinking(v jsonedit.Value) {
	q.r.Reasoning.Mode = llm.ThinkingMode(q.member(v, "thinking", "type"))
	budget, _ := v.Get("budget_tokens")
	q.r.Reasoning.Budget = integer(budget)
}

// withEncrypted marks that the client asked for encrypted thinking. Every answer
// that is translated holds it, so that it is no parameter to be told of.
const withEncrypted = "include"

// readInclude reads what the client wants beside the usual. What is given anyway
// is not a parameter that may be lost; the rest is kept as it stood.
func (q *requestDecoder) readInclude(v jsonedit.Value) {
	rest := jsonedit.Append(nil)
	rest.Open('[')
	kept := false
	for e := range v.Elements() {
		switch text, _ := e.Text(); text {
		case "message.output_text.logprobs":
			on := true
			q.r.Logprobs = &on
		case encryptedContent:
			q.r.Reasoning.Extra = append(q.r.Reasoning.Extra, llm.Member{Name: withEncrypted, Value: e.Raw()})
		default:
			kept = true
			rest.Raw(e.Raw())
		}
	}
	rest.Close(']')
	if kept {
		q.r.Extra = append(q.r.Extra, llm.Member{Name: "include", Value: rest.Bytes()})
	}
}

const encryptedContent = "reasoning.encrypted_content"
