package oracle

import (
	"cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
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
	choice := &e.r.ToolChoice
	list, err := e.changes.Functions(choice.Mode != llm.ChoiceTool)
	if len(list) == 0 {
		return err
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

func (e *requestEncoder) tool(t *llm.Tool) {
	e.Open('{')
	e.word("type", "FUNCTION")
	e.word("name", t.Name)
	if t.Description != "" {
		e.word("description", t.Description)
	}
	e.Name("parameters")
	e.Raw(e.changes.FunctionSchema(t))
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
	e.changes.DropCache(c.Cache)
	arguments := cmp.Or(c.Arguments, "{}")
	if c.Custom {
		arguments = dialect.WrapText(c.Arguments)
	}
	e.Open('{')
	e.word("id", c.ID)
	e.word("type", "FUNCTION")
	e.word("name", c.Name)
	e.word("arguments", arguments)
	e.Close('}')
}
