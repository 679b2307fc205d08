package socket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// maxErrorBody is the limit in bytes of a response other than a stream.
const maxErrorBody = 8 << 20

// turnWriter is the http.ResponseWriter of a turn. It sends each event of the stream as a
// message, and an error as an error event. One goroutine uses it.
type turnWriter struct {
	client *peer
	stream string // of the turn

	header  http.Header
	status  int
	streams bool
	holds   bool // messages may be held until they are flushed
	events  eventSplitter
	plain   []byte // of another response than a stream
	scratch []byte // for the stream id
	sent    int    // messages

	id     string // of the response
	output []byte // its items; nil until it has ended
	items  []byte // those that have ended so far
	stored bool   // the provider has stored it
	ended  bool   // the response was completed, or incomplete
}

// Header implements http.ResponseWriter.
func (w *turnWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (w *turnWriter) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	w.streams = strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
}

// Write implements http.ResponseWriter. It blocks while the client accepts nothing, so that no
// more is read from the provider.
func (w *turnWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.streams {
		if len(w.plain)+len(p) <= maxErrorBody {
			w.plain = append(w.plain, p...)
		}
		return len(p), nil
	}
	if !w.holds {
		w.holds = true
		w.client.batch.hold()
	}
	return len(p), w.events.split(p, w.send)
}

// FlushError sends what was written, for http.ResponseController.
func (w *turnWriter) FlushError() error {
	if !w.holds {
		return nil
	}
	w.holds = false
	return w.client.flush()
}

// send sends the data of an event.
func (w *turnWriter) send(name, data []byte) error {
	if len(data) == 0 || data[0] != '{' {
		return nil
	}
	switch name := cmp.Or(string(name), typeOf(data)); name {
	case "response.output_item.done":
		w.addItem(data)
	case "response.completed", "response.incomplete":
		w.readEnd(data)
	case "error":
		data = withStatus(data)
	}
	w.sent++
	if w.stream != "" {
		w.scratch = withStream(w.scratch, data, w.stream)
		data = w.scratch
	}
	return w.client.write(websocket.MessageText, data)
}

// typeOf returns the type of an event that has no name of its own.
func typeOf(data []byte) string {
	var doc jsonedit.Doc
	if doc.Scan(data) != nil {
		return ""
	}
	v, _ := doc.Find("type")
	text, _ := v.Text()
	return text
}

// addItem keeps an item of the output, for providers that leave the output out of the end.
func (w *turnWriter) addItem(data []byte) {
	v, err := jsonedit.ParseValue(data)
	if err != nil {
		return
	}
	if item, ok := v.Get("item"); ok && isUsable(item) && len(w.items)+len(item.Raw()) <= maxHistory {
		w.items = appendList(w.items, 0, item.Raw())
	}
}

// readEnd reads the response in the event that ends it.
func (w *turnWriter) readEnd(data []byte) {
	v, err := jsonedit.ParseValue(data)
	if err != nil {
		return
	}
	response, _ := v.Get("response")
	w.id, w.ended = response.TextOf("id"), true
	if store, ok := response.Get("store"); ok {
		w.stored, _ = store.Bool()
	}
	output, _ := response.Get("output")
	var items []byte
	for item := range output.Elements() {
		if isUsable(item) {
			items = appendList(items, 0, item.Raw())
		}
	}
	w.output = items
	if len(items) == 0 {
		w.output = w.items
	}
	w.output = bytes.Clone(w.output)
}

// isUsable reports whether a provider accepts an item of an output as input. Reasoning that
// is neither encrypted nor text is a reference to something that was not stored.
func isUsable(item jsonedit.Value) bool {
	if item.TextOf("type") != "reasoning" || item.TextOf("encrypted_content") != "" {
		return true
	}
	content, _ := item.Get("content")
	for range content.Elements() {
		return true
	}
	return false
}

// withStatus adds a status to an error event of a stream, which clients of WebSocket
// connections look for.
func withStatus(data []byte) []byte {
	var doc jsonedit.Doc
	if doc.Scan(data) != nil {
		return data
	}
	if _, ok := doc.Find("status"); ok {
		return data
	}
	edits := []jsonedit.Edit{{Name: "status", Value: []byte("500")}}
	if _, ok := doc.Find("error"); !ok {
		edits = append(edits, jsonedit.Edit{Name: "error", Value: data})
	}
	return doc.Apply(nil, edits...)
}

// finish sends the content of another response than a stream: an error, or a complete response.
// It returns the error of the client's connection.
func (w *turnWriter) finish() error {
	if w.streams || w.status == 0 {
		return nil
	}
	var doc jsonedit.Doc
	if doc.Scan(w.plain) != nil {
		return w.client.write(websocket.MessageText, errorEvent(apierr.New(apierr.UpstreamFailed,
			"the response is neither a stream nor JSON"), w.stream))
	}
	fault, failed := doc.Find("error")
	if failed && fault.Kind() == jsonedit.Object {
		return w.client.write(websocket.MessageText, w.errorMessage(fault))
	}
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("type")
	b.String("response.completed")
	b.Name("response")
	b.Raw(w.plain)
	writeStream(&b, w.stream)
	b.Close('}')
	w.readEnd(b.Bytes())
	return w.client.write(websocket.MessageText, b.Bytes())
}

