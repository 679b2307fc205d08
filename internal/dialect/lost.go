package dialect

import "modelgate/internal/llm"

// UnsupportedContent lists message content that a dialect cannot express.
type UnsupportedContent struct {
	Names   bool // of participants
	Details bool // the detail level of images
	Cites   bool // the request to cite documents
	// Taken are the types of native parts of other dialects that the dialect
	// accepts.
	Taken []string
}

// DropContent records the message content that lost lists as dropped, and user
// content that only a dialect other than own has. A model's use of provider
// tools is not needed any more and is not recorded.
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
