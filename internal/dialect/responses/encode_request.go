package responses

import (
	"encoding/json"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// requestEncoder writes a request for a provider.
type requestEncoder struct {
	b       jsonedit.Builder
	r       *llm.Request
	to      dialect.RequestTarget
	model   *modeldata.Model
	changes *dialect.ParamChanges
	// same is true if the client uses this dialect. Content that only this
	// dialect has is then written as received.
	same bool
	// samples is true if the model takes sampling parameters with this effort.
	samples bool
	err     error // the first
}

// EncodeRequest appends the body of a request for a provider of this dialect.
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	changes := dialect.NewParamChanges(r)
	r, err := changes.Portable(to, dialect.Support{Dialect: own, InAssistant: noMedia, Params: shared})
	if err != nil {
		return dst, nil, err
	}
	s := &requestEncoder{b: jsonedit.Append(dst), r: r, to: to, model: modeldata.OpenAI.Of(to.KnownModel()), changes: changes,
		same: r.Dialect == own}
	s.b.Open('{')
	s.b.Name("model")
	s.b.String(to.Model)
	s.writeMessages()
	s.writeTools()
	s.writeText()
	s.writeReasoning()
	s.writeSampling()
	s.writeInclude()
	s.writeOtherParams()
	s.writeExtra()
	if r.Stream {
		s.b.Name("stream")
		s.b.Bool(true)
	}
	s.b.Close('}')
	if s.err != nil {
		return dst, nil, s.err
	}
	return s.b.Bytes(), s.changes.List(), nil
}

// noMedia reports that messages of the assistant hold no media.
func noMedia(llm.Media) bool { return false }

// fail keeps the first error.
func (s *requestEncoder) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *requestEncoder) name(name, value string) {
	if value != "" {
		s.b.Name(name)
		s.b.String(value)
	}
}

func (s *requestEncoder) raw(name string, value json.RawMessage) {
	if value != nil {
		s.b.Name(name)
		s.b.Raw(value)
	}
}

func (s *requestEncoder) int(name string, n *int64) {
	if n != nil {
		s.b.Name(name)
		s.b.Int(*n)
	}
}

func (s *requestEncoder) bool(name string, v *bool) {
	if v != nil {
		s.b.Name(name)
		s.b.Bool(*v)
	}
}

// writeText writes the response format and the verbosity.
func (s *requestEncoder) writeText() {
	if s.r.Format.Kind == "" && s.r.Verbosity == "" {
		return
	}
	s.b.Name("text")
	writeText(&s.b, &s.r.Format, s.r.Verbosity)
}

func writeText(b *jsonedit.Builder, f *llm.Format, verbosity string) {
	b.Open('{')
	if f.Kind != "" {
		b.Name("format")
		writeFormat(b, f)
	}
	if verbosity != "" {
		b.Name("verbosity")
		b.String(verbosity)
	}
	b.Close('}')
}

func writeFormat(b *jsonedit.Builder, f *llm.Format) {
	b.Open('{')
	b.Name("type")
	b.String(string(f.Kind))
	if f.Kind == llm.FormatSchema {
		b.Name("name")
		if f.Name == "" {
			b.String("response") // the protocol requires a name
		} else {
			b.String(f.Name)
		}
		if f.Description != "" {
			b.Name("description")
			b.String(f.Description)
		}
		b.Name("schema")
		b.Raw(f.Schema)
		if f.Strict != nil {
			b.Name("strict")
			b.Bool(*f.Strict)
		}
	}
	b.Close('}')
}

// leastTokens is the smallest limit that the protocol's own provider accepts.
// https://platform.openai.com/docs/api-reference/responses/create
const leastTokens = 16

var scalars = dialect.Scalars{
	{Name: "max_output_tokens", Field: llm.FieldMaxTokens},
	{Name: "temperature", Field: llm.FieldTemperature},
	{Name: "top_p", Field: llm.FieldTopP},
}

