package simulator

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	responseFamily = "response"
	responsePrefix = "resp_sim"
	// maxChain is the limit of responses before a response.
	maxChain = 10000
)

// responseState is the part of a request that says how its response is stored.
type responseState struct {
	store      bool
	unique     bool // the response has an id of its own, not that of its request
	background bool
	previous   string
	thread     *conversation
	metadata   map[string]any
	created    string
	earlier    []any // items before those of the request
	input      []any // items of the request
}

// A storedResponse is a response that can be read later.
type storedResponse struct {
	*job
	sim      *Simulator
	id       string
	stream   bool // it can be read as a stream
	previous string
	thread   *conversation
	input    []any
	bodies   map[string][]byte // by status, without the final one
	final    []byte
	frames   []responseFrame // whose index is their sequence number
}

// A responseFrame is an event of a stored stream.
type responseFrame struct{ name, data []byte }

// check accepts the input, which has been checked.
func (r *storedResponse) check() bool { return true }

// produce adds a completed response to its conversation.
func (r *storedResponse) produce(end jobPhase, _ bool) {
	if end == jobCompleted && r.thread != nil {
		r.thread.add(r.sim, append(slices.Clone(r.input), r.output()...))
	}
}

// output returns the items of the complete response.
func (r *storedResponse) output() []any {
	var parsed struct{ Output []any }
	json.Unmarshal(r.final, &parsed) // the simulator made it
	return parsed.Output
}

// body returns the response in its current state. The caller holds mu.
func (r *storedResponse) body() []byte {
	switch r.phase {
	case jobQueued:
		return r.bodies["queued"]
	case jobCompleted:
		return r.final
	case jobFailed, jobExpired:
		return r.bodies["failed"]
	case jobCanceled:
		return r.bodies["cancelled"]
	}
	return r.bodies["in_progress"]
}

// readState reads how the response is stored and finds the items before it.
// gone is the error for a conversation that does not exist.
func (x *exchange) readState(c *checker, m map[string]any) (s *responseState, gone providerError) {
	s = &responseState{store: m["store"] == nil || c.flag(m, "store", ""), background: c.flag(m, "background", ""), created: created}
	s.previous = c.text(m, "previous_response_id", "")
	if s.background && !s.store {
		c.fail("background", "Background mode requires 'store' to be true.")
	}
	s.metadata, _ = m["metadata"].(map[string]any)
	var id string
	if id = readConversationID(c, m); id != "" && s.previous == "" {
		thread, ok := findRecord[*conversation](&x.sim.stored, conversationFamily, id)
		if !ok {
			gone = noConversation(id)
		} else {
			s.thread, s.earlier = thread, thread.list()
		}
	}
	if s.previous != "" && m["conversation"] == nil {
		s.earlier = x.chain(c, s.previous)
	}
	s.unique = s.background || m["store"] == true || s.thread != nil || s.previous != ""
	return s, gone
}

func readConversationID(c *checker, m map[string]any) (id string) {
	switch v := m["conversation"].(type) {
	case nil:
	case string:
		id = v
	case map[string]any:
		c.checkMembers(v, "conversation", "id")
		id = c.filled(v, "id", "conversation")
	default:
		c.fail("conversation", "Expected a string or an object")
	}
	return id
}

// chain returns the items of a stored response and of all responses before it.
func (x *exchange) chain(c *checker, id string) (items []any) {
	var links [][]any
	for first := id; id != ""; {
		r, ok := findRecord[*storedResponse](&x.sim.stored, responseFamily, id)
		if ok {
			r.mu.Lock()
			ok = r.phase == jobCompleted
			r.mu.Unlock()
		}
		if !ok || len(links) > 2*maxChain {
			if c.wrong.kind == "" {
				c.wrong = providerError{kind: invalidRequest, param: "previous_response_id", code: "previous_response_not_found",
					message: "Previous response with id '" + first + "' not found."}
			}
			return nil
		}
		if r.thread == nil {
			links = append(links, r.output(), r.input)
		} else {
			links = append(links, r.thread.list())
		}
		id = r.previous
	}
	for _, link := range slices.Backward(links) {
		items = append(items, link...)
	}
	return items
}

// itemsOf returns the items of an input, with ids and in their complete form.
func itemsOf(input any, name string) (items []any) {
	list, ok := input.([]any)
	if text, isText := input.(string); isText {
		list, ok = []any{map[string]any{"role": "user", "content": text}}, true
	}
	if !ok {
		return nil
	}
	for i, v := range list {
		m, ok := v.(map[string]any)
		if !ok {
			continue
		}
		items = append(items, completeItem(m, name+"_"+itoa(i)))
	}
	return items
}

// itemPrefixes begin the ids of items by type.
var itemPrefixes = map[string]string{
	"message": "msg", "reasoning": "rs", "function_call": "fc", "function_call_output": "fco", "compaction": "cmp",
}

