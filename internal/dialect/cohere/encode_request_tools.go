package cohere

import (
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// ToolNames implements dialect.ToolNamer. The vendor documents no length.
// https://docs.cohere.com/reference/errors (tool names)
func (Dialect) ToolNames(*llm.Request, dialect.RequestTarget) dialect.NameRule {
	return dialect.NameRule{Others: "_", Letter: true}
}

// writeTools writes the tools and the tool choice.
// https://docs.cohere.com/docs/tool-use-overview
func (e *requestEncoder) writeTools() error {
	e.recordToolChanges()
	choice := &e.r.ToolChoice
	if len(e.plan.tools) == 0 && !e.plan.emulated {
		if len(choice.Names) > 0 && choice.Mode != llm.ChoiceNone {
			name := e.r.NameOf(llm.FieldToolChoice)
			return dialect.Invalid(name, dialect.CodeValue, "none of the tools that it names can be offered")
		}
		return nil
	}
	e.Name("tools")
	e.Open('[')
	for _, t := range e.plan.tools {
		dialect.AppendFunction(&e.Builder, t.Name, t.Description, dialect.SchemaOf(t))
	}
	if e.plan.emulated {
		dialect.AppendFunction(&e.Builder, formatTool, e.formatPurpose(), e.r.Format.Schema)
	}
	e.Close(']')
	if e.plan.strict() {
		e.Name("strict_tools")
		e.Bool(true)
	}
	e.choice(choice)
	return nil
}

// recordToolChanges records which tools are dropped or adapted.
func (e *requestEncoder) recordToolChanges() {
	all := e.plan.strict()
	for i := range e.r.Tools {
		t := &e.r.Tools[i]
		if t.Native != nil || t.Server != "" {
			e.changes.DropTool(t)
			continue
		}
		if t.Strict != nil && *t.Strict && !all {
			e.changes.DropNamed("strict") // it applies to all tools or none
		}
		if t.Custom {
			e.changes.AdaptNamed("custom tools", dialect.CustomAsFunction)
		}
		e.changes.DropCache(t.Cache)
	}
}

func (e *requestEncoder) formatPurpose() string {
	if e.r.Format.Description != "" {
		return e.r.Format.Description
	}
	return "Gives the final answer. Call it with the answer once you have it."
}

// choice writes tool_choice. It has no value for auto and cannot name a tool: a
// named tool is sent as the only one.
func (e *requestEncoder) choice(c *llm.ToolChoice) {
	if len(c.Names) > 0 && c.Mode != llm.ChoiceNone {
		e.changes.Adapt(llm.FieldToolChoice, dialect.OnlyAllowedTools)
	} else if c.Mode == "" && c.Raw != nil {
		e.changes.Drop(llm.FieldToolChoice)
	}
	word := ""
	switch {
	case e.plan.emulated, c.Mode == llm.ChoiceRequired, c.Mode == llm.ChoiceTool:
		word = "REQUIRED"
	case c.Mode == llm.ChoiceNone:
		word = "NONE"
	default:
		return
	}
	e.Name("tool_choice")
	e.String(word)
}

// call writes a tool call of an assistant message.
func (e *requestEncoder) call(c *llm.ToolCall) {
	e.changes.DropCache(c.Cache)
	e.Open('{')
	e.Name("id")
	e.String(c.ID)
	e.Name("type")
	e.String("function")
	e.Name("function")
	e.Open('{')
	e.Name("name")
	e.String(c.Name)
	e.Name("arguments")
	switch {
	case c.Custom:
		e.String(dialect.WrapText(c.Arguments))
	case c.Arguments == "":
		e.String("{}")
	default:
		e.String(c.Arguments)
	}
	e.Close('}')
	e.Close('}')
}
