package gemini

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// declared returns the tools to send. Functions of another dialect that are
// named like a provider tool become that tool, and a forced tool for the
// response format may be added.
func (w *requestEncoder) declared() []llm.Tool {
	if w.own {
		return w.r.Tools
	}
	list := make([]llm.Tool, 0, len(w.r.Tools)+1)
	for _, t := range w.r.Tools {
		if t.Native != nil && t.Native.Dialect == own {
			list = append(list, t)
			continue
		}
		if name, ok := w.nativeTool(t); ok {
			w.changes.AdaptNamed(t.At, name)
			w.changes.DropOptions(&t)
			t.Native = builtin(name, t.Schema)
		} else if isBuiltin(t) {
			w.changes.DropNamed(t.At)
			continue
		}
		list = append(list, t)
	}
	if w.searches(list) {
		list = append(list, llm.Tool{Server: llm.WebSearch, Native: builtin("googleSearch", nil)})
	}
	if w.forced {
		f := w.r.Format
		w.changes.Adapt(llm.FieldFormat, dialect.ForcedTool)
		list = append(list,
			llm.Tool{Name: formTool, Description: "Answer with this, and nothing else.", Schema: f.Schema, At: w.r.NameOf(llm.FieldFormat)})
	}
	return list
}

// searchOptions is the chat dialect's parameter that enables web search.
const searchOptions = "web_search_options"

// searches reports whether a client of the chat dialect enables web search and
// the search tool can be combined with the tools in list.
func (w *requestEncoder) searches(list []llm.Tool) bool {
	raw := w.extraParam("webSearchOptions")
	if raw == nil {
		return false
	}
	for _, t := range list {
		if t.Server == llm.WebSearch || t.Native != nil && t.Native.Type == "googleSearch" {
			w.changes.AdaptNamed(searchOptions, dialect.SearchTool)
			return false
		}
	}
	if !w.model.MixedTools && (w.forced || len(functions(list)) > 0) {
		return false // dropped with the other unsupported parameters
	}
	v, _ := jsonedit.ParseValue(raw)
	note := "googleSearch"
	if place, _ := v.Get("user_location"); !place.IsNull() {
		note = dialect.NoteLeftOut(note, "user_location")
	}
	w.changes.AdaptNamed(searchOptions, note)
	w.changes.DropMembers(searchOptions, v, "user_location")
	return true
}

// namedTools are the provider tools that clients of other dialects select with
// a function of that name without parameters.
var namedTools = map[string]bool{
	"googleSearch": true, "googleSearchRetrieval": true, "googleMaps": true, "computerUse": true,
	"enterpriseWebSearch": true, "urlContext": true, "codeExecution": true,
}

// nativeTool returns the name of the provider tool that t selects.
func (w *requestEncoder) nativeTool(t llm.Tool) (string, bool) {
	switch t.Server {
	case llm.WebSearch:
		return "googleSearch", true
	case llm.WebFetch:
		return "urlContext", true
	case llm.CodeExecution:
		return "codeExecution", true
	}
	if isBuiltin(t) && t.Native.Dialect != own {
		name := camelText(t.Native.Type)
		return name, namedTools[name]
	}
	name := camelText(t.Name)
	v, _ := jsonedit.ParseValue(t.Schema)
	properties, _ := v.Get("properties")
	return name, namedTools[name] && !t.Custom && size(properties) == 0
}

// settings are the members of each provider tool that are taken from the
// parameters of the client's function.
var settings = map[string][]string{
	"googleSearch":          {"timeRangeFilter"},
	"googleSearchRetrieval": {"dynamicRetrievalConfig"},
	"googleMaps":            {"enableWidget"},
	"computerUse":           {"environment", "excludedPredefinedFunctions"},
}

func builtin(name string, parameters []byte) *llm.Native {
	v, _ := jsonedit.ParseValue(parameters)
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name(name)
	b.Open('{')
	for _, member := range settings[name] {
		if inner := field(v, member); !inner.IsNull() {
			b.Name(member)
			camelled(&b, inner)
		}
	}
	b.Close('}')
	b.Close('}')
	return &llm.Native{Dialect: own, Type: name, Raw: b.Bytes()}
}

// toolList writes the tools: those of the provider, then all functions in one
// element.
func (w *requestEncoder) toolList() {
	if len(w.tools) == 0 {
		return
	}
	w.b.Name("tools")
	w.b.Open('[')
	for _, t := range w.tools {
		if t.Native != nil {
			w.b.Raw(t.Native.Raw)
		}
	}
	if list := functions(w.tools); len(list) > 0 {
		w.b.Open('{')
		w.b.Name("functionDeclarations")
		w.b.Open('[')
		for i := range list {
			w.function(&list[i])
		}
		w.b.Close(']')
		w.b.Close('}')
	}
	w.b.Close(']')
}

// ToolNames implements dialect.ToolNamer.
// https://ai.google.dev/api/caching#FunctionDeclaration
func (Dialect) ToolNames(*llm.Request, dialect.RequestTarget) dialect.NameRule {
	return dialect.NameRule{Max: maxName, Others: "_.:-", Letter: true}
}

