package dialect

import (
	"bytes"
	"strings"

	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// LostMembers returns the changes for the members of messages, parts and tools that
// no dialect knows, unless they are in the body that is sent. changes are those that
// were announced before.
func LostMembers(changes []ParamChange, r *llm.Request, sent []byte) []ParamChange {
	f := lostMembers{ParamChanges: ParamChanges{r: r, list: changes}, sent: sent}
	for _, c := range changes {
		f.know(c.Name)
	}
	for _, name := range r.Unknown {
		f.DropNamed(name)
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		f.lose(m.At, m.Extra)
		f.parts(m.Parts)
	}
	for i := range r.Tools {
		f.lose(r.Tools[i].At, r.Tools[i].Extra)
	}
	return f.list
}

// lostMembers collects the members that are not in the body that is sent. Each name
// is looked for once, and only the first of a request: a body may have any number.
type lostMembers struct {
	ParamChanges
	sent   []byte
	looked int
}

// parts records the members of parts, and of parts within them.
func (f *lostMembers) parts(list []llm.Part) {
	for _, p := range list {
		switch p := p.(type) {
		case llm.ToolCall:
			f.lose(p.At, p.Extra)
		case llm.ToolResult:
			f.lose(p.At, p.Extra)
			f.parts(p.Parts)
		case llm.Media:
			f.lose(p.At, p.Extra)
			f.parts(p.Parts)
		}
	}
}

// lose records the members of the object at path that are not sent.
func (f *lostMembers) lose(path string, members []llm.Member) {
	for _, m := range members {
		if saysNothing(m.Value) || harmless[m.Name] {
			continue
		}
		name := strings.TrimPrefix(withoutPlaces(path)+"."+m.Name, ".")
		if f.told[name] || f.looked >= maxUnknown {
			continue
		}
		if f.looked++; bytes.Contains(f.sent, jsonedit.AppendString(nil, m.Name)) {
			f.know(name)
			continue
		}
		f.DropNamed(name)
	}
}

// know prevents that a name is recorded.
func (f *lostMembers) know(name string) {
	if f.told == nil {
		f.told = make(map[string]bool)
	}
	f.told[name] = true
}

// harmless are members of history that only the vendor of the answer reads, the ids
// and states of items; marks of the gateway itself; and of Gemini's the members of
// parts, which are parameters, and schemas, which are translated.
var harmless = map[string]bool{
	"id": true, "status": true, "index": true, "type": true, "json": true, "namespace": true,
	"videoMetadata": true, "mediaResolution": true, "partMetadata": true, "speechMetadata": true, "mediaProcessing": true,
	"parameters": true,
}

// saysNothing reports whether a value is null, false or empty: some clients send such
// values for all that is not set.
func saysNothing(raw []byte) bool {
	switch string(raw) {
	case "", "null", "false", `""`, "[]", "{}":
		return true
	}
	return false
}

// withoutPlaces returns a path without the places in its arrays: tools.name of
// tools[3].name.
func withoutPlaces(path string) string {
	if !strings.Contains(path, "[") {
		return path
	}
	var b strings.Builder
	for path != "" {
		before, after, _ := strings.Cut(path, "[")
		b.WriteString(before)
		_, path, _ = strings.Cut(after, "]")
	}
	return b.String()
}
