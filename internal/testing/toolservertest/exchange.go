package toolservertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// Handler answers a request. If it writes nothing, the response has the status 200 and no
// body.
type Handler func(x *Exchange)

// Exchange is a request to the server, and its response.
type Exchange struct {
	W       http.ResponseWriter
	R       *http.Request
	Message Message // zero for GET and DELETE

	server   *Server
	session  *session // nil for none
	out      *stream  // nil until a message is sent on it
	answered bool
}

// Name returns the name of the tool or prompt, the URI of the resource, or the id of the task,
// and nothing for other messages.
func (x *Exchange) Name() string {
	var p struct{ Name, URI, TaskID string }
	json.Unmarshal(x.Message.Params, &p)
	switch x.Message.Method {
	case "resources/read":
		return p.URI
	case "tasks/get", "tasks/update", "tasks/cancel":
		return p.TaskID
	}
	return p.Name
}

// Argument decodes an argument of a tool; an absent one leaves v as it is.
func (x *Exchange) Argument(name string, v any) {
	var p struct{ Arguments map[string]json.RawMessage }
	json.Unmarshal(x.Message.Params, &p)
	json.Unmarshal(p.Arguments[name], v)
}

// Default does what the server does without a script.
func (x *Exchange) Default() { x.server.serve(x) }

// Result answers with a result, a JSON object. In the modern era its resultType is added.
func (x *Exchange) Result(result string) {
	if isModern(x.R) {
		result = `{"resultType":"complete",` + result[1:]
		if result == `{"resultType":"complete",}` {
			result = `{"resultType":"complete"}`
		}
	}
	x.Answer(`{"jsonrpc":"2.0","id":` + string(x.Message.ID) + `,"result":` + result + `}`)
}

// Text answers with the result of a tool that is one text.
func (x *Exchange) Text(format string, a ...any) {
	text, _ := json.Marshal(fmt.Sprintf(format, a...))
	x.Result(`{"content":[{"type":"text","text":` + string(text) + `}]}`)
}

// Fail answers with a status and an error; data is JSON, and empty for none.
func (x *Exchange) Fail(status, code int, message, data string) {
	text, _ := json.Marshal(message)
	if data != "" {
		data = `,"data":` + data
	}
	id := string(x.Message.ID)
	if id == "" {
		id = "null"
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s%s}}`, id, code, text, data)
	if x.out != nil || x.session.isOld() {
		x.Answer(body)
		return
	}
	x.write(status, body)
}

// Answer answers with a message as it is.
func (x *Exchange) Answer(message string) {
	x.answered = true
	switch {
	case x.session.isOld():
		x.server.sendOld(x.session, message)
	case x.server.JSON && x.out == nil:
		x.write(http.StatusOK, message)
	default:
		x.stream().send(message)
	}
}

// Send sends a message on the stream of the request, before its response.
func (x *Exchange) Send(message string) {
	if x.session.isOld() {
		x.server.sendOld(x.session, message)
		return
	}
	x.stream().send(message)
}

// Write writes text on the stream of the request as it is, such as an event with an id.
func (x *Exchange) Write(text string) { x.stream().write(text) }

// Comment sends a comment on the stream of the request, which keeps it alive.
func (x *Exchange) Comment() { x.Write(": alive\n\n") }

// Progress sends a notification of progress, if the client wants any.
func (x *Exchange) Progress(n int) {
	var p struct {
		Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
	json.Unmarshal(x.Message.Params, &p)
	if token := p.Meta.ProgressToken; token != nil {
		x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, n))
	}
}

// Ask sends a request to the client on the stream, and waits for its response. It returns the
// zero value if the client leaves.
func (x *Exchange) Ask(method, params string) Message {
	id := "server-" + x.server.number()
	answer := make(chan Message, 1)
	x.server.mu.Lock()
	x.server.waiting[id] = answer
	x.server.mu.Unlock()
	x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params))
	select {
	case m := <-answer:
		return m
	case <-x.R.Context().Done():
		return Message{}
	}
}

// Break breaks the connection, at once or after what was sent.
func (x *Exchange) Break() { panic(http.ErrAbortHandler) }

// Left waits until the client leaves.
func (x *Exchange) Left() { <-x.R.Context().Done() }

// finish ends the response.
func (x *Exchange) finish() {
	if !x.answered && x.R.Method == http.MethodPost && x.R.Context().Err() != nil {
		x.server.count("left")
	}
	if x.out != nil {
		x.out.end()
	}
}

func (x *Exchange) write(status int, body string) {
	x.answered = true
	x.W.Header().Set("Content-Type", "application/json")
	x.W.WriteHeader(status)
	x.W.Write([]byte(body))
}

// stream makes the response a stream.
func (x *Exchange) stream() *stream {
	if x.out == nil {
		x.out = newStream(x.W)
	}
	return x.out
}

// stream is a response of server-sent events. It is safe for concurrent use.
type stream struct {
	mu    sync.Mutex
	w     http.ResponseWriter // guarded by mu; nil after the end
	ended chan struct{}       // closed at the end
}

func newStream(w http.ResponseWriter) *stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	st := &stream{w: w, ended: make(chan struct{})}
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	return st
}

func (st *stream) send(message string) { st.write("event: message\ndata: " + message + "\n\n") }

func (st *stream) write(text string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.w != nil {
		st.w.Write([]byte(text))
		st.w.(http.Flusher).Flush()
	}
}

func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.w != nil {
		st.w = nil
		close(st.ended)
	}
}
