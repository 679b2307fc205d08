package dataplane

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/exchange"
)

// ResponseKeeper keeps the responses that requests store, and knows those that requests
// continue. It is safe for concurrent use.
type ResponseKeeper interface {
	// Begin returns the turn of a request to create a response, or nil if the request
	// neither refers to nor creates anything that is kept.
	Begin(ctx context.Context, q *TurnRequest) (*Turn, error)
}

// TurnRequest is a request to create a response.
type TurnRequest struct {
	Identity *access.Identity
	Time     time.Time
	Body     *jsonedit.Doc // valid, and only during the call
	MaxBody  int64         // bytes that the body may have after its edits

	// Retains is false if the logging level allows no content to be kept.
	Retains bool
}

// Turn is a request that continues what is kept, or whose response is kept.
type Turn struct {
	// Edits replace the references in the body by what they refer to, before the body is
	// admitted.
	Edits []jsonedit.Edit

	// Provider is "@" with the slug of the managed provider that keeps what the request
	// refers to. Empty if no provider does.
	Provider string
	// Missing is the error for an unknown reference, at every target but those with
	// credentials of the client. Nil if all are known.
	Missing error
	// MissingItem is the error for a reference to an unknown item, at targets that do not
	// have the protocol of responses. Nil if there is none.
	MissingItem error

	// Store is true if the client stores the response, at its provider or else in the
	// gateway, and Asked if the request says so itself.
	Store, Asked bool
	// Content is true if the gateway may keep the response itself.
	Content bool
	// Effect is true if the response changes more than itself, so that it is not cached.
	Effect bool
	// Background is true if the client does not wait for the response.
	Background bool

	// Shown are the members of a response that the gateway keeps, in place of those that
	// it came with.
	Shown []jsonedit.Edit

	// Keep stores an ended response before the client gets its end.
	Keep func(ctx context.Context, r *EndedResponse) error
	// Start begins a response in the background and responds to the client. It is nil if the
	// turn is not in the background.
	Start func(w http.ResponseWriter, b *BackgroundRequest) error
}

// EndedResponse is a response whose last bytes the client has not got yet.
type EndedResponse struct {
	Body     []byte // the response object; of one that broke off, as it began
	Provider string // "@" with the slug of its managed provider; empty for one of the client
	Status   string // completed, incomplete, failed; empty if it broke off

	// AtProvider is true if the provider stores the response, and Content if the gateway
	// keeps it.
	AtProvider, Content bool
}

// BackgroundRequest is an admitted request whose response is made in the background.
type BackgroundRequest struct {
	HTTP     *http.Request
	Identity *access.Identity
	Body     []byte // after the edits; valid only during the call
	Stream   bool
}

// keepTime limits the time for storing a response that has ended.
const keepTime = 5 * time.Second

// beginTurn finds what the request refers to, and replaces the references in its body.
func beginTurn(r *http.Request, a *admission) error {
	p := a.plane
	if p.Responses == nil || a.route.op != api.Responses || a.request.Identity == nil {
		return nil
	}
	t, err := p.Responses.Begin(r.Context(), &TurnRequest{Identity: a.request.Identity, Time: a.request.Time, Body: &a.doc,
		MaxBody: p.MaxJSON, Retains: logLevel(a) != access.LogNone})
	if err != nil || t == nil {
		return err
	}
	a.turn, a.request.Cache.Effect = t, t.Effect
	if len(t.Edits) == 0 {
		return nil
	}
	return p.replaceBody(a, a.doc.Apply(nil, t.Edits...))
}

// chooseProvider sends a request that names no target to the provider that keeps what it
// refers to.
func (t *Turn) chooseProvider(o *requestOptions) {
	if t != nil && t.Provider != "" && !o.namesTarget() {
		o.provider = t.Provider
	}
}

