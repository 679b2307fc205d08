package dialect

import (
	"strings"

	"modelgate/api"
	"modelgate/internal/model/llm"
)

// Carry records that a member of the element at path, which only the client's dialect
// has, is sent in some form. [ParamChanges.List] announces the others.
func (f *ParamChanges) Carry(path, name string) {
	if f.carried == nil {
		f.carried = make(map[string]bool)
	}
	f.carried[path+"."+name] = true
}

// dropUnknown records the members that the target's dialect does not have and that
// no encoder has carried.
func (f *ParamChanges) dropUnknown() {
	for _, name := range f.r.Unknown {
		f.DropNamed(name)
	}
	for i := range f.r.Messages {
		m := &f.r.Messages[i]
		f.dropMembers(m.At, m.Extra)
		f.dropPartMembers(m.Parts)
	}
	for i := range f.r.Tools {
		f.dropMembers(f.r.Tools[i].At, f.r.Tools[i].Extra)
	}
}

// dropPartMembers records the members of parts, and of parts within them. Those of
// Gemini's media are parameters.
func (f *ParamChanges) dropPartMembers(list []llm.Part) {
	for _, p := range list {
		switch p := p.(type) {
		case llm.ToolCall:
			f.dropMembers(p.At, p.Extra)
		case llm.ToolResult:
			f.dropMembers(p.At, p.Extra)
			f.dropPartMembers(p.Parts)
		case llm.Media:
			if f.r.Dialect != string(api.DialectGemini) {
				f.dropMembers(p.At, p.Extra)
			}
			f.dropPartMembers(p.Parts)
		}
	}
}

// dropMembers records the members of the object at path that are not carried.
func (f *ParamChanges) dropMembers(path string, members []llm.Member) {
	for _, m := range members {
		if saysNothing(m.Value) || ofVendor[m.Name] || marks[f.r.Dialect] == m.Name || f.carried[path+"."+m.Name] {
			continue
		}
		place := withoutPlaces(path)
		name := strings.TrimPrefix(place+"."+m.Name, ".")
		if f.reported[name] {
			continue
		}
		if f.unknown++; f.unknown > maxUnknown {
			name = strings.TrimPrefix(place+furtherMembers, ".")
		}
		f.DropNamed(name)
	}
}

// maxUnknown is the limit of the unknown members that are recorded by name, in
// parameters and in elements: a body may have any number. furtherMembers stands for
// all others of an object.
const (
	maxUnknown     = 32
	furtherMembers = ".*"
)

// ofVendor are members of history that only the vendor of the response reads: ids and
// states of items.
var ofVendor = map[string]bool{"id": true, "status": true, "index": true, "type": true}

// marks are members that the decoder of a dialect itself adds to elements.
var marks = map[string]string{
	string(api.DialectResponses): "namespace", string(api.DialectConverse): "json", string(api.DialectGemini): "parameters",
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
