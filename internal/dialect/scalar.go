package dialect

import (
	"encoding/json"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// Scalar maps a request field that is one value or a list of strings to its
// name in a dialect.
type Scalar struct {
	Name  string
	Field llm.Field
}

// Scalars are the scalar parameters of a dialect, in the order in which they are
// written.
type Scalars []Scalar

// Append writes the parameters that are set in r.
func (s Scalars) Append(b *jsonedit.Builder, r *llm.Request) {
	for _, p := range s {
		p.Append(b, r)
	}
}

// Append writes the parameter if it is set in r, and reports whether it is.
func (p Scalar) Append(b *jsonedit.Builder, r *llm.Request) bool {
	switch p.Field {
	case llm.FieldMaxTokens:
		return appendInt(b, p.Name, r.MaxTokens)
	case llm.FieldTopK:
		return appendInt(b, p.Name, r.TopK)
	case llm.FieldSeed:
		return appendInt(b, p.Name, r.Seed)
	case llm.FieldN:
		return appendInt(b, p.Name, r.N)
	case llm.FieldTopLogprobs:
		return appendInt(b, p.Name, r.TopLogprobs)
	case llm.FieldTemperature:
		return appendFloat(b, p.Name, r.Temperature)
	case llm.FieldTopP:
		return appendFloat(b, p.Name, r.TopP)
	case llm.FieldFrequencyPenalty:
		return appendFloat(b, p.Name, r.FrequencyPenalty)
	case llm.FieldPresencePenalty:
		return appendFloat(b, p.Name, r.PresencePenalty)
	case llm.FieldLogprobs:
		return appendBool(b, p.Name, r.Logprobs)
	case llm.FieldStop:
		return appendTexts(b, p.Name, r.Stop)
	case llm.FieldModalities:
		return appendTexts(b, p.Name, r.Modalities)
	case llm.FieldLogitBias:
		return appendRaw(b, p.Name, r.LogitBias)
	}
	return false
}

func appendInt(b *jsonedit.Builder, name string, n *int64) bool {
	if n == nil {
		return false
	}
	b.Name(name)
	b.Int(*n)
	return true
}

func appendFloat(b *jsonedit.Builder, name string, f *float64) bool {
	if f == nil {
		return false
	}
	b.Name(name)
	b.Float(*f)
	return true
}

func appendBool(b *jsonedit.Builder, name string, is *bool) bool {
	if is == nil {
		return false
	}
	b.Name(name)
	b.Bool(*is)
	return true
}

func appendTexts(b *jsonedit.Builder, name string, list []string) bool {
	if len(list) == 0 {
		return false
	}
	b.Name(name)
	b.Open('[')
	for _, s := range list {
		b.String(s)
	}
	b.Close(']')
	return true
}

func appendRaw(b *jsonedit.Builder, name string, value json.RawMessage) bool {
	if len(value) == 0 {
		return false
	}
	b.Name(name)
	b.Raw(value)
	return true
}

// DropIfSet calls Drop for those of the fields whose value in the request has
// an effect. Dropping a value equal to the default loses nothing.
func (f *ParamChanges) DropIfSet(fields ...llm.Field) {
	for _, field := range fields {
		if hasEffect(f.r, field) {
			f.Drop(field)
		}
	}
}

func hasEffect(r *llm.Request, field llm.Field) bool {
	switch field {
	case llm.FieldTools:
		return len(r.Tools) > 0
	case llm.FieldToolChoice:
		return r.ToolChoice.Raw != nil || r.ToolChoice.Mode != "" && r.ToolChoice.Mode != llm.ChoiceNone
	case llm.FieldParallelTools:
		return r.ParallelTools != nil && !*r.ParallelTools
	case llm.FieldFormat:
		return r.Format.Kind != "" && r.Format.Kind != llm.FormatText
	case llm.FieldTemperature:
		return r.Temperature != nil
	case llm.FieldTopP:
		return r.TopP != nil
	case llm.FieldTopK:
		return r.TopK != nil
	case llm.FieldFrequencyPenalty:
		return r.FrequencyPenalty != nil && *r.FrequencyPenalty != 0
	case llm.FieldPresencePenalty:
		return r.PresencePenalty != nil && *r.PresencePenalty != 0
	case llm.FieldSeed:
		return r.Seed != nil
	case llm.FieldStop:
		return len(r.Stop) > 0
	case llm.FieldLogitBias:
		return r.LogitBias != nil
	case llm.FieldLogprobs:
		return r.Logprobs != nil && *r.Logprobs
	case llm.FieldTopLogprobs:
		return r.TopLogprobs != nil
	case llm.FieldN:
		return r.N != nil && *r.N != 1
	case llm.FieldThinking:
		return r.Reasoning.Budget != nil || r.Reasoning.Mode != "" && r.Reasoning.Mode != llm.ThinkingDisabled
	case llm.FieldEffort:
		return r.Reasoning.Effort != "" && r.Reasoning.Effort != "none"
	case llm.FieldSummary:
		return r.Reasoning.Summary != ""
	case llm.FieldVerbosity:
		return r.Verbosity != ""
	case llm.FieldModalities:
		return len(r.Modalities) > 1 || len(r.Modalities) == 1 && r.Modalities[0] != "text"
	case llm.FieldSpeech:
		return r.Speech != nil
	case llm.FieldUser:
		return r.User != ""
	case llm.FieldMetadata:
		return r.Metadata != nil
	case llm.FieldServiceTier:
		return r.ServiceTier != "" && r.ServiceTier != "auto" && r.ServiceTier != "default"
	case llm.FieldCache:
		return r.Cache != nil
	}
	return false
}
