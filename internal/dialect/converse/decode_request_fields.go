package converse

import (
	"encoding/json"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// additionalFields is the parameter for settings of particular models.
const additionalFields = "additionalModelRequestFields"

// additional reads the fields that other dialects have too; the others are kept
// unchanged.
func (d *requestDecoder) additional(v jsonedit.Value) {
	var rest jsonedit.Builder
	n := 0
	rest.Open('{')
	d.object(additionalFields, v, func(key, path string, v jsonedit.Value) {
		if !d.neutralField(key, path, v) {
			rest.Key(key)
			rest.Raw(v.Raw())
			n++
		}
	})
	rest.Close('}')
	if n > 0 {
		d.r.Extra = append(d.r.Extra, llm.Member{Name: additionalFields, Value: rest.Bytes()})
	}
}

// neutralField reads a field that has a place in the neutral request. It returns false
// if it has none, or if the value does not fit there.
func (d *requestDecoder) neutralField(key, path string, v jsonedit.Value) bool {
	switch key {
	case "top_k":
		d.r.TopK = d.Int(path, v)
	case "inferenceConfig": // of Nova
		inner, k := only(v)
		if inner != "topK" {
			return false
		}
		d.r.TopK = d.Int(path+".topK", k)
	case "thinking":
		d.thinking(path, v)
	case "output_config":
		return d.claudeOutput(path, v)
	case "reasoning_effort":
		d.r.Reasoning.Effort = d.Text(path, v)
	case "metadata":
		inner, user := only(v)
		if inner != "user_id" {
			return false
		}
		d.r.User = d.Text(path+".user_id", user)
	case "anthropic_beta":
		d.r.Extra = append(d.r.Extra, llm.Member{Name: key, Value: json.RawMessage(v.Raw())})
	default:
		return false
	}
	return true
}

// claudeOutput reads the effort and the response format of Anthropic's models.
// It returns false if the object has other members.
func (d *requestDecoder) claudeOutput(path string, v jsonedit.Value) bool {
	format, formed := v.Get("format")
	schema, _ := format.Get("schema")
	word, _ := format.Get("type")
	if kind, _ := word.Text(); formed && (kind != string(llm.FormatSchema) || schema.Kind() != jsonedit.Object) {
		return false
	}
	for key := range v.Fields() {
		if !key.Is("effort") && !key.Is("format") {
			return false
		}
	}
	if effort, ok := v.Get("effort"); ok {
		d.r.Reasoning.Effort = d.Text(path+".effort", effort)
	}
	if formed {
		d.LoseUnknown(path+".format", format, "type", "schema")
		d.r.Format = llm.Format{Kind: llm.FormatSchema, Schema: json.RawMessage(schema.Raw())}
	}
	return true
}

func (d *requestDecoder) thinking(path string, v jsonedit.Value) {
	r := &d.r.Reasoning
	d.object(path, v, func(key, path string, v jsonedit.Value) {
		switch key {
		case "type":
			r.Mode = llm.ThinkingMode(d.Text(path, v))
		case "budget_tokens":
			r.Budget = d.Int(path, v)
		case "display":
			r.Summary = d.Text(path, v)
		default:
			r.Extra = append(r.Extra, llm.Member{Name: key, Value: v.Raw()})
		}
	})
}
