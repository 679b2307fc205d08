package pipeline

import (
	"slices"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// lostContent collects the types of content that a response has and its client's
// dialect does not. The zero value is for a client that receives everything.
type lostContent struct {
	client string // the client's dialect; empty collects nothing
	types  []string
}

// lostFor returns an empty collection for the client of a conversation.
func (c *conversation) lostFor(a *Attempt) lostContent {
	if c.decoded.Dialect == string(api.DialectChat) && a.handler.Lenient {
		return lostContent{} // has content_blocks
	}
	return lostContent{client: c.decoded.Dialect}
}

// add adds the type of a part unless the client receives the part.
func (l *lostContent) add(p llm.Part) {
	n, ok := p.(llm.Native)
	if !ok || l.client == "" || n.Dialect == l.client || len(l.types) == maxLost || slices.Contains(l.types, n.Type) {
		return
	}
	l.types = append(l.types, n.Type)
}

// maxLost is the limit of the types that are named: a response may have any number.
const maxLost = 32

// changes returns the announcements of what was collected.
func (l *lostContent) changes() []dialect.ParamChange {
	if len(l.types) == 0 {
		return nil
	}
	list := make([]dialect.ParamChange, len(l.types))
	for i, name := range l.types {
		list[i] = dialect.ParamChange{Name: "response." + name, Outcome: dialect.Dropped}
	}
	return list
}
