package oracle

import (
	"cmp"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// supersets are Oracle's own parameters that clients of other dialects may
// send, with their names at Oracle.
var supersets = map[string]string{"compartment_id": "compartmentId", "compartmentId": "compartmentId", "is_echo": "isEcho"}

// requestEncoder writes one request.
type requestEncoder struct {
	jsonedit.Builder
	r       *llm.Request
	to      dialect.RequestTarget
	changes *dialect.ParamChanges
}

// EncodeRequest appends the body of a request to /20231130/actions/chat.
// https://docs.oracle.com/iaas/api/#/en/generative-ai-inference/20231130/ChatResult/Chat
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	changes := dialect.NewParamChanges(r)
	r, refused := changes.Portable(to,
		dialect.Support{Dialect: name, Choices: !isCohere(r, to), InAssistant: func(llm.Media) bool { return false }})
	if refused != nil {
		return dst, nil, refused
	}
	e := requestEncoder{Builder: jsonedit.Append(dst), r: r, to: to, changes: changes}
	e.Open('{')
	e.extra("compartmentId")
	e.serving()
	e.Name("chatRequest")
	e.Open('{')
	write := e.generic
	if isCohere(r, to) {
		write = e.cohere
	}
	if err := write(); err != nil {
		return dst, nil, err
	}
	e.Close('}')
	e.Close('}')
	e.dropUnsupported()
	return e.Bytes(), e.changes.List(), nil
}

// generic writes a request in the GENERIC format.
func (e *requestEncoder) generic() error {
	e.word("apiFormat", "GENERIC")
	if err := e.writeMessages(); err != nil {
		return err
	}
	if err := e.writeTools(); err != nil {
		return err
	}
	e.format()
	e.sampling()
	e.reasoning()
	e.otherParams()
	e.extra("isEcho")
	if e.r.Stream {
		e.Name("isStream")
		e.Bool(true)
		e.Name("streamOptions")
		e.Raw([]byte(`{"isIncludeUsage":true}`))
	}
	return nil
}

// serving writes where the model runs. A model with a dedicated endpoint is
// named by the endpoint's id.
func (e *requestEncoder) serving() {
	e.Name("servingMode")
	e.Open('{')
	if strings.HasPrefix(e.to.Model, "ocid1.generativeaiendpoint.") {
		e.word("servingType", "DEDICATED")
		e.word("endpointId", e.to.Model)
	} else {
		e.word("servingType", "ON_DEMAND")
		e.word("modelId", e.to.Model)
	}
	e.Close('}')
}

// word writes a string member.
func (e *requestEncoder) word(name, value string) {
	e.Name(name)
	e.String(value)
}

// extra writes the parameter that has this name at Oracle.
func (e *requestEncoder) extra(name string) {
	for _, m := range e.r.Extra {
		if supersets[m.Name] == name {
			e.Name(name)
			e.Raw(m.Value)
			return
		}
	}
}

func (e *requestEncoder) format() {
	f := &e.r.Format
	kind := map[llm.FormatKind]string{llm.FormatText: "TEXT", llm.FormatJSON: "JSON_OBJECT", llm.FormatSchema: "JSON_SCHEMA"}[f.Kind]
	if kind == "" {
		return
	}
	e.Name("responseFormat")
	e.Open('{')
	e.word("type", kind)
	if f.Kind == llm.FormatSchema {
		e.Name("jsonSchema")
		e.Open('{')
		e.word("name", cmp.Or(f.Name, "answer"))
		if f.Description != "" {
			e.word("description", f.Description)
		}
		e.Name("schema")
		e.Raw(f.Schema)
		if f.Strict != nil {
			e.Name("isStrict")
			e.Bool(*f.Strict)
		}
		e.Close('}')
	}
	e.Close('}')
}

