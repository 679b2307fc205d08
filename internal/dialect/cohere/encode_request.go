package cohere

import (
	"encoding/json"
	"slices"
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// supersets are Cohere's own parameters that clients of other dialects may
// send.
var supersets = []string{"documents", "citation_options", "safety_mode", "raw_prompting", "priority", "strict_tools", "k"}

// requestEncoder writes one request.
type requestEncoder struct {
	jsonedit.Builder
	r       *llm.Request
	to      dialect.RequestTarget
	changes *dialect.ParamChanges
	plan    plan

	documents [][]byte // documents from messages, sent in a list of their own
}

// EncodeRequest appends the body of a request to /v2/chat.
// https://docs.cohere.com/reference/chat
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	changes := dialect.NewParamChanges(r)
	r, refused := changes.Portable(to, dialect.Support{Dialect: name, Contexts: true, InAssistant: func(llm.Media) bool { return false }})
	if refused != nil {
		return dst, nil, refused
	}
	e := requestEncoder{Builder: jsonedit.Append(dst), r: r, to: to, changes: changes, plan: planOf(r)}
	e.Open('{')
	e.Name("model")
	e.String(to.Model)
	if err := e.writeMessages(); err != nil {
		return dst, nil, err
	}
	if err := e.writeTools(); err != nil {
		return dst, nil, err
	}
	e.format()
	e.sampling()
	e.thinking()
	e.extras()
	if r.Stream {
		e.Name("stream")
		e.Bool(true)
	}
	e.Close('}')
	e.dropUnsupported()
	return e.Bytes(), e.changes.List(), nil
}

// format writes response_format. Cohere rejects it together with tools or
// documents, so that a schema is emulated by a forced tool.
// https://docs.cohere.com/docs/structured-outputs
func (e *requestEncoder) format() {
	f := &e.r.Format
	switch {
	case e.plan.emulated:
		e.changes.Adapt(llm.FieldFormat, dialect.ForcedTool)
	case f.Kind == "" || f.Kind == llm.FormatText:
	case e.plan.crowded:
		e.changes.Drop(llm.FieldFormat)
	default:
		e.Name("response_format")
		e.Open('{')
		e.Name("type")
		e.String("json_object")
		if f.Kind == llm.FormatSchema && f.Schema != nil {
			e.Name("json_schema")
			e.Raw(f.Schema)
		}
		e.Close('}')
	}
}

var scalars = dialect.Scalars{
	{Name: "max_tokens", Field: llm.FieldMaxTokens},
	{Name: "temperature", Field: llm.FieldTemperature},
	{Name: "p", Field: llm.FieldTopP},
	{Name: "frequency_penalty", Field: llm.FieldFrequencyPenalty},
	{Name: "presence_penalty", Field: llm.FieldPresencePenalty},
	{Name: "k", Field: llm.FieldTopK},
	{Name: "seed", Field: llm.FieldSeed},
	{Name: "stop_sequences", Field: llm.FieldStop},
	{Name: "logprobs", Field: llm.FieldLogprobs},
}

// maxStops is the number of stop sequences that Cohere accepts.
const maxStops = 5

func (e *requestEncoder) sampling() {
	r := *e.r
	r.TopP = e.clamp(llm.FieldTopP, r.TopP, 0.01, 0.99)
	r.FrequencyPenalty = e.clamp(llm.FieldFrequencyPenalty, r.FrequencyPenalty, 0, 1)
	r.PresencePenalty = e.clamp(llm.FieldPresencePenalty, r.PresencePenalty, 0, 1)
	if r.TopK != nil {
		if k := min(max(*r.TopK, 0), 500); k != *r.TopK {
			e.changes.Adapt(llm.FieldTopK, strconv.FormatInt(k, 10))
			r.TopK = &k
		}
	}
	if r.Seed != nil && *r.Seed < 0 {
		e.changes.Drop(llm.FieldSeed)
		r.Seed = nil
	}
	if len(r.Stop) > maxStops {
		e.changes.Adapt(llm.FieldStop, dialect.NoteFirst(5))
		r.Stop = r.Stop[:maxStops]
	}
	scalars.Append(&e.Builder, &r)
}

func (e *requestEncoder) number(name string, n *int64) {
	if n != nil {
		e.Name(name)
		e.Int(*n)
	}
}

// clamp limits a number to the range that Cohere accepts.
func (e *requestEncoder) clamp(field llm.Field, f *float64, least, most float64) *float64 {
	if f == nil || *f >= least && *f <= most {
		return f
	}
	v := min(max(*f, least), most)
	e.changes.Adapt(field, strconv.FormatFloat(v, 'f', -1, 64))
	return &v
}

