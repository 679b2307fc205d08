package messages

import (
	"encoding/json"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// fields are the members of an object, read in one pass.
type fields []field

type field struct {
	name  string
	value jsonedit.Value
}

func fieldsOf(v jsonedit.Value) fields {
	f := make(fields, 0, 8)
	for k, value := range v.Fields() {
		f = append(f, field{nameOf(k), value})
	}
	return f
}

// nameOf returns the text of a key. It does not allocate for usual keys.
func nameOf(k jsonedit.Key) string {
	raw := k.Raw()
	if name, ok := usual[string(raw[1:len(raw)-1])]; ok {
		return name
	}
	return k.String()
}

// longestUsual is the length of the longest usual string, with quotes.
const longestUsual = len(`"cache_control"`)

var usual = func() map[string]string {
	m := map[string]string{}
	for _, name := range [...]string{
		"type", "role", "content", "text", "cache_control", "citations", "source", "media_type", "data", "id", "name", "input",
		"tool_use_id", "is_error", "thinking", "signature", "description", "input_schema", "properties", "required",
		"usage", "model", "stop_reason", "stop_sequence", "input_tokens", "output_tokens",
		"user", "assistant", "system", "tool_use", "tool_result", "image", "document", "base64", "ephemeral",
	} {
		m[name] = name
	}
	return m
}()

// get returns a member by name, null if it does not exist. The last of several
// members with a name wins.
func (f fields) get(name string) jsonedit.Value {
	for i := len(f) - 1; i >= 0; i-- {
		if f[i].name == name {
			return f[i].value
		}
	}
	return jsonedit.Value{}
}

// word returns the string value of a member, or an empty string.
func (f fields) word(name string) string {
	text, _ := f.get(name).Text()
	return text
}

// unknown returns the members that are neither known nor null. The last of
// several members with a name wins.
func (f fields) unknown(known ...string) (list []llm.Member) {
	var at map[string]int // index of the names in list, once there are many
	for _, m := range f {
		if m.value.IsNull() || slices.Contains(known, m.name) {
			continue
		}
		i := -1
		if len(list) <= few {
			i = slices.IndexFunc(list, func(l llm.Member) bool { return l.Name == m.name })
		} else if n, twice := at[m.name]; twice {
			i = n
		}
		if i >= 0 {
			list[i].Value = m.value.Raw()
			continue
		}
		list = append(list, llm.Member{Name: m.name, Value: m.value.Raw()})
		at = indexed(at, list)
	}
	return list
}

const few = 16 // up to this number of names a scan is faster than a map

// indexed adds the last element of list to a map of positions, which is created
// when the list has more than few elements.
func indexed(at map[string]int, list []llm.Member) map[string]int {
	last := len(list) - 1
	if last < few {
		return nil
	}
	if at == nil {
		at = map[string]int{}
		for i := range list {
			at[list[i].Name] = i
		}
	}
	at[list[last].Name] = last
	return at
}

// maxMembers is the limit of members set one by one; real requests have few.
const maxMembers = 64

// setMember replaces the member with that name, or appends it unless the list
// is full.
func setMember(list []llm.Member, name string, value json.RawMessage) []llm.Member {
	for i := range list {
		if list[i].Name == name {
			list[i].Value = value
			return list
		}
	}
	if len(list) >= maxMembers {
		return list
	}
	return append(list, llm.Member{Name: name, Value: value})
}

// member returns the value of a member, nil if there is none.
func member(list []llm.Member, name string) json.RawMessage {
	for _, m := range list {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// valueOf returns a view of JSON that was validated before; invalid JSON is
// null.
func valueOf(raw []byte) jsonedit.Value {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return jsonedit.Value{}
	}
	return v
}

// reader reads the values of a request.
type reader struct{ dialect.Reader }

// textOf and needed are like Text and RequiredText for a member of the object at path.
// They build the member's path only for an error, since there is one for every
// block of a conversation.
func (r *reader) textOf(path, name string, f fields) string {
	v := f.get(name)
	if v.IsNull() {
		return ""
	}
	if v.Kind() != jsonedit.String {
		return r.Text(path+"."+name, v)
	}
	return wordOf(v)
}

func (r *reader) needed(path, name string, f fields) string {
	v := f.get(name)
	if v.Kind() != jsonedit.String {
		return r.RequiredText(path+"."+name, v)
	}
	return wordOf(v)
}

// lose records the members of the object at path other than known.
func (r *reader) lose(path string, f fields, known ...string) {
	for _, m := range f {
		if !slices.Contains(known, m.name) {
			r.Lose(path, m.name, m.value)
		}
	}
}

// wordOf returns the value of a string. It does not allocate for usual strings.
func wordOf(v jsonedit.Value) string {
	if raw := v.Raw(); len(raw) <= longestUsual {
		if word, ok := usual[string(raw[1:len(raw)-1])]; ok {
			return word
		}
	}
	text, _ := v.Text()
	return text
}

// object reads the members of an object; for other values it returns none.
func (r *reader) object(path string, v jsonedit.Value) fields {
	if !r.Is(path, v, jsonedit.Object, "an object") {
		return nil
	}
	return fieldsOf(v)
}
