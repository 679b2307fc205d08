// Package pipeline carries one exchange to a provider and back.
//
// A [Handler] answers an exchange; a [TargetHandler] is the handler that calls one
// target. It promises that an answer is handed on only when it can be checked: a
// JSON answer is whole, a stream has had its first event, so that whoever asked
// may still go elsewhere. Reading the client's request and writing its answer
// are left to dataplane, connections and timeouts to upstream.
package pipeline

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/bytepool"
	"modelgate/internal/catalog"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
	"modelgate/internal/provider"
	"modelgate/internal/reqlog"
	"modelgate/internal/secret"
	"modelgate/internal/sse"
)

// Handler answers an exchange. An error is an *apierr.Error where a client may
// see it. The caller closes the response. Handlers are immutable and safe for
// concurrent use; an exchange is used by one goroutine.
type Handler interface {
	Handle(ctx context.Context, x *Exchange) (*Response, error)
}

// Exchange is one client request on its way through the gateway.
type Exchange struct {
	Entry    *reqlog.Entry // the record, filled as the exchange goes on
	Identity *access.Identity
	Key      secret.String // the gateway key or token that the request showed
	Client   dialect.ClientDialect
	Dialect  api.Dialect // of Client

	Operation api.Operation
	Method    string
	Path      string // after /v1, exactly as sent
	Query     string // exactly as sent
	// EmptyQuery says that a question mark stood after Path and nothing else.
	EmptyQuery bool
	Header     http.Header // as received; not to be changed
	// Families are prefixes of headers that are meant for the gateway, beside
	// its own.
	Families []string

	// Body is the request's body where it was read whole, and Doc its members
	// where it is a JSON object. Both are nil for a body that streams through.
	Body *bytepool.Buffer
	Doc  *jsonedit.Doc

	// Trailer has the fields that follow Upload, as provider.Call wants them.
	Trailer http.Header

	// Upload is a body that streams through, and Length its announced length
	// or -1. It can be sent once.
	Upload     io.Reader
	Length     int64
	uploadRead atomic.Bool
	uploaded   atomic.Int64 // bytes of Upload that were sent

	Model         string // as asked for, without the name of a managed provider before it
	UpstreamModel string // the model of the last attempt
	Edits         []jsonedit.Edit
	Stream        bool

	// Params tells what happened to request parameters in the last attempt, and
	// Notes what happened to settings, as x-gateway-params says it.
	Params []string
	Notes  []string

	// UpstreamTime is the time spent on providers so far.
	UpstreamTime time.Duration

	// Resolve returns the target that a leaf of a config names, as the
	// exchange's identity may use it. It is asked once per attempt and does no
	// I/O. Nil is enough for handlers that were not compiled.
	Resolve func(leaf *config.Config) (*provider.Target, error)

	// Ineligible are leaves that can't serve the exchange, whatever their state.
	// Strategies skip them. Nil for most.
	Ineligible []*config.Config

	// Prompt is the saved prompt that made the request, zero for none. Fill
	// returns what that of a leaf puts into it instead: asked once per attempt,
	// without I/O. Nil is enough for handlers that were not compiled.
	Prompt      reqlog.Prompt
	PromptEdits func(leaf *config.Config) (PromptEdits, error)

	// Prices is the book that choosing by cost and the ledger read. Nil knows
	// no price.
	Prices *catalog.PriceBook

	// AttemptDeadline is when no further attempt is begun. Zero means never.
	AttemptDeadline time.Time

	// Retries is how often the last target was tried again; -1 when retrying
	// ended although the outcome asked for more.
	Retries int

	// Decisions tells why the exchange went where it went. It is kept only
	// while Explain is true.
	Explain   bool
	Decisions []reqlog.Decision

	lookups lookups

	// DryRun gathers what would be sent, instead of sending it. Nil sends.
	DryRun *DryRun

	// hasFallback is true while a fallback has further targets.
	hasFallback bool

	span, parent string // of the attempt, and what its provider is sent of it; see Engine.Trace

	own    bill
	shared *bill // own, or that of the exchange this is a fork of; see bill
}

// recordDecision keeps the reason of a choice, when somebody will read it.
func (x *Exchange) recordDecision(path, format string, args ...any) {
	if x.Explain {
		x.Decisions = append(x.Decisions, reqlog.Decision{Path: path, Text: fmt.Sprintf(format, args...)})
	}
}

// note announces an adaptation in x-gateway-params, once.
func (x *Exchange) note(text string) {
	if !slices.Contains(x.Notes, text) {
		x.Notes = append(x.Notes, text)
	}
}

// overBudget reports whether no further attempt may begin.
func (x *Exchange) overBudget() bool { return x.budgetEnds(0) }

