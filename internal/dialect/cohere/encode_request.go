package cohere

import (
	"encoding/json"
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// supersets are parameters of Cohere's own that clients of other dialects may
// send along.
var supersets = []string{"documents", "citation_options", "safety_mode", "raw_prompting", "priority", "strict_tools", "k"}

// requestEncoder writes one request.
type requestEncoder struct {
	jsonedit.Builder
	r     *llm.Request
	to    dialect.RequestTarget
	fates *dialect.ParamChanges
	plan  plan

	documents [][]byte // of the messages, for the list beside them
}

// EncodeRequest appends the body of a request to /v2/chat.
// https://docs.cohere.com/reference/chat
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	e := requestEncoder{Builder: jsonedit.Append(dst), r: r, to: to, fates: dialect.NewParamChanges(r), plan: planOf(r)}
	e.Open('{')
	e.Name("model")
	e.String(to.Model)
	if err := e.messages(); err != nil {
		return dst, nil, err
	}
	if err := e.tools(); err != nil {
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
	e.dropRest()
	return e.Bytes(), e.fates.List(), nil
}

// format writes response_format. With tools or documents Cohere refuses it: a
// schema is a forced tool then.
// https://docs.cohere.com/docs/structured-outputs
func (e *requestEncoder) format() {
	f := &e.r.Format
	switch {
	case e.plan.emulated:
		e.fates.Adapt(llm.FieldFormat, "forced tool")
	case f.Kind == "" || f.Kind == llm.FormatText:
	case e.plan.crowded:
		e.fates.Drop(llm.FieldFormat)
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

// maxStops is how many stop sequences Cohere takes.
const maxStops = 5

func (e *requestEncoder) sampling() {
	r := *e.r
	r.TopP = e.clamp(llm.FieldTopP, r.TopP, 0.01, 0.99)
	r.FrequencyPenalty = e.clamp(llm.FieldFrequencyPenalty, r.FrequencyPenalty, 0, 1)
	r.PresencePenalty = e.clamp(llm.FieldPresencePenalty, r.PresencePenalty, 0, 1)
	if r.TopK != nil {
		if k := min(max(*r.TopK, 0), 500); k != *r.TopK {
			e.fates.Adapt(llm.FieldTopK, strconv.FormatInt(k, 10))
			r.TopK = &k
		}
	}
	if r.Seed != nil && *r.Seed < 0 {
		e.fates.Drop(llm.FieldSeed)
		r.Seed = nil
	}
	if len(r.Stop) > maxStops {
		e.fates.Adapt(llm.FieldStop, "the first 5")
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

// clamp returns a number within what Cohere takes.
func (e *requestEncoder) clamp(field llm.Field, f *float64, least, most float64) *float64 {
	if f == nil || *f >= least && *f <= most {
		return f
	}
	v := min(max(*f, least), most)
	e.fates.Adapt(field, strconv.FormatFloat(v, 'f', -1, 64))
	return &v
}

// budgets are the shares of 32768 tokens that efforts stand for.
var budgets = map[string]int64{"minimal": 1024, "low": 3276, "medium": 9830, "high": 19660, "xhigh": 29491, "max": 29491}

// thinking writes how much the model is to think.
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
			e.fates.Adapt(llm.FieldEffort, "token_budget "+strconv.FormatInt(budget, 10))
		} else {
			e.fates.Drop(llm.FieldEffort)
		}
	}
}

func (e *requestEncoder) think(kind string, budget *int64) {
	e.Name("thinking")
	e.Open('{')
	e.Name("type")
	e.String(kind)
	if budget != nil && *budget > 0 {
		e.number("token_budget", budget)
	}
	e.Close('}')
}

// extras writes Cohere's own parameters, and the documents of messages into the
// list that the client sent.
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
			if !carried(m.Name) {
				continue
			}
		}
		e.Key(m.Name)
		e.Raw(m.Value)
	}
	if len(e.documents) > 0 {
		e.listDocuments(nil)
	}
	e.fates.DropExtra(supersets...)
	e.fates.DropContent(name, dialect.UnsupportedContent{Names: true})
}

// joinDocuments writes the client's list with the documents of messages. It is
// false when there are none or the value is no list.
func (e *requestEncoder) joinDocuments(sent json.RawMessage) bool {
	if len(e.documents) == 0 {
		return false
	}
	v, err := jsonedit.ParseValue(sent)
	if err != nil || v.Kind() != jsonedit.Array {
		return true // the documents of messages stand for it
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

func carried(name string) bool {
	for _, s := range supersets {
		if s == name {
			return true
		}
	}
	return false
}

// dropRest tells the parameters that have no place.
func (e *requestEncoder) dropRest() {
	r := e.r
	e.fates.DropAsked(llm.FieldParallelTools, llm.FieldLogitBias)
	if r.TopLogprobs != nil && *r.TopLogprobs > 0 {
		e.fates.Drop(llm.FieldTopLogprobs)
	}
	e.fates.DropAsked(llm.FieldN)
	if r.Reasoning.Effort != "" && (r.Reasoning.Mode != "" || r.Reasoning.Budget != nil) {
		e.fates.Drop(llm.FieldEffort)
	}
	e.fates.DropAsked(llm.FieldSummary, llm.FieldVerbosity, llm.FieldModalities, llm.FieldSpeech, llm.FieldUser, llm.FieldMetadata)
	if r.ServiceTier != "" {
		e.fates.Drop(llm.FieldServiceTier)
	}
	e.fates.DropAsked(llm.FieldCache)
	e.fates.DropThinking()
}
