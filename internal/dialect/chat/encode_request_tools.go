package chat

import (
	"bytes"
	"cmp"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// ToolNames implements dialect.ToolNamer. The rule is the vendor's, which others share.
// https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools
func (Dialect) ToolNames(*llm.Request, dialect.RequestTarget) dialect.NameRule {
	return dialect.NameRule{Max: 64, Others: "_-"}
}

// tools writes the tools and the tool choice.
func (e *requestEncoder) tools() {
	r := e.r
	narrowed := e.narrowed()
	n := 0
	for i := range r.Tools {
		tool := &r.Tools[i]
		if narrowed && !slices.Contains(r.ToolChoice.Names, tool.Name) || !e.offers(tool) {
			continue
		}
		if n == 0 {
			e.Name("tools")
			e.Open('[')
		}
		n++
		e.tool(tool)
	}
	if n == 0 {
		e.dropToolOptions()
		return
	}
	e.Close(']')
	e.choice(narrowed)
	if r.ParallelTools != nil {
		e.Name("parallel_tool_calls")
		e.Bool(*r.ParallelTools)
	}
}

// dropToolOptions records tool options as dropped if there are no tools; the
// vendor rejects them.
func (e *requestEncoder) dropToolOptions() {
	switch e.r.ToolChoice.Mode {
	case "", llm.ChoiceAuto, llm.ChoiceNone:
	default:
		e.changes.Drop(llm.FieldToolChoice)
	}
	if e.r.ParallelTools != nil {
		e.changes.Drop(llm.FieldParallelTools)
	}
}

// narrowed reports whether only the tools named by the tool choice are sent,
// because the provider has no choice among several tools or would need another
// format for it.
func (e *requestEncoder) narrowed() bool {
	c := &e.r.ToolChoice
	switch {
	case len(c.Names) == 0:
		return false
	case c.Mode == llm.ChoiceTool:
		return e.profile.Required != ""
	}
	return !e.profile.Vendor
}

// offers reports whether a tool can be sent. If not, it records the tool as
// dropped or returns an error. A model can do without tools that run at
// providers.
func (e *requestEncoder) offers(tool *llm.Tool) bool {
	if tool.Native != nil {
		if tool.Native.Dialect == dialectName && tool.Name == "" {
			return true
		}
		e.changes.DropNamed(cmp.Or(tool.At, e.r.NameOf(llm.FieldTools)))
		return false
	}
	if tool.Server != "" {
		e.changes.DropNamed(cmp.Or(tool.At, e.r.NameOf(llm.FieldTools)))
		return false
	}
	if e.wraps(tool.Custom) {
		e.changes.AdaptNamed(cmp.Or(tool.At, e.r.NameOf(llm.FieldTools)), dialect.CustomAsFunction)
	}
	return true
}

// wraps reports whether a custom tool is sent as a function with one string
// argument: only the vendor's own models accept custom tools.
func (e *requestEncoder) wraps(custom bool) bool { return custom && !e.profile.Vendor }

func (e *requestEncoder) tool(tool *llm.Tool) {
	if tool.Native != nil {
		e.Raw(tool.Native.Raw)
		return
	}
	if e.wraps(tool.Custom) {
		function := *tool
		function.Custom, function.Schema, function.Grammar = false, dialect.FreeText, nil
		tool = &function
	}
	e.Open('{')
	if tool.Custom {
		e.textMember("type", "custom")
		e.Name("custom")
	} else {
		e.textMember("type", "function")
		e.Name("function")
	}
	e.Open('{')
	e.textMember("name", tool.Name)
	e.optionalText("description", tool.Description)
	e.optionalRaw("parameters", tool.Schema)
	if tool.Strict != nil && !tool.Custom {
		e.Name("strict")
		e.Bool(*tool.Strict)
	}
	if tool.Custom {
		e.optionalRaw("format", tool.Grammar)
	}
	if e.r.Dialect == dialectName {
		e.extra(tool.Extra, "name", "description", "parameters", "strict")
	}
	e.Close('}')
	if tool.Cache != nil {
		e.mark(tool.Cache)
	}
	e.Close('}')
}

// mark writes a cache mark if the provider accepts it.
func (e *requestEncoder) mark(c *llm.Cache) {
	if c == nil {
		return
	}
	if !e.profile.Cache && e.r.Dialect != dialectName {
		e.changes.Drop(llm.FieldCache)
		return
	}
	e.Name("cache_control")
	e.cacheControl(c)
}

func (e *requestEncoder) choice(narrowed bool) {
	c := &e.r.ToolChoice
	if c.Raw != nil && c.Mode == "" {
		if e.r.Dialect == dialectName {
			e.rawMember("tool_choice", c.Raw)
		} else {
			e.changes.Drop(llm.FieldToolChoice)
		}
		return
	}
	mode := c.Mode
	if mode == "" && len(c.Names) > 0 {
		mode = llm.ChoiceAuto
	}
	if mode == "" {
		return
	}
	if e.profile.Modes != nil && !slices.Contains(e.profile.Modes, mode) {
		e.changes.Drop(llm.FieldToolChoice)
		return
	}
	e.Name("tool_choice")
	switch {
	case mode == llm.ChoiceTool && !narrowed:
		e.named(c.Names[0], c.Custom)
	case mode == llm.ChoiceTool:
		e.changes.Adapt(llm.FieldToolChoice, dialect.NoteOnlyTool(e.profile.Required))
		e.String(e.profile.Required)
	case len(c.Names) > 0 && !narrowed:
		e.allowed(mode)
	default:
		e.choiceWord(mode, narrowed)
	}
}

func (e *requestEncoder) choiceWord(mode llm.ChoiceMode, narrowed bool) {
	if narrowed {
		e.changes.Adapt(llm.FieldToolChoice, dialect.OnlyAllowedTools)
	}
	if mode == llm.ChoiceRequired && e.profile.Required != "" {
		e.String(e.profile.Required)
		return
	}
	e.String(string(mode))
}

func (e *requestEncoder) named(name string, custom bool) {
	word := "function"
	if custom && !e.wraps(custom) {
		word = "custom"
	}
	e.Open('{')
	e.textMember("type", word)
	e.Name(word)
	e.Open('{')
	e.textMember("name", name)
	e.Close('}')
	e.Close('}')
}

func (e *requestEncoder) allowed(mode llm.ChoiceMode) {
	e.Open('{')
	e.textMember("type", "allowed_tools")
	e.Name("allowed_tools")
	e.Open('{')
	e.textMember("mode", string(mode))
	e.Name("tools")
	e.Open('[')
	for _, name := range e.r.ToolChoice.Names {
		e.named(name, e.isCustom(name))
	}
	e.Close(']')
	e.Close('}')
	e.Close('}')
}

func (e *requestEncoder) isCustom(name string) bool {
	for i := range e.r.Tools {
		if e.r.Tools[i].Name == name {
			return e.r.Tools[i].Custom
		}
	}
	return false
}

// format writes the response format. If the provider cannot enforce a schema, a
// system message asks for it.
func (e *requestEncoder) format() {
	f := &e.r.Format
	kind := f.Kind
	if kind == "" {
		return
	}
	if e.profile.Formats != nil && !slices.Contains(e.profile.Formats, kind) {
		if !slices.Contains(e.profile.Formats, llm.FormatJSON) {
			e.changes.Drop(llm.FieldFormat)
			return
		}
		kind = llm.FormatJSON
		e.changes.Adapt(llm.FieldFormat, dialect.SchemaInSystem)
	}
	e.Name("response_format")
	e.Open('{')
	e.textMember("type", string(kind))
	if kind == llm.FormatSchema {
		e.Name("json_schema")
		e.Open('{')
		e.textMember("name", cmp.Or(f.Name, "response"))
		e.optionalText("description", f.Description)
		e.optionalRaw("schema", f.Schema)
		if f.Strict != nil {
			e.Name("strict")
			e.Bool(*f.Strict)
		}
		e.Close('}')
	}
	e.Close('}')
}

// formatInstruction returns the text of a system message that asks for the
// response format, empty if the provider enforces it. JSON mode requires a
// mention of JSON in the messages.
func (e *requestEncoder) formatInstruction() string {
	f := &e.r.Format
	known := e.profile.Formats == nil || slices.Contains(e.profile.Formats, f.Kind)
	switch {
	case f.Kind == llm.FormatSchema && !known && slices.Contains(e.profile.Formats, llm.FormatJSON):
		var schema bytes.Buffer
		schema.WriteString("Answer with JSON alone, of this JSON Schema:\n")
		schema.Write(f.Schema)
		return schema.String()
	case f.Kind == llm.FormatJSON && e.profile.AskForJSON && e.r.Dialect != dialectName:
		return "Answer with a JSON object alone."
	}
	return ""
}
