package chat

import (
	"bytes"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

var _ dialect.TurnArranger = Dialect{}

// reply is the text of a message of the assistant that a provider demands and the
// conversation does not have.
const reply = "Understood."

// ArrangeTurns implements dialect.TurnArranger.
func (Dialect) ArrangeTurns(body *jsonedit.Doc, earlier []jsonedit.Edit,
	to dialect.RequestTarget) ([]jsonedit.Edit, []dialect.ParamChange) {
	if to.Turns == (dialect.TurnRules{}) {
		return nil, nil
	}
	list, _ := body.Find("messages")
	for _, e := range earlier {
		if v, err := jsonedit.ParseValue(e.Value); err == nil && e.Name == "messages" {
			list = v
		}
	}
	if list.Kind() != jsonedit.Array {
		return nil, nil
	}
	a := turnArranger{rules: to.Turns}
	for m := range list.Elements() {
		a.add(m)
	}
	a.end()
	if len(a.changes) == 0 {
		return nil, nil
	}
	value := append(append([]byte("["), bytes.Join(a.turns, []byte(","))...), ']')
	return []jsonedit.Edit{{Name: "messages", Value: value}}, a.changes
}

// turnArranger collects the messages of a body in the order that a provider demands.
type turnArranger struct {
	rules   dialect.TurnRules
	turns   [][]byte
	last    string // role of the last turn
	begun   bool   // a message other than the system's has been added
	changes []dialect.ParamChange
}

// announce records a change of the messages, once.
func (a *turnArranger) announce(note string) {
	for _, c := range a.changes {
		if c.Note == note {
			return
		}
	}
	a.changes = append(a.changes, dialect.ParamChange{Name: "messages", Outcome: dialect.Adapted, Note: note})
}

func (a *turnArranger) add(m jsonedit.Value) {
	raw, role := m.Raw(), roleOf(m)
	if role == "developer" && a.rules.SystemOnly {
		a.announce(dialect.DeveloperAsSystem)
		raw, role = withMember(raw, "role", `"system"`), "system"
	}
	if a.rules.ReplyAfterTool && a.last == "tool" && role != "tool" && role != "assistant" {
		a.announce(dialect.ReplyInserted)
		a.turns = append(a.turns, textMessage("assistant", reply))
	}
	if a.rules.Alternate {
		raw, role = a.alternate(raw, role)
	}
	if raw != nil {
		a.turns = append(a.turns, raw)
	}
	a.last = role
}

// alternate returns a message as it is added. One that continues the turn before it is
// added to that, and is nil.
func (a *turnArranger) alternate(raw []byte, role string) ([]byte, string) {
	if role == "system" && !a.begun {
		return raw, role
	}
	if role == "system" {
		a.announce(dialect.LaterSystemAsUser)
		raw, role = withMember(raw, "role", `"user"`), "user"
	}
	if !a.begun && role == "assistant" {
		a.announce(dialect.BeginsWithUser)
		a.turns = append(a.turns, textMessage("user", dialect.Opener))
	}
	a.begun = true
	if role != a.last || role != "user" && role != "assistant" {
		return raw, role
	}
	merged := mergeTurns(a.turns[len(a.turns)-1], raw)
	if merged == nil {
		return raw, role
	}
	a.announce(dialect.TurnsMerged)
	a.turns[len(a.turns)-1] = merged
	return nil, role
}

// end marks a last message of the assistant as one that the model continues.
func (a *turnArranger) end() {
	if !a.rules.MarkPrefix || a.last != "assistant" {
		return
	}
	last := &a.turns[len(a.turns)-1]
	v, err := jsonedit.ParseValue(*last)
	if err != nil || isSet(v, "prefix") || isSet(v, "tool_calls") {
		return
	}
	a.announce(dialect.PrefixMarked)
	*last = withMember(*last, "prefix", "true")
}

// mergeTurns returns the first message with the content of both: a text of two texts,
// otherwise a list of parts. It returns nil if either has more than content.
func mergeTurns(first, second []byte) []byte {
	v, err := jsonedit.ParseValue(first)
	w, failed := jsonedit.ParseValue(second)
	if err != nil || failed != nil || isSet(v, "tool_calls") || isSet(w, "tool_calls") {
		return nil
	}
	content, _ := v.Get("content")
	more, _ := w.Get("content")
	text, plain := content.Text()
	added, alsoPlain := more.Text()
	if plain && alsoPlain {
		return withMember(first, "content", string(jsonedit.AppendString(nil, text+"\n\n"+added)))
	}
	var b jsonedit.Builder
	b.Open('[')
	for _, c := range [...]jsonedit.Value{content, more} {
		appendContent(&b, c)
	}
	b.Close(']')
	return withMember(first, "content", string(b.Bytes()))
}

// appendContent appends the parts of content.
func appendContent(b *jsonedit.Builder, content jsonedit.Value) {
	if text, ok := content.Text(); ok {
		b.Open('{')
		b.Name("type")
		b.String("text")
		b.Name("text")
		b.String(text)
		b.Close('}')
		return
	}
	for part := range content.Elements() {
		b.Raw(part.Raw())
	}
}

func roleOf(m jsonedit.Value) string {
	v, _ := m.Get("role")
	role, _ := v.Text()
	return role
}

// isSet reports whether an object has a member that is not null.
func isSet(v jsonedit.Value, name string) bool {
	m, ok := v.Get(name)
	return ok && !m.IsNull()
}

// withMember returns an object with the value of a member replaced.
func withMember(object []byte, name, value string) []byte {
	var d jsonedit.Doc
	if d.Scan(object) != nil {
		return object
	}
	return d.Apply(nil, jsonedit.Edit{Name: name, Value: []byte(value)})
}

func textMessage(role, text string) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("role")
	b.String(role)
	b.Name("content")
	b.String(text)
	b.Close('}')
	return b.Bytes()
}
