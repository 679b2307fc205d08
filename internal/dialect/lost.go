package dialect

import "modelgate/internal/model/llm"

// UnsupportedContent lists message content that a dialect cannot express.
type UnsupportedContent struct {
	Names   bool // of participants
	Details bool // the detail level of images
	Cites   bool // the request to cite documents
}

// DropContent records the message content that lost lists as dropped.
func (f *ParamChanges) DropContent(lost UnsupportedContent) {
	for i := range f.r.Messages {
		m := &f.r.Messages[i]
		if lost.Names && m.Name != "" {
			f.DropNamed("messages.name")
		}
		if m.Role != llm.Assistant {
			f.dropParts(m.Parts, lost)
		}
	}
}

func (f *ParamChanges) dropParts(parts []llm.Part, lost UnsupportedContent) {
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
			f.dropParts(p.Parts, lost)
		}
	}
}

// LeaveOutThinking records that thinking of earlier turns is not sent: the
// target would reject it or does not read it. That changes nothing that the
// client asked for, so on_unsupported does not apply.
func (f *ParamChanges) LeaveOutThinking() {
	f.add(f.r.NameOf(llm.FieldHistory), Ignored, NotRead)
}

// Opener is the user's message before a conversation that begins with the assistant, for
// providers that require one.
const Opener = "Begin."

// BeginWithUser records that the conversation begins with a message of the user that the
// client did not send, and returns its text.
func (f *ParamChanges) BeginWithUser() llm.Text {
	f.Adapt(llm.FieldParts, BeginsWithUser)
	return llm.Text{Text: Opener}
}