func (s *requestEncoder) writeSampling() {
	r, least := *s.r, int64(leastTokens)
	if n := r.MaxTokens; n != nil && *n < least && !s.same && profileOf(s.to).Vendor {
		s.changes.Adapt(llm.FieldMaxTokens, dialect.NoteMinimum("16"))
		r.MaxTokens = &least
	}
	if !s.samples {
		for _, p := range []struct {
			field llm.Field
			value **float64
		}{{llm.FieldTemperature, &r.Temperature}, {llm.FieldTopP, &r.TopP}} {
			if v := *p.value; v != nil && *v != 1 { // the default of both
				s.changes.Drop(p.field)
			}
			*p.value = nil
		}
	}
	scalars.Append(&s.b, &r)
	s.changes.DropIfSet(llm.FieldTopK, llm.FieldFrequencyPenalty, llm.FieldPresencePenalty, llm.FieldSeed, llm.FieldStop, llm.FieldLogitBias)
	s.changes.DropIfSet(llm.FieldModalities, llm.FieldSpeech, llm.FieldCache)
}

// writeInclude requests the additional output that a translated response needs.
func (s *requestEncoder) writeInclude() {
	logprobs := s.r.Logprobs != nil && *s.r.Logprobs
	if logprobs && !s.samples {
		s.changes.DropIfSet(llm.FieldLogprobs, llm.FieldTopLogprobs)
		logprobs = false
	}
	encrypted := memberOf(s.r.Reasoning.Extra, withEncrypted) != nil
	if !s.same {
		encrypted = profileOf(s.to).Encrypted && s.reasons()
	}
	var rest jsonedit.Value
	if s.same {
		rest, _ = jsonedit.ParseValue(s.r.Parameter("include"))
	}
	if logprobs || encrypted || rest.Kind() == jsonedit.Array {
		s.b.Name("include")
		s.b.Open('[')
		for e := range rest.Elements() {
			s.b.Raw(e.Raw())
		}
		if logprobs {
			s.b.String("message.output_text.logprobs")
		}
		if encrypted {
			s.b.String(encryptedContent)
		}
		s.b.Close(']')
	}
	if logprobs || s.same {
		s.int("top_logprobs", s.r.TopLogprobs)
	}
}

func memberOf(list []llm.Member, name string) json.RawMessage {
	for _, m := range list {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

func (s *requestEncoder) writeOtherParams() {
	r := s.r
	s.bool("parallel_tool_calls", r.ParallelTools)
	s.name("user", s.changes.User(dialect.MaxUserChat))
	s.raw("metadata", r.Metadata)
	s.name("service_tier", r.ServiceTier)
	if s.same && r.Reasoning.Mode != "" {
		s.b.Name("thinking")
		s.b.Open('{')
		s.name("type", string(r.Reasoning.Mode))
		s.int("budget_tokens", r.Reasoning.Budget)
		s.b.Close('}')
	}
}

// shared are the parameters that have the same name and meaning in the chat
// dialect.
var shared = []string{"store", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "safety_identifier", "moderation"}

// writeExtra writes the parameters that only the client's dialect has, if this
// one has them too. Translated responses are not stored at the provider unless
// the client requested it.
func (s *requestEncoder) writeExtra() {
	var carried []string
	if s.r.Dialect == string(api.DialectChat) {
		carried = shared
	}
	stored := false
	for _, m := range s.r.Extra {
		if s.same && m.Name == "include" || !s.same && !hasName(carried, m.Name) {
			continue
		}
		stored = stored || m.Name == "store"
		s.b.Key(m.Name)
		s.b.Raw(m.Value)
	}
	if s.same {
		return
	}
	if !stored {
		s.b.Name("store")
		s.b.Bool(false)
	}
	s.changes.DropExtra(carried...)
	s.changes.DropContent(dialect.UnsupportedContent{Names: true, Cites: true})
}
