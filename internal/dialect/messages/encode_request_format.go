package messages

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// outputPrefix begins the extras that are members of output_config.
const outputPrefix = "output_config."

// emulates reports whether structured output is emulated by a forced tool,
// because the target does not support it.
func emulates(r *llm.Request, to dialect.RequestTarget) bool {
	if r == nil || r.Format.Kind != llm.FormatSchema {
		return false
	}
	m, h := modelOf(to.KnownModel()), profileOf(to)
	return !m.Structured || h.NoFormats || h.NoNewFormats && m.NoSampling
}

func (e *requestEncoder) emulated() bool { return e.r.Format.Kind == llm.FormatSchema && !e.formats }

// output writes output_config: effort, format, and members of the client.
func (e *requestEncoder) output() {
	from := fieldsOf(valueOf(e.r.Parameter("output_config")))
	list := from.unknown()
	if e.effort != "" && member(list, "effort") == nil {
		list = setMember(list, "effort", jsonedit.AppendString(nil, e.effort))
		if e.effortIsBeta() {
			e.need("effort-2025-11-24")
		}
	}
	if format := e.format(); format != nil {
		list = setMember(list, "format", format)
	}
	for _, m := range e.r.Extra {
		if name, ok := strings.CutPrefix(m.Name, outputPrefix); ok && e.own {
			list = append(list, llm.Member{Name: name, Value: m.Value})
		}
	}
	if len(list) == 0 {
		return
	}
	e.Name("output_config")
	e.Open('{')
	e.members(list)
	e.Close('}')
}

// format returns the response format for output_config, nil if there is none.
func (e *requestEncoder) format() []byte {
	f := &e.r.Format
	if f.Kind != llm.FormatSchema || e.emulated() {
		return nil
	}
	schema := f.Schema
	if !e.own {
		v := valueOf(f.Schema)
		if v.Kind() != jsonedit.Object {
			e.fail(dialect.Invalid(e.r.NameOf(llm.FieldFormat), dialect.CodeValue, "the schema must be an object"))
			return nil
		}
		fitted, lost := fitSchema(v)
		if schema = fitted; lost {
			e.changes.Adapt(llm.FieldFormat, dialect.ConstraintsInText)
		}
	}
	var b jsonedit.Builder
	b.Open('{')
	b.Name("type")
	b.String("json_schema")
	if e.own && f.Name != "" {
		b.Name("name")
		b.String(f.Name)
	}
	b.Name("schema")
	b.Raw(schema)
	b.Close('}')
	return b.Bytes()
}

// jsonHint returns the sentence of the prompt that asks for JSON, since the
// protocol has no parameter for it.
func (e *requestEncoder) jsonHint() string {
	if e.r.Format.Kind != llm.FormatJSON {
		return ""
	}
	e.changes.Adapt(llm.FieldFormat, dialect.InInstructions)
	return "Answer with one valid JSON object and nothing else: no words before or after it, no code fence."
}

// outputTool writes the forced tool whose arguments are the response.
func (e *requestEncoder) outputTool() {
	f := &e.r.Format
	e.changes.Adapt(llm.FieldFormat, dialect.ForcedTool)
	description := f.Description
	if description == "" {
		description = "Give your answer with this tool."
	}
	e.function(&llm.Tool{Name: outputTool, Description: description, Schema: f.Schema, At: e.r.NameOf(llm.FieldFormat)})
}
