package toolservertest

import (
	"encoding/json"
	"fmt"
	"net/http"
)

var (
	defaultTools = []string{
		`{"name":"echo","title":"Echo","description":"Returns its argument.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"annotations":{"readOnlyHint":true,"destructiveHint":false}}`,
		`{"name":"add","description":"Adds two numbers.","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}}},"outputSchema":{"type":"object","properties":{"sum":{"type":"number"}}},"annotations":{"readOnlyHint":true,"idempotentHint":true},"x-unknown":1.0}`,
		`{"name":"slow","description":"Reports progress until the client leaves.","inputSchema":{"type":"object"}}`,
		`{"name":"fail","description":"Reports an error.","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`,
	}
	defaultPrompts   = []string{`{"name":"greeting","description":"Greets somebody.","arguments":[{"name":"name","required":true}]}`}
	defaultResources = []string{`{"uri":"test://one","name":"one","mimeType":"text/plain"}`}
	defaultTemplates = []string{`{"uriTemplate":"test://items/{id}","name":"items","mimeType":"text/plain"}`}
)

// call answers the call of a tool.
func (s *Server) call(x *Exchange) {
	name := x.Name()
	if !has(s.Tools, "name", name) {
		x.Fail(http.StatusOK, -32602, "unknown tool", "")
		return
	}
	switch name {
	case "add":
		var a, b float64
		x.Argument("a", &a)
		x.Argument("b", &b)
		x.Result(fmt.Sprintf(`{"content":[{"type":"text","text":"%g"}],"structuredContent":{"sum":%g}}`, a+b, a+b))
	case "slow":
		x.Progress(1)
		x.Left()
	case "fail":
		x.Result(`{"content":[{"type":"text","text":"it failed"}],"isError":true}`)
	default:
		var text string
		x.Argument("text", &text)
		x.Text("%s", text)
	}
}

func (s *Server) getPrompt(x *Exchange) {
	if !has(s.Prompts, "name", x.Name()) {
		x.Fail(http.StatusOK, -32602, "unknown prompt", "")
		return
	}
	x.Result(`{"messages":[{"role":"user","content":{"type":"text","text":"Hello"}}]}`)
}

func (s *Server) read(x *Exchange) {
	uri, _ := json.Marshal(x.Name())
	if !has(s.Resources, "uri", x.Name()) {
		x.Fail(http.StatusOK, -32602, "Resource not found", `{"uri":`+string(uri)+`}`)
		return
	}
	x.Result(`{"contents":[{"uri":` + string(uri) + `,"mimeType":"text/plain","text":"content"}],"ttlMs":0,"cacheScope":"private"}`)
}