func (w *requestEncoder) function(t *llm.Tool) {
	w.b.Open('{')
	text(&w.b, "name", t.Name)
	if t.Description != "" {
		text(&w.b, "description", t.Description)
	}
	stood := false
	for _, m := range t.Extra {
		if w.own {
			w.b.Key(m.Name)
			w.b.Raw(m.Value)
			stood = stood || m.Name == "parameters"
		}
	}
	switch {
	case stood:
	case t.Custom:
		w.changes.AdaptNamed(t.At, "function")
		w.schema("parametersJsonSchema", "parameters", dialect.FreeText, t.At)
	case len(t.Schema) > 0 && string(t.Schema) != "null":
		w.schema("parametersJsonSchema", "parameters", t.Schema, t.At)
	}
	w.b.Close('}')
}

// choice writes toolConfig unless it is empty.
func (w *requestEncoder) choice() {
	outer := w.b
	w.b = jsonedit.Append(nil)
	w.b.Open('{')
	w.calling()
	w.nested(toolConfig)
	if !w.own {
		w.otherToolConfig()
	}
	w.b.Close('}')
	object := w.b.Bytes()
	w.b = outer
	if len(object) > len("{}") {
		w.b.Name("toolConfig")
		w.b.Raw(object)
	}
}

// otherToolConfig writes the members of toolConfig other than
// functionCallingConfig for clients of other dialects.
func (w *requestEncoder) otherToolConfig() {
	place := w.extraParam("retrievalConfig")
	for _, t := range w.r.Tools {
		if place == nil && camelText(t.Name) == "googleMaps" {
			v, _ := jsonedit.ParseValue(t.Schema)
			place = field(v, "retrievalConfig").Raw()
		}
	}
	if place != nil {
		w.b.Name("retrievalConfig")
		w.camelled(place)
	}
	if !w.vertex && w.mixed() {
		// https://ai.google.dev/gemini-api/docs/tool-combination
		w.b.Name("includeServerSideToolInvocations")
		w.b.Bool(true)
	}
}

// mixed reports whether functions and provider tools are combined, for a model
// that accepts both.
func (w *requestEncoder) mixed() bool {
	n := len(functions(w.tools))
	return w.model.MixedTools && n > 0 && n < len(w.tools)
}

// calling writes functionCallingConfig.
func (w *requestEncoder) calling() {
	mode, allowed := w.mode()
	streamed := w.extraParam("streamFunctionCallArguments")
	streams := !w.own && w.vertex && w.levels() && string(streamed) == "true" && len(functions(w.tools)) > 0
	if streamed != nil && !streams && !w.own {
		w.changes.DropNamed("stream_function_call_arguments")
	}
	nested := w.own && w.r.Extra != nil && w.hasNested(calling)
	if mode == "" && len(allowed) == 0 && !streams && !nested {
		return
	}
	w.b.Name("functionCallingConfig")
	w.b.Open('{')
	if mode != "" {
		text(&w.b, "mode", mode)
	}
	if len(allowed) > 0 {
		w.b.Name("allowedFunctionNames")
		w.strings(allowed)
	}
	if streams {
		w.b.Name("streamFunctionCallArguments")
		w.b.Bool(true)
	}
	w.nested(calling)
	w.b.Close('}')
}

func (w *requestEncoder) hasNested(prefix string) bool {
	for _, m := range w.r.Extra {
		if strings.HasPrefix(m.Name, prefix) {
			return true
		}
	}
	return false
}

// mode returns the function calling mode.
// https://ai.google.dev/gemini-api/docs/function-calling#function_calling_modes
func (w *requestEncoder) mode() (mode string, allowed []string) {
	c := w.r.ToolChoice
	allowed = c.Names
	switch c.Mode {
	case llm.ChoiceAuto:
		mode = "AUTO"
		if w.own && c.Raw != nil || !w.own && len(allowed) > 0 {
			mode = "VALIDATED" // auto allows no names
		}
	case llm.ChoiceNone:
		mode, allowed = "NONE", nil
	case llm.ChoiceRequired, llm.ChoiceTool:
		mode = "ANY"
	default:
		w.dropped(llm.FieldToolChoice, c.Raw != nil && !w.own)
	}
	if w.own {
		return mode, c.Names
	}
	if len(functions(w.tools)) == 0 {
		w.dropped(llm.FieldToolChoice, mode == "ANY" || mode == "VALIDATED")
		return "", nil
	}
	switch {
	case w.forced:
		mode = "ANY"
		if len(allowed) > 0 {
			allowed = append(allowed[:len(allowed):len(allowed)], formTool)
		}
	case (mode == "" || mode == "AUTO") && (w.mixed() || w.strict()):
		mode = "VALIDATED"
	}
	return mode, allowed
}

// strict reports whether the arguments of a tool must match its schema.
func (w *requestEncoder) strict() bool {
	for i := range w.tools {
		if s := w.tools[i].Strict; s != nil && *s {
			return true
		}
	}
	return false
}
