package responses

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"sync"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// making is a response in the background that this node makes. It is the writer to which
// the plane writes the stream of the response.
type making struct {
	keeper *Keeper
	job    *jobs.Job
	object store.Object
	key    *secret.DataKey

	header http.Header
	status int
	rest   []byte // an event that has not arrived completely
	body   []byte // of an error

	content content // its response is the latest that the stream had
	ended   bool    // the stream has ended the response
	fault   string  // why there is no response

	mu     sync.Mutex
	next   int64  // sequence number of the next event; guarded by mu
	first  int64  // of events; guarded by mu
	events []byte // not stored yet; guarded by mu
	lost   error  // why the work was stopped; guarded by mu
}

// maxFault limits what is read of an error, in bytes.
const maxFault = 64 << 10

// Header implements [http.ResponseWriter].
func (m *making) Header() http.Header {
	if m.header == nil {
		m.header = make(http.Header)
	}
	return m.header
}

// WriteHeader implements [http.ResponseWriter].
func (m *making) WriteHeader(status int) { m.status = status }

// Flush implements [http.Flusher]: events are stored in intervals.
func (m *making) Flush() {}

// Write implements [http.ResponseWriter]. It reads the events of a stream, or an error.
func (m *making) Write(b []byte) (int, error) {
	if m.status >= 400 {
		m.body = append(m.body, b[:min(len(b), max(0, maxFault-len(m.body)))]...)
		return len(b), nil
	}
	m.rest = append(m.rest, b...)
	end := bytes.LastIndex(m.rest, []byte("\n\n"))
	if end < 0 {
		return len(b), nil
	}
	events := sse.NewReader(bytes.NewReader(m.rest[:end+2]), len(m.rest)+1)
	for {
		e, err := events.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		if len(e.Data) > 0 {
			m.read(e)
		}
	}
	m.rest = append(m.rest[:0], m.rest[end+2:]...)
	return len(b), nil
}

// read reads an event of the stream. The events of the response go on with the numbers of
// those that are stored.
func (m *making) read(e sse.Event) {
	var doc jsonedit.Doc
	if m.ended || doc.Scan(e.Data) != nil {
		return
	}
	typ := textOf(&doc, "type")
	edits := []jsonedit.Edit{{Name: "sequence_number"}}
	switch v, ok := doc.Find("response"); {
	case typ == "error":
		m.fault = faultOf(&doc)
		return
	case ok:
		shown := m.showResponse(v.Raw())
		if typ == "response.created" || shown == nil { // it was created before
			return
		}
		m.content.Response = shown
		edits = append(edits, jsonedit.Edit{Name: "response", Value: shown})
		m.ended = isEnd(typ)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	edits[0].Value = strconv.AppendInt(nil, m.next, 10)
	m.add(typ, doc.Apply(nil, edits...))
}

// add adds an event. The caller holds mu.
func (m *making) add(typ string, data []byte) {
	if len(m.events) == 0 {
		m.first = m.next
	}
	m.events = sse.AppendEvent(m.events, typ, data)
	m.next++
}

// showResponse returns a response object of the provider as clients see it, nil if it is none.
func (m *making) showResponse(response []byte) []byte {
	var doc jsonedit.Doc
	if doc.Scan(response) != nil {
		return nil
	}
	return doc.Apply(nil, m.content.Work.Shown...)
}

// isEnd reports whether an event of this type ends a response.
func isEnd(typ string) bool {
	switch typ {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return true
	}
	return false
}

// faultOf returns the message of an error event.
func faultOf(doc *jsonedit.Doc) string {
	if text := textOf(doc, "message"); text != "" {
		return text
	}
	v, _ := doc.Find("error")
	return v.TextOf("message")
}

// takeEvents returns the events that are not stored.
func (m *making) takeEvents() (e store.ResponseEvents, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.events) == 0 {
		return e, false
	}
	e = store.ResponseEvents{First: m.first, Last: m.next - 1, Content: m.key.SealMessage(m.events, turnBound(m.object.ID))}
	m.events = nil
	return e, true
}

// fail ends a response that the stream did not end.
func (m *making) fail() {
	text := m.fault
	var doc jsonedit.Doc
	if text == "" && doc.Scan(m.body) == nil {
		text = faultOf(&doc)
	}
	if text == "" {
		text = "the response ended early"
	}
	m.content.Response = failedResponse(m.content.Response, stateFailed, text)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.events) == 0 {
		m.first = m.next
	}
	m.events = appendResponseEvent(m.events, "response.failed", m.next, m.content.Response)
	m.next++
	m.ended = true
}

// failedResponse returns a response with the state in which it has ended. An empty reason
// is none.
func failedResponse(response []byte, state, reason string) []byte {
	var doc jsonedit.Doc
	if doc.Scan(response) != nil {
		return response
	}
	edits := []jsonedit.Edit{{Name: "status", Value: jsonedit.AppendString(nil, state)}}
	if reason != "" {
		var b jsonedit.Builder
		b.Open('{')
		b.Name("code")
		b.String("server_error")
		b.Name("message")
		b.String(reason)
		b.Close('}')
		edits = append(edits, jsonedit.Edit{Name: "error", Value: b.Bytes()})
	}
	return doc.Apply(nil, edits...)
}

// withRestarts returns a response that says how often it was begun again.
func withRestarts(response []byte, n int) []byte {
	var doc jsonedit.Doc
	if doc.Scan(response) != nil {
		return response
	}
	return doc.Apply(nil, jsonedit.Edit{Name: "restarts", Value: strconv.AppendInt(nil, int64(n), 10)})
}

func textOfResponse(response []byte, name string) string {
	var doc jsonedit.Doc
	if doc.Scan(response) != nil {
		return ""
	}
	return textOf(&doc, name)
}

var _ http.Flusher = (*making)(nil)

// ended returns the response of a record that has ended without its node: cancelled, or
// failed after all its tries.
func endedResponse(o *store.Object, response []byte) []byte {
	switch status := textOfResponse(response, "status"); {
	case status != stateQueued && status != stateInProgress || status == o.State:
		return response
	case o.State == stateCancelled:
		return failedResponse(response, stateCancelled, "")
	case o.State == stateFailed:
		return failedResponse(response, stateFailed, "the gateway could not make the response; send the request again")
	}
	return response
}

// cancelWork ends a response in the background.
func (q *request) cancelWork(o *store.Object) error {
	c, err := q.keeper.read(q.HTTP.Context(), o)
	if err != nil {
		return err
	}
	if c.Work == nil {
		return apierr.New(apierr.Invalid, "only a response that was created with background can be cancelled").WithCode("not_background")
	}
	if err := q.stopWork(o); err != nil {
		return err
	}
	now, err := q.found(store.ObjectResponse, o.ID)
	if err != nil {
		return err
	}
	if c, err = q.keeper.read(q.HTTP.Context(), &now); err != nil {
		return err
	}
	return q.sendResponse(&now, &c)
}

// sendResponse sends a response as it is now.
func (q *request) sendResponse(o *store.Object, c *content) error {
	response := endedResponse(o, c.Response)
	if status := textOfResponse(response, "status"); status == stateQueued && o.State == stateInProgress {
		response = failedResponse(response, stateInProgress, "")
	}
	q.W.Header().Set("Content-Type", "application/json")
	q.W.WriteHeader(http.StatusOK)
	_, err := q.W.Write(response)
	return err
}
