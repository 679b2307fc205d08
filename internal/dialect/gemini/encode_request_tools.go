package gemini

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// declared returns the tools as they are sent: functions of another dialect that
// are named like a tool of the provider stand for it, and the form of the answer
// may be one more.
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
			w.fates.AdaptNamed(t.At, name)
			t.Native = builtin(name, t.Schema)
		} else if isBuiltin(t) {
			w.fates.DropNamed(t.At)
			continue
		}
		list = append(list, t)
	}
	if w.searches(list) {
		list = append(list, llm.Tool{Server: llm.WebSearch, Native: builtin("googleSearch", nil)})
	}
	if w.forced {
		f := w.r.Format
		w.fates.Adapt(llm.FieldFormat, "forced tool")
		list = append(list, llm.Tool{Name: formTool, Description: "Answer with this, and nothing else.", Schema: f.Schema, At: w.r.NameOf(llm.FieldFormat)})
	}
	return list
}

// searchOptions asks for answers from the web in the chat dialect.
const searchOptions = "web_search_options"

// searches reports whether a client of the chat dialect asks for answers from the
// web and the tool for that may be combined with those in list.
func (w *requestEncoder) searches(list []llm.Tool) bool {
	raw := w.known("webSearchOptions")
	if raw == nil {
		return false
	}
	for _, t := range list {
		if t.Server == llm.WebSearch || t.Native != nil && t.Native.Type == "googleSearch" {
			w.fates.AdaptNamed(searchOptions, "the search among the tools")
			return false
		}
	}
	if !w.gen.mixes() && (w.forced || len(functions(list)) > 0) {
		return false // dropped with the parameters that have no place
	}
	v, _ := jsonedit.ParseValue(raw)
	note := "googleSearch"
	if place, _ := v.Get("user_location"); !place.IsNull() {
		note += ", without user_location"
	}
	w.fates.AdaptNamed(searchOptions, note)
	return true
}

// named are the tools of the provider that clients of other dialects ask for by
// a function of that name without parameters of its own.
var named = map[string]bool{
	"googleSearch": true, "googleSearchRetrieval": true, "googleMaps": true, "computerUse": true,
	"enterpriseWebSearch": true, "urlContext": true, "codeExecution": true,
}

// nativeTool returns the tool of the provider that t stands for.
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
		return name, named[name]
	}
	name := camelText(t.Name)
	v, _ := jsonedit.ParseValue(t.Schema)
	properties, _ := v.Get("properties")
	return name, named[name] && !t.Custom && size(properties) == 0
}

// settings are the members that each tool of the provider takes from what a
// client put instead of parameters.
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

// toolList writes the tools: those of the provider, then all functions in one.
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

func (w *requestEncoder) function(t *llm.Tool) {
	if len(t.Name) > maxName {
		w.fail(t.At, "a name of more than %d characters", maxName)
	}
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
		w.fates.AdaptNamed(t.At, "function")
		w.schema("parametersJsonSchema", "parameters", dialect.FreeText, t.At)
	case len(t.Schema) > 0 && string(t.Schema) != "null":
		w.schema("parametersJsonSchema", "parameters", t.Schema, t.At)
	}
	w.b.Close('}')
}

// choice writes toolConfig, which is left out when it is empty.
func (w *requestEncoder) choice() {
	outer := w.b
	w.b = jsonedit.Append(nil)
	w.b.Open('{')
	w.calling()
	w.nested(toolConfig)
	if !w.own {
		w.placed()
	}
	w.b.Close('}')
	object := w.b.Bytes()
	w.b = outer
	if len(object) > len("{}") {
		w.b.Name("toolConfig")
		w.b.Raw(object)
	}
}

// placed writes what is beside functionCallingConfig for other dialects.
func (w *requestEncoder) placed() {
	place := w.known("retrievalConfig")
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

// mixed reports whether functions stand beside tools of the provider, for a
// model that takes both.
func (w *requestEncoder) mixed() bool {
	n := len(functions(w.tools))
	return w.gen.mixes() && n > 0 && n < len(w.tools)
}

// calling writes functionCallingConfig.
func (w *requestEncoder) calling() {
	mode, allowed := w.mode()
	streamed := w.known("streamFunctionCallArguments")
	streams := !w.own && w.vertex && w.gen.levels() && string(streamed) == "true" && len(functions(w.tools)) > 0
	if streamed != nil && !streams && !w.own {
		w.fates.DropNamed("stream_function_call_arguments")
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

// mode is how the model may call functions.
// https://ai.google.dev/gemini-api/docs/function-calling#function_calling_modes
func (w *requestEncoder) mode() (mode string, allowed []string) {
	c := w.r.ToolChoice
	allowed = c.Names
	switch c.Mode {
	case llm.ChoiceAuto:
		mode = "AUTO"
		if w.own && c.Raw != nil || !w.own && len(allowed) > 0 {
			mode = "VALIDATED" // auto takes no names
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
