package responses

import (
	"maps"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
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

// includeNames are the names for a request that asks for log probabilities by include.
var includeNames = func() map[llm.Field]string {
	named := maps.Clone(names)
	named[llm.FieldLogprobs] = "include"
	return named
}()

// requestDecoder is the state of a request while it is decoded.
type requestDecoder struct {
	dialect.Reader
	r            *llm.Request
	instructions *llm.Message
	input        jsonedit.Value
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
	q.r.Unknown = q.Unknown
	if q.Err != nil {
		return nil, q.Err
	}
	return q.r, nil
}

// parameters are the known parameters. Their functions get values that are not
// null.
var parameters = map[string]func(q *requestDecoder, v jsonedit.Value){
	"model":  func(q *requestDecoder, v jsonedit.Value) { q.r.Model = q.Text("model", v) },
	"input":  func(q *requestDecoder, v jsonedit.Value) { q.input = v },
	"stream": func(q *requestDecoder, v jsonedit.Value) { q.r.Stream, _ = v.Bool() },
	"instructions": func(q *requestDecoder, v jsonedit.Value) {
		text := q.Text("instructions", v)
		q.instructions = &llm.Message{Role: llm.System, Parts: []llm.Part{llm.Text{Text: text}}, At: "instructions"}
	},
	"tools":               func(q *requestDecoder, v jsonedit.Value) { q.readTools(v, "tools") },
	"tool_choice":         (*requestDecoder).readChoice,
	"text":                (*requestDecoder).readText,
	"reasoning":           (*requestDecoder).readReasoning,
	"thinking":            (*requestDecoder).readThinking,
	"include":             (*requestDecoder).readInclude,
	"max_output_tokens":   func(q *requestDecoder, v jsonedit.Value) { q.r.MaxTokens = q.Int("max_output_tokens", v) },
	"temperature":         func(q *requestDecoder, v jsonedit.Value) { q.r.Temperature = q.Float("temperature", v) },
	"top_p":               func(q *requestDecoder, v jsonedit.Value) { q.r.TopP = q.Float("top_p", v) },
	"top_logprobs":        (*requestDecoder).readTopLogprobs,
	"parallel_tool_calls": func(q *requestDecoder, v jsonedit.Value) { q.r.ParallelTools = q.Bool("parallel_tool_calls", v) },
	"user":                func(q *requestDecoder, v jsonedit.Value) { q.r.User = q.Text("user", v) },
	"service_tier":        func(q *requestDecoder, v jsonedit.Value) { q.r.ServiceTier = q.Text("service_tier", v) },
	"metadata":            (*requestDecoder).readMetadata,

	// A stream is padded against eavesdropping unless include_obfuscation is
	// false. Streams written by the gateway have no padding, so there is
	// nothing to decode.
	"stream_options": func(q *requestDecoder, v jsonedit.Value) {
		q.LoseUnknown("stream_options", v, "include_obfuscation")
	},

	"background": func(q *requestDecoder, v jsonedit.Value) {
		if on, _ := v.Bool(); on {
			q.stateful("background", "send background false, or leave it out")
		}
	},
	"conversation": func(q *requestDecoder, _ jsonedit.Value) {
		q.stateful("conversation", "send all previous messages as input")
	},
	"previous_response_id": func(q *requestDecoder, _ jsonedit.Value) {
		q.stateful("previous_response_id", "send the earlier turns as input")
	},
	"generate": func(q *requestDecoder, v jsonedit.Value) {
		if on, ok := v.Bool(); ok && !on {
			q.Refuse("generate", dialect.CodeUnsupported, "can't be translated for another provider, which would generate a response: leave it out, or send the request to a provider that speaks this protocol")
		}
	},
	"prompt": func(q *requestDecoder, _ jsonedit.Value) {
		q.stateful("prompt", "send the prompt's text as instructions and input")
	},
}

// stateful rejects a parameter that refers to something stored at the provider.
func (q *requestDecoder) stateful(name, instead string) {
	q.Refuse(name, dialect.CodeUnsupported, "is kept by the provider that speaks this protocol and can't be translated for another: %s",
		instead)
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
		q.RefuseKind(at+"."+name, "a string", m)
	}
	return text
}

// needed reads a required member, which must not be empty.
func (q *requestDecoder) needed(v jsonedit.Value, at, name string) string {
	text := q.member(v, at, name)
	if text == "" {
		q.RefuseMissing(at+"."+name, "a string")
	}
	return text
}

// readTopLogprobs reads the number of alternatives per token. It enables log
// probabilities.
func (q *requestDecoder) readTopLogprobs(v jsonedit.Value) {
	q.r.TopLogprobs = q.Int("top_logprobs", v)
	if on := true; q.r.TopLogprobs != nil && *q.r.TopLogprobs > 0 {
		q.r.Logprobs = &on
	}
}

func (q *requestDecoder) readMetadata(v jsonedit.Value) {
	for key, m := range v.Fields() {
		q.Is("metadata."+key.String(), m, jsonedit.String, "a string")
	}
	q.r.Metadata = v.Raw()
}

// readText reads the response format and the verbosity.
func (q *requestDecoder) readText(v jsonedit.Value) {
	for key, m := range v.Fields() {
		switch {
		case m.IsNull():
		case key.Is("verbosity"):
			q.r.Verbosity = q.Text("text.verbosity", m)
		case key.Is("format"):
			q.readFormat(m)
		default:
			q.Lose("text", key.String(), m)
		}
	}
}

func (q *requestDecoder) readFormat(v jsonedit.Value) {
	const at = "text.format"
	f := &q.r.Format
	switch typ := q.needed(v, at, "type"); typ {
	case "text", "json_object":
		f.Kind = llm.FormatKind(typ)
		q.LoseUnknown(at, v, "type")
	case "json_schema":
		f.Kind = llm.FormatSchema
		f.Name = q.needed(v, at, "name")
		f.Description = q.member(v, at, "description")
		strict, _ := v.Get("strict")
		f.Strict = q.Bool(at+".strict", strict)
		schema, _ := v.Get("schema")
		q.Is(at+".schema", schema, jsonedit.Object, "a JSON Schema, an object")
		f.Schema = schema.Raw()
		q.LoseUnknown(at, v, "type", "name", "description", "strict", "schema")
	default:
		q.Refuse(at+".type", dialect.CodeValue, "must be text, json_object or json_schema")
	}
}

func (q *requestDecoder) readReasoning(v jsonedit.Value) {
	r := &q.r.Reasoning
	for key, m := range v.Fields() {
		switch {
		case m.IsNull():
		case key.Is("effort"):
			r.Effort = q.Text("reasoning.effort", m)
		case key.Is("summary"):
			r.Summary = q.Text("reasoning.summary", m)
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
	q.r.Reasoning.Budget = q.Int("thinking.budget_tokens", budget)
	q.LoseUnknown("thinking", v, "type", "budget_tokens")
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
			q.r.Logprobs, q.r.Names = &on, includeNames
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
