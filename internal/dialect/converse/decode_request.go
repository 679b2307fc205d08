package converse

import (
	"encoding/json"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// names maps request fields to their names in this dialect.
var names = map[llm.Field]string{
	llm.FieldTools:          "toolConfig.tools",
	llm.FieldToolChoice:     "toolConfig.toolChoice",
	llm.FieldFormat:         "outputConfig.textFormat",
	llm.FieldMaxTokens:      "inferenceConfig.maxTokens",
	llm.FieldTemperature:    "inferenceConfig.temperature",
	llm.FieldTopP:           "inferenceConfig.topP",
	llm.FieldStop:           "inferenceConfig.stopSequences",
	llm.FieldTopK:           "additionalModelRequestFields.top_k",
	llm.FieldThinkingObject: "additionalModelRequestFields.thinking",
	llm.FieldThinking:       "additionalModelRequestFields.thinking",
	llm.FieldSummary:        "additionalModelRequestFields.thinking.display",
	llm.FieldEffort:         "additionalModelRequestFields.output_config.effort",
	llm.FieldUser:           "additionalModelRequestFields.metadata.user_id",
	llm.FieldMetadata:       "requestMetadata",
	llm.FieldServiceTier:    "serviceTier",
	llm.FieldCache:          "cachePoint",
	llm.FieldParts:          "content",
	llm.FieldHistory:        "messages.reasoningContent",
	llm.FieldParallelTools:  "additionalModelRequestFields.tool_choice",
}

// DecodeRequest reads a client's request. The model and streaming are set in
// the path.
func (Dialect) DecodeRequest(body []byte) (*llm.Request, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil || v.Kind() != jsonedit.Object {
		return nil, dialect.Invalid("body", dialect.CodeType, "must be a JSON object")
	}
	d := &requestDecoder{r: &llm.Request{Dialect: name, Names: names}}
	d.decode(v)
	if d.Err == nil {
		d.order()
	}
	d.r.Unknown = d.Unknown
	if d.Err != nil {
		return nil, d.Err
	}
	return d.r, nil
}

// requestDecoder is the state of a request while it is decoded.
type requestDecoder struct {
	reader
	r     *llm.Request
	calls map[string]bool // ids of the calls so far
}

func (d *requestDecoder) decode(v jsonedit.Value) {
	if system, ok := v.Get("system"); ok {
		d.system(system)
	}
	d.object("", v, func(key, _ string, v jsonedit.Value) {
		switch key {
		case "messages":
			for path, e := range d.Elements(key, v) {
				d.message(path, e)
			}
		case "system":
		case "inferenceConfig":
			d.object(key, v, d.inference)
		case "toolConfig":
			d.object(key, v, d.toolConfig)
		case "outputConfig":
			d.output(v)
		case "additionalModelRequestFields":
			d.additional(v)
		case "requestMetadata":
			d.r.Metadata = v.Raw()
		case "serviceTier":
			d.tier(v)
		default:
			d.r.Extra = append(d.r.Extra, llm.Member{Name: key, Value: v.Raw()})
		}
	})
}

func (d *requestDecoder) inference(key, path string, v jsonedit.Value) {
	switch key {
	case "maxTokens":
		d.r.MaxTokens = d.Int(path, v)
	case "temperature":
		d.r.Temperature = d.Float(path, v)
	case "topP":
		d.r.TopP = d.Float(path, v)
	case "stopSequences":
		d.r.Stop = d.Texts(path, v)
	default:
		d.Lose("inferenceConfig", key, v)
	}
}

// tier reads {type}; a tier in another form is kept unchanged.
func (d *requestDecoder) tier(v jsonedit.Value) {
	if key, t := only(v); key == "type" {
		d.r.ServiceTier = d.Text("serviceTier.type", t)
		return
	}
	d.r.Extra = append(d.r.Extra, llm.Member{Name: "serviceTier", Value: v.Raw()})
}

func (d *requestDecoder) system(v jsonedit.Value) {
	m := llm.Message{Role: llm.System, At: "system"}
	for path, block := range d.Elements("system", v) {
		m.Parts = d.block(m.Parts, path, block)
	}
	if len(m.Parts) > 0 {
		d.r.Messages = append(d.r.Messages, m)
	}
}

func (d *requestDecoder) message(path string, v jsonedit.Value) {
	m := llm.Message{At: path}
	d.object(path, v, func(key, path string, v jsonedit.Value) {
		switch key {
		case "role":
			m.Role = llm.Role(d.Text(path, v))
		case "content":
			for path, block := range d.Elements(path, v) {
				m.Parts = d.block(m.Parts, path, block)
			}
		default:
			d.Lose("messages", key, v)
		}
	})
	if m.Role != llm.User && m.Role != llm.Assistant {
		d.Refuse(path+".role", dialect.CodeValue, "must be user or assistant")
	}
	m.Parts = unsign(m.Parts)
	d.r.Messages = append(d.r.Messages, m)
}

// order rejects conversations that the protocol forbids: those that do not
// begin with the user. Consecutive turns of one role are allowed.
func (d *requestDecoder) order() {
	for i := range d.r.Messages {
		switch m := &d.r.Messages[i]; m.Role {
		case llm.System:
			continue
		case llm.Assistant:
			d.Refuse(m.At+".role", dialect.CodeValue, "must be user: a conversation begins with the user")
		}
		return
	}
}

// output reads the response format; other members are kept unchanged.
// https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
func (d *requestDecoder) output(v jsonedit.Value) {
	format, _ := v.Get("textFormat")
	structure, _ := format.Get("structure")
	schema, ok := structure.Get("jsonSchema")
	if key, _ := only(v); key != "textFormat" || !ok {
		d.r.Extra = append(d.r.Extra, llm.Member{Name: "outputConfig", Value: v.Raw()})
		return
	}
	const path = "outputConfig.textFormat.structure.jsonSchema"
	d.LoseUnknown("outputConfig.textFormat", format, "type", "structure")
	d.LoseUnknown("outputConfig.textFormat.structure", structure, "jsonSchema")
	f := llm.Format{Kind: llm.FormatSchema}
	d.object(path, schema, func(key, path string, v jsonedit.Value) {
		switch key {
		case "schema":
			f.Schema = json.RawMessage(d.NonEmptyText(path, v))
			d.schema(path, f.Schema)
		case "name":
			f.Name = d.Text(path, v)
		case "description":
			f.Description = d.Text(path, v)
		default:
			d.Lose("outputConfig.textFormat.structure.jsonSchema", key, v)
		}
	})
	d.r.Format = f
}

// schema rejects what is obviously not the JSON Schema of an object.
func (d *requestDecoder) schema(path string, raw []byte) {
	v, err := jsonedit.ParseValue(raw)
	if err != nil || v.Kind() != jsonedit.Object {
		d.Refuse(path, dialect.CodeType, "must be a JSON Schema, which is an object")
		return
	}
	if t, ok := v.Get("type"); ok && v.TextOf("type") != "object" && t.Kind() != jsonedit.Array {
		d.Refuse(path+".type", dialect.CodeValue, `must be "object"`)
	}
}
