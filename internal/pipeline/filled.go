package pipeline

import (
	"slices"

	"modelgate/internal/jsonedit"
	"modelgate/internal/reqlog"
)

// PromptEdits is what a saved prompt puts into a request. The zero value is for a
// request that a prompt can't make, of which there are many kinds: files,
// embeddings, what passes through.
type PromptEdits struct {
	Prompt reqlog.Prompt
	Edits  []jsonedit.Edit
	Model  string // that Edits give; empty for none
}

// applyPrompt takes over what the target's saved prompt puts into the request. It
// comes before what the target's config overrides.
func (l *TargetHandler) applyPrompt(x *Exchange) error {
	before := x.Entry.Prompt
	x.Entry.Prompt = x.Prompt
	if l.fill == nil {
		return nil
	}
	f, err := l.fill(x)
	if err != nil {
		return err
	}
	if f.Edits == nil {
		x.note("prompt_id;ignored")
		return nil
	}
	if x.Entry.Prompt = f.Prompt; f.Prompt != before { // else it is another attempt
		x.recordDecision(l.Path, "the saved prompt %s makes the request, in its version %d", f.Prompt.Slug, f.Prompt.Version)
	}
	l.Override = slices.Concat(f.Edits, l.Override)
	if l.Model == "" {
		l.Model = f.Model
	}
	return nil
}
