package responses

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// maxName limits the length of tool names, as providers of the protocol do.
const maxName = 128

// readTools reads the tools. Tools in a namespace are added to the others under
// a name that contains both.
func (q *requestDecoder) readTools(v jsonedit.Value, at string) {
	for path, e := range q.Elements(at, v) {
		q.readTool(e, path, nil)
	}
}

// readTool reads one tool. space is its namespace, or nil.
func (q *requestDecoder) readTool(v jsonedit.Value, at string, space *namespace) {
	if !q.Is(at, v, jsonedit.Object, "an object") {
		return
	}
	typ := q.needed(v, at, "type")
	switch typ {
	case "function":
		q.readFunction(v, at, space)
	case "custom":
		q.readCustom(v, at, space)
	case "namespace":
		if space == nil {
			q.readNamespace(v, at)
			return
		}
		fallthrough
	default:
		q.r.Tools = append(q.r.Tools, llm.Tool{
			Server: serverTools[typ],
			Native: &llm.Native{Dialect: own, Type: typ, Raw: v.Raw(), At: at},
			At:     at,
		})
	}
}

// serverTools maps tool types of the protocol that other vendors have too.
var serverTools = map[string]llm.ServerTool{
	"web_search":                    llm.WebSearch,
	"web_search_2025_08_26":         llm.WebSearch,
	"web_search_preview":            llm.WebSearch,
	"web_search_preview_2025_03_11": llm.WebSearch,
	"code_interpreter":              llm.CodeExecution,
}

func (q *requestDecoder) readFunction(v jsonedit.Value, at string, space *namespace) {
	t := llm.Tool{At: at}
	for key, m := range v.Fields() {
		switch name := key.String(); {
		case m.IsNull(), name == "type":
		case name == "name":
			t.Name = q.toolName(m, at)
		case name == "description":
			t.Description = q.Text(at+".description", m)
		case name == "strict":
			t.Strict = q.Bool(at+".strict", m)
		case name == "parameters":
			q.Is(at+".parameters", m, jsonedit.Object, "a JSON Schema, an object")
			t.Schema = m.Raw()
		case name == "cache_control":
			t.Cache = q.readCache(m, at+".cache_control")
		default:
			t.Extra = append(t.Extra, llm.Member{Name: name, Value: m.Raw()})
		}
	}
	q.addTool(t, space)
}

func (q *requestDecoder) readCustom(v jsonedit.Value, at string, space *namespace) {
	t := llm.Tool{At: at, Custom: true}
	for key, m := range v.Fields() {
		switch name := key.String(); {
		case m.IsNull(), name == "type":
		case name == "name":
			t.Name = q.toolName(m, at)
		case name == "description":
			t.Description = q.Text(at+".description", m)
		case name == "format":
			t.Grammar = q.grammarOfChat(m, at+".format")
		case name == "cache_control":
			t.Cache = q.readCache(m, at+".cache_control")
		default:
			t.Extra = append(t.Extra, llm.Member{Name: name, Value: m.Raw()})
		}
	}
	q.addTool(t, space)
}

func (q *requestDecoder) toolName(v jsonedit.Value, at string) string {
	name := q.Text(at+".name", v)
	if len(name) > maxName {
		q.Refuse(at+".name", dialect.CodeValue, "must be at most %d characters, not %d", maxName, len(name))
	}
	return name
}

func (q *requestDecoder) addTool(t llm.Tool, space *namespace) {
	if t.Name == "" {
		q.RefuseMissing(t.At+".name", "a string")
	}
	if space != nil {
		t.Extra = append(t.Extra, llm.Member{Name: spaceMember, Value: space.member(t.Name)})
		t.Name = flatName(space.name, t.Name)
	}
	q.r.Tools = append(q.r.Tools, t)
}

// spaceMember is the member of Tool.Extra and ToolCall.Extra with the namespace
// of a tool whose Name already contains it.
const spaceMember = "namespace"

// namespace is a group of tools.
type namespace struct {
	name, description string
	tool              string // of one tool in it
}

func (q *requestDecoder) readNamespace(v jsonedit.Value, at string) {
	space := &namespace{name: q.needed(v, at, "name"), description: q.member(v, at, "description")}
	tools, _ := v.Get("tools")
	q.LoseUnknown(at, v, "type", "name", "description", "tools")
	for path, e := range q.Elements(at+".tools", tools) {
		q.readTool(e, path, space)
	}
}

