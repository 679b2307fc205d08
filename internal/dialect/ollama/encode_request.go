package ollama

import (
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// supersets are Ollama's own parameters that clients of other dialects may
// send. options are members of its options object.
// https://docs.ollama.com/modelfile#valid-parameters-and-values
var (
	supersets = []string{"keep_alive", "truncate", "shift"}
	options   = []string{
		"num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap",
		"min_p", "typical_p", "repeat_penalty", "repeat_last_n",
	}
)

// requestEncoder writes one request.
type requestEncoder struct {
	jsonedit.Builder
	r       *llm.Request
	to      dialect.RequestTarget
	changes *dialect.ParamChanges
	names   map[string]string // names of the called tools, by call id
}

// EncodeRequest appends the body of a request to /api/chat.
// https://docs.ollama.com/api/chat
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	changes := dialect.NewParamChanges(r)
	r, refused := changes.Portable(to, dialect.Support{Dialect: name})
	if refused != nil {
		return dst, nil, refused
	}
	e := requestEncoder{Builder: jsonedit.Append(dst), r: r, to: to, changes: changes, names: map[string]string{}}
	e.Open('{')
	e.Name("model")
	e.String(to.Model)
	if err := e.writeMessages(); err != nil {
		return dst, nil, err
	}
	e.Name("stream")
	e.Bool(r.Stream) // Ollama streams by default
	if err := e.writeTools(); err != nil {
		return dst, nil, err
	}
	e.format()
	e.think()
	e.options()
	e.extras()
	e.Close('}')
	e.dropUnsupported()
	return e.Bytes(), e.changes.List(), nil
}

// format writes the response format: the word json, or a schema.
// https://docs.ollama.com/capabilities/structured-outputs
func (e *requestEncoder) format() {
	switch f := &e.r.Format; {
	case f.Kind == llm.FormatSchema && f.Schema != nil:
		e.Name("format")
		e.Raw(f.Schema)
	case f.Kind == llm.FormatJSON, f.Kind == llm.FormatSchema:
		e.Name("format")
		e.String("json")
	}
}

// think writes whether to think, or the level: models without levels take each
// as true.
// https://docs.ollama.com/capabilities/thinking
func (e *requestEncoder) think() {
	t := &e.r.Reasoning
	switch {
	case t.Mode == llm.ThinkingDisabled, t.Mode == "" && t.Budget != nil && *t.Budget == 0:
		e.thinking(false)
	case t.Mode != "" || t.Budget != nil:
		e.thinking(true)
		if t.Budget != nil {
			e.changes.Adapt(llm.FieldThinking, dialect.WithoutBudget)
		}
	default:
		e.level(t.Effort)
		return
	}
	if t.Effort != "" {
		e.changes.Drop(llm.FieldEffort)
	}
}

func (e *requestEncoder) thinking(yes bool) {
	e.Name("think")
	e.Bool(yes)
}

func (e *requestEncoder) level(effort string) {
	word := effort
	switch effort {
	case "":
		return
	case "none":
		e.thinking(false)
		return
	case "low", "medium", "high":
	case "minimal":
		word = "low"
	case "xhigh", "max":
		word = "high"
	default:
		e.changes.Drop(llm.FieldEffort)
		return
	}
	if word != effort {
		e.changes.Adapt(llm.FieldEffort, word)
	}
	e.Name("think")
	e.String(word)
}

var scalars = dialect.Scalars{
	{Name: "num_predict", Field: llm.FieldMaxTokens},
	{Name: "temperature", Field: llm.FieldTemperature},
	{Name: "top_p", Field: llm.FieldTopP},
	{Name: "top_k", Field: llm.FieldTopK},
	{Name: "frequency_penalty", Field: llm.FieldFrequencyPenalty},
	{Name: "presence_penalty", Field: llm.FieldPresencePenalty},
	{Name: "seed", Field: llm.FieldSeed},
	{Name: "stop", Field: llm.FieldStop},
}

// options writes the options of the model: those of the request, then Ollama's
// own options sent by the client.
func (e *requestEncoder) options() {
	b := jsonedit.Append(nil)
	b.Open('{')
	written := map[string]bool{}
	for _, p := range scalars {
		if p.Append(&b, e.r) {
			written[p.Name] = true
		}
	}
	ownOptions(&b, e.r, written)
	b.Close('}')
	if len(written) > 0 {
		e.Name("options")
		e.Raw(b.Bytes())
	}
}

// ownOptions writes Ollama's own options sent by the client. Options that have
// been written win.
func ownOptions(b *jsonedit.Builder, r *llm.Request, written map[string]bool) {
	put := func(name string, value []byte) {
		if !written[name] {
			written[name] = true
			b.Key(name)
			b.Raw(value)
		}
	}
	for _, m := range r.Extra {
		if slices.Contains(options, m.Name) {
			put(m.Name, m.Value)
		}
	}
	sent, err := jsonedit.ParseValue(r.Parameter("options"))
	if err != nil {
		return
	}
	for key, v := range sent.Fields() {
		put(key.String(), v.Raw())
	}
}

func (e *requestEncoder) extras() {
	r := e.r
	if r.Logprobs != nil {
		e.Name("logprobs")
		e.Bool(*r.Logprobs)
	}
	if r.TopLogprobs != nil {
		e.Name("top_logprobs")
		e.Int(*r.TopLogprobs)
	}
	for _, m := range r.Extra {
		if slices.Contains(supersets, m.Name) {
			e.Name(m.Name)
			e.Raw(m.Value)
		}
	}
	e.changes.DropExtra(append(append([]string{"options"}, supersets...), options...)...)
}

// dropUnsupported records the parameters that Ollama does not have as dropped.
func (e *requestEncoder) dropUnsupported() {
	r := e.r
	e.changes.DropIfSet(llm.FieldParallelTools, llm.FieldLogitBias, llm.FieldSummary, llm.FieldVerbosity, llm.FieldModalities, llm.FieldSpeech,
		llm.FieldUser, llm.FieldMetadata)
	if r.ServiceTier != "" {
		e.changes.Drop(llm.FieldServiceTier)
	}
	e.changes.DropIfSet(llm.FieldCache)
	e.changes.DropContent(dialect.UnsupportedContent{Names: true, Cites: true})
	e.changes.DropThinking()
}
