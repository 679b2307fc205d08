package replicate

import (
	"cmp"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// EncodeRequest appends the body that creates a prediction.
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	changes := dialect.NewParamChanges(r)
	r, refused := changes.Portable(to, dialect.Support{Dialect: name})
	if refused != nil {
		return dst, nil, refused
	}
	e := &requestEncoder{Builder: jsonedit.Append(dst), r: r, to: to, changes: changes}
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
	e.dropUnsupported()
	return e.Bytes(), e.changes.List(), nil
}

// requestEncoder writes one request.
type requestEncoder struct {
	jsonedit.Builder
	r       *llm.Request
	to      dialect.RequestTarget
	changes *dialect.ParamChanges
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

// conversation writes the turns as one prompt, the only form that all models
// accept. Turns before the last are prefixed with the speaker.
func (e *requestEncoder) conversation() error {
	var system, turns, images []string
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		words, shown, err := e.contentOf(m)
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
		e.changes.Adapt(llm.FieldParts, dialect.AsOnePrompt)
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

// contentOf returns the text of a message and the URLs of its images.
func (e *requestEncoder) contentOf(m *llm.Message) (words string, images []string, err error) {
	var lines []string
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.Text:
			e.changes.DropCache(p.Cache)
			lines = append(lines, p.Text)
		case llm.Refusal:
			lines = append(lines, p.Text)
		case llm.Media:
			address := p.URL
			if p.Data != "" {
				address = "data:" + p.Type + ";base64," + p.Data
			}
			if p.Kind != llm.Image || address == "" {
				return "", nil, dialect.Unsupported(cmp.Or(p.At, "messages"), e.to, "%s other than an image as data or URL", p.Kind)
			}
			images = append(images, address)
		case llm.Thinking:
			e.changes.LeaveOutThinking()
		case llm.ToolCall:
			return "", nil, dialect.Unsupported(cmp.Or(p.At, "messages"), e.to, "calls of tools")
		case llm.ToolResult:
			return "", nil, dialect.Unsupported(cmp.Or(p.At, "messages"), e.to, "results of tools")
		}
	}
	between := "\n"
	if m.Role == llm.Assistant {
		between = "" // its text may be cut anywhere
	}
	return strings.Join(lines, between), images, nil
}

func (e *requestEncoder) strings(list []string) {
	e.Open('[')
	for _, s := range list {
		e.String(s)
	}
	e.Close(']')
}

var scalars = dialect.Scalars{
	{Name: "max_tokens", Field: llm.FieldMaxTokens},
	{Name: "top_k", Field: llm.FieldTopK},
	{Name: "seed", Field: llm.FieldSeed},
	{Name: "temperature", Field: llm.FieldTemperature},
	{Name: "top_p", Field: llm.FieldTopP},
	{Name: "frequency_penalty", Field: llm.FieldFrequencyPenalty},
	{Name: "presence_penalty", Field: llm.FieldPresencePenalty},
}

func (e *requestEncoder) sampling() {
	r := e.r
	scalars.Append(&e.Builder, r)
	if len(r.Stop) > 0 {
		e.Name("stop_sequences")
		e.String(strings.Join(r.Stop, ","))
	}
}

// dropUnsupported records the parameters that predictions do not have as
// dropped.
func (e *requestEncoder) dropUnsupported() {
	e.changes.DropIfSet(llm.FieldTools, llm.FieldToolChoice)
	if e.r.ParallelTools != nil {
		e.changes.Drop(llm.FieldParallelTools)
	}
	e.changes.DropIfSet(llm.FieldFormat, llm.FieldLogitBias, llm.FieldLogprobs, llm.FieldTopLogprobs, llm.FieldThinking, llm.FieldEffort,
		llm.FieldSummary,
		llm.FieldVerbosity, llm.FieldModalities, llm.FieldSpeech, llm.FieldServiceTier, llm.FieldMetadata, llm.FieldUser, llm.FieldCache)
	e.changes.DropThinking()
	e.changes.DropExtra()
	e.changes.DropContent(dialect.UnsupportedContent{Names: true, Details: true, Cites: true})
}
