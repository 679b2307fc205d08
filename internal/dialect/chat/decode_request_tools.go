package chat

import (
	"encoding/json"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// maxToolName is the longest tool name that any vendor accepts.
const maxToolName = 128

func (d *requestDecoder) tools(v jsonedit.Value) {
	for path, e := range d.Elements("tools", v) {
		d.r.Tools = append(d.r.Tools, d.tool(path, e))
	}
}

func (d *requestDecoder) functions(v jsonedit.Value) {
	d.legacy = true
	for path, e := range d.Elements("functions", v) {
		tool := llm.Tool{At: path}
		d.function(&tool, path, e)
		d.r.Tools = append(d.r.Tools, tool)
	}
}

// tool reads a function, a custom tool, or a tool that only this dialect has.
func (d *requestDecoder) tool(path string, v jsonedit.Value) llm.Tool {
	tool := llm.Tool{At: path}
	d.object(path, v)
	typ, _ := v.Get("type")
	switch word := d.Text(path+".type", typ); word {
	case "function", "":
		f, _ := v.Get("function")
		d.function(&tool, path+".function", f)
		if c, ok := v.Get("cache_control"); ok {
			tool.Cache = d.cache(path+".cache_control", c)
		}
		for key, m := range v.Fields() { // OpenRouter has those of the messages dialect here
			if name := key.String(); name != "type" && name != "function" && name != "cache_control" && !m.IsNull() {
				tool.Extra = append(tool.Extra, llm.Member{Name: name, Value: m.Raw()})
			}
		}
	case "custom":
		c, _ := v.Get("custom")
		d.custom(&tool, path+".custom", c)
		d.LoseUnknown(path, v, "type", "custom")
	default:
		tool.Native = &llm.Native{Dialect: dialectName, Type: word, Raw: v.Raw(), At: path}
		tool.Server = serverTool(word)
	}
	return tool
}

// serverTool returns the neutral name for a type of tool of other vendors that
// clients of this dialect may send.
func serverTool(word string) llm.ServerTool {
	switch word {
	case "web_search", "google_search", "googleSearch", "web_search_preview":
		return llm.WebSearch
	case "web_fetch", "url_context":
		return llm.WebFetch
	case "code_execution", "code_interpreter":
		return llm.CodeExecution
	}
	return ""
}

func (d *requestDecoder) function(tool *llm.Tool, path string, v jsonedit.Value) {
	for key, m := range d.fields(path, v) {
		name := key.String()
		switch name {
		case "name":
			tool.Name = d.toolName(path+".name", m)
		case "description":
			tool.Description = d.Text(path+".description", m)
		case "parameters":
			if !m.IsNull() {
				d.schema(path+".parameters", m)
				tool.Schema = m.Raw()
			}
		case "strict":
			if !m.IsNull() {
				tool.Strict = d.Bool(path+".strict", m)
			}
		default:
			tool.Extra = append(tool.Extra, llm.Member{Name: name, Value: m.Raw()})
		}
	}
	if tool.Name == "" {
		d.Refuse(path+".name", dialect.CodeMissing, "is required")
	}
}

func (d *requestDecoder) custom(tool *llm.Tool, path string, v jsonedit.Value) {
	tool.Custom = true
	for key, m := range d.fields(path, v) {
		switch key.String() {
		case "name":
			tool.Name = d.toolName(path+".name", m)
		case "description":
			tool.Description = d.Text(path+".description", m)
		case "format":
			if !m.IsNull() {
				tool.Grammar = d.grammar(path+".format", m)
			}
		default:
			d.Lose(path, key.String(), m)
		}
	}
	if tool.Name == "" {
		d.Refuse(path+".name", dialect.CodeMissing, "is required")
	}
}

// grammar reads the format of a custom tool.
func (d *requestDecoder) grammar(path string, v jsonedit.Value) json.RawMessage {
	inner, _ := v.Get("grammar")
	d.LoseUnknown(path, v, "type", "grammar")
	d.LoseUnknown(path+".grammar", inner, "syntax", "definition")
	return d.object(path, v)
}

func (d *requestDecoder) toolName(path string, v jsonedit.Value) string {
	name := d.NonEmptyText(path, v)
	if len(name) > maxToolName {
		d.Refuse(path, dialect.CodeValue, "has %d characters; the longest that any provider takes is %d", len(name), maxToolName)
	}
	return name
}

// schema reads the schema of arguments and rejects other values.
func (d *requestDecoder) schema(path string, v jsonedit.Value) {
	for key, m := range d.fields(path, v) {
		switch name := key.String(); name {
		case "properties":
			d.object(path+".properties", m)
		case "required":
			d.Is(path+".required", m, jsonedit.Array, "an array of strings")
		case "type":
			if m.Kind() != jsonedit.String && m.Kind() != jsonedit.Array {
				d.RefuseKind(path+".type", "a string", m)
			}
		}
	}
}

func (d *requestDecoder) toolChoice(v jsonedit.Value) {
	c := &d.r.ToolChoice
	if word, ok := v.Text(); ok {
		c.Mode = choiceMode(word)
		if c.Mode == "" {
			d.Refuse("tool_choice", dialect.CodeValue, "must be none, auto, required or name a tool")
		}
		return
	}
	d.object("tool_choice", v)
	typ, _ := v.Get("type")
	switch word := d.Text("tool_choice.type", typ); word {
	case "function", "custom", "":
		if word == "" {
			word = "function"
		}
		d.chosen(word, v)
	case "allowed_tools":
		d.allowed(v)
	default:
		c.Raw = v.Raw()
	}
}

func choiceMode(word string) llm.ChoiceMode {
	switch word {
	case "none", "auto", "required":
		return llm.ChoiceMode(word)
	case "any":
		return llm.ChoiceRequired
	}
	return ""
}

func (d *requestDecoder) chosen(word string, v jsonedit.Value) {
	inner, _ := v.Get(word)
	name, _ := inner.Get("name")
	d.LoseUnknown("tool_choice", v, "type", word)
	d.LoseUnknown("tool_choice."+word, inner, "name")
	d.r.ToolChoice = llm.ToolChoice{
		Mode: llm.ChoiceTool, Custom: word == "custom",
		Names: []string{d.NonEmptyText("tool_choice."+word+".name", name)},
	}
}

// allowed reads the tool choice that restricts the tools.
// https://platform.openai.com/docs/guides/function-calling#allowed-tools
func (d *requestDecoder) allowed(v jsonedit.Value) {
	const path = "tool_choice.allowed_tools"
	inner, _ := v.Get("allowed_tools")
	mode, _ := inner.Get("mode")
	c := llm.ToolChoice{Mode: choiceMode(d.Text(path+".mode", mode))}
	list, _ := inner.Get("tools")
	d.LoseUnknown("tool_choice", v, "type", "allowed_tools")
	d.LoseUnknown(path, inner, "mode", "tools")
	for at, e := range d.Elements(path+".tools", list) {
		known := false
		for _, word := range [...]string{"function", "custom"} {
			if tool, ok := e.Get(word); ok {
				name, _ := tool.Get("name")
				c.Names = append(c.Names, d.NonEmptyText(at+"."+word+".name", name))
				d.LoseUnknown(at, e, "type", word)
				d.LoseUnknown(at+"."+word, tool, "name")
				known = true
			}
		}
		if !known {
			c = llm.ToolChoice{Raw: v.Raw()}
			break
		}
	}
	d.r.ToolChoice = c
}

func (d *requestDecoder) functionCall(v jsonedit.Value) {
	d.legacy = true
	if word, ok := v.Text(); ok {
		if d.r.ToolChoice.Mode = choiceMode(word); d.r.ToolChoice.Mode == "" {
			d.Refuse("function_call", dialect.CodeValue, "must be none, auto or name a function")
		}
		return
	}
	name, _ := v.Get("name")
	d.LoseUnknown("function_call", v, "name")
	d.r.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{d.NonEmptyText("function_call.name", name)}}
}

