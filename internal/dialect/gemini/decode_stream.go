package gemini

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// NewDecoder returns a decoder for one streamed response.
func (Dialect) NewDecoder(r *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	return newDecoder(r, to)
}

func newDecoder(r *llm.Request, to dialect.RequestTarget) *streamDecoder {
	d := &streamDecoder{}
	if r == nil {
		return d
	}
	d.forced = emulated(r, modeldata.Google.Of(to.KnownModel()))
	for i := range r.Tools {
		if r.Tools[i].Custom {
			d.custom = append(d.custom, r.Tools[i].Name)
		}
	}
	for i := range r.Messages {
		for _, p := range r.Messages[i].Parts {
			if _, ok := p.(llm.ToolCall); ok {
				d.calls++
			}
		}
	}
	return d
}

// streamDecoder reads the frames of one response. Each frame has the form of a
// response with the new content only.
type streamDecoder struct {
	complete bool // the frame is a complete response, which needs no finish reason

	forced bool     // structured output is emulated by a forced tool
	custom []string // tools with text input
	calls  int      // of the conversation so far

	begun, failed bool
	id            string
	counts        counts
	told          llm.Usage
	blocked       string // reason why the prompt was blocked
	choices       []candidate
}

// candidate is the state of one choice.
type candidate struct {
	began    bool
	parts    int      // number of parts begun
	open     llm.Part // the last part while it can grow: Text, Thinking, ToolCall
	signed   bool     // open has its signature
	said     []byte   // the text of the open Text
	args     *partial // of an open ToolCall
	gathered []byte   // arguments of an open call of a custom tool, nil for others
	called   bool     // has a call
	finish   string   // the reason
	extra    []llm.Member
	logprobs []llm.Logprob // until text arrives
}

// maxChoices is more than the protocol allows.
const maxChoices = 128

// Decode appends the events of a frame. Streams without alt=sse and errors come
// as a list of several.
func (d *streamDecoder) Decode(dst []llm.Event, frame sse.Event) []llm.Event {
	v, err := jsonedit.ParseValue(frame.Data)
	if err != nil {
		return dst
	}
	if v.Kind() == jsonedit.Array {
		for e := range v.Elements() {
			dst = d.frame(dst, e)
		}
		return dst
	}
	return d.frame(dst, v)
}

func (d *streamDecoder) frame(dst []llm.Event, v jsonedit.Value) []llm.Event {
	if d.failed || v.Kind() != jsonedit.Object {
		return dst
	}
	var candidates, usage, feedback, fault jsonedit.Value
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"candidates"`:
			candidates = v
		case `"usageMetadata"`:
			usage = v
		case `"promptFeedback"`:
			feedback = v
		case `"error"`:
			fault = v
		}
	}
	if fault.Kind() == jsonedit.Object || fault.Kind() == jsonedit.String {
		d.failed = true
		return append(dst, llm.Event{Kind: llm.EventError, Fault: faultOf(fault)})
	}
	if _, blocked := feedback.Get("blockReason"); !d.begun && !d.complete && !blocked && isEmpty(candidates) {
		d.counts.read(usage)
		return dst
	}
	if !d.begun {
		dst = d.start(dst, v)
	}
	if reason, ok := feedback.Get("blockReason"); ok {
		d.blocked, _ = reason.Text()
	}
	n := int64(0)
	for c := range candidates.Elements() {
		dst = d.candidate(dst, c, n)
		n++
	}
	return d.usage(dst, usage)
}

func isEmpty(list jsonedit.Value) bool {
	for range list.Elements() {
		return false
	}
	return true
}

// start appends the start event.
func (d *streamDecoder) start(dst []llm.Event, v jsonedit.Value) []llm.Event {
	d.begun = true
	e := llm.Event{Kind: llm.EventStart}
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"candidates"`:
		case `"usageMetadata"`:
			e.ServiceTier = tierOf(v)
		case `"modelVersion"`:
			e.Model, _ = v.Text()
		case `"responseId"`:
			e.ID, _ = v.Text()
		case `"createTime"`:
			text, _ := v.Text()
			if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
				e.Created = t.Unix()
			}
			e.Extra = append(e.Extra, llm.Member{Name: "createTime", Value: slices.Clone(v.Raw())})
		default:
			e.Extra = append(e.Extra, llm.Member{Name: key.String(), Value: slices.Clone(v.Raw())})
		}
	}
	d.id = e.ID
	return append(dst, e)
}

// tierOf returns the service tier in the spelling of the host.
func tierOf(usage jsonedit.Value) string {
	if tier, ok := usage.Get("serviceTier"); ok {
		text, _ := tier.Text()
		return neutralTier(text)
	}
	traffic, _ := usage.Get("trafficType")
	switch text, _ := traffic.Text(); text {
	case "ON_DEMAND_PRIORITY":
		return "priority"
	case "ON_DEMAND_FLEX":
		return "flex"
	}
	return ""
}

// usage appends the counters if they have changed.
func (d *streamDecoder) usage(dst []llm.Event, v jsonedit.Value) []llm.Event {
	if v.Kind() != jsonedit.Object {
		return dst
	}
	d.counts.read(v)
	if u := d.counts.usage(); u != d.told {
		d.told = u
		dst = append(dst, llm.Event{Kind: llm.EventUsage, Usage: u})
	}
	return dst
}

