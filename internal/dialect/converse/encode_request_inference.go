package converse

import (
	"regexp"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

var scalars = dialect.Scalars{
	{Name: "maxTokens", Field: llm.FieldMaxTokens},
	{Name: "temperature", Field: llm.FieldTemperature},
	{Name: "topP", Field: llm.FieldTopP},
	{Name: "stopSequences", Field: llm.FieldStop},
}

// encodeInference writes the parameters that all models have.
func (e *requestEncoder) encodeInference() {
	r := *e.r
	r.MaxTokens = e.thinks.maxTokens
	if e.thinks.noLimits && r.MaxTokens != nil {
		e.changes.Drop(llm.FieldMaxTokens)
		r.MaxTokens = nil
	}
	r.Temperature, r.TopP = e.sampling()
	r.Stop = e.stops()
	if r.MaxTokens == nil && r.Temperature == nil && r.TopP == nil && len(r.Stop) == 0 {
		return
	}
	e.b.Name("inferenceConfig")
	e.b.Open('{')
	scalars.Append(&e.b, &r)
	e.b.Close('}')
}

// sampling returns the temperature and topP that the model accepts.
func (e *requestEncoder) sampling() (temperature, topP *float64) {
	temperature, topP = e.r.Temperature, e.r.TopP
	if e.fixed() {
		if temperature != nil && *temperature != 1 {
			e.changes.Drop(llm.FieldTemperature)
		}
		if topP != nil {
			e.changes.Drop(llm.FieldTopP)
		}
		return nil, nil
	}
	if temperature != nil && *temperature > 1 {
		one := 1.0
		temperature = &one
		e.changes.Adapt(llm.FieldTemperature, dialect.NoteMaximum("1"))
	}
	if temperature != nil && topP != nil && e.model.claude() {
		// Claude 4.5 and later reject both together.
		e.changes.Drop(llm.FieldTopP)
		topP = nil
	}
	return temperature, topP
}

// fixed reports whether the model rejects sampling parameters.
func (e *requestEncoder) fixed() bool {
	return e.thinks.active || e.thinks.noLimits || e.model.NoSampling
}

// stops returns the stop sequences; Claude rejects blank ones.
func (e *requestEncoder) stops() []string {
	if !e.model.claude() {
		return e.r.Stop
	}
	list := slices.DeleteFunc(slices.Clone(e.r.Stop), func(s string) bool { return blank(s) })
	if len(list) < len(e.r.Stop) {
		e.changes.Adapt(llm.FieldStop, dialect.BlankStopsRemoved)
	}
	return list
}

// extras maps parameters that clients of other dialects may send under these
// names to their names in this dialect.
var extras = map[string]string{
	"guardrailConfig": "guardrailConfig", "guardrail_config": "guardrailConfig",
	"performanceConfig": "performanceConfig", "performance_config": "performanceConfig",
	"promptVariables": "promptVariables", "prompt_variables": "promptVariables",
	"additionalModelResponseFieldPaths": responsePaths, "additional_model_response_field_paths": responsePaths,
	"outputConfig": "outputConfig", "serviceTier": "serviceTier",
}

const responsePaths = "additionalModelResponseFieldPaths"

// encodeExtra writes the parameters that only clients of this dialect, or of
// its providers, send.
func (e *requestEncoder) encodeExtra() {
	written := map[string]bool{}
	for _, m := range e.r.Extra {
		to, known := extras[m.Name]
		switch {
		case known:
			e.carried = append(e.carried, m.Name)
		case e.own && !slices.Contains(e.carried, m.Name):
			to = m.Name
			e.carried = append(e.carried, m.Name)
		default:
			continue
		}
		if !written[to] {
			written[to] = true
			e.b.Key(to)
			e.b.Raw(m.Value)
		}
	}
	if e.model.claude() && len(e.r.Stop) > 0 && !e.own && !written[responsePaths] {
		e.b.Name(responsePaths) // reports which stop sequence was hit
		e.b.Raw([]byte(`["/delta/stop_sequence"]`))
	}
	e.encodeMetadata()
	if !written["serviceTier"] {
		e.encodeTier()
	}
}

var metadataText = regexp.MustCompile(`^[a-zA-Z0-9\s:_@$#=/+,.-]*$`)

// fitsMetadata reports whether s is valid as a key or value of requestMetadata.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
func fitsMetadata(s string) bool { return len(s) <= 256 && metadataText.MatchString(s) }

func (e *requestEncoder) encodeMetadata() {
	if e.r.Metadata == nil {
		return
	}
	v, err := jsonedit.ParseValue(e.r.Metadata)
	n := 0
	fit := err == nil && v.Kind() == jsonedit.Object
	for k, m := range v.Fields() {
		text, ok := m.Text()
		fit = fit && ok && fitsMetadata(k.String()) && fitsMetadata(text)
		n++
	}
	if !e.own && (!fit || n > 16) {
		e.changes.Drop(llm.FieldMetadata)
		return
	}
	e.b.Name("requestMetadata")
	e.b.Raw(e.r.Metadata)
}

func (e *requestEncoder) encodeTier() {
	tier := e.r.ServiceTier
	switch tier {
	case "":
		return
	case "default", "priority", "flex", "reserved":
	case "auto", "standard", "standard_only":
		tier = "default"
		e.changes.Adapt(llm.FieldServiceTier, tier)
	default:
		if !e.own {
			e.changes.Drop(llm.FieldServiceTier)
			return
		}
	}
	e.b.Name("serviceTier")
	e.b.Open('{')
	e.b.Name("type")
	e.b.String(tier)
	e.b.Close('}')
}
