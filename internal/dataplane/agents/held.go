package agents

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/format/jsonedit"
)

// event is a message in a stream.
type event struct {
	kind string
	data []byte
}

// buffer has the events of a stream that is held back because guardrails read it as a whole.
type buffer struct {
	events []event
	size   int // in memory, in bytes
}

// Limits of a stream that is held back. Each event takes eventSize bytes more than its data.
const (
	maxHeld       = 8 << 20
	maxHeldEvents = 20_000
	eventSize     = 64
)

// add keeps a copy of an event.
func (h *buffer) add(e event) error {
	if h.size += len(e.data) + eventSize; h.size > maxHeld || len(h.events) == maxHeldEvents {
		return apierr.New(apierr.Denied, "the answer is too large to be checked by guardrails").WithCode("response_unchecked")
	}
	h.events = append(h.events, event{e.kind, bytes.Clone(e.data)})
	return nil
}

// check runs the guardrails on all events as one result, with the text of all chunks in one
// piece, and that of each artifact and message too if there are several: what they look for may
// begin in one chunk and end in the next, with others in between. A change to such a text which
// no event has is a denial.
func (h *buffer) check(ctx context.Context, run *dataplane.ToolRun) ([]event, error) {
	if len(h.events) == 0 {
		return nil, nil
	}
	var b jsonedit.Builder
	b.Open('{')
	b.Name("events")
	b.Open('[')
	before := new(texts)
	for _, e := range h.events {
		b.Raw(e.data)
		v, err := jsonedit.ParseValue(e.data)
		if err != nil {
			return nil, invalidAnswer("sent an event that is malformed")
		}
		before.add(v, "", 0)
	}
	if before.ambiguous {
		return nil, invalidAnswer("sent an event that names something twice")
	}
	b.Close(']')
	b.Name("texts")
	b.Open('[')
	for _, text := range before.list() {
		b.String(text)
	}
	b.Close(']')
	b.Close('}')
	out, err := run.CheckResult(ctx, b.Bytes())
	if err != nil || bytes.Equal(out, b.Bytes()) {
		return h.events, err
	}
	v, err := jsonedit.ParseValue(out)
	if err != nil {
		return nil, err
	}
	list, _ := v.Get("events")
	var changed []event
	after := new(texts)
	for e := range list.Elements() {
		if len(changed) < len(h.events) {
			changed = append(changed, event{h.events[len(changed)].kind, e.Raw()})
			after.add(e, "", 0)
		}
	}
	joined, _ := v.Get("texts")
	if len(changed) != len(h.events) || !after.equal(joined) {
		return nil, apierr.New(apierr.Denied, "a guardrail changes text that is in several events of the stream; send the message without streaming").
			WithCode("response_unchecked")
	}
	return changed, nil
}

// texts are the strings in a stream, as clients put chunks together.
type texts struct {
	all       strings.Builder
	byName    map[string]*strings.Builder // of each artifact and message, and of the rest
	order     []*strings.Builder          // of byName
	ambiguous bool                        // an object has a string or an id twice, of which clients read one
}

// sources are the members of events whose values, or their elements, are artifacts and messages,
// with the member that names those.
var sources = map[string]string{"artifact": "artifactid", "artifacts": "artifactid", "message": "messageid", "history": "messageid"}

// add adds the text of all parts in a value of an event. source is what it is part of, empty for
// nothing, and level how many values are around it; deeper ones are data, not text of parts.
func (t *texts) add(v jsonedit.Value, source string, level int) {
	if level++; level > maxLevels {
		return
	}
	for e := range v.Elements() {
		t.add(e, source, level)
	}
	found := false
	for key, value := range v.Fields() {
		name := plainName(key.String())
		if text, ok := value.Text(); ok && name == "text" {
			t.ambiguous = t.ambiguous || found
			found = true
			t.write(source, text)
			continue
		}
		id := sources[name]
		switch {
		case id == "":
			t.add(value, source, level)
		case value.Kind() == jsonedit.Array:
			for e := range value.Elements() {
				t.add(e, t.sourceOf(e, id), level)
			}
		default:
			t.add(value, t.sourceOf(value, id), level)
		}
	}
}

// sourceOf returns what names an artifact or a message by its member id.
func (t *texts) sourceOf(v jsonedit.Value, id string) (source string) {
	found := false
	for key, value := range v.Fields() {
		if plainName(key.String()) == id {
			t.ambiguous = t.ambiguous || found
			found = true
			text, _ := value.Text()
			source = id + text
		}
	}
	return source
}

func (t *texts) write(source, text string) {
	b := t.byName[source]
	if b == nil {
		b = new(strings.Builder)
		if t.byName == nil {
			t.byName = map[string]*strings.Builder{}
		}
		t.byName[source] = b
		t.order = append(t.order, b)
	}
	b.WriteString(text)
	t.all.WriteString(text)
}

// list returns all texts together and, if they have several sources, that of each.
func (t *texts) list() []string {
	list := []string{t.all.String()}
	if len(t.order) > 1 {
		for _, b := range t.order {
			list = append(list, b.String())
		}
	}
	return list
}

// equal reports whether a list has the same texts.
func (t *texts) equal(list jsonedit.Value) bool {
	var other []string
	for e := range list.Elements() {
		text, _ := e.Text()
		other = append(other, text)
	}
	return slices.Equal(t.list(), other)
}
