package gemini

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// config reads generationConfig.
// https://ai.google.dev/api/generate-content#generationconfig
func (d *requestDecoder) config(v jsonedit.Value) {
	if !d.Is("generationConfig", v, jsonedit.Object, "an object") {
		return
	}
	var mime string
	var schema jsonedit.Value
	openapi := false
	for key, v := range v.Fields() {
		if v.IsNull() {
			continue
		}
		name := camel(key)
		switch name {
		case "responseMimeType":
			mime = d.Text(config+name, v)
		case "responseSchema":
			schema, openapi = v, true
		case "responseJsonSchema":
			schema, openapi = v, false
		case "thinkingConfig":
			d.thinking(v)
		case "speechConfig":
			d.speech(v)
		default:
			if !d.sampling(name, v) {
				d.extra(config+name, v)
			}
		}
	}
	d.format(mime, schema, openapi)
}

// sampling reads a parameter that is one value or a list of strings; it returns
// false for others.
func (d *requestDecoder) sampling(name string, v jsonedit.Value) bool {
	r, path := d.r, config+name
	switch name {
	case "temperature":
		r.Temperature = d.float(path, v)
	case "topP":
		r.TopP = d.float(path, v)
	case "topK":
		r.TopK = d.int(path, v)
	case "candidateCount":
		r.N = d.int(path, v)
	case "maxOutputTokens":
		r.MaxTokens = d.int(path, v)
	case "seed":
		r.Seed = d.int(path, v)
	case "presencePenalty":
		r.PresencePenalty = d.float(path, v)
	case "frequencyPenalty":
		r.FrequencyPenalty = d.float(path, v)
	case "responseLogprobs":
		r.Logprobs = d.Bool(path, v)
	case "logprobs":
		r.TopLogprobs = d.int(path, v)
	case "stopSequences":
		each(v, path, func(v jsonedit.Value, path string) { r.Stop = append(r.Stop, d.Text(path, v)) })
	case "responseModalities":
		each(v, path, func(v jsonedit.Value, path string) {
			r.Modalities = append(r.Modalities, strings.ToLower(d.Text(path, v)))
		})
	default:
		return false
	}
	return true
}

// format reads the response format. A type other than JSON and plain text, such
// as the one of enumerations, is kept along with the schema.
func (d *requestDecoder) format(mime string, schema jsonedit.Value, openapi bool) {
	f := &d.r.Format
	if !schema.IsNull() {
		if !d.Is(config+"responseSchema", schema, jsonedit.Object, "a schema") {
			return
		}
		f.Kind, f.Schema = llm.FormatSchema, schema.Raw()
		if openapi {
			f.Schema = d.schema(config+"responseSchema", schema)
		}
	}
	switch mime {
	case "":
	case "application/json":
		if f.Kind == "" {
			f.Kind = llm.FormatJSON
		}
	case "text/plain":
		if f.Kind == "" {
			f.Kind = llm.FormatText
		}
	default:
		d.r.Extra = append(d.r.Extra, llm.Member{Name: config + "responseMimeType", Value: jsonedit.AppendString(nil, mime)})
	}
}

// thinking reads thinkingConfig: a budget of zero disables thinking, a negative
// one lets the model decide.
func (d *requestDecoder) thinking(v jsonedit.Value) {
	const path = config + "thinkingConfig"
	if !d.Is(path, v, jsonedit.Object, "an object") {
		return
	}
	t := &d.r.Reasoning
	for key, v := range v.Fields() {
		if v.IsNull() {
			continue
		}
		switch name := camel(key); name {
		case "includeThoughts":
			t.Summary = "omitted"
			if is := d.Bool(path+"."+name, v); is != nil && *is {
				t.Summary = "auto"
			}
		case "thinkingLevel":
			level := strings.ToLower(d.Text(path+"."+name, v))
			if t.Effort = strings.TrimPrefix(level, "thinking_level_"); t.Effort == "unspecified" {
				t.Effort = ""
			}
		case "thinkingBudget":
			d.budget(d.int(path+"."+name, v))
		default:
			t.Extra = append(t.Extra, llm.Member{Name: name, Value: v.Raw()})
		}
	}
}

func (d *requestDecoder) budget(n *int64) {
	t := &d.r.Reasoning
	switch {
	case n == nil:
	case *n == 0:
		t.Mode = llm.ThinkingDisabled
	case *n < 0:
		t.Mode = llm.ThinkingAdaptive
	default:
		t.Mode, t.Budget = llm.ThinkingEnabled, n
	}
}

// speech reads speechConfig. One voice by name has a neutral form; anything
// else is kept as received.
func (d *requestDecoder) speech(v jsonedit.Value) {
	voice := field(field(v, "voiceConfig"), "prebuiltVoiceConfig")
	if name := field(voice, "voiceName"); name.Kind() == jsonedit.String && size(v) == 1 && size(field(v, "voiceConfig")) == 1 &&
		size(voice) == 1 {
		b := jsonedit.Append(nil)
		b.Open('{')
		b.Name("voice")
		b.Raw(name.Raw())
		b.Close('}')
		d.r.Speech = b.Bytes()
		return
	}
	d.extra(config+"speechConfig", v)
}

// size returns the number of members.
func size(v jsonedit.Value) (n int) {
	for range v.Fields() {
		n++
	}
	return n
}

// toolConfig reads the tool choice.
// https://ai.google.dev/api/caching#ToolConfig
func (d *requestDecoder) toolConfig(v jsonedit.Value) {
	if !d.Is("toolConfig", v, jsonedit.Object, "an object") {
		return
	}
	for key, v := range v.Fields() {
		switch name := camel(key); {
		case v.IsNull():
		case name == "functionCallingConfig":
			d.choice(v)
		default:
			d.extra(toolConfig+name, v)
		}
	}
}

func (d *requestDecoder) choice(v jsonedit.Value) {
	if !d.Is("toolConfig.functionCallingConfig", v, jsonedit.Object, "an object") {
		return
	}
	c := &d.r.ToolChoice
	var mode string
	for key, v := range v.Fields() {
		if v.IsNull() {
			continue
		}
		switch name := camel(key); name {
		case "mode":
			mode = d.Text(calling+name, v)
		case "allowedFunctionNames":
			each(v, calling+name, func(v jsonedit.Value, path string) { c.Names = append(c.Names, d.Text(path, v)) })
		default:
			d.extra(calling+name, v)
		}
	}
	switch strings.ToUpper(mode) {
	case "", "MODE_UNSPECIFIED":
	case "AUTO":
		c.Mode = llm.ChoiceAuto
	case "NONE":
		c.Mode = llm.ChoiceNone
	case "ANY":
		if c.Mode = llm.ChoiceRequired; len(c.Names) == 1 {
			c.Mode = llm.ChoiceTool
		}
	case "VALIDATED": // like auto, with arguments that match their schema
		c.Mode, c.Raw = llm.ChoiceAuto, []byte(`"VALIDATED"`)
	default:
		d.Refuse(calling+"mode", dialect.CodeValue, "must be AUTO, ANY, NONE or VALIDATED")
	}
}
