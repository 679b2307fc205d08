package chat

import (
	"bytes"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// maxVendorName is the longest name of a function that the vendor takes.
// https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools
const maxVendorName = 64

// tools writes the tools and how they may be called.
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

// dropToolOptions tells of what is moot without tools; the vendor refuses it.
func (e *requestEncoder) dropToolOptions() {
	switch e.r.ToolChoice.Mode {
	case "", llm.ChoiceAuto, llm.ChoiceNone:
	default:
		e.fates.Drop(llm.FieldToolChoice)
	}
	if e.r.ParallelTools != nil {
		e.fates.Drop(llm.FieldParallelTools)
	}
}

// narrowed reports whether only the tools that the choice names are to be sent:
// the provider can't be told to choose among them, or must be told so that way.
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

// offers reports whether a tool can be sent, and tells when it can't. Tools that
// providers run are a help that the model does without.
func (e *requestEncoder) offers(tool *llm.Tool) bool {
	if tool.Native != nil {
		if tool.Native.Dialect == own && tool.Name == "" {
			return true
		}
		e.fates.DropNamed(orElse(tool.At, e.r.NameOf(llm.FieldTools)))
		return false
	}
	if tool.Server != "" {
		e.fates.DropNamed(orElse(tool.At, e.r.NameOf(llm.FieldTools)))
		return false
	}
	if e.wraps(tool.Custom) {
		e.fates.AdaptNamed(orElse(tool.At, e.r.NameOf(llm.FieldTools)), "a function of one text")
	}
	if e.profile.Vendor && len(tool.Name) > maxVendorName {
		e.refuse(orElse(tool.At, "tools"), "a name of more than %d characters", maxVendorName)
	}
	return true
}

// wraps reports whether a custom tool is put as a function of one text: the
// vendor's own models alone take text.
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
	if e.r.Dialect == own {
		e.extra(tool.Extra, "name", "description", "parameters", "strict")
	}
	e.Close('}')
	if tool.Cache != nil {
		e.mark(tool.Cache)
	}
	e.Close('}')
}

// mark writes a mark for the cache where the provider takes it.
func (e *requestEncoder) mark(c *llm.Cache) {
	if c == nil {
		return
	}
	if !e.profile.Cache && e.r.Dialect != own {
		e.fates.Drop(llm.FieldCache)
		return
	}
	e.Name("cache_control")
	e.cacheControl(c)
}

func (e *requestEncoder) choice(narrowed bool) {
	c := &e.r.ToolChoice
	if c.Raw != nil && c.Mode == "" {
		if e.r.Dialect == own {
			e.rawMember("tool_choice", c.Raw)
		} else {
			e.fates.Drop(llm.FieldToolChoice)
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
		e.fates.Drop(llm.FieldToolChoice)
		return
	}
	e.Name("tool_choice")
	switch {
	case mode == llm.ChoiceTool && !narrowed:
		e.named(c.Names[0], c.Custom)
	case mode == llm.ChoiceTool:
		e.fates.Adapt(llm.FieldToolChoice, "the one tool, "+e.profile.Required)
		e.String(e.profile.Required)
	case len(c.Names) > 0 && !narrowed:
		e.allowed(mode)
	default:
		e.choiceWord(mode, narrowed)
	}
}

func (e *requestEncoder) choiceWord(mode llm.ChoiceMode, narrowed bool) {
	if narrowed {
		e.fates.Adapt(llm.FieldToolChoice, "only the allowed tools")
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

// format writes the form that the answer must have. A schema that the provider
// can't be held to is in a system message, which asks for it.
func (e *requestEncoder) format() {
	f := &e.r.Format
	kind := f.Kind
	if kind == "" {
		return
	}
	if e.profile.Formats != nil && !slices.Contains(e.profile.Formats, kind) {
		if !slices.Contains(e.profile.Formats, llm.FormatJSON) {
			e.fates.Drop(llm.FieldFormat)
			return
		}
		kind = llm.FormatJSON
		e.fates.Adapt(llm.FieldFormat, "json_object, with the schema in a system message")
	}
	e.Name("response_format")
	e.Open('{')
	e.textMember("type", string(kind))
	if kind == llm.FormatSchema {
		e.Name("json_schema")
		e.Open('{')
		e.textMember("name", orElse(f.Name, "response"))
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

// formatInstruction returns what a system message says of the form of the answer, empty
// when the provider is told otherwise. JSON has to be asked for in words too.
func (e *requestEncoder) formatInstruction() string {
	f := &e.r.Format
	known := e.profile.Formats == nil || slices.Contains(e.profile.Formats, f.Kind)
	switch {
	case f.Kind == llm.FormatSchema && !known && slices.Contains(e.profile.Formats, llm.FormatJSON):
		var schema bytes.Buffer
		schema.WriteString("Answer with JSON alone, of this JSON Schema:\n")
		schema.Write(f.Schema)
		return schema.String()
	case f.Kind == llm.FormatJSON && e.profile.AskForJSON && e.r.Dialect != own:
		return "Answer with a JSON object alone."
	}
	return ""
}
