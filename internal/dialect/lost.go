package dialect

import "modelgate/internal/llm"

// UnsupportedContent names what of messages a dialect has no place for.
type UnsupportedContent struct {
	Names   bool // of participants
	Details bool // the resolution that images are asked to be seen in
	Cites   bool // the wish that documents are cited
	// Taken are the types of pieces of other dialects that are carried.
	Taken []string
}

// DropContent tells of what the messages hold of lost, and of what people wrote
// that only another dialect than own knows. What a model did with tools of its
// provider's is no longer needed, so it is not told of.
func (f *ParamChanges) DropContent(own string, lost UnsupportedContent) {
	for i := range f.r.Messages {
		m := &f.r.Messages[i]
		if lost.Names && m.Name != "" {
			f.DropNamed("messages.name")
		}
		if m.Role != llm.Assistant {
			f.dropParts(m.Parts, own, lost)
		}
	}
}

func (f *ParamChanges) dropParts(parts []llm.Part, own string, lost UnsupportedContent) {
	for _, p := range parts {
		switch p := p.(type) {
		case llm.Media:
			if lost.Details && p.Detail != "" && p.Detail != "auto" {
				f.DropNamed("detail")
			}
			if lost.Cites && p.Cite {
				f.DropNamed("citations")
			}
		case llm.ToolResult:
			f.dropParts(p.Parts, own, lost)
		case llm.Native:
			if p.Dialect != own && !contains(lost.Taken, p.Type) {
				f.DropNamed(p.Type)
			}
		}
	}
}
