package converse

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// jsonTool is the forced tool whose arguments are the response, for models
// without structured output.
const jsonTool = "json_response"

// plan is the way in which a model is asked for a response format.
type plan struct {
	native   bool // in outputConfig
	tool     bool // by a forced tool
	alone    bool // by that tool, which is the only one
	instruct bool // in the system prompt
}

// planOf returns the plan for a request. It depends only on the request and the
// model, so that the response decoder gets the same plan.
func planOf(r *llm.Request, m model, t thinking) (p plan) {
	switch r.Format.Kind {
	case llm.FormatSchema:
	case llm.FormatJSON:
		p.instruct = true
		return p
	default:
		return p
	}
	taken := slices.ContainsFunc(r.Tools, func(t llm.Tool) bool { return t.Name == jsonTool })
	switch {
	case m.Structured:
		p.native = true
	case m.NamedTool && !t.active && !taken && r.ToolChoice.Mode != llm.ChoiceTool && r.Format.Schema != nil:
		p.tool, p.alone = true, len(r.Tools) == 0 || r.ToolChoice.Mode == llm.ChoiceNone
	default:
		p.instruct = true
	}
	return p
}

// sentTools returns the tools that are sent.
func (e *requestEncoder) sentTools() (list []llm.Tool) {
	choice := &e.r.ToolChoice
	if choice.Mode == llm.ChoiceNone && (!e.history || e.plan.tool) {
		return nil
	}
	// If a tool cannot be forced by name, it is sent as the only one.
	narrow := len(choice.Names) > 0 && (choice.Mode != llm.ChoiceTool || !e.model.NamedTool)
	for _, t := range e.r.Tools {
		if narrow && !slices.Contains(choice.Names, t.Name) {
			continue
		}
		if e.isExpressible(&t) {
			list = append(list, t)
			continue
		}
		if !e.claudeTool(&t) {
			e.changes.DropNamed(cmp.Or(t.At, e.r.NameOf(llm.FieldTools)))
		}
	}
	return list
}

// isExpressible reports whether a tool has a place in toolConfig.
func (e *requestEncoder) isExpressible(t *llm.Tool) bool {
	if t.Native != nil && t.Native.Dialect == name {
		return true
	}
	if t.Server != "" {
		return e.model.nova2() && systemTool(t.Server) != ""
	}
	return t.Native == nil
}

func systemTool(server llm.ServerTool) string {
	for tool, means := range systemTools {
		if means == server {
			return tool
		}
	}
	return ""
}

// encodeTools writes toolConfig. A conversation with calls requires it even if
// no tool may be called.
func (e *requestEncoder) encodeTools() {
	placeholder := len(e.tools) == 0 && e.history && !e.plan.tool
	if len(e.tools) == 0 && !placeholder && !e.plan.tool {
		return
	}
	e.b.Name("toolConfig")
	e.b.Open('{')
	e.b.Name("tools")
	e.b.Open('[')
	for i := range e.tools {
		e.tool(&e.tools[i])
	}
	if e.plan.tool {
		e.changes.Adapt(llm.FieldFormat, dialect.ForcedTool)
		e.spec(&llm.Tool{Name: jsonTool, Description: describe(&e.r.Format), Schema: e.r.Format.Schema})
	}
	if placeholder {
		e.spec(&llm.Tool{Name: "unavailable", Description: "Stands for tools that are no longer there. Never call it."})
	}
	e.b.Close(']')
	if !placeholder {
		e.toolChoice()
	}
	e.b.Close('}')
}

func describe(f *llm.Format) string {
	if f.Description != "" {
		return f.Description
	}
	return "Gives the answer. Call it once, with the whole answer."
}

func (e *requestEncoder) tool(t *llm.Tool) {
	switch {
	case t.Native != nil && t.Native.Dialect == name:
		e.b.Raw(t.Native.Raw)
	case t.Server != "":
		e.b.Open('{')
		e.b.Name("systemTool")
		e.b.Open('{')
		e.b.Name("name")
		e.b.String(systemTool(t.Server))
		e.b.Close('}')
		e.b.Close('}')
	default:
		e.spec(t)
	}
	switch {
	case t.Cache == nil:
	case e.own || e.model.claude():
		e.cachePoint(t.Cache)
	default:
		e.changes.Drop(llm.FieldCache)
	}
}

func (e *requestEncoder) spec(t *llm.Tool) {
	e.b.Open('{')
	e.b.Name("toolSpec")
	e.b.Open('{')
	e.b.Name("name")
	e.b.String(wireName(t.Name))
	if t.Description != "" { // an empty one is rejected
		e.b.Name("description")
		e.b.String(t.Description)
	}
	e.b.Name("inputSchema")
	e.b.Open('{')
	e.b.Name("json")
	if t.Custom {
		e.changes.AdaptNamed(cmp.Or(t.At, t.Name), dialect.CustomAsFunction)
		e.b.Raw(dialect.FreeText)
	} else {
		e.b.Raw(objectSchema(t.Schema))
	}
	e.b.Close('}')
	e.strict(t)
	if e.own {
		for _, m := range t.Extra {
			e.b.Key(m.Name)
			e.b.Raw(m.Value)
		}
	}
	e.b.Close('}')
	e.b.Close('}')
}

