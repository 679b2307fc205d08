package simulator

import (
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// callStore holds the realtime calls of a simulator.
type callStore struct {
	mu    sync.Mutex
	made  int                      // guarded by mu
	calls map[string]*realtimeCall // by id; guarded by mu
}

// realtimeCall is a call whose media nobody sends: its responses are those that connections
// which have joined it ask for.
type realtimeCall struct {
	mu     sync.Mutex
	model  string
	joined map[*realtimeSession]struct{} // guarded by mu
	ended  bool                          // guarded by mu
}

func (c *callStore) add(model string) (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = make(map[string]*realtimeCall)
	}
	c.made++
	id = "rtc_sim_" + strconv.Itoa(c.made)
	c.calls[id] = &realtimeCall{model: model, joined: make(map[*realtimeSession]struct{})}
	return id
}

// find returns a call that has not ended, nil if there is none.
func (c *callStore) find(id string) *realtimeCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[id]
}

func (c *callStore) remove(id string) *realtimeCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[id]
	delete(c.calls, id)
	return call
}

func (c *callStore) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
}

// join adds a connection, unless the call has ended.
func (c *realtimeCall) join(s *realtimeSession) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.joined[s] = struct{}{}
	}
	return !c.ended
}

func (c *realtimeCall) leave(s *realtimeSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.joined, s)
}

// send sends an event to every connection of the call.
func (c *realtimeCall) send(text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.joined {
		s.write(frameText, text)
	}
}

// end closes every connection of the call.
func (c *realtimeCall) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for s := range c.joined {
		s.close(1000, "the call has ended")
	}
}

// serveCallCreate answers POST /realtime/calls. The model may have a fault: nowhere leaves out
// the address of the call.
// https://platform.openai.com/docs/api-reference/realtime/create-call
func serveCallCreate(x *exchange) {
	model := x.r.URL.Query().Get("model")
	offered := false
	media, params, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	switch media {
	case "application/sdp":
		b, _ := io.ReadAll(io.LimitReader(x.r.Body, 1<<20))
		offered = strings.HasPrefix(string(b), "v=0")
	case "multipart/form-data":
		form := multipart.NewReader(x.r.Body, params["boundary"])
		for part, err := form.NextPart(); err == nil; part, err = form.NextPart() {
			b, _ := io.ReadAll(io.LimitReader(part, 1<<20))
			switch part.FormName() {
			case "sdp":
				offered = strings.HasPrefix(string(b), "v=0")
			case "session":
				var session struct{ Model string }
				json.Unmarshal(b, &session)
				model = session.Model
			}
		}
	}
	if !offered || model == "" {
		x.refuse(http.StatusBadRequest, invalid("sdp", "A call needs an offer and a model."))
		return
	}
	id := x.sim.rings.add(model)
	h := x.w.Header()
	h.Set("Content-Type", "application/sdp")
	if !strings.Contains(model, "+nowhere") {
		h.Set("Location", "/v1/realtime/calls/"+id)
	}
	x.w.WriteHeader(http.StatusCreated)
	io.WriteString(x.w, "v=0\r\ns=answer\r\n")
}

// findRealtimeCall returns the service of a request to calls, the zero service for another one.
func findRealtimeCall(method, path string) service {
	path = strings.Replace(path, "/translations", "", 1)
	id, verb, _ := strings.Cut(strings.TrimPrefix(path, "/realtime/calls/"), "/")
	switch {
	case method != http.MethodPost:
	case path == "/realtime/calls":
		return service{serveCallCreate, nil}
	case strings.HasPrefix(path, "/realtime/calls/") && verb != "":
		return service{func(x *exchange) { x.serveCallVerb(id, verb) }, nil}
	}
	return service{}
}

// serveCallVerb answers a request to one call.
func (x *exchange) serveCallVerb(id, verb string) {
	call := x.sim.rings.find(id)
	if call == nil {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "No call found with id '" + id + "'."})
		return
	}
	if verb == "hangup" || verb == "reject" {
		x.sim.rings.remove(id)
		call.end()
	}
	x.w.WriteHeader(http.StatusOK)
}

// serveJoin answers GET /realtime?call_id=. Events go to every connection of the call.
func serveJoin(x *exchange, id string) {
	call := x.sim.rings.find(id)
	if call == nil {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "No call found with id '" + id + "'."})
		return
	}
	s := &realtimeSession{faults: readRealtimeFaults(call.model), call: call}
	if s.faults.status != 0 {
		x.refuse(s.faults.status, providerError{kind: invalidRequest, message: "The connection was refused."})
		return
	}
	if s.socket = x.upgrade(); s.socket == nil {
		return
	}
	defer s.conn.Close()
	s.session = map[string]any{"object": "realtime.session", "id": "sess_" + id, "type": "realtime", "model": call.model}
	if !call.join(s) {
		return
	}
	defer call.leave(s)
	s.serve(x, s.event)
}
