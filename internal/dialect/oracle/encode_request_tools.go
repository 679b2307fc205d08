package oracle

import (
	"cmp"
	"encoding/json"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

var (
	noArguments = json.RawMessage(`{"type":"object","properties":{}}`)
	freeText    = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`)
)

// toolNames are the rules of the formats for names of tools.
//
//   - https://docs.oracle.com/iaas/api/#/en/generative-ai-inference/20231130/datatypes/FunctionDefinition
//   - https://docs.oracle.com/iaas/api/#/en/generative-ai-inference/20231130/datatypes/CohereTool
var toolNames = map[bool]dialect.NameRule{
	false: {Max: 64, Others: "_-"},
	true:  {Others: "_", Letter: true}, // COHERE
}

// ToolNames implements dialect.ToolNamer.
func (Dialect) ToolNames(r *llm.Request, to dialect.RequestTarget) dialect.NameRule {
	return toolNames[isCohere(r, to)]
}

// writeTools writes the tools and the tool choice.
func (e *requestEncoder) writeTools() error {
	list := e.offered()
	choice := &e.r.ToolChoice
	if len(list) == 0 {
		if len(choice.Names) > 0 {
			return dialect.Invalid(e.r.NameOf(llm.FieldToolChoice), dialect.CodeValue, "none of the tools that it names can be offered")
		}
		return nil
	}
	e.Name("tools")
	e.Open('[')
	for _, t := range list {
		e.tool(t)
	}
	e.Close(']')
	if e.r.ParallelTools != nil {
		e.Name("isParallelToolCalls")
		e.Bool(*e.r.ParallelTools)
	}
	e.choice(choice)
	return nil
}

// offered returns the functions that the tool choice allows.
func (e *requestEncoder) offered() (list []*llm.Tool) {
	choice := &e.r.ToolChoice
	narrowed := len(choice.Names) > 0 && choice.Mode != llm.ChoiceTool
	if narrowed {
		e.changes.Adapt(llm.FieldToolChoice, dialect.OnlyAllowedTools)
	}
	for i := range e.r.Tools {
		switch t := &e.r.Tools[i]; {
		case t.Native != nil || t.Server != "":
			e.changes.DropTool(t)
		case !narrowed || slices.Contains(choice.Names, t.Name):
			list = append(list, t)
		}
	}
	return list
}

func (e *requestEncoder) tool(t *llm.Tool) {
	schema := t.Schema
	switch {
	case t.Custom:
		schema = freeText
		e.changes.AdaptNamed("custom tools", dialect.CustomAsFunction)
	case schema == nil:
		schema = noArguments
	}
	if t.Strict != nil && *t.Strict {
		e.changes.DropNamed("strict")
	}
	e.uncached(t.Cache)
	e.Open('{')
	e.word("type", "FUNCTION")
	e.word("name", t.Name)
	if t.Description != "" {
		e.word("description", t.Description)
	}
	e.Name("parameters")
	e.Raw(schema)
	e.Close('}')
}

func (e *requestEncoder) choice(c *llm.ToolChoice) {
	kind := map[llm.ChoiceMode]string{llm.ChoiceAuto: "AUTO", llm.ChoiceNone: "NONE", llm.ChoiceRequired: "REQUIRED",
		llm.ChoiceTool: "FUNCTION"}[c.Mode]
	if kind == "" {
		if c.Raw != nil {
			e.changes.Drop(llm.FieldToolChoice)
		}
		return
	}
	e.Name("toolChoice")
	e.Open('{')
	e.word("type", kind)
	if c.Mode == llm.ChoiceTool && len(c.Names) > 0 {
		e.word("name", c.Names[0])
	}
	e.Close('}')
}

// call writes a tool call of an assistant message.
func (e *requestEncoder) call(c *llm.ToolCall) {
	e.uncached(c.Cache)
	arguments := cmp.Or(c.Arguments, "{}")
	if c.Custom {
		var b jsonedit.Builder
		b.Open('{')
		b.Name("input")
		b.String(c.Arguments)
		b.Close('}')
		arguments = string(b.Bytes())
	}
	e.Open('{')
	e.word("id", c.ID)
	e.word("type", "FUNCTION")
	e.word("name", c.Name)
	e.word("arguments", arguments)
	e.Close('}')
}

// unwrapText returns the text input in the arguments of a custom tool;
// arguments in another form are returned unchanged.
func unwrapText(arguments string) string {
	v, err := jsonedit.ParseValue([]byte(arguments))
	if err != nil {
		return arguments
	}
	if input, ok := v.Get("input"); ok {
		if text, ok := input.Text(); ok {
			return text
		}
	}
	return arguments
}

// customOf returns the names of the tools with text input.
func customOf(r *llm.Request) map[string]bool {
	custom := map[string]bool{}
	if r == nil {
		return custom
	}
	for i := range r.Tools {
		if r.Tools[i].Custom {
			custom[r.Tools[i].Name] = true
		}
	}
	return custom
}

// uncached records a cache mark as dropped.
func (e *requestEncoder) uncached(c *llm.Cache) {
	if c != nil {
		e.changes.Drop(llm.FieldCache)
	}
}
