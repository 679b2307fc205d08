package responses

import (
	"math"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewDecoder returns a decoder for one streamed response.
func (Dialect) NewDecoder(asked *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	return &streamDecoder{asked: asked, vendor: vendorOf(to)}
}

// streamDecoder reads a stream. Items are distinguished by their output_index:
// some providers change an item's id with every event.
type streamDecoder struct {
	asked  *llm.Request
	vendor llm.Vendor
	doc    jsonedit.Doc
	dst    []llm.Event

	began, over bool
	parts       int      // number of parts begun
	stop        llm.Part // a call or a refusal, which decides the stop reason
	items       []*incoming
	byIndex     map[int64]*incoming
	newest      *incoming
	waiting     []*incoming // thinking items without text so far
}

// incoming is an output item.
type incoming struct {
	index   int64
	kind    kind
	id      string
	content []grown // of a message by content_index, otherwise at most one of each kind
	closed  bool
	top     int64 // the largest content_index so far, plus 1
}

// grown is a part that receives deltas.
type grown struct {
	index    int64  // content_index of a message's part
	part     int    // its number in the neutral response
	length   int    // bytes of text so far
	sum      uint64 // hash of that text
	cites    int
	section  int64 // of a summary or reasoning text, from 0
	summary  bool
	opened   bool
	ended    bool
	logprobs bool
}

type kind uint8

const (
	kindOther kind = iota
	kindMessage
	kindThinking
	kindCall
	kindCustom
)

var kinds = map[string]kind{
	"message": kindMessage, "reasoning": kindThinking, "function_call": kindCall, "custom_tool_call": kindCustom,
}

// Decode appends the events of a frame.
func (d *streamDecoder) Decode(dst []llm.Event, frame sse.Event) []llm.Event {
	if d.over || len(frame.Data) == 0 || d.doc.Scan(frame.Data) != nil {
		return dst
	}
	d.dst = dst
	d.event()
	d.doc.Reset()
	dst, d.dst = d.dst, nil
	return dst
}

// End ends the open parts. Without its last event a response is not complete.
func (d *streamDecoder) End(dst []llm.Event) []llm.Event {
	if d.over {
		return dst
	}
	d.dst = dst
	d.closeAll()
	d.over = true
	dst, d.dst = d.dst, nil
	return dst
}

func (d *streamDecoder) find(name string) jsonedit.Value {
	v, _ := d.doc.Find(name)
	return v
}

func (d *streamDecoder) text(name string) string {
	text, _ := d.find(name).Text()
	return text
}

// number returns an index of the event, zero if it is missing.
func (d *streamDecoder) number(name string) int64 {
	return min(count(d.find(name)), math.MaxInt32)
}

// openItems is how many of the newest items are searched for an id: each event of a
// stream, which may have any number of items, causes a search.
const openItems = 64

// outputIndex returns the index of the item that an event with this kind belongs to.
// Events without an output_index belong to the item with their item_id, otherwise to the
// newest item if it has their kind, otherwise to a new one.
func (d *streamDecoder) outputIndex(k kind) int64 {
	if d.find("output_index").Kind() == jsonedit.Number {
		return d.number("output_index")
	}
	if id := d.text("item_id"); id != "" {
		for i := len(d.items) - 1; i >= max(0, len(d.items)-openItems); i-- {
			if d.items[i].id == id {
				return d.items[i].index
			}
		}
	}
	if d.newest != nil && d.newest.kind == k {
		return d.newest.index
	}
	return int64(len(d.items))
}

func (d *streamDecoder) event() {
	typ, ok := d.find("type").TextBytes()
	if !ok {
		if e := d.find("error"); !e.IsNull() { // from hosts that do not use events for errors
			d.fault(e)
		}
		return
	}
	switch string(typ) {
	case "response.output_text.delta", "response.refusal.delta":
		d.grow(kindMessage, d.number("content_index"))
	case "response.function_call_arguments.delta":
		d.grow(kindCall, 0)
	case "response.custom_tool_call_input.delta":
		d.grow(kindCustom, 0)
	case "response.reasoning_summary_text.delta":
		d.think(true, d.number("summary_index"))
	case "response.reasoning_text.delta":
		d.think(false, d.number("content_index"))
	case "response.output_text.annotation.added":
		d.cite()
	case "response.output_item.added":
		d.added()
	case "response.content_part.added":
		d.contentAdded()
	case "response.content_part.done":
		d.contentEnded()
	case "response.output_item.done":
		d.endItem()
	case "response.created", "response.in_progress", "response.queued":
		d.begin(d.find("response"))
	case "response.completed", "response.incomplete":
		d.completed()
	case "response.failed", "response.cancelled":
		d.failed()
	case "error":
		d.errorEvent()
	}
}

func (d *streamDecoder) emit(e llm.Event) { d.dst = append(d.dst, e) }

// begin emits the start event, once.
func (d *streamDecoder) begin(v jsonedit.Value) {
	if d.began {
		return
	}
	d.began = true
	a := readOutcome(v)
	d.emit(llm.Event{Kind: llm.EventStart, ID: a.id, Model: a.model, Created: a.created, ServiceTier: a.tier})
}

// item returns the item with an output_index, which is created if it is new.
func (d *streamDecoder) item(index int64, k kind) *incoming {
	if d.newest != nil && d.newest.index == index {
		return d.newest
	}
	it, ok := d.byIndex[index]
	if !ok {
		d.begin(jsonedit.Value{})
		d.openWaiting()
		it = &incoming{index: index, kind: k}
		d.items = append(d.items, it)
		if d.byIndex == nil {
			d.byIndex = map[int64]*incoming{}
		}
		d.byIndex[index] = it
		if k == kindThinking {
			d.waiting = append(d.waiting, it)
		}
	}
	d.newest = it
	return it
}

// openWaiting begins thinking parts without text, so that parts keep the order
// of the items.
func (d *streamDecoder) openWaiting() {
	for _, it := range d.waiting {
		if !it.closed && len(it.content) == 0 {
			d.open(it, grown{summary: true}, llm.Thinking{Summary: true, ID: it.id})
		}
	}
	d.waiting = d.waiting[:0]
}

// open begins a part of an item.
func (d *streamDecoder) open(it *incoming, g grown, p llm.Part) *grown {
	g.part, g.opened = d.parts, true
	d.parts++
	it.content = append(it.content, g)
	it.top = max(it.top, g.index+1)
	d.emit(llm.Event{Kind: llm.EventPartStart, Part: g.part, Opened: p})
	switch p.(type) {
	case llm.ToolCall:
		d.stop = p
	case llm.Refusal:
		if d.stop == nil {
			d.stop = p
		}
	}
	return &it.content[len(it.content)-1]
}

// last returns the latest part of an item, nil if it has none.
func (it *incoming) last() *grown {
	if len(it.content) == 0 {
		return nil
	}
	return &it.content[len(it.content)-1]
}

// at returns the part of a message at a content_index, nil if there is none.
func (it *incoming) at(index int64) *grown {
	if index >= it.top {
		return nil
	}
	for i := len(it.content) - 1; i >= 0; i-- {
		if it.content[i].index == index {
			return &it.content[i]
		}
	}
	return nil
}

func (d *streamDecoder) end(g *grown) {
	if g != nil && !g.ended {
		g.ended = true
		d.emit(llm.Event{Kind: llm.EventPartEnd, Part: g.part})
	}
}

// grow adds the delta of an event to its part. It begins the part if no event
// did.
func (d *streamDecoder) grow(k kind, index int64) {
	delta := d.text("delta")
	it := d.item(d.outputIndex(k), k)
	if it.closed || it.kind != k {
		return
	}
	g := it.at(index)
	if g == nil {
		var p llm.Part = llm.Text{}
		switch {
		case k == kindCall || k == kindCustom:
			p = llm.ToolCall{ID: d.text("item_id"), Custom: k == kindCustom}
		case d.text("type") == "response.refusal.delta":
			p = llm.Refusal{}
		}
		g = d.open(it, grown{index: index}, p)
	}
	if g.ended || delta == "" {
		return
	}
	e := llm.Event{Kind: llm.EventDelta, Part: g.part, Text: delta}
	if k == kindMessage {
		if list := d.find("logprobs"); len(list.Raw()) > 2 {
			e.Logprobs = logprobs(list)
			g.logprobs = g.logprobs || e.Logprobs != nil
		}
	}
	g.add(delta)
	d.emit(e)
}

// add records text without keeping it: its length and its hash (FNV-1a) show
// later whether the complete text begins with it.
func (g *grown) add(text string) {
	g.length += len(text)
	g.sum = sum(g.sum, text)
}

func sum(h uint64, text string) uint64 {
	if h == 0 {
		h = 14695981039346656037
	}
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// think adds to the summary or the text of thinking. A further section of the
// same kind continues the part; another kind begins a new part.
func (d *streamDecoder) think(summary bool, section int64) {
	it := d.item(d.outputIndex(kindThinking), kindThinking)
	if delta := d.text("delta"); it.kind == kindThinking && !it.closed && delta != "" {
		d.addThought(it, summary, section, delta)
	}
}

func (d *streamDecoder) addThought(it *incoming, summary bool, section int64, delta string) {
	g := it.last()
	if g != nil && g.summary != summary {
		d.end(g)
		g = nil
	}
	if g == nil {
		g = d.open(it, grown{summary: summary}, llm.Thinking{Summary: summary, ID: it.id})
	}
	for ; g.section < section && section-g.section < 1000; g.section++ {
		g.add(between)
		d.emit(llm.Event{Kind: llm.EventDelta, Part: g.part, Text: between})
	}
	g.section = section
	g.add(delta)
	d.emit(llm.Event{Kind: llm.EventDelta, Part: g.part, Text: delta})
}

func (d *streamDecoder) cite() {
	it := d.item(d.outputIndex(kindMessage), kindMessage)
	g := it.at(d.number("content_index"))
	if g == nil || g.ended {
		return
	}
	d.addCitation(g, d.find("annotation"))
}

func (d *streamDecoder) addCitation(g *grown, v jsonedit.Value) {
	c := citation(v)
	c.Raw = copied(c.Raw)
	g.cites++
	d.emit(llm.Event{Kind: llm.EventDelta, Part: g.part, Citation: &c})
}