// candidate decodes what a frame adds to a choice, whose index is n unless it
// has one.
func (d *streamDecoder) candidate(dst []llm.Event, v jsonedit.Value, n int64) []llm.Event {
	var content jsonedit.Value
	var logprobs []llm.Logprob
	var finish string
	var extra []llm.Member
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"content"`:
			content = v
		case `"index"`:
			n, _ = v.Int()
		case `"finishReason"`:
			finish, _ = v.Text()
		case `"logprobsResult"`:
			logprobs = logprobsOf(v)
		default:
			extra = append(extra, llm.Member{Name: key.String(), Value: v.Raw()})
		}
	}
	if n < 0 || n >= maxChoices {
		return dst
	}
	for int64(len(d.choices)) <= n {
		d.choices = append(d.choices, candidate{})
	}
	c := &d.choices[n]
	c.began = true
	if finish != "" {
		c.finish = finish
	}
	for _, m := range extra {
		c.keep(m)
	}
	c.logprobs = append(c.logprobs, logprobs...)
	parts, _ := content.Get("parts")
	for p := range parts.Elements() {
		dst = d.part(dst, int(n), p)
	}
	return d.lateLogprobs(dst, int(n))
}

// keep stores an additional member of the choice; the last value wins.
func (c *candidate) keep(m llm.Member) {
	m.Value = slices.Clone(m.Value)
	for i := range c.extra {
		if c.extra[i].Name == m.Name {
			c.extra[i].Value = m.Value
			return
		}
	}
	c.extra = append(c.extra, m)
}

// extraMember returns the value of an additional member, nil if there is none.
func (c *candidate) extraMember(name string) json.RawMessage {
	for _, m := range c.extra {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// lateLogprobs emits log probabilities that arrived without text.
func (d *streamDecoder) lateLogprobs(dst []llm.Event, choice int) []llm.Event {
	c := &d.choices[choice]
	if _, ok := c.open.(llm.Text); !ok || len(c.logprobs) == 0 {
		return dst
	}
	e := llm.Event{Kind: llm.EventDelta, Choice: choice, Part: c.parts - 1, Logprobs: c.logprobs}
	c.logprobs = nil
	return append(dst, e)
}

// logprobsOf reads the log probabilities of tokens.
// https://ai.google.dev/api/generate-content#LogprobsResult
func logprobsOf(v jsonedit.Value) []llm.Logprob {
	chosen, _ := v.Get("chosenCandidates")
	tops, _ := v.Get("topCandidates")
	var list []llm.Logprob
	for c := range chosen.Elements() {
		list = append(list, logprobOf(c))
	}
	n := 0
	for top := range tops.Elements() {
		if n == len(list) {
			break
		}
		others, _ := top.Get("candidates")
		for c := range others.Elements() {
			list[n].Top = append(list[n].Top, logprobOf(c))
		}
		n++
	}
	return list
}

func logprobOf(v jsonedit.Value) (p llm.Logprob) {
	token, _ := v.Get("token")
	p.Token, _ = token.Text()
	probability, _ := v.Get("logProbability")
	p.Logprob, _ = probability.Float()
	return p
}

// End appends the ends of open parts, the finish reasons and, if every choice
// has one, the end of the response. Finish reasons wait until here, because
// some models send one with every frame and sources follow them.
func (d *streamDecoder) End(dst []llm.Event) []llm.Event {
	if d.failed {
		return dst
	}
	d.failed = true
	if d.blocked != "" && len(d.choices) == 0 {
		dst = append(dst, llm.Event{Kind: llm.EventFinish, Stop: llm.StopFilter, NativeFinishReason: d.blocked})
		return append(dst, llm.Event{Kind: llm.EventEnd})
	}
	finished := len(d.choices) > 0
	for i := range d.choices {
		c := &d.choices[i]
		dst = d.cite(dst, i)
		dst = d.close(dst, i)
		if c.finish == "" && c.began && !d.complete {
			finished = false
			continue
		}
		e := llm.Event{Kind: llm.EventFinish, Choice: i, NativeFinishReason: c.finish, Extra: c.extra}
		if c.finish != "" {
			e.Stop = stopOf(c.finish, c.called)
		}
		dst = append(dst, e)
	}
	if finished {
		dst = append(dst, llm.Event{Kind: llm.EventEnd})
	}
	return dst
}

// cite appends the sources of the last text.
func (d *streamDecoder) cite(dst []llm.Event, choice int) []llm.Event {
	c := &d.choices[choice]
	ground, err := jsonedit.ParseValue(c.extraMember("groundingMetadata"))
	if _, ok := c.open.(llm.Text); !ok || err != nil {
		return dst
	}
	for _, cited := range citations(ground, c.said) {
		dst = append(dst, llm.Event{Kind: llm.EventDelta, Choice: choice, Part: c.parts - 1, Citation: &cited})
	}
	return dst
}

// callID returns an id for a call without one. It is the same for streamed and
// complete responses and differs between responses: it contains a hash of the
// response's id or, without an id, the number of the call in the conversation.
func (d *streamDecoder) callID() string {
	n := strconv.Itoa(d.calls)
	d.calls++
	if d.id == "" {
		return "call_" + n
	}
	h := fnv.New64a()
	h.Write([]byte(d.id))
	return "call_" + strconv.FormatUint(h.Sum64(), 36) + "_" + n
}
