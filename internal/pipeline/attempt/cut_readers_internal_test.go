package attempt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"modelgate/internal/format/eventstream"
)

// clientReading is what a client reads of a stream: the calls that it takes for
// finished, and how the stream ends.
type clientReading struct {
	calls        []string // name and arguments
	done, failed bool
	late         bool   // the error follows a message that says that the response is complete
	problem      string // the first violation of the dialect's grammar
}

func (r *clientReading) violates(format string, args ...any) {
	if r.problem == "" {
		r.problem = fmt.Sprintf(format, args...)
	}
}

// object is a JSON object of a stream.
type object map[string]any

// at returns the value at a path of names and indexes, nil if there is none.
func (o object) at(path ...any) any {
	var v any = map[string]any(o)
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

func (o object) text(path ...any) string { s, _ := o.at(path...).(string); return s }

func (o object) list(path ...any) []any { l, _ := o.at(path...).([]any); return l }

func (o object) int(path ...any) int { f, _ := o.at(path...).(float64); return int(f) }

// call returns a call in a form that does not depend on spaces. Text that is not
// JSON is the input of a custom tool.
func call(name, arguments string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(arguments)) != nil {
		text, _ := json.Marshal(map[string]string{"input": arguments})
		return name + " " + string(text)
	}
	return name + " " + b.String()
}

// eventsOf reads server-sent events strictly: an event is a line of JSON, and
// perhaps one with its type.
func (r *clientReading) eventsOf(out []byte, each func(typ string, o object)) {
	out = bytes.ReplaceAll(out, []byte("\r\n"), []byte("\n"))
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n\n")) {
		r.violates("the stream ends inside an event")
	}
	for block := range strings.SplitSeq(strings.TrimRight(string(out), "\n"), "\n\n") {
		var typ, data string
		for line := range strings.Lines(strings.Trim(block, "\n") + "\n") {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, ":"):
			case strings.HasPrefix(line, "event: ") && typ == "":
				typ = line[len("event: "):]
			case strings.HasPrefix(line, "data:") && data == "":
				data = strings.TrimSpace(line[len("data:"):])
			default:
				r.violates("line %.80q in an event", line)
			}
		}
		switch {
		case data == "" && typ == "": // a comment
			continue
		case data == "[DONE]":
			each(data, nil)
			continue
		}
		var o object
		if err := json.Unmarshal([]byte(data), &o); err != nil {
			r.violates("%v in %.120s", err, block)
			continue
		}
		if r.failed || r.done && o["error"] == nil {
			r.violates("an event after the end: %.80s", block)
			continue
		}
		if typ != "" && typ != o.text("type") {
			r.violates("type %q of event %.120s", typ, block)
		}
		each(o.text("type"), o)
	}
}

// readChatStream reads calls whose choice has a finish reason.
func readChatStream(out []byte) (r clientReading) {
	type open struct{ name, arguments string }
	var calls []open
	finished := false
	r.eventsOf(out, func(typ string, o object) {
		if typ == "[DONE]" {
			if r.failed || r.done {
				r.violates("[DONE] after the end")
			}
			r.done = true
			return
		}
		if o["error"] != nil {
			r.failed = true
			return
		}
		delta := object{"d": o.at("choices", 0, "delta")}
		for _, piece := range delta.list("d", "tool_calls") {
			p := object(piece.(map[string]any))
			i := p.int("index")
			if _, numbered := p["index"]; !numbered { // some providers send complete calls without numbers
				i = len(calls)
			}
			for len(calls) <= i {
				calls = append(calls, open{})
			}
			if name := p.text("function", "name") + p.text("custom", "name"); name != "" {
				calls[i].name = name
			}
			calls[i].arguments += p.text("function", "arguments") + p.text("custom", "input")
			if finished {
				r.violates("a call after the finish reason")
			}
		}
		if reason := o.text("choices", 0, "finish_reason"); reason != "" {
			if finished && len(delta.list("d", "tool_calls")) > 0 {
				r.violates("a second finish reason")
			}
			finished = true
		}
	})
	if finished {
		for _, c := range calls {
			r.calls = append(r.calls, call(c.name, c.arguments))
		}
	}
	r.done = r.done && finished
	return r
}

// readMessagesStream reads calls whose block has ended.
func readMessagesStream(out []byte) (r clientReading) {
	started, stopped := false, false
	next, open := 0, -1
	var block object
	var arguments string
	r.eventsOf(out, func(typ string, o object) {
		if !started && typ != "message_start" && typ != "error" && typ != "ping" {
			r.violates("%s before message_start", typ)
		}
		switch typ {
		case "message_start":
			started = true
		case "content_block_start":
			if open >= 0 || o.int("index") != next {
				r.violates("block %v begins while %d is open, after %d blocks", o["index"], open, next)
			}
			block, arguments = object{"b": o["content_block"]}, ""
			open = next
			next++
		case "content_block_delta":
			if open < 0 || o.int("index") != open {
				r.violates("a delta to block %v while %d is open", o["index"], open)
			}
			arguments += o.text("delta", "partial_json")
		case "content_block_stop":
			if open < 0 || o.int("index") != open {
				r.violates("block %v ends while %d is open", o["index"], open)
			}
			open = -1
			if block.text("b", "type") == "tool_use" {
				if arguments == "" {
					raw, _ := json.Marshal(block.at("b", "input"))
					arguments = string(raw)
				}
				r.calls = append(r.calls, call(block.text("b", "name"), arguments))
			}
		case "message_delta":
			if open >= 0 || o.text("delta", "stop_reason") == "" {
				r.violates("message_delta while block %d is open: %v", open, o)
			}
			stopped = true
		case "message_stop":
			if !stopped {
				r.violates("message_stop before message_delta")
			}
			r.done = true
		case "error":
			r.failed = true
		}
	})
	return r
}

