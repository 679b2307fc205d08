package oracle

import (
	"cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// pythonTypes maps JSON types to their names in the COHERE format.
var pythonTypes = map[string]string{
	"string": "str", "number": "float", "integer": "int", "boolean": "bool", "array": "list", "object": "dict",
}

// cohereTools writes the tools. The format has no tool choice, and parameters
// have only names, types and descriptions.
func (e *requestEncoder) cohereTools() {
	choice := &e.r.ToolChoice
	if choice.Mode == llm.ChoiceNone && len(e.r.Tools) > 0 {
		e.changes.Adapt(llm.FieldToolChoice, dialect.NoTools)
		return
	}
	if choice.Mode == llm.ChoiceRequired || choice.Mode == llm.ChoiceTool || choice.Raw != nil {
		e.changes.Drop(llm.FieldToolChoice)
	}
	list, _ := e.changes.Functions(choice.Mode != llm.ChoiceTool) // a choice that is dropped cannot fail
	if len(list) == 0 {
		return
	}
	e.Name("tools")
	e.Open('[')
	for _, t := range list {
		e.cohereTool(t)
	}
	e.Close(']')
}

func (e *requestEncoder) cohereTool(t *llm.Tool) {
	v, _ := jsonedit.ParseValue(e.changes.FunctionSchema(t))
	properties, _ := v.Get("properties")
	needed := map[string]bool{}
	required, _ := v.Get("required")
	for name := range required.Elements() {
		if s, ok := name.Text(); ok {
			needed[s] = true
		}
	}
	e.Open('{')
	e.word("name", t.Name)
	e.word("description", cmp.Or(t.Description, t.Name))
	e.Name("parameterDefinitions")
	e.Open('{')
	for key, p := range properties.Fields() {
		e.Key(key.String())
		e.parameter(p, needed[key.String()])
	}
	e.Close('}')
	e.Close('}')
}

// parameter writes one parameter of a tool, and records if its schema has more
// than the format can express.
func (e *requestEncoder) parameter(p jsonedit.Value, needed bool) {
	e.Open('{')
	e.word("type", cmp.Or(pythonTypes[p.TextOf("type")], "str"))
	if words := p.TextOf("description"); words != "" {
		e.word("description", words)
	}
	if needed {
		e.Name("isRequired")
		e.Bool(true)
	}
	e.Close('}')
	for key := range p.Fields() {
		if !key.Is("type") && !key.Is("description") && !key.Is("title") {
			e.changes.Adapt(llm.FieldTools, dialect.ParametersOutlined)
		}
	}
}

func (e *requestEncoder) cohereFormat() {
	f := &e.r.Format
	switch f.Kind {
	case llm.FormatText:
		e.Name("responseFormat")
		e.Raw([]byte(`{"type":"TEXT"}`))
	case llm.FormatJSON, llm.FormatSchema:
		e.Name("responseFormat")
		e.Open('{')
		e.word("type", "JSON_OBJECT")
		if f.Kind == llm.FormatSchema {
			e.Name("schema")
			e.Raw(f.Schema)
		}
		e.Close('}')
	}
}

// dropForCohere records the parameters that the format does not have as
// dropped.
func (e *requestEncoder) dropForCohere() {
	e.changes.DropIfSet(llm.FieldLogitBias, llm.FieldLogprobs, llm.FieldTopLogprobs, llm.FieldParallelTools, llm.FieldThinking,
		llm.FieldEffort,
		llm.FieldVerbosity, llm.FieldServiceTier, llm.FieldMetadata)
}