// completeItem returns a copy of an item with what it has by default.
func completeItem(m map[string]any, name string) map[string]any {
	m = maps.Clone(m)
	if m["type"] == nil {
		m["type"] = "message"
	}
	kind, _ := m["type"].(string)
	if m["id"] == nil {
		prefix := itemPrefixes[kind]
		if prefix == "" {
			prefix = "item"
		}
		m["id"] = prefix + "_sim" + name
	}
	if text, ok := m["content"].(string); ok && kind == "message" {
		part := map[string]any{"type": "input_text", "text": text}
		if m["role"] == "assistant" {
			part = map[string]any{"type": "output_text", "text": text, "annotations": []any{}}
		}
		m["content"] = []any{part}
	}
	if m["status"] == nil && kind != "reasoning" && kind != "compaction" {
		m["status"] = "completed"
	}
	return m
}

func itemKey(v any) string {
	m, _ := v.(map[string]any)
	id, _ := m["id"].(string)
	return id
}

// nameResponse chooses the id of the response.
func (x *exchange) nameResponse(s *responseState, body map[string]any) {
	if s.unique {
		x.name = x.idText() + "n" + strconv.FormatInt(x.number, 10)
		s.created = strconv.FormatInt(x.began.Unix(), 10)
	}
	s.input = itemsOf(body["input"], x.idText())
}

// keepResponse stores a response. It returns nil if it is not stored.
func (x *exchange) keepResponse(q *turn, a *response) *storedResponse {
	s := q.state
	if !s.store || x.plan.huge > 0 || x.plan.gzipBomb {
		return nil
	}
	r := &storedResponse{sim: x.sim, id: responsePrefix + x.idText(), previous: s.previous, thread: s.thread, input: s.input}
	r.stream = s.background && q.stream
	r.final = x.appendResponse(nil, q, a, a.status())
	size := len(r.final) + 4*len(x.in) // the input is kept decoded
	pace := jobPace{}
	if s.background {
		pace = x.jobPaceOf("")
		r.bodies = map[string][]byte{}
		for _, status := range []string{"queued", "in_progress", "failed", "cancelled"} {
			r.bodies[status] = x.appendResponse(nil, q, a, status)
			size += len(r.bodies[status])
		}
		if r.stream {
			size += r.capture(x, q, a)
		}
	}
	r.job = newJob(pace, r, x.began)
	r.job.direct = true
	if !s.background {
		r.produce(jobCompleted, true)
		r.enter(jobCompleted, x.began)
	}
	x.sim.stored.add(responseFamily, r.id, size, r)
	return r
}

// capture keeps the events of a stream, and returns their size. Faults apply when
// they are sent.
func (r *storedResponse) capture(x *exchange, q *turn, a *response) int {
	plan, faulty := x.plan, x.faulty
	x.plan.faultEffect, x.faulty = faultEffect{}, false
	x.plan.noDone, x.plan.noUsage, x.plan.job = plan.noDone, plan.noUsage, plan.job
	t := &stream{x: x, kind: framingEvents, holds: true}
	x.streamResponses(t, q, a)
	x.plan, x.faulty = plan, faulty
	for event := range bytes.SplitSeq(bytes.TrimSuffix(t.held, []byte("\n\n")), []byte("\n\n")) {
		name, data, _ := bytes.Cut(event, []byte("\ndata: "))
		r.frames = append(r.frames, responseFrame{bytes.TrimPrefix(name, []byte("event: ")), data})
	}
	return len(t.held)
}

// startBackground answers a request whose response is made in the background.
func (x *exchange) startBackground(q *turn, r *storedResponse) {
	switch {
	case x.plan.lost:
		x.resetConn()
	case x.plan.streams(q.stream) && r.stream:
		x.replay(r, 0)
	default:
		x.sendBody(http.StatusOK, typeJSON, r.body())
	}
}

// replay sends the events of a stored stream from a sequence number on.
func (x *exchange) replay(r *storedResponse, from int) {
	t, ok := x.openStream()
	if !ok {
		return
	}
	for i := from; i < len(r.frames); i++ {
		last := i == len(r.frames)-1
		if last && !x.awaitEnd(r) || !r.reach(last, time.Now()) {
			break
		}
		t.last = last
		if f := &r.frames[i]; !t.send(append(t.named(string(f.name)), f.data...)) {
			return
		}
	}
	t.close()
}

// awaitEnd waits until a response in the background may end. It returns false if
// the client disconnected.
func (x *exchange) awaitEnd(r *storedResponse) bool {
	if r.pace.mode == jobHangs {
		<-x.r.Context().Done()
		x.recordDisconnect()
		return false
	}
	if wait := time.Until(r.at[jobQueued].Add(r.pace.takes)); r.pace.hasTakes && wait > 0 {
		return x.sleep(wait)
	}
	return true
}

// reach records that the stream has been sent up to an event. It returns false
// for a response that was cancelled.
func (r *storedResponse) reach(last bool, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.phase.ended() && r.phase != jobCanceling && (r.phase == jobQueued || last) {
		r.next(now)
	}
	return r.phase != jobCanceling && r.phase != jobCanceled
}
