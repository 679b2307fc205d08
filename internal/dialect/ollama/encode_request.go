package ollama

import (
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// supersets are parameters of Ollama's own that clients of other dialects may
// send along, and options those that stand inside its options.
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
	r     *llm.Request
	to    dialect.RequestTarget
	fates *dialect.ParamChanges
	names map[string]string // of the tools that were called, by the call's id
}

// EncodeRequest appends the body of a request to /api/chat.
// https://docs.ollama.com/api/chat
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	e := requestEncoder{Builder: jsonedit.Append(dst), r: r, to: to, fates: dialect.NewParamChanges(r), names: map[string]string{}}
	e.Open('{')
	e.Name("model")
	e.String(to.Model)
	if err := e.messages(); err != nil {
		return dst, nil, err
	}
	e.Name("stream")
	e.Bool(r.Stream) // Ollama streams unless told not to
	if err := e.tools(); err != nil {
		return dst, nil, err
	}
	e.format()
	e.think()
	e.options()
	e.extras()
	e.Close('}')
	e.dropRest()
	return e.Bytes(), e.fates.List(), nil
}

// format writes the form of the answer: the word json, or a schema.
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

// think writes whether the model is to think, or how much: models that know no
// levels take each for true.
// https://docs.ollama.com/capabilities/thinking
func (e *requestEncoder) think() {
	t := &e.r.Reasoning
	switch {
	case t.Mode == llm.ThinkingDisabled, t.Mode == "" && t.Budget != nil && *t.Budget == 0:
		e.thinking(false)
	case t.Mode != "" || t.Budget != nil:
		e.thinking(true)
		if t.Budget != nil {
			e.fates.Adapt(llm.FieldThinking, "without a budget")
		}
	default:
		e.level(t.Effort)
		return
	}
	if t.Effort != "" {
		e.fates.Drop(llm.FieldEffort)
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
		e.fates.Drop(llm.FieldEffort)
		return
	}
	if word != effort {
		e.fates.Adapt(llm.FieldEffort, word)
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

// options writes the options of the model: those of the request, then those
// that clients sent in Ollama's own words.
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

// ownOptions writes what clients sent in Ollama's words. What is written
// already wins.
func ownOptions(b *jsonedit.Builder, r *llm.Request, written map[string]bool) {
	put := func(name string, value []byte) {
		if !written[name] {
			written[name] = true
			b.Key(name)
			b.Raw(value)
		}
	}
	for _, m := range r.Extra {
		if has(options, m.Name) {
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

func has(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
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
		if has(supersets, m.Name) {
			e.Name(m.Name)
			e.Raw(m.Value)
		}
	}
	e.fates.DropExtra(append(append([]string{"options"}, supersets...), options...)...)
}

// dropRest tells the parameters that have no place.
func (e *requestEncoder) dropRest() {
	r := e.r
	e.fates.DropAsked(llm.FieldParallelTools, llm.FieldLogitBias, llm.FieldN, llm.FieldSummary, llm.FieldVerbosity, llm.FieldModalities, llm.FieldSpeech, llm.FieldUser, llm.FieldMetadata)
	if r.ServiceTier != "" {
		e.fates.Drop(llm.FieldServiceTier)
	}
	e.fates.DropAsked(llm.FieldCache)
	for _, m := range r.Reasoning.Extra {
		e.fates.DropNamed(m.Name)
	}
}
