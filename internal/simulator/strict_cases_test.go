package simulator_test

import "strings"

const (
	cimage = `{"image":{"format":"png","source":{"bytes":"AAAA"}}}`
	cspec  = `{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}`
)

var converseCases = []strictCase{
	{"a body", `{"messages":[` + cuser + `]}`, ""},
	{"an unknown member", `{"messages":[` + cuser + `],"stream":true}`, "extraneous key [stream]"},
	{"two users in a row", `{"messages":[` + cuser + `,` + cuser + `]}`, "alternate"},
	{"an assistant first", `{"messages":[{"role":"assistant","content":[{"text":"x"}]}]}`, "alternate"},
	{"content that is a string", `{"messages":[{"role":"user","content":"x"}]}`, "valid list"},
	{"an empty string", `{"messages":[{"role":"user","content":[{"text":""}]}]}`, "blank"},
	{"a call and its result", `{"messages":[` + cuser + `,` + ctool + `,` + cres + `],` + config + `}`, ""},
	{"calls without tools", `{"messages":[` + cuser + `,` + ctool + `,` + cres + `]}`, "toolConfig"},
	{"a result without a call", `{"messages":[` + cres + `],` + config + `}`, "exceeds the number"},
	{"a call without a result", `{"messages":[` + cuser + `,` + ctool + `,` + cuser + `],` + config + `}`, "Expected toolResult"},
	{"an empty description", `{"messages":[` + cuser + `],"toolConfig":{"tools":[{"toolSpec":{"name":"f","description":"","inputSchema":{"json":{"type":"object"}}}}]}}`, "description"},
	{"a document without a text", `{"messages":[{"role":"user","content":[{"document":{"format":"pdf","name":"a","source":{"bytes":"AAAA"}}}]}]}`, "text block"},
	{"a document of a bad name", `{"messages":[{"role":"user","content":[{"text":"x"},{"document":{"format":"pdf","name":"a.pdf","source":{"bytes":"AAAA"}}}]}]}`, "pattern"},
	{"an image of an unknown format", `{"messages":[{"role":"user","content":[{"image":{"format":"jpg","source":{"bytes":"AAAA"}}}]}]}`, "format"},
	{"white space", `{"messages":[{"role":"user","content":[{"text":" "}]}]}`, "blank"},
	{"five cache points", `{"messages":[{"role":"user","content":[{"text":"x"}` + strings.Repeat(`,{"cachePoint":{"type":"default"}}`, 5) + `]}]}`, "maximum of 4 blocks"},
	{"an image of the assistant", `{"messages":[` + cuser + `,{"role":"assistant","content":[` + cimage + `]},` + cuser + `]}`, "messages of the user"},
	{"twenty images", `{"messages":[{"role":"user","content":[{"text":"x"}` + strings.Repeat(`,`+cimage, 20) + `]}]}`, ""},
	{"too many images", `{"messages":[{"role":"user","content":[{"text":"x"}` + strings.Repeat(`,`+cimage, 21) + `]}]}`, "up to 20 images"},
	{"two tools of one name", `{"messages":[` + cuser + `],"toolConfig":{"tools":[` + cspec + `,` + cspec + `]}}`, "must be unique"},
	{"white space at the end of a prefill", `{"messages":[` + cuser + `,{"role":"assistant","content":[{"text":"y "}]}]}`, "trailing whitespace"},
	{"a foreign signature", `{"messages":[` + cuser + `,{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"t","signature":"x"}}}]},` + cuser + `]}`, "Invalid `signature`"},
}

var cohereCases = []strictCase{
	{"a body", `{"model":"m","messages":[` + hello + `]}`, ""},
	{"an unknown member", `{"model":"m","messages":[` + hello + `],"top_p":0.5}`, "'top_p' is not a valid field"},
	{"an unknown safety mode", `{"model":"m","messages":[` + hello + `],"safety_mode":"x"}`, "safety_mode"},
	{"p of one", `{"model":"m","messages":[` + hello + `],"p":1}`, "p: "},
	{"a result without a call", `{"model":"m","messages":[{"role":"tool","tool_call_id":"a","content":"r"}]}`, "not found in previous"},
	{"a call without a result", `{"model":"m","messages":[` + hello + `,{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},` + hello + `]}`, "must be followed"},
	{"the schema of chat", `{"model":"m","messages":[` + hello + `],"response_format":{"type":"json_schema","json_schema":{}}}`, "json_object"},
	{"strict inside a function", `{"model":"m","messages":[` + hello + `],"tools":[{"type":"function","function":{"name":"f","strict":true}}]}`, "strict"},
}

var ollamaCases = []strictCase{
	{"a body", `{"model":"m","messages":[` + hello + `]}`, ""},
	{"an unknown member", `{"model":"m","messages":[` + hello + `],"top_p":0.5}`, ""},
	{"no model", `{"messages":[` + hello + `]}`, "model is required"},
	{"content that is a list", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`, "valid string"},
	{"arguments that are a text", `{"model":"m","messages":[` + hello + `,{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`, "valid object"},
	{"an image that is an address", `{"model":"m","messages":[{"role":"user","content":"x","images":["https://else.invalid/a.png"]}]}`, "base64"},
	{"a result without a call", `{"model":"m","messages":[{"role":"tool","content":"r"}]}`, "no tool call"},
}
