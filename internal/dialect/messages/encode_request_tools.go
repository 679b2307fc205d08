package messages

import (
	"slices"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

const (
	// customInput is the only argument of a function that replaces a tool with
	// text input.
	customInput = "input"
	// outputTool is the name of the forced tool whose arguments are the
	// response, for targets without structured output.
	outputTool = "json_response"
)

var emptySchema = []byte(`{"type":"object","properties":{}}`)

// toolset writes the tools and the tool choice.
func (e *requestEncoder) toolset() {
	before := e.Builder
	e.Name("tools")
	e.Open('[')
	start := len(e.Bytes())
	for i := range e.r.Tools {
		if t := &e.r.Tools[i]; e.chosen(t) && !(e.own && t.InMessage) {
			e.tool(t)
		}
	}
	e.searchOptions()
	if e.emulated() {
		e.outputTool()
	}
	if len(e.Bytes()) == start {
		e.Builder = before // nothing to choose from
		if m := e.r.ToolChoice.Mode; m != "" && m != llm.ChoiceNone && m != llm.ChoiceAuto {
			e.changes.Drop(llm.FieldToolChoice)
		}
		return
	}
	e.Close(']')
	e.choose()
}

// chosen reports whether the tool choice allows a tool.
func (e *requestEncoder) chosen(t *llm.Tool) bool {
	c := &e.r.ToolChoice
	if c.Mode == llm.ChoiceTool || len(c.Names) == 0 || slices.Contains(c.Names, t.Name) {
		return true
	}
	e.changes.Adapt(llm.FieldToolChoice, dialect.OnlyAllowedTools)
	return false
}

func (e *requestEncoder) tool(t *llm.Tool) {
	switch {
	case t.Native != nil && t.Native.Dialect == own:
		e.nativeTool(t, t.Native.Type, t.Native.Raw)
	case t.Server != "":
		e.serverTool(t)
	case t.Native != nil:
		e.namedTool(t)
	default:
		e.function(t)
	}
}

// nativeTool writes a tool with a versioned type unchanged, unless the host
// does not support it.
func (e *requestEncoder) nativeTool(t *llm.Tool, kind string, raw []byte) {
	if !e.knows(kind) {
		e.changes.DropNamed(t.At)
		return
	}
	e.Raw(raw)
	e.toolBeta(kind)
}

func (e *requestEncoder) toolBeta(kind string) {
	if feature := e.betaOf(kind); e.profile.Betas != nil && feature != "" {
		e.betas = merge(e.betas, []string{feature})
	} else {
		e.need(feature)
	}
}

// serverTools are the versioned types that replace tools of other vendors.
var serverTools = map[llm.ServerTool]string{
	llm.WebSearch: "web_search_20250305", llm.WebFetch: "web_fetch_20250910", llm.CodeExecution: "code_execution_20250825",
}

// serverTool writes this vendor's equivalent of another vendor's tool, with the
// settings that both have.
func (e *requestEncoder) serverTool(t *llm.Tool) {
	kind := serverTools[t.Server]
	if kind == "" || !e.knows(kind) {
		e.changes.DropNamed(t.At)
		return
	}
	e.changes.AdaptNamed(t.At, kind)
	var options jsonedit.Value
	if t.Native != nil {
		options = valueOf(t.Native.Raw)
	}
	if t.Server == llm.WebSearch {
		e.changes.DropOptions(t, searchMembers...)
		filters, _ := options.Get("filters")
		e.changes.DropMembers(t.At+".filters", filters, "allowed_domains")
	} else {
		e.changes.DropOptions(t)
	}
	e.writeServerTool(t.Server, kind, options)
}

func (e *requestEncoder) writeServerTool(tool llm.ServerTool, kind string, options jsonedit.Value) {
	e.Open('{')
	e.text("type", kind)
	e.text("name", string(tool))
	if tool == llm.WebSearch {
		e.searchIn(options)
	}
	e.Close('}')
	e.toolBeta(kind)
}

// searchMembers are the options of web search that searchIn writes.
var searchMembers = []string{"filters", "user_location"}

// searchIn writes where to search, from settings of clients of the responses
// and chat dialects.
func (e *requestEncoder) searchIn(options jsonedit.Value) {
	filters, _ := options.Get("filters")
	if domains, ok := filters.Get("allowed_domains"); ok && domains.Kind() == jsonedit.Array {
		e.Name("allowed_domains")
		e.Raw(domains.Raw())
	}
	location, _ := options.Get("user_location")
	if inner, ok := location.Get("approximate"); ok {
		location = inner
	}
	if location.Kind() != jsonedit.Object {
		return
	}
	e.Name("user_location")
	e.Open('{')
	e.text("type", "approximate")
	f := fieldsOf(location)
	for _, name := range [...]string{"city", "region", "country", "timezone"} {
		e.text(name, f.word(name))
	}
	e.Close('}')
}

// searchOptions writes the search tool that a client of the chat dialect
// enables with web_search_options.
func (e *requestEncoder) searchOptions() {
	raw := e.r.Parameter("web_search_options")
	if e.own || raw == nil || valueOf(raw).IsNull() {
		return
	}
	kind := serverTools[llm.WebSearch]
	if !e.knows(kind) {
		e.changes.DropNamed("web_search_options")
		return
	}
	e.changes.AdaptNamed("web_search_options", kind)
	e.changes.DropMembers("web_search_options", valueOf(raw), searchMembers...)
	e.writeServerTool(llm.WebSearch, kind, valueOf(raw))
}

// namedTool writes a tool of this vendor from a client of another dialect,
// either in this vendor's format or as
// {"type":"computer","computer":{"name":"computer_20250124",…}}.
func (e *requestEncoder) namedTool(t *llm.Tool) {
	n := t.Native
	if versioned(n.Type) {
		e.nativeTool(t, n.Type, n.Raw)
		return
	}
	inner, _ := valueOf(n.Raw).Get(n.Type)
	f := fieldsOf(inner)
	kind := f.word("name")
	if !versioned(kind) || !e.knows(kind) {
		e.changes.DropNamed(t.At)
		return
	}
	e.Open('{')
	e.text("type", kind)
	e.text("name", n.Type)
	e.members(f.unknown("name", "type"))
	e.cache(t.Cache)
	e.Close('}')
	e.toolBeta(kind)
}

// versions are the prefixes of this vendor's tool types.
var versions = []string{
	"web_search_2", "web_fetch_2", "code_execution_2", "computer_", "browser_toolset_", "bash_2", "text_editor_2",
	"memory_2", "tool_search_tool_", "advisor_2", "mcp_toolset",
}

func versioned(kind string) bool {
	for _, v := range versions {
		if strings.HasPrefix(kind, v) {
			return true
		}
	}
	return false
}

// ToolNames implements dialect.ToolNamer.
// https://docs.claude.com/en/api/messages (tools.name: ^[a-zA-Z0-9_-]{1,128}$)
func (Dialect) ToolNames(*llm.Request, dialect.RequestTarget) dialect.NameRule {
	return dialect.NameRule{Max: maxName, Others: "_-"}
}

func (e *requestEncoder) function(t *llm.Tool) {
	e.Open('{')
	e.Name("name")
	e.String(t.Name)
	e.text("description", t.Description)
	e.Name("input_schema")
	switch {
	case t.Custom:
		e.Raw(dialect.FreeText)
		if t.Grammar != nil {
			e.changes.AdaptNamed(t.At, dialect.CustomWithoutGrammar)
		} else {
			e.changes.AdaptNamed(t.At, dialect.CustomAsFunction)
		}
	case t.Schema == nil:
		e.Raw(emptySchema)
	case e.own:
		e.Raw(t.Schema)
	default:
		e.schema(t)
	}
	e.strict(t)
	e.toolExtra(t)
	e.cache(t.Cache)
	e.Close('}')
}

// schema writes a schema of arguments, which must be an object with properties.
func (e *requestEncoder) schema(t *llm.Tool) {
	v := valueOf(t.Schema)
	f := fieldsOf(v)
	kind, properties := f.get("type"), f.get("properties")
	if v.Kind() != jsonedit.Object || !kind.IsNull() && f.word("type") != "object" {
		e.fail(dialect.Invalid(t.At, dialect.CodeValue, "the schema of a tool must be that of an object"))
		e.Null()
		return
	}
	moved := alternatives(f)
	if !kind.IsNull() && !properties.IsNull() && len(moved) == 0 {
		e.Raw(v.Raw())
		return
	}
	e.Open('{')
	e.text("type", "object")
	if properties.IsNull() {
		e.Name("properties")
		e.Raw(emptyObject)
	}
	for _, m := range f {
		switch {
		case m.name == "type", m.name == "properties" && properties.IsNull():
		case len(moved) > 0 && (m.name == "description" || isAlternative(m.name)):
		default:
			e.Key(m.name)
			e.Raw(m.value.Raw())
		}
	}
	if len(moved) > 0 {
		e.text("description", strings.TrimSpace(f.word("description")+"\n"+strings.Join(moved, ", ")))
		e.changes.AdaptNamed(t.At, dialect.AlternativesInText)
	}
	e.Close('}')
}

// alternatives returns the members of a schema that the provider does not accept at its
// top level.
func alternatives(f fields) (members []string) {
	for _, m := range f {
		if isAlternative(m.name) {
			members = append(members, m.name+": "+string(m.value.Raw()))
		}
	}
	return members
}

func isAlternative(name string) bool { return name == "oneOf" || name == "anyOf" || name == "allOf" }

// strict requests arguments that follow the schema, if the model supports it
// and the schema is within the supported keywords.
func (e *requestEncoder) strict(t *llm.Tool) {
	switch {
	case t.Strict == nil || !*t.Strict && !e.own:
	case !e.formats || !e.own && (t.Custom || !strictSchema(t.Schema)):
		e.changes.DropNamed(t.At + ".strict")
	default:
		e.Name("strict")
		e.Bool(*t.Strict)
	}
}

// toolExtras are tool members of this dialect that clients of other dialects
// may send.
var toolExtras = []string{"defer_loading", "allowed_callers", "input_examples", "eager_input_streaming"}

func (e *requestEncoder) toolExtra(t *llm.Tool) {
	for _, m := range t.Extra {
		known := slices.Contains(toolExtras, m.Name)
		switch {
		case m.Name == "eager_input_streaming" && e.profile.NoEagerInput:
			e.changes.Carry(t.At, m.Name)
			e.betas = merge(e.betas, []string{"fine-grained-tool-streaming-2025-05-14"})
			continue
		case !e.own && !known:
			continue
		case known && m.Name != "eager_input_streaming":
			e.need("advanced-tool-use-2025-11-20")
		}
		e.changes.Carry(t.At, m.Name)
		e.Key(m.Name)
		e.Raw(m.Value)
	}
}

// choose writes the tool choice, and whether calls may be parallel.
func (e *requestEncoder) choose() {
	c := &e.r.ToolChoice
	kind, name := e.choice()
	single := e.r.ParallelTools != nil && !*e.r.ParallelTools || e.emulated()
	if c.Raw != nil && e.own && kind == "" {
		e.Name("tool_choice")
		e.Raw(c.Raw)
		return
	}
	if kind == "" && single {
		kind = "auto"
	}
	if kind == "" {
		return
	}
	e.Name("tool_choice")
	e.Open('{')
	e.text("type", kind)
	e.text("name", name)
	switch {
	case kind == "none" || !single && (!e.own || e.r.ParallelTools == nil):
	case !e.profile.NoParallel:
		e.Name("disable_parallel_tool_use")
		e.Bool(single)
	case single && e.r.ParallelTools != nil:
		e.changes.Drop(llm.FieldParallelTools)
	}
	e.Close('}')
}

// choice returns the type of the choice and the tool that must be called.
func (e *requestEncoder) choice() (kind, name string) {
	c := &e.r.ToolChoice
	if e.emulated() {
		if c.Mode == llm.ChoiceTool || c.Mode == llm.ChoiceRequired {
			return "any", ""
		}
		if len(e.r.Tools) > 0 && c.Mode != llm.ChoiceNone {
			return "any", ""
		}
		return "tool", outputTool
	}
	forced := c.Mode == llm.ChoiceRequired || c.Mode == llm.ChoiceTool
	if forced && !e.own && e.thinking.active() {
		e.changes.Adapt(llm.FieldToolChoice, dialect.AutoForThinking)
		return "auto", ""
	}
	for word, mode := range choices {
		if mode == c.Mode {
			kind = word
		}
	}
	if c.Mode == llm.ChoiceTool && len(c.Names) > 0 {
		name = c.Names[0]
	}
	return kind, name
}
