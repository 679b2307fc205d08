package chat

import (
	"cmp"
	"encoding/json"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// EncodeRequest appends the body of a request. The token limit is written as
// max_tokens, which the provider table renames for models that require it.
// Usage of streams is always requested, since the gateway records it.
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	profile, changes := cmp.Or(to.Chat, &usualProfile), dialect.NewParamChanges(r)
	support := dialect.Support{Dialect: dialectName, Choices: true, InAssistant: func(m llm.Media) bool {
		return profile.Vendor && m.Kind == llm.Audio && m.FileID != ""
	}}
	if profile.Vendor {
		support.Params = carried
	}
	r, refused := changes.Portable(to, support)
	if refused != nil {
		return dst, nil, refused
	}
	e := requestEncoder{writer: writer{jsonedit.Append(dst)}, r: r, to: to, profile: profile, changes: changes, model: modelOf(to, profile)}
	e.Open('{')
	e.textMember("model", to.Model)
	e.Name("messages")
	e.messages()
	e.tools()
	e.format()
	e.sampling()
	e.thinking()
	e.otherParams()
	e.stream()
	e.Close('}')
	if e.err != nil {
		return dst, nil, e.err
	}
	return e.Bytes(), e.changes.List(), nil
}

// requestEncoder writes one request.
type requestEncoder struct {
	writer
	r       *llm.Request
	to      dialect.RequestTarget
	profile *dialect.ChatProfile
	model   *modeldata.Model
	changes *dialect.ParamChanges
	err     *apierr.Error
}

func (e *requestEncoder) refuse(path, format string, args ...any) {
	if e.err == nil {
		e.err = dialect.Unsupported(path, e.to, format, args...)
	}
}

func (e *requestEncoder) optionalInt(name string, v *int64) {
	if v != nil {
		e.intMember(name, *v)
	}
}

func (e *requestEncoder) optionalText(name, v string) {
	if v != "" {
		e.textMember(name, v)
	}
}

func (e *requestEncoder) optionalRaw(name string, v json.RawMessage) {
	if len(v) > 0 {
		e.rawMember(name, v)
	}
}

// maxVendorStops is the number of stop sequences that the vendor accepts.
const maxVendorStops = 4

var scalars = dialect.Scalars{
	{Name: "max_tokens", Field: llm.FieldMaxTokens},
	{Name: "temperature", Field: llm.FieldTemperature},
	{Name: "top_p", Field: llm.FieldTopP},
	{Name: "frequency_penalty", Field: llm.FieldFrequencyPenalty},
	{Name: "presence_penalty", Field: llm.FieldPresencePenalty},
	{Name: "top_k", Field: llm.FieldTopK},
	{Name: "seed", Field: llm.FieldSeed},
	{Name: "n", Field: llm.FieldN},
	{Name: "stop", Field: llm.FieldStop},
	{Name: "logit_bias", Field: llm.FieldLogitBias},
	{Name: "logprobs", Field: llm.FieldLogprobs},
	{Name: "top_logprobs", Field: llm.FieldTopLogprobs},
}

func (e *requestEncoder) sampling() {
	r := *e.r
	if !e.tuned() {
		r.Temperature, r.TopP, r.FrequencyPenalty, r.PresencePenalty = nil, nil, nil, nil
	}
	if e.profile.NoTopK && r.TopK != nil {
		e.changes.Drop(llm.FieldTopK)
		r.TopK = nil
	}
	if e.profile.Vendor && len(r.Stop) > maxVendorStops {
		e.changes.Adapt(llm.FieldStop, dialect.NoteFirst(4))
		r.Stop = r.Stop[:maxVendorStops]
	}
	scalars.Append(&e.Builder, &r)
}

// tuned reports whether the model accepts sampling parameters. Reasoning models
// of the vendor accept none unless reasoning is disabled.
// https://platform.openai.com/docs/guides/latest-model#gpt-5-parameter-compatibility
func (e *requestEncoder) tuned() bool {
	if !e.profile.Vendor || e.r.Dialect == dialectName || e.model.Samples(e.requestedEffort()) {
		return true
	}
	for _, p := range []struct {
		field llm.Field
		value *float64
	}{
		{llm.FieldTemperature, e.r.Temperature}, {llm.FieldTopP, e.r.TopP},
		{llm.FieldFrequencyPenalty, e.r.FrequencyPenalty}, {llm.FieldPresencePenalty, e.r.PresencePenalty},
	} {
		if p.value != nil {
			e.changes.Drop(p.field)
		}
	}
	return false
}

// otherParams writes the parameters other than sampling and tools. Providers
// other than the vendor reject unknown parameters, so they are sent only those
// vendor parameters that tune the output.
func (e *requestEncoder) otherParams() {
	r := e.r
	same := r.Dialect == dialectName
	if known := e.profile.Vendor || same || e.profile.Verbosity; known || r.Verbosity == "" {
		e.optionalText("verbosity", r.Verbosity)
	} else {
		e.changes.Drop(llm.FieldVerbosity)
	}
	dialect.Scalar{Name: "modalities", Field: llm.FieldModalities}.Append(&e.Builder, r)
	e.optionalRaw("audio", r.Speech)
	e.optionalText("user", e.changes.User(dialect.MaxUserChat))
	if e.profile.Vendor || same || len(r.Metadata) == 0 {
		e.optionalRaw("metadata", r.Metadata)
	} else {
		e.changes.Drop(llm.FieldMetadata)
	}
	e.tier(same)
	if r.Cache != nil {
		if e.profile.Cache || same {
			e.Name("cache_control")
			e.cacheControl(r.Cache)
		} else {
			e.changes.Drop(llm.FieldCache)
		}
	}
	e.parameters(same)
}

func (e *requestEncoder) tier(same bool) {
	tier := e.r.ServiceTier
	switch {
	case tier == "":
		return
	case !e.profile.Tier && !same:
		e.changes.Drop(llm.FieldServiceTier)
		return
	case tier == "standard_only" || tier == "standard": // spelling of the messages dialect
		tier = "default"
		e.changes.Adapt(llm.FieldServiceTier, tier)
	}
	e.textMember("service_tier", tier)
}

// carried are parameters of other dialects that the vendor accepts under the
// same name.
var carried = []string{"prompt_cache_key", "prompt_cache_retention", "safety_identifier", "moderation"}

func (e *requestEncoder) parameters(same bool) {
	if same {
		e.extra(e.r.Extra)
		return
	}
	e.changes.DropContent(dialect.UnsupportedContent{Cites: true})
	if !e.profile.Vendor {
		e.changes.DropExtra()
		return
	}
	e.changes.DropExtra(carried...)
	for _, m := range e.r.Extra {
		if slices.Contains(carried, m.Name) {
			e.rawMember(m.Name, m.Value)
		}
	}
}

func (e *requestEncoder) stream() {
	if !e.r.Stream {
		return
	}
	e.Name("stream")
	e.Bool(true)
	e.Name("stream_options")
	e.Raw([]byte(`{"include_usage":true}`))
}

func (e *requestEncoder) cacheControl(c *llm.Cache) {
	e.Open('{')
	e.textMember("type", "ephemeral")
	e.optionalText("ttl", c.TTL)
	e.Close('}')
}
