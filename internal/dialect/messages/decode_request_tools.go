package messages

import (
	"encoding/json"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// maxName is the maximum length of a tool's name.
// https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use
const maxName = 128

func (d *requestDecoder) tools(name string, v jsonedit.Value) {
	for path, e := range d.Elements(name, v) {
		d.req.Tools = append(d.req.Tools, d.tool(path, e))
	}
}

func (d *requestDecoder) tool(path string, v jsonedit.Value) llm.Tool {
	f := d.object(path, v)
	kind := d.textOf(path, "type", f)
	if kind != "" && kind != "custom" {
		return llm.Tool{
			Name: f.word("name"), Server: serverTool(kind), At: path,
			Native: &llm.Native{Dialect: own, Type: kind, Raw: v.Raw(), At: path},
		}
	}
	t := llm.Tool{
		Name: d.toolName(path+".name", f.get("name")), Description: d.textOf(path, "description", f),
		Schema: d.schema(path+".input_schema", f.get("input_schema")), Cache: d.cacheOf(path, f),
		Extra: f.unknown("type", "name", "description", "input_schema", "cache_control", "strict"), At: path,
	}
	if strict := f.get("strict"); !strict.IsNull() {
		is := d.Flag(path+".strict", strict)
		t.Strict = &is
	}
	return t
}

func (d *requestDecoder) toolName(path string, v jsonedit.Value) string {
	name := d.RequiredText(path, v)
	if v.Kind() == jsonedit.String && (name == "" || len(name) > maxName) {
		d.Refuse(path, dialect.CodeValue, "must have 1 to %d characters, not %d", maxName, len(name))
	}
	return name
}

// schema checks the schema of a tool's arguments, limited to rules on which all
// readers of schemas agree.
func (d *requestDecoder) schema(path string, v jsonedit.Value) json.RawMessage {
	if v.IsNull() {
		d.RefuseMissing(path, "a JSON schema of an object")
		return nil
	}
	f := d.object(path, v)
	if kind := f.get("type"); !kind.IsNull() && f.word("type") != "object" {
		d.Refuse(path+".type", dialect.CodeValue, `must be "object"`)
	}
	if p := f.get("properties"); !p.IsNull() && p.Kind() != jsonedit.Object {
		d.RefuseKind(path+".properties", "an object", p)
	}
	if required := f.get("required"); !required.IsNull() {
		if !d.Is(path+".required", required, jsonedit.Array, "an array") {
			return nil
		}
		for e := range required.Elements() {
			d.Text(path+".required", e)
		}
	}
	return v.Raw()
}

// serverTool returns the neutral name of a versioned tool type that other
// vendors have too.
func serverTool(kind string) llm.ServerTool {
	for _, tool := range [...]llm.ServerTool{llm.WebSearch, llm.WebFetch, llm.CodeExecution} {
		if strings.HasPrefix(kind, string(tool)+"_") {
			return tool
		}
	}
	return ""
}

var choices = map[string]llm.ChoiceMode{
	"auto": llm.ChoiceAuto, "any": llm.ChoiceRequired, "tool": llm.ChoiceTool, "none": llm.ChoiceNone,
}

func (d *requestDecoder) choice(name string, v jsonedit.Value) {
	f := d.object(name, v)
	kind := d.RequiredText(name+".type", f.get("type"))
	mode, known := choices[kind]
	if !known {
		d.req.ToolChoice.Raw = v.Raw()
		return
	}
	d.lose(name, f, "type", "name", "disable_parallel_tool_use")
	d.req.ToolChoice.Mode = mode
	if mode == llm.ChoiceTool {
		d.req.ToolChoice.Names = []string{d.RequiredText(name+".name", f.get("name"))}
	}
	if single := f.get("disable_parallel_tool_use"); !single.IsNull() {
		parallel := !d.Flag(name+".disable_parallel_tool_use", single)
		d.req.ParallelTools = &parallel
	}
}
