package chat

import (
	"cmp"
	"encoding/json"
	"slices"

	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// EncodeRequest appends the body of a request. The limit of tokens is written as
// max_tokens, which the provider table renames where a model wants that; usage
// of streams is always asked for, since the gateway keeps books.
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	e := requestEncoder{
		writer: writer{jsonedit.Append(dst)},
		r:      r, to: to, profile: cmp.Or(to.Chat, &usualProfile), fates: dialect.NewParamChanges(r),
	}
	e.Open('{')
	e.textMember("model", to.Model)
	e.Name("messages")
	e.messages()
	e.tools()
	e.format()
	e.sampling()
	e.thinking()
	e.rest()
	e.stream()
	e.Close('}')
	if e.err != nil {
		return dst, nil, e.err
	}
	return e.Bytes(), e.fates.List(), nil
}

// requestEncoder writes one request.
type requestEncoder struct {
	writer
	r       *llm.Request
	to      dialect.RequestTarget
	profile *dialect.ChatProfile
	fates   *dialect.ParamChanges
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

// maxVendorStops is how many stop sequences the vendor takes.
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
		e.fates.Drop(llm.FieldTopK)
		r.TopK = nil
	}
	if e.profile.Vendor && len(r.Stop) > maxVendorStops {
		e.fates.Adapt(llm.FieldStop, "the first four")
		r.Stop = r.Stop[:maxVendorStops]
	}
	scalars.Append(&e.Builder, &r)
}

// tuned reports whether the model takes sampling parameters. Models of the
// vendor that think take none unless told not to think.
// https://platform.openai.com/docs/guides/latest-model#gpt-5-parameter-compatibility
func (e *requestEncoder) tuned() bool {
	if !e.profile.Vendor || !reasons(e.to.Model) || e.r.Reasoning.Effort == "none" || e.r.Dialect == own {
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
			e.fates.Drop(p.field)
		}
	}
	return false
}

// rest writes the parameters that are neither sampling nor of tools. Providers
// other than the vendor refuse what they don't know, and of its parameters take
// those that tune the answer.
func (e *requestEncoder) rest() {
	r := e.r
	same := r.Dialect == own
	if known := e.profile.Vendor || same || e.profile.Verbosity; known || r.Verbosity == "" {
		e.optionalText("verbosity", r.Verbosity)
	} else {
		e.fates.Drop(llm.FieldVerbosity)
	}
	dialect.Scalar{Name: "modalities", Field: llm.FieldModalities}.Append(&e.Builder, r)
	e.optionalRaw("audio", r.Speech)
	e.optionalText("user", r.User)
	if e.profile.Vendor || same || len(r.Metadata) == 0 {
		e.optionalRaw("metadata", r.Metadata)
	} else {
		e.fates.Drop(llm.FieldMetadata)
	}
	e.tier(same)
	if r.Cache != nil {
		if e.profile.Cache || same {
			e.Name("cache_control")
			e.cacheControl(r.Cache)
		} else {
			e.fates.Drop(llm.FieldCache)
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
		e.fates.Drop(llm.FieldServiceTier)
		return
	case tier == "standard_only" || tier == "standard": // the messages dialect's word
		tier = "default"
		e.fates.Adapt(llm.FieldServiceTier, tier)
	}
	e.textMember("service_tier", tier)
}

// carried are parameters of other dialects that the vendor takes under the same
// name.
var carried = []string{"prompt_cache_key", "prompt_cache_retention", "safety_identifier"}

func (e *requestEncoder) parameters(same bool) {
	if same {
		e.extra(e.r.Extra)
		return
	}
	e.fates.DropContent(own, dialect.UnsupportedContent{Cites: true})
	if !e.profile.Vendor {
		e.fates.DropExtra()
		return
	}
	e.fates.DropExtra(carried...)
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