var scalars = dialect.Scalars{
	{Name: "temperature", Field: llm.FieldTemperature},
	{Name: "topP", Field: llm.FieldTopP},
	{Name: "topK", Field: llm.FieldTopK},
	{Name: "frequencyPenalty", Field: llm.FieldFrequencyPenalty},
	{Name: "presencePenalty", Field: llm.FieldPresencePenalty},
	{Name: "seed", Field: llm.FieldSeed},
	{Name: "numGenerations", Field: llm.FieldN},
	{Name: "stop", Field: llm.FieldStop},
	{Name: "logitBias", Field: llm.FieldLogitBias},
}

func (e *requestEncoder) sampling() {
	r := e.r
	limit := dialect.Scalar{Name: "maxTokens", Field: llm.FieldMaxTokens}
	if r.NameOf(llm.FieldMaxTokens) == "max_completion_tokens" { // reasoning models require it
		limit.Name = "maxCompletionTokens"
	}
	limit.Append(&e.Builder, r)
	scalars.Append(&e.Builder, r)
	if r.Logprobs != nil && *r.Logprobs {
		e.Name("logProbs")
		if r.TopLogprobs != nil {
			e.Int(*r.TopLogprobs)
		} else {
			e.Int(1)
		}
	}
}

// efforts maps efforts to Oracle's names.
var efforts = map[string]string{"none": "NONE", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}

// reasoning writes the effort, in Oracle's naming.
func (e *requestEncoder) reasoning() {
	t := &e.r.Reasoning
	effort := t.Effort
	switch {
	case t.Mode == llm.ThinkingDisabled:
		effort = "none"
	case t.Budget != nil:
		effort = dialect.EffortForBudget(*t.Budget)
	}
	if t.Mode != "" || t.Budget != nil {
		if effort == "" { // the model decides by default
			e.changes.Adapt(llm.FieldThinking, dialect.ModelDecides)
			return
		}
		e.changes.Adapt(llm.FieldThinking, dialect.NoteMember("reasoningEffort", cmp.Or(efforts[effort], "HIGH")))
	}
	if effort == "" {
		return
	}
	word, ok := efforts[effort]
	if !ok {
		if effort != "xhigh" && effort != "max" {
			e.changes.Drop(llm.FieldEffort)
			return
		}
		word = "HIGH"
		e.changes.Adapt(llm.FieldEffort, "high")
	}
	e.word("reasoningEffort", word)
}

var (
	tiers       = map[string]string{"auto": "AUTO", "default": "DEFAULT", "priority": "PRIORITY"}
	verbosities = map[string]string{"low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
)

func (e *requestEncoder) otherParams() {
	r := e.r
	e.oneOf("verbosity", llm.FieldVerbosity, r.Verbosity, verbosities)
	e.oneOf("serviceTier", llm.FieldServiceTier, r.ServiceTier, tiers)
	if r.Metadata != nil {
		e.Name("metadata")
		e.Raw(r.Metadata)
	}
}

// oneOf writes a value from a list of known ones, and records any other as
// dropped.
func (e *requestEncoder) oneOf(name string, field llm.Field, word string, known map[string]string) {
	switch value := known[word]; {
	case word == "":
	case value == "":
		e.changes.Drop(field)
	default:
		e.word(name, value)
	}
}

// dropUnsupported records the parameters that Oracle does not have as dropped.
func (e *requestEncoder) dropUnsupported() {
	r := e.r
	if r.Reasoning.Effort != "" && (r.Reasoning.Budget != nil || r.Reasoning.Mode == llm.ThinkingDisabled) {
		e.changes.Drop(llm.FieldEffort)
	}
	e.changes.DropIfSet(llm.FieldSummary, llm.FieldModalities, llm.FieldSpeech, llm.FieldUser, llm.FieldCache)
	e.changes.DropThinking()
	e.changes.DropContent(dialect.UnsupportedContent{Cites: true})
	e.changes.DropExtra("compartment_id", "compartmentId", "is_echo", "api_format", "apiFormat")
}