// readResponsesStream reads calls by the first of the events that say that they
// are finished.
func readResponsesStream(out []byte) (r clientReading) {
	type item struct {
		typ, name, sum string
		finished, over bool
	}
	var items []*item
	finish := func(it *item, arguments string) {
		if it.sum != arguments {
			r.violates("the deltas of %s are %q, its end says %q", it.name, it.sum, arguments)
		}
		if !it.finished {
			r.calls = append(r.calls, call(it.name, arguments))
		}
		it.finished = true
	}
	seq, created := 0, false
	r.eventsOf(out, func(typ string, o object) {
		if o.int("sequence_number") != seq {
			r.violates("%s has number %v, want %d", typ, o["sequence_number"], seq)
		}
		seq++
		if !created && typ != "response.created" && typ != "error" {
			r.violates("%s before response.created", typ)
		}
		n := o.int("output_index")
		switch typ {
		case "response.created":
			created = true
		case "response.output_item.added":
			if n != len(items) {
				r.violates("item %d begins after %d items", n, len(items))
			}
			items = append(items, &item{typ: o.text("item", "type"), name: o.text("item", "name")})
		case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
			if n >= len(items) || items[n].over {
				r.violates("a delta to item %d", n)
				return
			}
			items[n].sum += o.text("delta")
		case "response.function_call_arguments.done":
			finish(items[n], o.text("arguments"))
		case "response.custom_tool_call_input.done":
			finish(items[n], o.text("input"))
		case "response.output_item.done":
			if n >= len(items) || items[n].over {
				r.violates("item %d ends", n)
				return
			}
			items[n].over = true
			if t := items[n].typ; t == "function_call" || t == "custom_tool_call" {
				finish(items[n], o.text("item", "arguments")+o.text("item", "input"))
			}
		case "error", "response.failed", "response.completed", "response.incomplete":
			for i, it := range o.list("response", "output") {
				it := object(it.(map[string]any))
				if t := it.text("type"); (t == "function_call" || t == "custom_tool_call") && it.text("status") == "completed" && (i >= len(items) || !items[i].finished) {
					r.violates("%s says that call %d is completed", typ, i)
				}
			}
			r.failed = typ == "error" || typ == "response.failed"
			r.done = !r.failed
		}
	})
	return r
}

// readGeminiStream reads calls that are not continued.
func readGeminiStream(out []byte) (r clientReading) {
	r.eventsOf(out, func(_ string, o object) {
		if o["error"] != nil {
			r.failed, r.late, r.done = true, r.done, false
			return
		}
		for _, p := range o.list("candidates", 0, "content", "parts") {
			p := object(p.(map[string]any))
			if p["functionCall"] == nil {
				continue
			}
			raw, _ := json.Marshal(p.at("functionCall", "args"))
			r.calls = append(r.calls, call(p.text("functionCall", "name"), string(raw)))
		}
		if o.text("candidates", 0, "finishReason") != "" {
			r.done = true
		}
	})
	return r
}

// readConverseStream reads calls whose block has ended.
func readConverseStream(out []byte) (r clientReading) {
	type block struct{ name, arguments string }
	open := map[int]*block{}
	var ended []int
	started, stopped, over := false, false, false
	reader := eventstream.NewReader(bytes.NewReader(out), 0)
	for {
		m, err := reader.Next()
		if err != nil {
			if err != io.EOF {
				r.violates("%v", err)
			}
			r.done = stopped && !r.failed
			return r
		}
		var o object
		if err := json.Unmarshal(m.Data(), &o); err != nil {
			r.violates("%v in %.120s", err, m.Data())
		}
		if r.failed || over {
			r.violates("%s after the end", m.Type())
		}
		typ, n := string(m.Type()), o.int("contentBlockIndex")
		if kind, _ := m.Header(":message-type"); kind == "exception" {
			r.failed, r.late = true, stopped
			continue
		}
		if started == (typ == "messageStart") {
			r.violates("%s, begun %t", typ, started)
		}
		switch typ {
		case "messageStart":
			started = true
		case "contentBlockStart":
			open[n] = &block{name: o.text("start", "toolUse", "name")}
		case "contentBlockDelta":
			if slices.Contains(ended, n) {
				r.violates("a delta to block %d after its end", n)
			}
			if open[n] == nil {
				open[n] = &block{}
			}
			open[n].arguments += o.text("delta", "toolUse", "input")
		case "contentBlockStop":
			b := open[n]
			if b == nil {
				r.violates("block %d ends without a start", n)
				continue
			}
			if ended = append(ended, n); b.name != "" {
				if b.arguments == "" {
					b.arguments = "{}"
				}
				r.calls = append(r.calls, call(b.name, b.arguments))
			}
			delete(open, n)
		case "messageStop":
			if stopped = true; len(open) > 0 {
				r.violates("messageStop while %d blocks are open", len(open))
			}
		case "metadata":
			if over = true; !stopped {
				r.violates("metadata before messageStop")
			}
		}
	}
}