// forwardedHeaders are headers of an error that its event has.
var forwardedHeaders = [...]string{"Retry-After", "X-Gateway-Request-Id", "X-Gateway-Trace-Id"}

// errorMessage returns the event of an error response.
func (w *turnWriter) errorMessage(fault jsonedit.Value) []byte {
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("type")
	b.String("error")
	b.Name("status")
	b.Int(int64(w.status))
	b.Name("error")
	b.Raw(fault.Raw())
	b.Name("headers")
	b.Open('{')
	for _, name := range forwardedHeaders {
		if v := w.header[name]; len(v) > 0 {
			b.Key(strings.ToLower(name))
			b.String(v[0])
		}
	}
	b.Close('}')
	writeStream(&b, w.stream)
	b.Close('}')
	return b.Bytes()
}

// refusesPrevious reports whether the response refuses the turn because the provider does not
// have the turn before it.
func (w *turnWriter) refusesPrevious() bool {
	if w.streams || w.status < 400 || w.status > 499 && w.status != http.StatusNotImplemented {
		return false
	}
	v, err := jsonedit.ParseValue(w.plain)
	if err != nil {
		return false
	}
	fault, _ := v.Get("error")
	return fault.TextOf("param") == "previous_response_id" || fault.TextOf("code") == codeNoPrevious
}

// codeNoPrevious is the error code of a turn that continues one that nobody has.
const codeNoPrevious = "previous_response_not_found"

func noPrevious(id string) *apierr.Error {
	return apierr.New(apierr.Invalid,
		"the previous response %.80q is unknown on this connection; send the complete input without previous_response_id", id).
		WithParam("previous_response_id").WithCode(codeNoPrevious)
}

// serve serves a turn and keeps it for those that continue it.
func (c *turns) serve(ctx context.Context, f *frame) {
	before, err := c.before(f)
	if err != nil {
		c.client.write(websocket.MessageText, errorEvent(apierr.From(err), f.stream))
		return
	}
	defer c.history.release(before)
	if f.warms {
		c.warm(f, before)
		return
	}
	w := &turnWriter{client: c.client, stream: f.stream}
	if before != nil && before.stored && !f.unstored {
		c.serveBody(ctx, w, f.body(nil))
		if w.refusesPrevious() {
			w = &turnWriter{client: c.client, stream: f.stream}
			c.serveBody(ctx, w, f.body(before))
		}
	} else {
		c.serveBody(ctx, w, f.body(before))
	}
	if f.previous != "" && before == nil && w.refusesPrevious() {
		c.client.write(websocket.MessageText, errorEvent(noPrevious(f.previous), f.stream))
		return
	}
	w.finish()
	switch {
	case w.ended:
		c.history.add(w.id, &pastTurn{before: before, lane: f.stream, stored: w.stored && !f.unstored,
			items: joinItems(f.items(), w.output)})
	case before != nil && w.status >= 400 && before.lane == f.stream:
		c.history.drop(f.previous)
	}
}

func (c *turns) serveBody(ctx context.Context, w *turnWriter, body []byte) {
	c.served.Add(1)
	defer w.FlushError() // also after a panic: others hold nothing for it
	c.request.Serve(ctx, w, body)
}

// before returns the turn that f continues, nil if it continues none or one that only the
// provider can have.
func (c *turns) before(f *frame) (*pastTurn, error) {
	if f.previous == "" {
		return nil, nil
	}
	t, ok := c.history.find(f.previous)
	if !ok && (f.unstored || f.warms) {
		return nil, noPrevious(f.previous)
	}
	return t, nil
}

func joinItems(input, output []byte) []byte {
	return appendList(bytes.Clone(input), 0, output)
}

// warm answers a turn that asks no model: it is kept, so that the next turn continues it.
func (c *turns) warm(f *frame, before *pastTurn) {
	id := "resp_" + rand.Text()
	c.history.add(id, &pastTurn{before: before, lane: f.stream, items: bytes.Clone(f.items())})
	for i, kind := range [...]string{"created", "completed"} {
		status := "in_progress"
		if kind == "completed" {
			status = kind
		}
		c.client.write(websocket.MessageText, warmEvent(f, id, kind, status, i))
	}
}

// warmEvent returns an event of a turn that asks no model.
func warmEvent(f *frame, id, kind, status string, number int) []byte {
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("type")
	b.String("response." + kind)
	b.Name("sequence_number")
	b.Int(int64(number))
	b.Name("response")
	b.Open('{')
	b.Name("id")
	b.String(id)
	b.Name("object")
	b.String("response")
	b.Name("created_at")
	b.Raw([]byte(strconv.FormatInt(time.Now().Unix(), 10)))
	b.Name("status")
	b.String(status)
	b.Name("model")
	if model, ok := f.doc.Find("model"); ok {
		b.Raw(model.Raw())
	} else {
		b.Null()
	}
	b.Name("output")
	b.Raw([]byte("[]"))
	b.Name("store")
	b.Bool(false)
	b.Name("usage")
	b.Raw([]byte(`{"input_tokens":0,"input_tokens_details":{"cached_tokens":0},"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}`))
	b.Close('}')
	writeStream(&b, f.stream)
	b.Close('}')
	return b.Bytes()
}