// member returns the value of spaceMember for a tool.
func (s *namespace) member(tool string) json.RawMessage {
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("name")
	b.String(s.name)
	b.Name("description")
	b.String(s.description)
	b.Name("tool")
	b.String(tool)
	b.Close('}')
	return b.Bytes()
}

// spaceOf returns the namespace in extra, nil if there is none.
func spaceOf(extra []llm.Member) *namespace {
	for _, m := range extra {
		if m.Name != spaceMember {
			continue
		}
		v, err := jsonedit.ParseValue(m.Value)
		if err != nil || v.Kind() != jsonedit.Object {
			return nil
		}
		s := &namespace{}
		s.name, s.description, s.tool = v.TextOf("name"), v.TextOf("description"), v.TextOf("tool")
		return s
	}
	return nil
}

// flatName returns the name of a tool outside of its namespace. Names too long
// for other providers end in a hash.
func flatName(space, tool string) string {
	const most = 64
	name := space + "__" + tool
	if len(name) <= most {
		return name
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	sum := strconv.FormatUint(uint64(h.Sum32()), 36)
	return name[:most-1-len(sum)] + "_" + sum
}

// nameIn returns the name of a namespace's tool among the tools of r. A tool
// outside of namespaces, such as one found by tool search, keeps its name.
func nameIn(r *llm.Request, space, tool string) string {
	if r == nil || space == "" {
		return tool
	}
	flat := flatName(space, tool)
	for i := range r.Tools {
		if r.Tools[i].Name == flat {
			return flat
		}
	}
	return tool
}

// grammarOfChat converts a custom tool's format to the chat dialect, which
// wraps the grammar in another object.
func (q *requestDecoder) grammarOfChat(v jsonedit.Value, at string) json.RawMessage {
	q.LoseUnknown(at, v, "type", "syntax", "definition")
	if v.TextOf("type") != "grammar" {
		return v.Raw()
	}
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("type")
	b.String("grammar")
	b.Name("grammar")
	b.Open('{')
	for key, m := range v.Fields() {
		if !key.Is("type") {
			b.Key(key.String())
			b.Raw(m.Raw())
		}
	}
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// readCache reads a cache mark of the messages dialect.
func (q *requestDecoder) readCache(v jsonedit.Value, at string) *llm.Cache {
	q.LoseUnknown(at, v, "type", "mode", "ttl")
	return &llm.Cache{TTL: v.TextOf("ttl")}
}

// readChoice reads tool_choice. The choice of a tool that runs at the provider
// is kept unchanged.
func (q *requestDecoder) readChoice(v jsonedit.Value) {
	const at = "tool_choice"
	c := &q.r.ToolChoice
	if word, ok := v.Text(); ok {
		switch word {
		case "auto", "none", "required":
			c.Mode = llm.ChoiceMode(word)
		default:
			q.Refuse(at, dialect.CodeValue, "must be auto, none, required or an object")
		}
		return
	}
	switch q.needed(v, at, "type") {
	case "function", "custom":
		c.Mode, c.Names = llm.ChoiceTool, []string{q.choiceName(v, at)}
		c.Custom = v.TextOf("type") == "custom"
		q.LoseUnknown(at, v, "type", "name", "namespace")
	case "allowed_tools":
		q.readAllowed(v)
	default:
		c.Raw = v.Raw()
	}
}

func (q *requestDecoder) choiceName(v jsonedit.Value, at string) string {
	name := q.needed(v, at, "name")
	if space := q.member(v, at, "namespace"); space != "" {
		return nameIn(q.r, space, name)
	}
	return name
}

// readAllowed reads a tool choice that restricts the tools. It is kept
// unchanged if it names anything but functions.
func (q *requestDecoder) readAllowed(v jsonedit.Value) {
	c := &q.r.ToolChoice
	tools, _ := v.Get("tools")
	for path, e := range q.Elements("tool_choice.tools", tools) {
		typ := e.TextOf("type")
		if typ != "function" && typ != "custom" {
			*c = llm.ToolChoice{Raw: v.Raw()}
			return
		}
		c.Names = append(c.Names, q.choiceName(e, path))
		q.LoseUnknown(path, e, "type", "name", "namespace")
	}
	q.LoseUnknown("tool_choice", v, "type", "mode", "tools")
	c.Mode = llm.ChoiceAuto
	if q.needed(v, "tool_choice", "mode") == "required" {
		c.Mode = llm.ChoiceRequired
	}
}
