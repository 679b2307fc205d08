package attempt

import (
	"slices"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// lostContent collects the types of content that a response has and its client's
// dialect does not. The zero value is for a client that receives everything.
type lostContent struct {
	client string                // the client's dialect; empty collects nothing
	holds  func(*llm.Media) bool // reports whether the client receives media; nil: all
	list   []dialect.ParamChange
}

// lostFor returns an empty collection for the client of a conversation.
func (c *conversation) lostFor(a *attempt) lostContent {
	if c.decoded.Dialect == string(api.DialectChat) && a.plan.handler.Lenient {
		return lostContent{} // has content_blocks
	}
	to := c.responseTarget(a)
	return lostContent{client: c.decoded.Dialect, holds: func(m *llm.Media) bool { return c.client.HoldsMedia(m, to) }}
}

// carry returns a part as the client can receive it: speech as its transcript if the
// dialect has no audio. It records what the client does not receive.
func (l *lostContent) carry(p llm.Part) llm.Part {
	if l.client == "" {
		return p
	}
	switch part := p.(type) {
	case llm.Native:
		if part.Dialect != l.client {
			l.add(part.Type, dialect.Dropped, "")
		}
	case llm.Media:
		if l.holds == nil || l.holds(&part) {
			return p
		}
		if words := transcript(&part); words != "" {
			l.add(string(part.Kind), dialect.Adapted, dialect.Transcript)
			return llm.Text{Text: words}
		}
		l.add(string(part.Kind), dialect.Dropped, "")
	}
	return p
}

// transcript returns the words of audio, empty if it has none.
func transcript(m *llm.Media) string {
	for _, e := range m.Extra {
		if v, err := jsonedit.ParseValue(e.Value); err == nil && e.Name == "transcript" {
			text, _ := v.Text()
			return text
		}
	}
	return ""
}

// maxLost is the limit of the types that are named: a response may have any number.
const maxLost = 32

// add records what happens to content of a type, once.
func (l *lostContent) add(name string, outcome dialect.ChangeKind, note string) {
	change := dialect.ParamChange{Name: "response." + name, Outcome: outcome, Note: note}
	if len(l.list) < maxLost && !slices.Contains(l.list, change) {
		l.list = append(l.list, change)
	}
}

// changes returns the announcements of what was collected.
func (l *lostContent) changes() []dialect.ParamChange { return l.list }
