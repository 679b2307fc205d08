package replicate

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// EncodeRequest appends the body that makes a prediction.
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	e := &requestEncoder{Builder: jsonedit.Append(dst), r: r, to: to, fates: dialect.NewParamChanges(r)}
	e.begin(to)
	if err := e.conversation(); err != nil {
		return dst, nil, err
	}
	e.sampling()
	e.Close('}')
	if r.Stream {
		e.Name("stream")
		e.Bool(true)
	}
	e.Close('}')
	e.dropRest()
	return e.Bytes(), e.fates.List(), nil
}

// requestEncoder writes one request.
type requestEncoder struct {
	jsonedit.Builder
	r     *llm.Request
	to    dialect.RequestTarget
	fates *dialect.ParamChanges
}

// begin opens the body and its input.
func (e *requestEncoder) begin(to dialect.RequestTarget) {
	e.Open('{')
	if id := Version(to.Model); id != "" {
		e.Name("version")
		e.String(id)
	}
	e.Name("input")
	e.Open('{')
}

// conversation writes the turns as one prompt, which is all that models have in
// common. Turns before the last are told with who spoke.
func (e *requestEncoder) conversation() error {
	var system, turns, images []string
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		words, shown, err := e.said(m)
		if err != nil {
			return err
		}
		images = append(images, shown...)
		switch m.Role {
		case llm.System, llm.Developer:
			system = append(system, words)
		case llm.Assistant:
			turns = append(turns, "Assistant: "+words)
		default:
			turns = append(turns, "User: "+words)
		}
	}
	prompt := strings.Join(append(turns, "Assistant:"), "\n\n")
	if len(turns) == 1 {
		prompt = strings.TrimPrefix(turns[0], "User: ")
	} else {
		e.fates.Adapt(llm.FieldParts, "the turns as one prompt")
	}
	e.Name("prompt")
	e.String(prompt)
	if len(system) > 0 {
		e.Name("system_prompt")
		e.String(strings.Join(system, "\n\n"))
	}
	if len(images) > 0 {
		e.Name("image_input")
		e.strings(images)
	}
	return nil
}

// said returns the words of a message and the addresses of its images.
func (e *requestEncoder) said(m *llm.Message) (words string, images []string, err error) {
	var lines []string
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.Text:
			if p.Cache != nil {
				e.fates.Drop(llm.FieldCache)
			}
			lines = append(lines, p.Text)
		case llm.Refusal:
			lines = append(lines, p.Text)
		case llm.Media:
			address := p.URL
			if p.Data != "" {
				address = "data:" + p.Type + ";base64," + p.Data
			}
			if p.Kind != llm.Image || address == "" {
				return "", nil, dialect.Unsupported(at(p.At), e.to, "%s that is no image as data or at an address", p.Kind)
			}
			images = append(images, address)
		case llm.ToolCall:
			return "", nil, dialect.Unsupported(at(p.At), e.to, "calls of tools")
		case llm.ToolResult:
			return "", nil, dialect.Unsupported(at(p.At), e.to, "results of tools")
		}
	}
	return strings.Join(lines, "\n"), images, nil
}

func at(path string) string {
	if path == "" {
		return "messages"
	}
	return path
}

func (e *requestEncoder) strings(list []string) {
	e.Open('[')
	for _, s := range list {
		e.String(s)
	}
	e.Close(']')
}

func (e *requestEncoder) sampling() {
	r := e.r
	for _, p := range []struct {
		name  string
		value *int64
	}{{"max_tokens", r.MaxTokens}, {"top_k", r.TopK}, {"seed", r.Seed}} {
		if p.value != nil {
			e.Name(p.name)
			e.Int(*p.value)
		}
	}
	for _, p := range []struct {
		name  string
		value *float64
	}{{"temperature", r.Temperature}, {"top_p", r.TopP}, {"frequency_penalty", r.FrequencyPenalty}, {"presence_penalty", r.PresencePenalty}} {
		if p.value != nil {
			e.Name(p.name)
			e.Float(*p.value)
		}
	}
	if len(r.Stop) > 0 {
		e.Name("stop_sequences")
		e.String(strings.Join(r.Stop, ","))
	}
}

// dropRest tells the parameters that have no place.
func (e *requestEncoder) dropRest() {
	r := e.r
	t := &r.Reasoning
	for _, p := range []struct {
		field llm.Field
		sent  bool
	}{
		{llm.FieldTools, len(r.Tools) > 0},
		{llm.FieldToolChoice, r.ToolChoice.Raw != nil || r.ToolChoice.Mode != "" && r.ToolChoice.Mode != llm.ChoiceNone},
		{llm.FieldParallelTools, r.ParallelTools != nil},
		{llm.FieldFormat, r.Format.Kind != "" && r.Format.Kind != llm.FormatText},
		{llm.FieldN, r.N != nil && *r.N != 1},
		{llm.FieldLogitBias, r.LogitBias != nil},
		{llm.FieldLogprobs, r.Logprobs != nil && *r.Logprobs},
		{llm.FieldTopLogprobs, r.TopLogprobs != nil},
		{llm.FieldThinking, t.Budget != nil || t.Mode != "" && t.Mode != llm.ThinkingDisabled},
		{llm.FieldEffort, t.Effort != "" && t.Effort != "none"},
		{llm.FieldSummary, t.Summary != ""},
		{llm.FieldVerbosity, r.Verbosity != ""},
		{llm.FieldModalities, len(r.Modalities) > 1 || len(r.Modalities) == 1 && r.Modalities[0] != "text"},
		{llm.FieldSpeech, r.Speech != nil},
		{llm.FieldServiceTier, r.ServiceTier != "" && r.ServiceTier != "auto" && r.ServiceTier != "default"},
		{llm.FieldMetadata, r.Metadata != nil},
		{llm.FieldUser, r.User != ""},
		{llm.FieldCache, r.Cache != nil},
	} {
		if p.sent {
			e.fates.Drop(p.field)
		}
	}
	e.fates.DropThinking()
	e.fates.DropExtra()
	e.fates.DropContent(name, dialect.UnsupportedContent{Names: true, Details: true, Cites: true})
}
