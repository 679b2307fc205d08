package chat

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewCutter returns a cutter for the response to a request.
func (Dialect) NewCutter(body *jsonedit.Doc) dialect.StreamCutter {
	asked := false
	if options, ok := body.Find("stream_options"); ok {
		v, _ := options.Get("include_usage")
		asked, _ = v.Bool()
	}
	return &cutter{asked: asked}
}

// cutter ends streams of the dialect.
type cutter struct {
	asked       bool   // the client requested the usage
	head        []byte // members of a chunk before the choices
	open, ended choiceSet
}

// Read reads an event that the client receives.
func (c *cutter) Read(e sse.Event) int {
	r := jsonedit.NewCursor(e.Data)
	if !r.Enter('{') {
		return 0
	}
	w := writer{jsonedit.AppendLine([]byte("data: "))}
	w.Open('{')
	learns := c.open == choiceSet{} // the first chunk may have no id
	for key, ok := r.Field(); ok; key, ok = r.Field() {
		switch string(key) {
		case "choices":
			c.choices(r)
		case "id", "object", "created", "model", "system_fingerprint", "service_tier":
			if value := r.Raw(); learns {
				w.Name(string(key))
				w.Raw(value)
			}
		default:
			r.Skip()
		}
	}
	if learns {
		w.Name("choices")
		w.Open('[')
		c.head = w.Bytes()
	}
	return 0
}

// choices reads which choices have begun and ended.
func (c *cutter) choices(r *jsonedit.Cursor) {
	if !r.Enter('[') {
		r.Skip()
		return
	}
	for n := int64(0); r.Element(); n++ {
		if !r.Enter('{') {
			r.Skip()
			continue
		}
		index, ended := n, false
		for key, ok := r.Field(); ok; key, ok = r.Field() {
			switch string(key) {
			case "index":
				if i, ok := readCount(r); ok {
					index = i
				}
			case "finish_reason":
				reason := r.Raw()
				ended = jsonedit.KindOf(reason) == jsonedit.String && len(reason) > len(`""`)
			default:
				r.Skip()
			}
		}
		c.open.add(index)
		if ended {
			c.ended.add(index)
		}
	}
}

// Cut appends the events that end the stream.
func (c *cutter) Cut(dst []byte, u llm.Usage) []byte {
	if c.open == (choiceSet{}) {
		c.open.add(0)
	}
	e := streamEncoder{to: dialect.ResponseTarget{Strict: true}, head: c.head, tail: "]}\n\n", asked: c.asked, usage: u}
	if c.asked {
		e.tail = `],"usage":null}` + "\n\n"
	}
	for i := range maxChoices {
		e.choices = append(e.choices, sentChoice{begun: true})
		if c.open.has(i) && !c.ended.has(i) {
			dst = e.Encode(dst, &llm.Event{Kind: llm.EventFinish, Choice: i, Stop: llm.StopLength})
		}
	}
	return e.end(dst)
}
