package responses

import (
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/grammar"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// names maps request fields to their names in the protocol, where those differ.
var names = map[llm.Field]string{
	llm.FieldFormat:    "text.format",
	llm.FieldVerbosity: "text.verbosity",
	llm.FieldMaxTokens: "max_output_tokens",
	llm.FieldEffort:    "reasoning.effort",
	llm.FieldSummary:   "reasoning.summary",
	llm.FieldLogprobs:  "top_logprobs",
	llm.FieldParts:     "input",
	llm.FieldHistory:   "input.reasoning",

	llm.FieldThinkingObject: "reasoning",
}

// requestDecoder is the state of a request while it is decoded.
type requestDecoder struct {
	r            *llm.Request
	instructions *llm.Message
	input        jsonedit.Value
	err          *apierr.Error // the first
}

// DecodeRequest reads a client's request. A request that refers to responses
// stored at a provider is an error: no other provider has them.
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

// parameters are the known parameters. Their functions get values that are not
// null.
var parameters = map[string]func(q *requestDecoder, v jsonedit.Value){
	"model":  func(q *requestDecoder, v jsonedit.Value) { q.r.Model = q.text(v, "model") },
	"input":  func(q *requestDecoder, v jsonedit.Value) { q.input = v },
	"stream": func(q *requestDecoder, v jsonedit.Value) { q.r.Stream, _ = v.Bool() },
	"instructions": func(q *requestDecoder, v jsonedit.Value) {
		text := q.text(v, "instructions")
		q.instructions = &llm.Message{Role: llm.System, Parts: []llm.Part{llm.Text{Text: text}}, At: "instructions"}
	},
	"tools":               func(q *requestDecoder, v jsonedit.Value) { q.readTools(v, "tools") },
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

	// A stream is padded against eavesdropping unless include_obfuscation is
	// false. Streams written by the gateway have no padding, so there is
	// nothing to decode.
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

// stateful rejects a parameter that refers to something stored at the provider.
func (q *requestDecoder) stateful(name, instead string) {
	q.fail(name, dialect.CodeUnsupported, "is kept by the provider that speaks this protocol and can't be translated for another: %s", instead)
}

func (q *requestDecoder) fail(path, code, format string, args ...any) {
	if q.err == nil {
		q.err = dialect.Invalid(path, code, format, args...)
	}
}

// text returns the value of a string; null is the empty string.
func (q *requestDecoder) text(v jsonedit.Value, path string) string {
	text, ok := v.Text()
	if !ok && !v.IsNull() {
		q.fail(path, dialect.CodeType, "must be a string, not %s", grammar.Describe(v.Raw()))
	}
	return text
}

// member returns the string value of an object's member; absent is the empty
// string. The path is built only for an error.
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

// needed reads a required member, which must not be empty.
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

// readTopLogprobs reads the number of alternatives per token. It enables log
// probabilities.
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

// readText reads the response format and the verbosity.
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

// readThinking reads a parameter of the messages dialect that clients send for
// its models.
func (q *requestDecoder) readThinking(v jsonedit.Value) {
	q.r.Reasoning.Mode = llm.ThinkingMode(q.member(v, "thinking", "type"))
	budget, _ := v.Get("budget_tokens")
	q.r.Reasoning.Budget = integer(budget)
}

// withEncrypted marks that the client requested encrypted thinking. Every
// translated response has it, so it is not reported as dropped.
const withEncrypted = "include"

// readInclude reads the requested additional output. Output that is always sent
// is left out; the rest is kept unchanged.
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