// budgets maps efforts to shares of 32768 thinking tokens.
var budgets = map[string]int64{"minimal": 1024, "low": 3276, "medium": 9830, "high": 19660, "xhigh": 29491, "max": 29491}

// thinking writes the thinking settings.
// https://docs.cohere.com/docs/reasoning
func (e *requestEncoder) thinking() {
	t := &e.r.Reasoning
	switch {
	case t.Mode == llm.ThinkingDisabled:
		e.think("disabled", nil)
	case t.Mode != "":
		e.think("enabled", t.Budget)
	case t.Budget != nil && *t.Budget == 0, t.Budget == nil && t.Effort == "none":
		e.think("disabled", nil)
	case t.Budget != nil:
		e.think("enabled", t.Budget)
	case t.Effort != "":
		if budget, ok := budgets[t.Effort]; ok {
			e.think("enabled", &budget)
			e.changes.Adapt(llm.FieldEffort, dialect.NoteMember("token_budget", strconv.FormatInt(budget, 10)))
		} else {
			e.changes.Drop(llm.FieldEffort)
		}
	}
}

func (e *requestEncoder) think(kind string, budget *int64) {
	e.Name("thinking")
	e.Open('{')
	e.Name("type")
	e.String(kind)
	if budget != nil && *budget > 0 {
		fits := dialect.FitBudget(*budget, e.r.MaxTokens)
		if fits != *budget {
			field := llm.FieldEffort
			if e.r.Reasoning.Mode != "" || e.r.Reasoning.Budget != nil {
				field = llm.FieldThinking
			}
			e.changes.Adapt(field, dialect.NoteMember("token_budget", strconv.FormatInt(fits, 10)))
		}
		e.number("token_budget", &fits)
	}
	e.Close('}')
}

// extras writes Cohere's own parameters, and adds the documents from messages
// to the client's list.
func (e *requestEncoder) extras() {
	for _, m := range e.r.Extra {
		switch m.Name {
		case "k":
			if e.r.TopK != nil {
				continue
			}
		case "strict_tools":
			if e.plan.strict() {
				continue
			}
		case "documents":
			if e.joinDocuments(m.Value) {
				continue
			}
		default:
			if !slices.Contains(supersets, m.Name) {
				continue
			}
		}
		e.Key(m.Name)
		e.Raw(m.Value)
	}
	if len(e.documents) > 0 {
		e.listDocuments(nil)
	}
	e.changes.DropExtra(supersets...)
	e.changes.DropContent(dialect.UnsupportedContent{Names: true})
}

// joinDocuments writes the client's list with the documents from messages. It
// returns false if there are none or the value is not a list.
func (e *requestEncoder) joinDocuments(sent json.RawMessage) bool {
	if len(e.documents) == 0 {
		return false
	}
	v, err := jsonedit.ParseValue(sent)
	if err != nil || v.Kind() != jsonedit.Array {
		return true // replaced by the documents from messages
	}
	var list [][]byte
	for d := range v.Elements() {
		list = append(list, d.Raw())
	}
	e.listDocuments(list)
	return true
}

func (e *requestEncoder) listDocuments(before [][]byte) {
	e.Name("documents")
	e.Open('[')
	for _, d := range before {
		e.Raw(d)
	}
	for _, d := range e.documents {
		e.Raw(d)
	}
	e.Close(']')
	e.documents = nil
}

// dropUnsupported records the parameters that Cohere does not have as dropped.
func (e *requestEncoder) dropUnsupported() {
	r := e.r
	e.changes.DropIfSet(llm.FieldParallelTools, llm.FieldLogitBias)
	if r.TopLogprobs != nil && *r.TopLogprobs > 0 {
		e.changes.Drop(llm.FieldTopLogprobs)
	}
	if r.Reasoning.Effort != "" && (r.Reasoning.Mode != "" || r.Reasoning.Budget != nil) {
		e.changes.Drop(llm.FieldEffort)
	}
	e.changes.DropIfSet(llm.FieldSummary, llm.FieldVerbosity, llm.FieldModalities, llm.FieldSpeech, llm.FieldUser, llm.FieldMetadata)
	if r.ServiceTier != "" {
		e.changes.Drop(llm.FieldServiceTier)
	}
	e.changes.DropIfSet(llm.FieldCache)
	e.changes.DropThinking()
}
