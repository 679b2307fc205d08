package oracle

import (
	"cmp"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// isCohere reports whether a model uses the COHERE format: Cohere's own models,
// and endpoints for which the client says so.
func isCohere(r *llm.Request, to dialect.RequestTarget) bool {
	if r != nil {
		for _, m := range r.Extra {
			if (m.Name == "api_format" || m.Name == "apiFormat") && string(m.Value) != "null" {
				return string(m.Value) == `"COHERE"`
			}
		}
	}
	return strings.HasPrefix(to.KnownModel(), "cohere.")
}

var cohereScalars = dialect.Scalars{
	{Name: "maxTokens", Field: llm.FieldMaxTokens},
	{Name: "temperature", Field: llm.FieldTemperature},
	{Name: "topP", Field: llm.FieldTopP},
	{Name: "topK", Field: llm.FieldTopK},
	{Name: "frequencyPenalty", Field: llm.FieldFrequencyPenalty},
	{Name: "presencePenalty", Field: llm.FieldPresencePenalty},
	{Name: "seed", Field: llm.FieldSeed},
	{Name: "stopSequences", Field: llm.FieldStop},
}

// cohere writes a request in the COHERE format.
// https://docs.oracle.com/iaas/api/#/en/generative-ai-inference/20231130/datatypes/CohereChatRequest
func (e *requestEncoder) cohere() error {
	e.word("apiFormat", "COHERE")
	if err := e.writeTurns(); err != nil {
		return err
	}
	e.cohereTools()
	e.cohereFormat()
	r := e.r
	cohereScalars.Append(&e.Builder, r)
	e.extra("isEcho")
	if r.Stream {
		e.Name("isStream")
		e.Bool(true)
	}
	e.dropForCohere()
	return nil
}

// writeTurns writes the conversation: the last user text or the last tool results
// have members of their own, and everything before is the history.
func (e *requestEncoder) writeTurns() error {
	t := turns{e: e, calls: map[string]*llm.ToolCall{}, history: jsonedit.Append(nil)}
	t.history.Open('[')
	for i := range e.r.Messages {
		if err := t.add(&e.r.Messages[i]); err != nil {
			return err
		}
	}
	if t.message == "" && t.results == nil {
		return dialect.Unsupported(e.r.NameOf(llm.FieldParts), e.to,
			"a conversation that does not end with words of the user or results of tools")
	}
	t.history.Close(']')
	e.word("message", t.message)
	if history := t.history.Bytes(); len(history) > len("[]") {
		e.Name("chatHistory")
		e.Raw(history)
	}
	if len(t.preamble) > 0 {
		e.word("preambleOverride", strings.Join(t.preamble, "\n\n"))
	}
	if t.results != nil {
		e.Name("toolResults")
		e.Raw(t.results)
	}
	return nil
}

// turns builds a conversation. The last user text and tool results are held
// back until something follows them.
type turns struct {
	e        *requestEncoder
	history  jsonedit.Builder
	preamble []string
	begun    bool
	message  string
	results  []byte // a list
	calls    map[string]*llm.ToolCall
}

func (t *turns) add(m *llm.Message) error {
	if m.Name != "" {
		t.e.changes.DropNamed("messages.name")
	}
	switch m.Role {
	case llm.System, llm.Developer:
		words, err := t.words(m)
		switch {
		case err != nil, words == "":
		case !t.begun:
			t.preamble = append(t.preamble, words)
		default:
			t.flush()
			t.turn("SYSTEM", words, nil)
		}
		return err
	case llm.Assistant:
		t.begun = true
		t.flush()
		return t.addAssistant(m)
	}
	t.begun = true
	return t.addUser(m)
}

// addUser holds back the results and the text of a user message.
func (t *turns) addUser(m *llm.Message) error {
	results := jsonedit.Append(nil)
	results.Open('[')
	for _, p := range m.Parts {
		if r, ok := p.(llm.ToolResult); ok {
			if err := t.result(&results, &r); err != nil {
				return err
			}
		}
	}
	results.Close(']')
	words, err := t.words(m)
	if err != nil {
		return err
	}
	t.flush()
	if len(results.Bytes()) > len("[]") {
		t.results = results.Bytes()
	}
	if words != "" {
		t.flush()
		t.message = words
	}
	return nil
}

// flush adds what was held back to the history.
func (t *turns) flush() {
	if t.results != nil {
		results := t.results
		t.turn("TOOL", "", func(b *jsonedit.Builder) {
			b.Name("toolResults")
			b.Raw(results)
		})
	}
	if t.message != "" {
		t.turn("USER", t.message, nil)
	}
	t.results, t.message = nil, ""
}

func (t *turns) turn(role, words string, more func(*jsonedit.Builder)) {
	b := &t.history
	b.Open('{')
	b.Name("role")
	b.String(role)
	if words != "" {
		b.Name("message")
		b.String(words)
	}
	if more != nil {
		more(b)
	}
	b.Close('}')
}

// addAssistant writes a turn of the model. Its thinking is not sent back.
func (t *turns) addAssistant(m *llm.Message) error {
	words, err := t.words(m)
	if err != nil {
		return err
	}
	var calls []*llm.ToolCall
	for _, p := range m.Parts {
		if c, ok := p.(llm.ToolCall); ok {
			t.calls[c.ID] = &c
			calls = append(calls, &c)
		}
	}
	t.turn("CHATBOT", words, func(b *jsonedit.Builder) {
		if len(calls) == 0 {
			return
		}
		b.Name("toolCalls")
		b.Open('[')
		for _, c := range calls {
			writeCohereCall(b, c)
		}
		b.Close(']')
	})
	return nil
}

// writeCohereCall writes a call. The format has no call ids.
func writeCohereCall(b *jsonedit.Builder, c *llm.ToolCall) {
	arguments := []byte(cmp.Or(c.Arguments, "{}"))
	if c.Custom {
		arguments = []byte(dialect.WrapText(c.Arguments))
	}
	b.Open('{')
	b.Name("name")
	b.String(c.Name)
	b.Name("parameters")
	b.Raw(arguments)
	b.Close('}')
}

// result writes a tool result together with its call. The output is an object.
func (t *turns) result(b *jsonedit.Builder, r *llm.ToolResult) error {
	t.e.changes.DropCache(r.Cache)
	call := t.calls[r.ID]
	if call == nil {
		return dialect.Invalid(cmp.Or(r.At, "messages"), dialect.CodeValue, "is the result of a call that is not in the conversation")
	}
	words, err := t.words(&llm.Message{Parts: r.Parts})
	if err != nil {
		return err
	}
	b.Open('{')
	b.Name("call")
	writeCohereCall(b, call)
	b.Name("outputs")
	b.Open('[')
	v, err := jsonedit.ParseValue([]byte(words))
	if err == nil && v.Kind() == jsonedit.Object && !r.Failed {
		b.Raw(v.Raw())
	} else {
		b.Open('{')
		if r.Failed {
			t.e.changes.AdaptNamed("failed tool results", dialect.DescribedAsText)
			b.Name("error")
		} else {
			b.Name("output")
		}
		b.String(words)
		b.Close('}')
	}
	b.Close(']')
	b.Close('}')
	return nil
}

// words returns the text of a message; the format accepts nothing else.
func (t *turns) words(m *llm.Message) (string, error) {
	var lines []string
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.Text:
			t.e.changes.DropCache(p.Cache)
			lines = append(lines, p.Text)
		case llm.Refusal:
			lines = append(lines, p.Text)
		case llm.Media:
			return "", dialect.Unsupported(cmp.Or(p.At, "messages"), t.e.to, "%s: its format takes text alone", p.Kind)
		case llm.Thinking:
			t.e.changes.LeaveOutThinking()
		}
	}
	between := "\n"
	if m.Role == llm.Assistant {
		between = "" // its text may be cut anywhere
	}
	return strings.Join(lines, between), nil
}
