package dialect

import (
	"cmp"
	"slices"

	"modelgate/internal/model/llm"
)

// ToolNamer is implemented by codecs of dialects whose providers restrict the names of
// tools. It is optional.
type ToolNamer interface {
	// ToolNames returns which names of tools the target accepts in a request.
	ToolNames(r *llm.Request, to RequestTarget) NameRule
}

// SentNames are the names of tools that a request is sent with, by which the names of the
// client are found again. Nil means that all are sent as they are.
type SentNames map[string]string

// Original returns the client's name for a tool that was sent under a name.
func (s SentNames) Original(name string) string {
	if original, ok := s[name]; ok {
		return original
	}
	return name
}

// FitToolNames returns the request with the names of tools that the target accepts, in
// tools, calls, results and the choice, the names that were replaced, and the changes. A
// request that needs no change is returned as it is; r is not changed.
func FitToolNames(r *llm.Request, rule NameRule) (*llm.Request, SentNames, []ParamChange) {
	f := nameFitter{rule: rule}
	sent := *r
	for i := range r.Tools {
		t := r.Tools[i]
		if fitted := f.fit(t.Name); fitted != t.Name && t.Native == nil && t.Server == "" {
			if f.tools == nil {
				f.tools = slices.Clone(r.Tools)
			}
			f.tools[i].Name = fitted
			f.changes = append(f.changes, ParamChange{cmp.Or(t.At, "tools") + ".name", Adapted, sentAs(fitted)})
		}
	}
	if f.tools != nil {
		sent.Tools = f.tools
	}
	sent.ToolChoice.Names = f.list(r.ToolChoice.Names)
	sent.Messages = f.messages(r.Messages)
	if f.names == nil {
		return r, nil, nil
	}
	return &sent, f.names, f.changes
}

// nameFitter replaces names and remembers them.
type nameFitter struct {
	rule    NameRule
	names   SentNames
	tools   []llm.Tool // nil if none is changed
	changes []ParamChange
}

func (f *nameFitter) fit(name string) string {
	fitted := f.rule.Fit(name)
	if fitted != name {
		if f.names == nil {
			f.names = SentNames{}
		}
		f.names[fitted] = name
	}
	return fitted
}

func (f *nameFitter) list(names []string) []string {
	fitted := names
	for i, name := range names {
		if s := f.fit(name); s != name {
			if &fitted[0] == &names[0] {
				fitted = slices.Clone(names)
			}
			fitted[i] = s
		}
	}
	return fitted
}

func (f *nameFitter) messages(list []llm.Message) []llm.Message {
	fitted, copied := list, false
	for i := range list {
		parts := f.parts(list[i].Parts)
		if parts == nil {
			continue
		}
		if !copied {
			fitted, copied = slices.Clone(list), true
		}
		fitted[i].Parts = parts
	}
	return fitted
}

// parts returns the parts with fitting names, nil if none is changed.
func (f *nameFitter) parts(list []llm.Part) (fitted []llm.Part) {
	for i, p := range list {
		var changed llm.Part
		switch part := p.(type) {
		case llm.ToolCall:
			if name := f.fit(part.Name); name != part.Name {
				part.Name = name
				changed = part
			}
		case llm.ToolResult:
			if name := f.fit(part.Name); name != part.Name {
				part.Name = name
				changed = part
			}
		}
		if changed == nil {
			continue
		}
		if fitted == nil {
			fitted = slices.Clone(list)
		}
		fitted[i] = changed
	}
	return fitted
}
