package peer

import (
	"net/http"
	"time"

	"modelgate/internal/provider/toolserver"
)

// Breaker is the breaker of a server, for tests with a clock of their own.
type Breaker struct{ b breaker }

// NewBreaker returns the breaker of a server.
func NewBreaker() *Breaker {
	return &Breaker{breaker{after: breakAfter, longest: longPause}}
}

// Begin returns the failure of a call that is not sent.
func (b *Breaker) Begin() *Failure { return b.b.allow(time.Now()) }

// End ends a call, which failed unless f is nil.
func (b *Breaker) End(f *Failure) { b.b.report(f == nil, f, time.Now()) }

// Call is Begin and, unless the call is not sent, End.
func (b *Breaker) Call(f *Failure) *Failure {
	if refused := b.Begin(); refused != nil {
		return refused
	}
	b.End(f)
	return nil
}

// State is that of the server.
func (b *Breaker) State() State { return b.b.state() }

// Background returns how many things happen in the background.
func (p *Peers) Background() int { return len(p.slots) }

// EraMemory is what is remembered of eras, for tests with a clock of their own.
type EraMemory struct{ e eras }

// Remember remembers the era of a server.
func (m *EraMemory) Remember(s *toolserver.Server, era Era) {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	m.e.remember(keyOf(s, Credential{}), era, time.Now())
}

// Known returns the era that is remembered.
func (m *EraMemory) Known(s *toolserver.Server) (Era, bool) {
	return m.e.lookup(keyOf(s, Credential{}), time.Now())
}

// EncodeName is encodeName.
var EncodeName = encodeName

// Replace returns the id and the progress token of a message, and the message with others.
func Replace(message, with []byte) (id, token, replaced []byte, ok bool) {
	e, ok := parseEnvelope(message)
	if !ok || !e.isRequest() {
		return nil, nil, nil, false
	}
	return e.id, findMember(e.params, "_meta", "progressToken"), replaceMembers(message, e, with, with), true
}

// NewMessage returns a request with a message as its body, and what releases the message.
func NewMessage(text []byte) (*http.Request, func()) {
	r, m := &http.Request{}, &message{bytes: text}
	setBody(r, m)
	return r, m.release
}

// APIDocuments are the documents of APIs, with a limit of their own.
type APIDocuments struct{ a *apiDocuments }

// NewAPIDocuments returns documents that may weigh this much.
func NewAPIDocuments(limit int64) APIDocuments { return APIDocuments{newAPIDocuments(limit)} }

// Read reads the document of a server.
func (d APIDocuments) Read(s *toolserver.Server) { d.a.of(s) }

// Has reports whether the document of a server is in memory.
func (d APIDocuments) Has(server string) bool { return d.a.byID[server] != nil }

// Weight returns what all documents weigh, as it was counted and as it is.
func (d APIDocuments) Weight() (counted, real int64) {
	for _, doc := range d.a.byID {
		real += doc.size()
	}
	return d.a.total, real
}