// checkTargets returns an error for targets that cannot know what the request refers to. It
// removes store from a request whose response only the gateway can store.
func (t *Turn) checkTargets(r *exchange.Request) error {
	if t == nil {
		return nil
	}
	if t.Asked && t.Content && !hasNativeTarget(r.Leaves) {
		r.Edits = append(r.Edits, jsonedit.Edit{Name: "store", Value: []byte("false")})
	}
	if t.MissingItem != nil && slices.ContainsFunc(r.Leaves, func(l exchange.Leaf) bool { return l.Target != nil && !isNative(&l) }) {
		return t.MissingItem
	}
	if t.Provider == "" && t.Missing == nil {
		return nil
	}
	other := ""
	for i := range r.Leaves {
		target := r.Leaves[i].Target
		switch {
		case target == nil:
		case t.Missing != nil && (target.Slug != "" || !isNative(&r.Leaves[i])):
			return t.Missing
		case t.Provider != "" && "@"+target.Slug == t.Provider:
			return nil // other targets refuse the reference
		case t.Provider != "":
			other = target.Label()
		}
	}
	if other == "" {
		return nil
	}
	param := "previous_response_id"
	if _, ok := r.Received.Doc.Find("conversation"); ok {
		param = "conversation"
	}
	return apierr.New(apierr.Invalid,
		"the previous response or the conversation is kept by %s, and the request goes to %s; send it to %s, or send the earlier turns as input",
		t.Provider, other, t.Provider).WithParam(param).WithCode("previous_response_elsewhere")
}

// isNative reports whether the target of a leaf speaks the protocol of responses.
func isNative(l *exchange.Leaf) bool {
	return l.Target.DialectFor(api.DialectResponses, l.Model) == api.DialectResponses
}

// hasNativeTarget reports whether a target speaks the protocol of responses.
func hasNativeTarget(leaves []exchange.Leaf) bool {
	return slices.ContainsFunc(leaves, func(l exchange.Leaf) bool { return l.Target != nil && isNative(&l) })
}

// runsHere reports whether the gateway makes the response in the background because the
// provider cannot.
func (t *Turn) runsHere(leaves []exchange.Leaf) bool {
	return t != nil && t.Background && t.Start != nil && !hasNativeTarget(leaves)
}

// startInBackground begins the response of an admitted request in the background.
func startInBackground(w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	a := &x.admission
	if slices.ContainsFunc(a.request.Leaves, func(l exchange.Leaf) bool { return l.Target != nil && l.Target.Slug == "" }) {
		return apierr.New(apierr.Invalid, "background is possible with managed providers only: credentials in headers are not kept for the time of the work").
			WithParam("background").WithCode("background_unmanaged")
	}
	b := &BackgroundRequest{HTTP: r, Identity: a.request.Identity, Body: a.request.Received.Doc.Apply(nil), Stream: a.request.Stream}
	return a.plane.writeObject(w, r, x, func(w http.ResponseWriter) error { return a.turn.Start(w, b) })
}

// turnWriter keeps the response of a turn while it is written.
type turnWriter struct {
	*Turn
	trip    *roundTrip
	slug    string
	native  bool
	content bool // the gateway keeps the content
	begun   []byte
	stored  bool
}

// keepTurn finds what keeps the response, and has it keep a complete one.
func (x *roundTrip) keepTurn(ctx context.Context, res *exchange.Response) {
	if x.turn = x.newTurnWriter(); x.turn != nil && res.Bytes != nil && res.Status == http.StatusOK {
		res.Bytes = x.turn.body(ctx, res.Bytes)
	}
}

// newTurnWriter returns what keeps the response of a turn; nil for none.
func (x *roundTrip) newTurnWriter() *turnWriter {
	t, outcome := x.admission.turn, x.trail.Outcome
	if t == nil || outcome == nil || outcome.Target == nil || t.Keep == nil {
		return nil
	}
	native := outcome.Target.DialectFor(api.DialectResponses, outcome.Model) == api.DialectResponses
	return &turnWriter{Turn: t, trip: x, slug: outcome.Target.Slug, native: native, content: !native && t.Store && t.Content}
}