func (e *requestEncoder) strict(t *llm.Tool) {
	switch {
	case t.Strict == nil:
	case e.own || e.model.claude() && e.model.Structured:
		e.b.Name("strict")
		e.b.Bool(*t.Strict)
	case *t.Strict:
		e.changes.DropNamed(cmp.Or(t.At, e.r.NameOf(llm.FieldTools)) + ".strict")
	}
}

// objectSchema returns the schema with the type object, which Converse
// requires.
func objectSchema(schema json.RawMessage) []byte {
	v, err := jsonedit.ParseValue(schema)
	if err != nil || v.Kind() != jsonedit.Object {
		return []byte(`{"type":"object","properties":{}}`)
	}
	if _, ok := v.Get("type"); ok {
		return schema
	}
	var d jsonedit.Doc
	if d.Scan(schema) != nil {
		return schema
	}
	return d.Apply(nil, jsonedit.Edit{Name: "type", Value: []byte(`"object"`)})
}

// toolChoice writes the tool choice as far as the model supports it, and
// records what is lost.
func (e *requestEncoder) toolChoice() {
	choice := &e.r.ToolChoice
	forced := !e.thinks.active
	switch {
	case e.plan.tool && len(e.tools) == 0:
		e.choose("tool", jsonTool)
	case e.plan.tool:
		e.choose("any", "")
	case choice.Raw != nil && e.own:
		e.b.Name("toolChoice")
		e.b.Raw(choice.Raw)
	case choice.Raw != nil:
		e.changes.Drop(llm.FieldToolChoice)
	case choice.Mode == "":
	case choice.Mode == llm.ChoiceNone:
		e.changes.Adapt(llm.FieldToolChoice, dialect.AutoForCalls)
	case choice.Mode == llm.ChoiceTool && forced && e.model.NamedTool && len(choice.Names) > 0:
		e.choose("tool", wireName(choice.Names[0]))
	case choice.Mode == llm.ChoiceTool && forced && e.model.forces():
		e.changes.Adapt(llm.FieldToolChoice, dialect.AnyWithOnlyTool)
		e.choose("any", "")
	case choice.Mode == llm.ChoiceRequired && forced && e.model.forces():
		e.choose("any", "")
	case choice.Mode == llm.ChoiceAuto:
		e.choose("auto", "")
	default:
		e.changes.Adapt(llm.FieldToolChoice, "auto")
		e.choose("auto", "")
	}
}

func (e *requestEncoder) choose(kind, tool string) {
	e.b.Name("toolChoice")
	e.b.Open('{')
	e.b.Name(kind)
	e.b.Open('{')
	if tool != "" {
		e.b.Name("name")
		e.b.String(tool)
	}
	e.b.Close('}')
	e.b.Close('}')
}

// toolBeta returns the beta flag that a tool defined by Anthropic needs.
func toolBeta(t *llm.Tool) string {
	kind := claudeKind(t)
	switch {
	case strings.HasPrefix(kind, "computer_20241022"), strings.HasSuffix(kind, "_20241022"):
		return "computer-use-2024-10-22"
	case strings.HasPrefix(kind, "computer_20251124"):
		return "computer-use-2025-11-24"
	case strings.HasPrefix(kind, "computer_"):
		return "computer-use-2025-01-24"
	case strings.HasPrefix(kind, "memory_"):
		return "context-management-2025-06-27"
	}
	return ""
}

// claudeKind returns the versioned type of a tool that Claude has without a
// schema, empty for others. The messages dialect has it as type, the chat
// dialect as the name inside a member with the tool's name.
func claudeKind(t *llm.Tool) string {
	if t.Native == nil || t.Native.Dialect == name {
		return ""
	}
	v, err := jsonedit.ParseValue(t.Native.Raw)
	if err != nil {
		return ""
	}
	kind := v.TextOf("type")
	if inner, ok := v.Get(kind); ok {
		kind = inner.TextOf("name")
	}
	for _, known := range [...]string{"computer_2", "bash_2", "text_editor_2", "memory_2", "tool_search_tool_regex_"} {
		if strings.HasPrefix(kind, known) {
			return kind
		}
	}
	return ""
}

func (e *requestEncoder) claudeTool(t *llm.Tool) bool { return e.model.claude() && claudeKind(t) != "" }

// claudeTools writes the tools that Claude has without a schema.
// https://docs.aws.amazon.com/bedrock/latest/userguide/computer-use.html
func (e *requestEncoder) claudeTools(f *fields) {
	var list []*llm.Tool
	for i := range e.r.Tools {
		if t := &e.r.Tools[i]; claudeKind(t) != "" && e.r.ToolChoice.Mode != llm.ChoiceNone {
			list = append(list, t)
		}
	}
	if len(list) == 0 || !f.begin("tools") {
		return
	}
	e.b.Open('[')
	for _, t := range list {
		e.claudeDefined(t)
	}
	e.b.Close(']')
}

func (e *requestEncoder) claudeDefined(t *llm.Tool) {
	v, _ := jsonedit.ParseValue(t.Native.Raw) // claudeKind has parsed it
	inner, nested := v.Get(v.TextOf("type"))
	if !nested {
		e.b.Raw(t.Native.Raw)
		return
	}
	e.b.Open('{')
	e.b.Name("type")
	e.b.String(inner.TextOf("name"))
	e.b.Name("name")
	e.b.String(v.TextOf("type"))
	for k, m := range inner.Fields() {
		if !k.Is("name") {
			e.b.Key(k.String())
			e.b.Raw(m.Raw())
		}
	}
	e.b.Close('}')
}