// budgetEnds reports whether the budget has ended after waiting d.
func (x *Exchange) budgetEnds(d time.Duration) bool {
	return !x.AttemptDeadline.IsZero() && time.Now().Add(d).After(x.AttemptDeadline)
}

// Response is an answer whose head may be sent. Exactly one of Bytes, Events
// and Body holds its content. The caller calls Close once, on every path.
type Response struct {
	Status int
	Header http.Header // of the provider; not to be changed
	Target *provider.Target
	Tap    dialect.Tap

	Bytes  []byte         // whole content, valid until Close
	Events *Events        // a stream of events, already begun
	Body   io.Reader      // anything else, as it arrives
	Length int64          // of Body; -1 when not announced
	Raw    *http.Response // what Body is read from, for its trailer

	watch   attemptTimers
	account attemptAccount
	// translation is what Events are read from where the client's dialect is
	// not the target's; nil otherwise.
	translation *translation
	arriving    upstreamBody     // what Body, Bytes or Events are read from
	held        *bytepool.Buffer // behind Bytes or the beginning of Body; may be nil
	after       []func()         // called last by Close
}

// MaxDecoded returns how many bytes a compressed body may decode to.
func (r *Response) MaxDecoded() int64 {
	if r.arriving.l == nil {
		return 0
	}
	return r.arriving.l.MaxDecoded
}

// Pause stops the idle clock while the client is slow to take Body; Resume
// lets it go on.
func (r *Response) Pause() { r.watch.dog.Pause() }

// Resume undoes Pause.
func (r *Response) Resume() { r.watch.dog.Resume() }

// AppendStreamError appends the in-band error with which a stream ends that broke off.
func (r *Response) AppendStreamError(dst []byte, client dialect.ClientDialect, e *apierr.Error) []byte {
	if r.translation == nil {
		return client.ErrorEvent(dst, e)
	}
	return r.translation.broken(dst, &llm.ProviderError{Gateway: true, Type: e.Type(), Code: e.CodeOrDefault(), Message: e.Message})
}

// Close lets go of the connection and of the buffers behind the response.
func (r *Response) Close() {
	r.release()
	r.hold(nil)
	for _, f := range r.after {
		f()
	}
}

// hold releases the buffer behind the response and keeps buf, which may be nil,
// in its place.
func (r *Response) hold(buf *bytepool.Buffer) {
	if r.held != nil {
		r.held.Release()
	}
	r.held = buf
}

// release ends the attempt behind the response. Further calls do nothing.
func (r *Response) release() {
	if r.Raw != nil {
		r.account.end(r)
		r.Raw.Body.Close()
		r.watch.stop()
	}
}

// Events is a stream of events, pulled by the caller. It is for one goroutine.
type Events struct {
	held   []byte // comments that came before the first event
	first  sse.Event
	primed bool
	reader frames
	tap    dialect.Tap
	hider  *usageHider // nil where the client sees every event as it came
	watch  attemptTimers
	fail   func(error) error

	ahead  []sse.Event         // read already, before what reader holds
	resume *streamContinuation // nil unless another target may go on with the stream
}

// Next returns the next event, valid until the following call. It returns
// io.EOF after a clean end and an *apierr.Error when the stream broke.
func (s *Events) Next() (sse.Event, error) {
	if len(s.ahead) > 0 {
		e := s.ahead[0]
		s.ahead = s.ahead[1:]
		return e, nil
	}
	if s.resume != nil {
		return s.resume.next(s)
	}
	return s.pull()
}

// pull returns the next event of the target's own stream.
func (s *Events) pull() (sse.Event, error) {
	if s.primed {
		s.primed = false
		return s.first, nil
	}
	e, err := s.reader.Next()
	if err == io.EOF {
		return e, err
	}
	if err != nil {
		return e, s.fail(err)
	}
	s.watch.eventReceived()
	s.tap.Event(e)
	return s.visible(e), nil
}

// visible returns e as the client gets it: empty for an event that is not for it.
func (s *Events) visible(e sse.Event) sse.Event {
	if s.hider == nil {
		return e
	}
	return s.hider.hide(e)
}

// Held returns comments that came before the first event; they go to the
// client first.
func (s *Events) Held() []byte { return s.held }

// More reports whether a further event is at hand without waiting.
func (s *Events) More() bool { return len(s.ahead) > 0 || s.primed || s.reader.More() }

// Pause stops the idle clock while the client is slow to read; Resume lets it
// go on.
func (s *Events) Pause() { s.watch.dog.Pause() }

// Resume undoes Pause.
func (s *Events) Resume() { s.watch.dog.Resume() }
