package gemini

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// servers are the tools run by the provider that other vendors have too.
var servers = map[string]llm.ServerTool{
	"googleSearch": llm.WebSearch, "googleSearchRetrieval": llm.WebSearch, "enterpriseWebSearch": llm.WebSearch,
	"urlContext": llm.WebFetch, "codeExecution": llm.CodeExecution,
}

// tool reads an element of tools: functions, or tools that run at the provider.
// https://ai.google.dev/api/caching#Tool
func (d *requestDecoder) tool(v jsonedit.Value, path string) {
	if d.Err != nil || !d.Is(path, v, jsonedit.Object, "an object") {
		return
	}
	for key, v := range v.Fields() {
		name := camel(key)
		if name == "functionDeclarations" {
			if !v.IsNull() {
				each(v, path+"."+name, d.function)
			}
			continue
		}
		b := jsonedit.Append(nil)
		b.Open('{')
		b.Key(name)
		b.Raw(v.Raw())
		b.Close('}')
		at := path + "." + name
		d.r.Tools = append(d.r.Tools, llm.Tool{
			Server: servers[name], At: at,
			Native: &llm.Native{Dialect: own, Type: name, Raw: b.Bytes(), At: at},
		})
	}
}

// function reads a function. Its parameters are JSON Schema, or OpenAPI schema,
// which is kept next to its translation.
func (d *requestDecoder) function(v jsonedit.Value, path string) {
	if d.Err != nil || !d.Is(path, v, jsonedit.Object, "an object") {
		return
	}
	t := llm.Tool{At: path}
	for key, v := range v.Fields() {
		if v.IsNull() {
			continue
		}
		switch name := camel(key); name {
		case "name":
			t.Name = d.name(v, path+".name")
		case "description":
			t.Description = d.Text(path+".description", v)
		case "parametersJsonSchema":
			if d.Is(path+"."+name, v, jsonedit.Object, "a JSON Schema") {
				t.Schema = v.Raw()
			}
		case "parameters":
			if d.Is(path+"."+name, v, jsonedit.Object, "a schema") {
				t.Schema = d.schema(path+"."+name, v)
				t.Extra = append(t.Extra, llm.Member{Name: name, Value: v.Raw()})
			}
		default:
			t.Extra = append(t.Extra, llm.Member{Name: name, Value: v.Raw()})
		}
	}
	if t.Name == "" {
		d.Refuse(path+".name", dialect.CodeMissing, "is required: send the name of the function")
	}
	d.r.Tools = append(d.r.Tools, t)
}
