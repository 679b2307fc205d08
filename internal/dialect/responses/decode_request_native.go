package responses

import (
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// nativeCalls are the calls that only this protocol has, which the client runs:
// the tool's name and the member with its arguments. To other targets they are
// calls of a function.
// https://platform.openai.com/docs/api-reference/responses/create#input
var nativeCalls = map[string]struct{ tool, arguments string }{
	"shell_call":       {"shell", "action"},
	"local_shell_call": {"local_shell", "action"},
	"apply_patch_call": {"apply_patch", "operation"},
	"computer_call":    {"computer", "action"},
	"tool_search_call": {"tool_search", "arguments"},
}

// nativeOutputs are the outputs of nativeCalls, and the member with the output.
var nativeOutputs = map[string]string{
	"shell_call_output":       "output",
	"local_shell_call_output": "output",
	"apply_patch_call_output": "output",
	"computer_call_output":    "output",
	"tool_search_output":      "tools",
}

// described are the calls that the provider runs, with the members that say
// something to a model. To other targets they are text.
var described = map[string][]string{
	"web_search_call":       {"action"},
	"file_search_call":      {"queries", "results"},
	"code_interpreter_call": {"code", "outputs"},
	"image_generation_call": {"revised_prompt", "error"},
	"mcp_call":              {"server_label", "name", "arguments", "output", "error"},
	"mcp_approval_request":  {"server_label", "name", "arguments"},
	"program":               {"code"},
	"program_output":        {"result"},
	"tool_search_call":      {"arguments"},
	"tool_search_output":    {"tools"},
}

// needed are the items without which the rest of the input makes no sense.
var needed = map[string]string{
	"compaction":         "the earlier conversation is in a form that only its provider reads: send the turns themselves",
	"compaction_summary": "the earlier conversation is in a form that only its provider reads: send the turns themselves",
	"compaction_trigger": "only its own provider compacts a conversation",
	"item_reference":     "the item is kept by its provider: send the item itself",
}

// native reads an item that only this protocol has.
func (in *inputDecoder) native(v jsonedit.Value, typ, at string) {
	n := llm.Native{Dialect: own, Type: typ, Raw: v.Raw(), At: at, Needed: needed[typ]}
	call, called := nativeCalls[typ]
	output, isOutput := nativeOutputs[typ]
	id := callID(v)
	if ranAtProvider(v) {
		called, isOutput = false, false
	}
	switch {
	case called && id != "":
		n.Parts = []llm.Part{nativeCall(v, call.tool, call.arguments, at)}
		in.called(id)
	case isOutput && id != "" && in.resolve(id):
		n.Parts = []llm.Part{in.nativeResult(v, output, at)}
		if typ == "tool_search_output" {
			in.addTools(v, at)
		}
		in.addResult(n)
		return
	case typ == "additional_tools":
		in.addTools(v, at)
		n.Parts = []llm.Part{}
	case typ == "mcp_approval_response":
		in.approval(v, n)
		return
	default:
		n.Parts = describe(v, typ)
		in.provided(v, typ, at, id)
	}
	in.assistant(at).add(n)
}

// ranAtProvider reports whether the provider ran a search for tools itself.
// https://platform.openai.com/docs/guides/tools-tool-search
func ranAtProvider(v jsonedit.Value) bool { return v.TextOf("execution") == "server" }

// provided records what an item that the provider ran changes for later ones.
func (in *inputDecoder) provided(v jsonedit.Value, typ, at, id string) {
	switch typ {
	case "tool_search_output":
		in.addTools(v, at)
	case "mcp_call":
		in.approved(v.TextOf("approval_request_id"))
	default: // of tomorrow
		if id != "" && !ranAtProvider(v) && !in.resolve(id) {
			in.called(id)
		}
	}
}

// callID returns the id of the call that an item makes or answers. The output
// of a local shell names the call in its own id.
func callID(v jsonedit.Value) string {
	if id := v.TextOf("call_id"); id != "" || v.TextOf("type") != "local_shell_call_output" {
		return id
	}
	return v.TextOf("id")
}

func nativeCall(v jsonedit.Value, tool, arguments, at string) llm.ToolCall {
	c := llm.ToolCall{ID: callID(v), Name: tool, At: at}
	args, ok := v.Get(arguments)
	if list, many := v.Get("actions"); !ok && many { // of a computer
		b := jsonedit.Append(nil)
		b.Open('{')
		b.Name("actions")
		b.Raw(list.Raw())
		b.Close('}')
		c.Arguments = string(b.Bytes())
		return c
	}
	if args.Kind() == jsonedit.Object {
		c.Arguments = string(args.Raw())
	}
	return c
}

func (in *inputDecoder) nativeResult(v jsonedit.Value, output, at string) llm.ToolResult {
	r := llm.ToolResult{ID: callID(v), Failed: v.TextOf("status") == "failed", At: at}
	out, _ := v.Get(output)
	if out.TextOf("type") == "computer_screenshot" {
		r.Parts = []llm.Part{in.inputImage(out, at+".output")}
		return r
	}
	r.Parts = []llm.Part{llm.Text{Text: dialect.ReadableText(out)}}
	return r
}

// addTools adds the tools that an item offers to those of the request, unless
// they are there.
func (in *inputDecoder) addTools(v jsonedit.Value, at string) {
	before := in.r.Tools
	list, _ := v.Get("tools")
	in.r.Tools = nil
	in.readTools(list, at+".tools")
	added := in.r.Tools
	in.r.Tools = before
	for _, t := range added {
		known := func(other llm.Tool) bool { return other.Name == t.Name }
		if t.InMessage = true; t.Native != nil || !slices.ContainsFunc(before, known) {
			in.r.Tools = append(in.r.Tools, t)
		}
	}
}

// describe returns the members of an item as text, nil for an item that says
// nothing to a model.
func describe(v jsonedit.Value, typ string) []llm.Part {
	members, ok := described[typ]
	if !ok {
		return nil
	}
	b := jsonedit.Append(nil)
	b.Open('{')
	for _, name := range members {
		if m, ok := v.Get(name); ok && !m.IsNull() {
			b.Name(name)
			b.Raw(m.Raw())
		}
	}
	b.Close('}')
	return dialect.Described(typ, string(b.Bytes()))
}

// approval reads the response to a request for approval. The provider runs the
// call with the next response, unless that has happened.
func (in *inputDecoder) approval(v jsonedit.Value, n llm.Native) {
	n.Needed = "the approved tool runs at its provider"
	n.Parts = dialect.Described("mcp_approval_response", string(v.Raw()))
	in.addResult(n)
	if in.approvals == nil {
		in.approvals = map[string]int{}
	}
	in.approvals[v.TextOf("approval_request_id")] = len(in.list) - 1
}

// approved records that an approved call has run.
func (in *inputDecoder) approved(request string) {
	at, ok := in.approvals[request]
	if !ok {
		return
	}
	for i, p := range in.list[at].Parts {
		if n, ok := p.(llm.Native); ok && n.Type == "mcp_approval_response" {
			if v, err := jsonedit.ParseValue(n.Raw); err == nil && v.TextOf("approval_request_id") == request {
				n.Needed = ""
				in.list[at].Parts[i] = n
			}
		}
	}
}