// format reads response_format. Some clients send the schema without its
// wrapper.
func (d *requestDecoder) format(v jsonedit.Value) {
	const path = "response_format"
	d.object(path, v)
	f := &d.r.Format
	typ, _ := v.Get("type")
	f.Kind = llm.FormatKind(d.Text(path+".type", typ))
	switch f.Kind {
	case llm.FormatSchema:
		d.LoseUnknown(path, v, "type", "json_schema")
	case llm.FormatJSON:
		d.LoseUnknown(path, v, "type", "schema")
		if schema, ok := v.Get("schema"); ok && !schema.IsNull() { // of Together and Fireworks
			d.schema(path+".schema", schema)
			f.Kind, f.Schema = llm.FormatSchema, schema.Raw()
		}
		return
	case llm.FormatText:
		d.LoseUnknown(path, v, "type")
		return
	default:
		*f = llm.Format{}
		d.r.Extra = append(d.r.Extra, llm.Member{Name: path, Value: v.Raw()})
		return
	}
	inner, _ := v.Get("json_schema")
	if _, wrapped := inner.Get("schema"); !wrapped && isSchema(inner) {
		f.Schema = inner.Raw()
		return
	}
	for key, m := range d.fields(path+".json_schema", inner) {
		switch key.String() {
		case "name":
			f.Name = d.Text(path+".json_schema.name", m)
		case "description":
			f.Description = d.Text(path+".json_schema.description", m)
		case "schema":
			if !m.IsNull() {
				d.schema(path+".json_schema.schema", m)
				f.Schema = m.Raw()
			}
		case "strict":
			if !m.IsNull() {
				f.Strict = d.Bool(path+".json_schema.strict", m)
			}
		default:
			d.Lose(path+".json_schema", key.String(), m)
		}
	}
}

func isSchema(v jsonedit.Value) bool {
	for _, name := range [...]string{"type", "properties", "$ref", "anyOf"} {
		if _, ok := v.Get(name); ok {
			return true
		}
	}
	return false
}

func (d *requestDecoder) thinking(v jsonedit.Value) {
	r := &d.r.Reasoning
	for key, m := range d.fields("thinking", v) {
		name := key.String()
		switch {
		case m.IsNull():
		case name == "type":
			r.Mode = llm.ThinkingMode(d.Text("thinking.type", m))
			if r.Mode == "auto" { // of BytePlus and Volcengine
				r.Mode = llm.ThinkingAdaptive
			}
		case name == "budget_tokens":
			r.Budget = d.Int("thinking.budget_tokens", m)
		case name == "display":
			r.Summary = d.Text("thinking.display", m)
		default:
			r.Extra = append(r.Extra, llm.Member{Name: name, Value: m.Raw()})
		}
	}
	if r.Mode == "" {
		r.Mode = llm.ThinkingEnabled
	}
}
