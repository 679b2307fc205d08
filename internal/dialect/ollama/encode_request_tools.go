package ollama

import (
	"encoding/json"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

var (
	noArguments = json.RawMessage(`{"type":"object","properties":{}}`)
	freeText    = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`)
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
	list := e.offered()
	switch {
	case len(choice.Names) > 0 && len(list) == 0:
		return dialect.Invalid(e.r.NameOf(llm.FieldToolChoice), dialect.CodeValue, "none of the tools that it names can be offered")
	case len(choice.Names) > 0:
		e.changes.Adapt(llm.FieldToolChoice, dialect.OnlyAllowedTools)
	case choice.Mode == llm.ChoiceRequired, choice.Mode == "" && choice.Raw != nil:
		e.changes.Drop(llm.FieldToolChoice)
	}
	if len(list) == 0 {
		return nil
	}
	e.Name("tools")
	e.Open('[')
	for _, t := range list {
		e.tool(t)
	}
	e.Close(']')
	return nil
}

// offered returns the functions that the tool choice allows.
func (e *requestEncoder) offered() (list []*llm.Tool) {
	names := e.r.ToolChoice.Names
	for i := range e.r.Tools {
		switch t := &e.r.Tools[i]; {
		case t.Native != nil || t.Server != "":
			e.changes.DropTool(t)
		case len(names) == 0 || slices.Contains(names, t.Name):
			list = append(list, t)
		}
	}
	return list
}

func (e *requestEncoder) tool(t *llm.Tool) {
	e.uncached(t.Cache)
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
	e.Open('{')
	e.Name("type")
	e.String("function")
	e.Name("function")
	e.Open('{')
	e.Name("name")
	e.String(t.Name)
	if t.Description != "" {
		e.Name("description")
		e.String(t.Description)
	}
	e.Name("parameters")
	e.Raw(schema)
	e.Close('}')
	e.Close('}')
}

// uncached records a cache mark as dropped: Ollama caches automatically.
func (e *requestEncoder) uncached(c *llm.Cache) {
	if c != nil {
		e.changes.Drop(llm.FieldCache)
	}
}
