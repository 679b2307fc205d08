package converse

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

const maxName = 64 // maximum length of tool names in bytes

func (d *requestDecoder) toolConfig(key, path string, v jsonedit.Value) {
	switch key {
	case "tools":
		for path, e := range d.Elements(path, v) {
			d.tool(path, e)
		}
	case "toolChoice":
		d.toolChoice(path, v)
	default:
		d.Lose("toolConfig", key, v)
	}
}

func (d *requestDecoder) tool(path string, v jsonedit.Value) {
	kind, inner := only(v)
	switch kind {
	case "toolSpec":
		d.r.Tools = append(d.r.Tools, d.toolSpec(path+".toolSpec", inner))
		d.r.Tools[len(d.r.Tools)-1].At = path
		return
	case "cachePoint":
		if n := len(d.r.Tools); n > 0 && d.r.Tools[n-1].Native == nil && d.r.Tools[n-1].Cache == nil {
			d.r.Tools[n-1].Cache = &llm.Cache{TTL: inner.TextOf("ttl")}
			return
		}
	}
	d.Is(path, v, jsonedit.Object, "an object")
	native := &llm.Native{Dialect: name, Type: kind, Raw: v.Raw(), At: path}
	d.r.Tools = append(d.r.Tools, llm.Tool{Name: inner.TextOf("name"), Server: systemTools[inner.TextOf("name")], Native: native, At: path})
}

// systemTools are the tools that run at the provider.
// https://docs.aws.amazon.com/nova/latest/nova2-userguide/built-in-tools.html
var systemTools = map[string]llm.ServerTool{
	"nova_grounding":        llm.WebSearch,
	"nova_code_interpreter": llm.CodeExecution,
}

func (d *requestDecoder) toolSpec(path string, v jsonedit.Value) (t llm.Tool) {
	d.object(path, v, func(key, path string, v jsonedit.Value) {
		switch key {
		case "name":
			t.Name = d.Text(path, v)
		case "description":
			t.Description = d.Text(path, v)
		case "inputSchema":
			schema, _ := v.Get("json")
			t.Schema = schema.Raw()
			d.schema(path+".json", t.Schema)
		case "strict":
			t.Strict = d.Bool(path, v)
		default:
			t.Extra = append(t.Extra, llm.Member{Name: key, Value: v.Raw()})
		}
	})
	switch {
	case t.Name == "":
		d.Refuse(path+".name", dialect.CodeMissing, "is required")
	case !toolNames.Accepts(t.Name):
		d.Refuse(path+".name", dialect.CodeValue, "must be 1 to %d letters, digits, underscores and hyphens", maxName)
	}
	return t
}

func (d *requestDecoder) toolChoice(path string, v jsonedit.Value) {
	kind, inner := only(v)
	d.LoseUnknown(path+"."+kind, inner, "name")
	switch kind {
	case "auto":
		d.r.ToolChoice.Mode = llm.ChoiceAuto
	case "any":
		d.r.ToolChoice.Mode = llm.ChoiceRequired
	case "tool":
		n, _ := inner.Get("name")
		d.r.ToolChoice = llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{d.NonEmptyText(path+".tool.name", n)}}
	default:
		d.r.ToolChoice.Raw = v.Raw()
	}
}

func plain(ch byte) bool {
	return ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9' || ch == '_' || ch == '-'
}
