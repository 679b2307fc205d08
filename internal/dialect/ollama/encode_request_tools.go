package ollama

import (
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// ToolNames implements dialect.ToolNamer. The vendor documents no rule: names go into the
// prompt as they are.
// https://docs.ollama.com/api/chat
func (Dialect) ToolNames(*llm.Request, dialect.RequestTarget) dialect.NameRule {
	return dialect.NameRule{Any: true}
}

// writeTools writes the tools. The protocol has no tool choice: a choice is applied
// by sending only the tools that it allows.
// https://docs.ollama.com/capabilities/tool-calling
func (e *requestEncoder) writeTools() error {
	choice := &e.r.ToolChoice
	if choice.Mode == llm.ChoiceNone && len(e.r.Tools) > 0 {
		e.changes.Adapt(llm.FieldToolChoice, dialect.NoTools)
		return nil
	}
	list, err := e.changes.Functions(true)
	if len(choice.Names) == 0 && (choice.Mode == llm.ChoiceRequired || choice.Mode == "" && choice.Raw != nil) {
		e.changes.Drop(llm.FieldToolChoice)
	}
	if len(list) == 0 {
		return err
	}
	e.Name("tools")
	e.Open('[')
	for _, t := range list {
		dialect.AppendFunction(&e.Builder, t.Name, t.Description, e.changes.FunctionSchema(t))
	}
	e.Close(']')
	return nil
}