// keep stores a response object. It reports whether that succeeded.
func (t *turnWriter) keep(ctx context.Context, body []byte, status string, atProvider bool) bool {
	t.stored = true
	e := &EndedResponse{Body: body, Status: status, AtProvider: atProvider, Content: t.content}
	if t.slug != "" {
		e.Provider = "@" + t.slug
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	if err := t.Keep(ctx, e); err != nil {
		t.trip.admission.plane.Logger.Warn("storing a response failed", "exchange", t.trip.admission.id, "err", errText(apierr.From(err)))
		return false
	}
	return true
}

// body stores a complete response, and returns what the client gets.
func (t *turnWriter) body(ctx context.Context, b []byte) []byte {
	var doc jsonedit.Doc
	if doc.Scan(b) != nil {
		return b
	}
	if o, ok := doc.Find("object"); !ok || !o.IsText("response") {
		return b
	}
	status := textOf(&doc, "status")
	atProvider := t.storesAtProvider(&doc)
	shown := b
	if t.content {
		shown = doc.Apply(nil, t.Shown...)
	}
	if !t.keep(ctx, shown, status, atProvider) {
		return b
	}
	return shown
}

func textOf(d *jsonedit.Doc, name string) string {
	v, _ := d.Find(name)
	s, _ := v.Text()
	return s
}

// storesAtProvider reports whether the provider says that it has stored a response, or does
// not say. If it says that it has not, the gateway keeps what was asked to be stored.
func (t *turnWriter) storesAtProvider(d *jsonedit.Doc) bool {
	if !t.native || !t.Store {
		return false
	}
	v, ok := d.Find("store")
	if is, isBool := v.Bool(); ok && isBool && !is {
		t.content = t.Asked && t.Content
		return false
	}
	return true
}

// responseMark precedes the response object in an event. Inside of a text its quotes are
// escaped.
var responseMark = []byte(`"response":`)

// event returns the bytes of one or more events as the client gets them, and stores the
// response if it ends with them.
func (t *turnWriter) event(ctx context.Context, raw []byte) []byte {
	if !bytes.Contains(raw, responseMark) {
		return raw
	}
	var out []byte
	changed := false
	events := sse.NewReader(bytes.NewReader(raw), len(raw)+1)
	for {
		e, err := events.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return raw
		}
		data, ok := t.response(ctx, e.Data)
		if !ok {
			out = append(out, e.Raw...)
			continue
		}
		out, changed = sse.AppendEvent(out, string(e.Type), data), true
	}
	if !changed {
		return raw
	}
	return out
}

// response reads the data of an event that may have a response object, and returns what the
// client gets in its place.
func (t *turnWriter) response(ctx context.Context, data []byte) (shown []byte, changed bool) {
	var event, doc jsonedit.Doc
	if event.Scan(data) != nil {
		return nil, false
	}
	v, ok := event.Find("response")
	if !ok || v.Kind() != jsonedit.Object || doc.Scan(v.Raw()) != nil {
		return nil, false
	}
	atProvider := t.storesAtProvider(&doc)
	body := v.Raw()
	if t.content {
		body = doc.Apply(nil, t.Shown...)
	}
	switch textOf(&event, "type") {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if !t.keep(ctx, body, textOf(&doc, "status"), atProvider) {
			return nil, false
		}
	default:
		t.begun = bytes.Clone(body)
	}
	if !t.content {
		return nil, false
	}
	return event.Apply(nil, jsonedit.Edit{Name: "response", Value: body}), true
}

// end stores a response that broke off, whose provider may go on with it.
func (t *turnWriter) end(ctx context.Context) {
	var doc jsonedit.Doc
	if t == nil || t.stored || t.begun == nil || doc.Scan(t.begun) != nil {
		return
	}
	if t.storesAtProvider(&doc) {
		t.keep(ctx, t.begun, "", true)
	}
}
