package converse

import (
	"cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// EncodeRequest appends the body of a request.
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	changes := dialect.NewParamChanges(r)
	r, err := changes.Portable(to,
		dialect.Support{Dialect: name, Contexts: true, DistinctCalls: true, InAssistant: func(llm.Media) bool { return false },
			Params: []string{"guardrailConfig", "guardrail_config"}})
	if err != nil {
		return dst, nil, err
	}
	e := newRequestEncoder(dst, r, to, changes)
	e.encode()
	if e.err != nil {
		return dst, nil, e.err
	}
	return e.b.Bytes(), e.changes.List(), nil
}

// requestEncoder writes a request.
type requestEncoder struct {
	b       jsonedit.Builder
	r       *llm.Request
	to      dialect.RequestTarget
	model   model
	changes *dialect.ParamChanges
	err     *apierr.Error

	plan     plan
	thinks   thinking
	tools    []llm.Tool // tools that are sent, except for the forced one
	docs     documents
	carried  []string // parameters of r.Extra that have been written
	own      bool     // the client uses this dialect
	history  bool     // the conversation has calls or results
	messages []*llm.Message
	system   []*llm.Message
}

func newRequestEncoder(dst []byte, r *llm.Request, to dialect.RequestTarget, changes *dialect.ParamChanges) *requestEncoder {
	e := &requestEncoder{b: jsonedit.Append(dst), r: r, to: to, model: modelOf(to.KnownModel()), changes: changes, own: r.Dialect == name}
	e.thinks = thinkingOf(r, e.model)
	e.plan = planOf(r, e.model, e.thinks)
	return e
}

func (e *requestEncoder) refuse(err *apierr.Error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *requestEncoder) encode() {
	e.sort()
	e.tools = e.sentTools()
	e.checkExpressible()
	e.b.Open('{')
	e.encodeMessages()
	e.encodeSystem()
	e.encodeInference()
	e.encodeTools()
	e.encodeFormat()
	e.encodeAdditional()
	e.encodeExtra()
	e.b.Close('}')
	e.dropUnsupported()
}

// sort separates the system prompt from the conversation. Without other
// messages the system prompt becomes the user's text, since a conversation must
// begin with the user.
func (e *requestEncoder) sort() {
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		if m.Role == llm.System || m.Role == llm.Developer {
			e.system = append(e.system, m)
			continue
		}
		e.messages = append(e.messages, m)
		for _, p := range m.Parts {
			switch p.(type) {
			case llm.ToolCall, llm.ToolResult:
				e.history = true
			}
		}
	}
	if len(e.messages) > 0 && !e.model.NoSystem {
		return
	}
	for _, m := range e.system {
		e.changes.AdaptNamed(cmp.Or(m.At, "messages"), dialect.AsUserMessage)
	}
	if e.plan.instruct && e.model.NoSystem {
		text := llm.Text{Text: instruction(&e.r.Format)}
		e.system = append(e.system, &llm.Message{Role: llm.System, Parts: []llm.Part{text}})
	}
	e.messages, e.system = append(e.system, e.messages...), nil
}

// checkExpressible rejects requests that the protocol cannot express.
func (e *requestEncoder) checkExpressible() {
	if len(e.messages) == 0 && e.r.Parameter("promptVariables") == nil && !e.own {
		e.refuse(dialect.Invalid("messages", dialect.CodeMissing, "must contain a message"))
	}
}

// dropUnsupported records the parameters that the protocol does not have as
// dropped.
func (e *requestEncoder) dropUnsupported() {
	r := e.r
	drop := func(set bool, field llm.Field) {
		if set {
			e.changes.Drop(field)
		}
	}
	cohere, ai21 := e.model.vendor == "cohere", e.model.vendor == "ai21"
	drop(r.FrequencyPenalty != nil && !cohere && !ai21, llm.FieldFrequencyPenalty)
	drop(r.PresencePenalty != nil && !cohere && !ai21, llm.FieldPresencePenalty)
	drop(r.LogitBias != nil && !cohere, llm.FieldLogitBias)
	drop(r.Seed != nil, llm.FieldSeed)
	drop(r.Logprobs != nil && *r.Logprobs, llm.FieldLogprobs)
	drop(r.TopLogprobs != nil, llm.FieldTopLogprobs)
	drop(r.ParallelTools != nil && !*r.ParallelTools && len(e.tools) > 0, llm.FieldParallelTools)
	drop(r.Verbosity != "", llm.FieldVerbosity)
	drop(r.Speech != nil, llm.FieldSpeech)
	drop(r.User != "" && !e.model.claude(), llm.FieldUser)
	for _, m := range r.Modalities {
		drop(m != "text", llm.FieldModalities)
	}
	e.changes.DropExtra(e.carried...)
	if !e.own {
		e.changes.DropContent(dialect.UnsupportedContent{Names: true, Details: true})
	}
}
