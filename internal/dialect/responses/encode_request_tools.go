package responses

import (
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// writeTools writes the tools and the tool choice.
func (s *requestEncoder) writeTools() {
	carried := 0
	for i := range s.r.Tools {
		if s.carries(&s.r.Tools[i]) {
			carried++
		}
	}
	tools := s.searching()
	carried += len(tools) - len(s.r.Tools)
	if carried > 0 || s.same && s.r.Tools != nil {
		s.b.Name("tools")
		writeTools(&s.b, tools, s.same, s.word)
	}
	if choice := &s.r.ToolChoice; choice.Mode == "" && choice.Raw == nil {
		return
	} else if carried == 0 && !s.same || choice.Raw != nil && !s.same {
		s.changes.Drop(llm.FieldToolChoice)
		return
	}
	s.b.Name("tool_choice")
	writeChoice(&s.b, s.r)
}

// searchOptions is the chat dialect's parameter that enables web search.
const searchOptions = "web_search_options"

// searching returns the tools, including web search if another dialect's tool
// or the chat dialect's parameter enables it.
func (s *requestEncoder) searching() []llm.Tool {
	word := s.word(llm.WebSearch)
	if !s.same && word == "" {
		return s.r.Tools
	}
	list := slices.Clone(s.r.Tools)
	if s.same {
		return slices.DeleteFunc(list, func(t llm.Tool) bool { return t.InMessage })
	}
	for i := range list {
		if t := &list[i]; t.Server == llm.WebSearch && t.Native != nil && t.Native.Dialect != own {
			s.changes.DropOptions(t, s.searchMembers()...)
			t.Native = s.search(word, t.Native.Raw)
		}
	}
	if raw := s.r.Parameter(searchOptions); raw != nil && string(raw) != "null" {
		s.changes.AdaptNamed(searchOptions, word)
		v, _ := jsonedit.ParseValue(raw)
		s.changes.DropMembers(searchOptions, v, s.searchMembers()...)
		list = append(list, llm.Tool{Server: llm.WebSearch, Native: s.search(word, raw)})
	}
	return list
}

// searchMembers returns the options that search writes.
func (s *requestEncoder) searchMembers() []string {
	if profileOf(s.to).Vendor {
		return []string{"allowed_domains", "search_context_size", "user_location"}
	}
	return []string{"allowed_domains"}
}

// search returns the web search tool with options from the chat or the messages
// dialect.
// https://platform.openai.com/docs/guides/tools-web-search
func (s *requestEncoder) search(word string, options []byte) *llm.Native {
	v, _ := jsonedit.ParseValue(options)
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("type")
	b.String(word)
	if domains, _ := v.Get("allowed_domains"); domains.Kind() == jsonedit.Array {
		b.Name("filters")
		b.Open('{')
		b.Name("allowed_domains")
		b.Raw(domains.Raw())
		b.Close('}')
	}
	if profileOf(s.to).Vendor { // other providers have no further options
		if size, _ := v.Get("search_context_size"); size.Kind() == jsonedit.String {
			b.Name("search_context_size")
			b.Raw(size.Raw())
		}
		place, _ := v.Get("user_location")
		writePlace(&b, place)
	}
	b.Close('}')
	return &llm.Native{Dialect: own, Type: word, Raw: b.Bytes()}
}

// writePlace writes the user's location, which the chat dialect wraps in
// another object.
func writePlace(b *jsonedit.Builder, place jsonedit.Value) {
	if inner, ok := place.Get("approximate"); ok {
		place = inner
	}
	if place.Kind() != jsonedit.Object {
		return
	}
	b.Name("user_location")
	b.Open('{')
	b.Name("type")
	b.String("approximate")
	for _, name := range [...]string{"city", "region", "country", "timezone"} {
		if word := place.TextOf(name); word != "" {
			b.Name(name)
			b.String(word)
		}
	}
	b.Close('}')
}

// carries reports whether a tool can be sent. It records tools that are dropped
// or replaced.
func (s *requestEncoder) carries(t *llm.Tool) bool {
	if t.Cache != nil && !s.same {
		s.changes.Drop(llm.FieldCache)
	}
	if t.Native == nil && t.Server == "" || t.Native != nil && t.Native.Dialect == own {
		return true
	}
	name := t.At
	if name == "" {
		name = s.r.NameOf(llm.FieldTools)
	}
	if t.Native != nil && t.Native.Type != "" {
		name += "." + t.Native.Type
	}
	if word := s.word(t.Server); word != "" {
		s.changes.AdaptNamed(name, word)
		return true
	}
	s.changes.DropNamed(name)
	return false
}

// word returns the provider's type of a server tool, empty if it has none.
func (s *requestEncoder) word(t llm.ServerTool) string {
	if !profileOf(s.to).ServerTools {
		return ""
	}
	switch t {
	case llm.WebSearch:
		return "web_search"
	case llm.CodeExecution:
		return "code_interpreter"
	}
	return ""
}

// writeTools writes a list of tools. same means that the client uses this
// dialect; word returns the provider's type of a server tool.
func writeTools(b *jsonedit.Builder, tools []llm.Tool, same bool, word func(llm.ServerTool) string) {
	b.Open('[')
	inside := ""
	for i := range tools {
		t := &tools[i]
		space := (*namespace)(nil)
		if same {
			space = spaceOf(t.Extra)
		}
		if inside != "" && (space == nil || space.name != inside) {
			b.Close(']')
			b.Close('}')
			inside = ""
		}
		name := t.Name
		if space != nil {
			name = space.tool
			if inside == "" {
				openNamespace(b, space)
				inside = space.name
			}
		}
		writeTool(b, t, name, same, word)
	}
	if inside != "" {
		b.Close(']')
		b.Close('}')
	}
	b.Close(']')
}

func openNamespace(b *jsonedit.Builder, space *namespace) {
	b.Open('{')
	b.Name("type")
	b.String("namespace")
	b.Name("name")
	b.String(space.name)
	b.Name("description")
	b.String(space.description)
	b.Name("tools")
	b.Open('[')
}

func writeTool(b *jsonedit.Builder, t *llm.Tool, name string, same bool, word func(llm.ServerTool) string) {
	switch {
	case t.Native != nil && t.Native.Dialect == own:
		b.Raw(t.Native.Raw)
		return
	case t.Native != nil || t.Server != "":
		writeServerTool(b, word(t.Server))
		return
	}
	b.Open('{')
	b.Name("type")
	if t.Custom {
		b.String("custom")
	} else {
		b.String("function")
	}
	b.Name("name")
	b.String(name)
	if t.Description != "" {
		b.Name("description")
		b.String(t.Description)
	}
	if t.Custom {
		writeGrammar(b, t.Grammar)
	} else {
		writeSchema(b, t, same)
	}
	if same {
		writeToolExtra(b, t)
	}
	b.Close('}')
}

func writeToolExtra(b *jsonedit.Builder, t *llm.Tool) {
	if t.Cache != nil {
		writeCacheControl(b, t.Cache)
	}
	for _, m := range t.Extra {
		if m.Name != spaceMember {
			b.Key(m.Name)
			b.Raw(m.Value)
		}
	}
}

func writeServerTool(b *jsonedit.Builder, word string) {
	if word == "" {
		return
	}
	b.Open('{')
	b.Name("type")
	b.String(word)
	if word == "code_interpreter" {
		b.Name("container")
		b.Open('{')
		b.Name("type")
		b.String("auto")
		b.Close('}')
	}
	b.Close('}')
}

// writeSchema writes a function's parameters. A missing strict means true in
// this dialect and false in others.
func writeSchema(b *jsonedit.Builder, t *llm.Tool, same bool) {
	b.Name("parameters")
	b.Raw(dialect.SchemaOf(t))
	if t.Strict != nil {
		b.Name("strict")
		b.Bool(*t.Strict)
	} else if !same {
		b.Name("strict")
		b.Bool(false)
	}
}

// writeGrammar writes the format of a custom tool. The chat dialect wraps its
// grammar in another object.
func writeGrammar(b *jsonedit.Builder, grammar []byte) {
	v, err := jsonedit.ParseValue(grammar)
	if err != nil || v.Kind() != jsonedit.Object {
		return
	}
	b.Name("format")
	inner, ok := v.Get("grammar")
	if !ok || v.TextOf("type") != "grammar" || inner.Kind() != jsonedit.Object {
		b.Raw(v.Raw())
		return
	}
	b.Open('{')
	b.Name("type")
	b.String("grammar")
	for key, m := range inner.Fields() {
		b.Key(key.String())
		b.Raw(m.Raw())
	}
	b.Close('}')
}

// writeChoice writes tool_choice, which must not be empty.
func writeChoice(b *jsonedit.Builder, r *llm.Request) {
	c := &r.ToolChoice
	switch {
	case c.Raw != nil:
		b.Raw(c.Raw)
	case c.Mode == llm.ChoiceTool && len(c.Names) > 0:
		writeChosen(b, r, c.Names[0], c.Custom)
	case len(c.Names) > 0 && c.Mode != llm.ChoiceNone:
		b.Open('{')
		b.Name("type")
		b.String("allowed_tools")
		b.Name("mode")
		b.String(string(c.Mode))
		b.Name("tools")
		b.Open('[')
		for _, name := range c.Names {
			writeChosen(b, r, name, isCustom(r.Tools, name))
		}
		b.Close(']')
		b.Close('}')
	default:
		b.String(string(c.Mode))
	}
}

func writeChosen(b *jsonedit.Builder, r *llm.Request, name string, custom bool) {
	b.Open('{')
	b.Name("type")
	if custom {
		b.String("custom")
	} else {
		b.String("function")
	}
	b.Name("name")
	if space := spaceOfTool(r, name); space != nil {
		b.String(space.tool)
		b.Name("namespace")
		b.String(space.name)
	} else {
		b.String(name)
	}
	b.Close('}')
}

func isCustom(tools []llm.Tool, name string) bool {
	for i := range tools {
		if tools[i].Name == name {
			return tools[i].Custom
		}
	}
	return false
}

// spaceOfTool returns the namespace of a tool of a client of this dialect, nil
// if it has none.
func spaceOfTool(r *llm.Request, name string) *namespace {
	if r == nil || r.Dialect != own {
		return nil
	}
	for i := range r.Tools {
		if r.Tools[i].Name == name {
			return spaceOf(r.Tools[i].Extra)
		}
	}
	return nil
}

// ToolNames implements dialect.ToolNamer.
// https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools
func (Dialect) ToolNames(*llm.Request, dialect.RequestTarget) dialect.NameRule {
	return dialect.NameRule{Max: 64, Others: "_-"}
}
