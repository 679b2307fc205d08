package pipeline

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/apierr"
	"modelgate/internal/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/provider"
	"modelgate/internal/reqlog"
	"modelgate/internal/upstream"
)

// Engine is what all leaves share.
type Engine struct {
	Client *upstream.Client
	Pool   *bytepool.Pool

	// Codecs are those of the dialects that providers speak.
	Codecs map[api.Dialect]dialect.ProviderCodec

	// Signer signs the requests of targets whose authentication needs a clock
	// or I/O. Nil signs none.
	Signer Signer

	Limits upstream.Timeouts

	// MaxEvent bounds one event of a stream and MaxDecoded a compressed
	// answer after decoding, in bytes.
	MaxEvent   int
	MaxDecoded int64

	// MaxAttempts is how many requests to providers one exchange may make, those
	// of retries, fallbacks, hedges, continuations and split inputs included.
	// Zero means DefaultAttempts.
	MaxAttempts int

	// Ledger keeps account of attempts. Nil keeps none.
	Ledger Ledger

	// Trace returns a span id for an attempt of an exchange, and the traceparent
	// that its provider is sent. Nil sends none.
	Trace func(e *reqlog.Entry) (span, parent string)

	// UserAgent is sent on unified routes.
	UserAgent string

	// SkipGuardrails calls targets whose configs want checks to deny, although nothing
	// checks: the operator turned guardrails off.
	SkipGuardrails bool

	// Random returns a number in [0, 1) for draws and jitter. Nil takes
	// math/rand/v2.
	Random func() float64
}

func (e *Engine) random() float64 {
	if e.Random != nil {
		return e.Random()
	}
	return rand.Float64()
}

// Signer adds to a request what its target's way of authentication asks for.
// body is what the request sends, nil when it streams through. An error is an
// *apierr.Error where a client may see it.
type Signer interface {
	Sign(ctx context.Context, t *provider.Target, req *http.Request, body []byte) error
}

// TargetHandler calls one target.
type TargetHandler struct {
	*Engine
	Target *provider.Target
	Path   string // JSON path of the target in its config

	// Timeout bounds an attempt until its answer can be checked: a JSON answer
	// is whole, a stream has its first event. Zero leaves the engine's limits.
	Timeout time.Duration

	// Forward lists request headers that go to the provider as they are.
	Forward []string

	// Defaults fill what a JSON body lacks, Override replaces and Drop removes,
	// in this order. Model repeats the model in Override, empty when the
	// client's own is kept.
	Defaults []jsonedit.Edit
	Override []jsonedit.Edit
	Drop     []jsonedit.Path
	Model    string
	// Lenient lets answers hold what goes beyond the client's dialect, as
	// strict_vendora_compliance false asks. OnUnsupported says what happens to
	// parameters that the target can't honour; empty announces them.
	Lenient       bool
	OnUnsupported config.UnsupportedPolicy

	// DefaultModel repeats the model in Defaults, for a client that sends none.
	DefaultModel string

	// resolve finds the target of an exchange. Nil where Target is set.
	resolve func(x *Exchange) (*provider.Target, error)

	// fill finds what a saved prompt puts into the request. Nil where the target
	// has none.
	fill func(x *Exchange) (PromptEdits, error)
}

// Handle makes one attempt.
func (l *TargetHandler) Handle(ctx context.Context, x *Exchange) (*Response, error) {
	l, err := l.withTarget(x)
	if err != nil {
		return nil, err
	}
	x.UpstreamModel = x.Model
	if l.Model != "" {
		x.UpstreamModel = l.Model
	} else if x.UpstreamModel == "" {
		x.UpstreamModel = l.DefaultModel
	}
	if x.DryRun != nil {
		return l.dryRun(ctx, x)
	}
	if l.Trace != nil {
		x.span, x.parent = l.Trace(x.Entry)
	}
	began := time.Now()
	res, err := l.attempt(ctx, x)
	took := time.Since(began)
	x.UpstreamTime += took
	x.Entry.Provider, x.Entry.Slug, x.Entry.OptionIndex = l.Target.ID, l.Target.Slug, l.Path
	a := l.entry(x)
	a.Start, a.Took = began.Sub(x.Entry.Time), took
	if res != nil {
		a.Status = res.Status
	}
	if err != nil {
		a.Error = apierr.From(err).Message
	}
	x.Entry.Attempts = append(x.Entry.Attempts, a)
	return res, err
}

// entry begins the record of an attempt.
func (l *TargetHandler) entry(x *Exchange) reqlog.Attempt {
	a := reqlog.Attempt{Target: l.Path, Provider: l.Target.ID, Slug: l.Target.Slug, SpanID: x.span}
	if l.Target.Base != nil {
		a.Host = l.Target.Base.Host
	}
	return a
}

// withTarget returns the leaf with its target and with what its prompt puts into the
// request, as they are for x.
func (l *TargetHandler) withTarget(x *Exchange) (*TargetHandler, error) {
	if l.resolve == nil {
		return l, nil
	}
	t, err := l.resolve(x)
	if err != nil {
		return nil, err
	}
	out := *l
	out.Target, out.resolve = t, nil
	return &out, out.applyPrompt(x)
}

func (l *TargetHandler) attempt(ctx context.Context, x *Exchange) (*Response, error) {
	spoken, err := l.planWire(x)
	if err != nil {
		return nil, err
	}
	counted, err := l.reserveTranslation(x, &spoken)
	if err != nil {
		return nil, err
	}
	res, err := l.sendAll(ctx, x, &spoken)
	switch {
	case counted == nil:
	case err != nil:
		counted.Release()
	default:
		res.after = append(res.after, counted.Release)
	}
	return res, err
}

// sendOne makes one request of the provider.
func (l *TargetHandler) sendOne(ctx context.Context, x *Exchange, spoken wirePlan) (*Response, error) {
	w := l.startTimers(ctx, x)
	req, body, err := l.request(w, x, &spoken)
	if body != nil {
		defer body.Release() // the transport holds it for as long as it reads
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	out, err := l.send(w, x, &spoken, req)
	if err != nil {
		w.stop()
		return nil, err
	}
	w.stopRequestTimeout()
	return out, nil
}

// send sends an attempt and accounts for it: here when it gives no answer, and
// when the answer is let go otherwise.
func (l *TargetHandler) send(w attemptTimers, x *Exchange, spoken *wirePlan, req *http.Request) (out *Response, err error) {
	acc, err := l.openAccount(w.context(), x)
	switch {
	case err != nil && apierr.From(err).Code == codeAttempts:
		return nil, err
	case err != nil && w.context().Err() != nil:
		return nil, l.failure(w, req, err)
	case err != nil:
		return nil, intentError(err)
	}
	defer func() {
		if out == nil {
			acc.fail(err)
		}
	}()
	res, err := l.Client.Do(req, l.Target.Guarded)
	if err != nil {
		return nil, l.failure(w, req, err)
	}
	if out, err = l.handleResponse(w, x, spoken, res); err != nil {
		res.Body.Close()
		return nil, err
	}
	out.account = acc
	return out, nil
}

// request builds the attempt's HTTP request. body is what it sends, held once
// for the caller; nil when there is none or when it streams through.
func (l *TargetHandler) request(w attemptTimers, x *Exchange, spoken *wirePlan) (req *http.Request, body *bytepool.Buffer, err error) {
	call, err := l.call(x, spoken)
	if err != nil {
		return nil, nil, err
	}
	if body, err = l.body(w, x, spoken, &call); err != nil {
		return nil, nil, err
	}
	req, err = provider.NewRequest(w.context(), l.Target, &call)
	for _, flag := range call.DroppedBetas {
		x.note("anthropic-beta;dropped=" + strconv.Quote(flag))
	}
	if err == nil && l.Target.Auth.Method != "" && l.Signer != nil {
		err = l.sign(w, req, body)
	}
	return req, body, err
}

func (l *TargetHandler) sign(w attemptTimers, req *http.Request, body *bytepool.Buffer) error {
	if body == nil {
		return l.Signer.Sign(w.context(), l.Target, req, nil)
	}
	return l.Signer.Sign(w.context(), l.Target, req, body.Bytes())
}

// call returns the attempt's call, but for its body.
func (l *TargetHandler) call(x *Exchange, spoken *wirePlan) (call provider.Call, err error) {
	call = provider.Call{
		Operation:  spoken.op,
		Method:     x.Method,
		Path:       x.Path,
		Query:      x.stripGatewayKey(x.Query),
		EmptyQuery: x.EmptyQuery,
		Model:      x.UpstreamModel,
	}
	if _, elsewhere := l.Target.BodyRules[spoken.op]; spoken.translates() || elsewhere {
		call.Query = "" // it belongs to the client's protocol, at its own vendor
	}
	if call.Header, err = l.header(x, spoken); err == nil && x.parent != "" {
		upstream.Replace(call.Header, "Traceparent", []string{x.parent})
	}
	if err == nil && !x.Stream && l.jobber(spoken) != nil {
		call.Header["Prefer"] = preferWait
	}
	return call, err
}

// header returns what the client's headers give the provider: all of them on
// pass-through, on unified routes the content type, those of a protocol that
// both sides speak, and the named ones.
func (l *TargetHandler) header(x *Exchange, spoken *wirePlan) (http.Header, error) {
	h := make(http.Header, 8) // what a unified route sends
	if x.Operation == api.Proxy {
		upstream.CopyRequestHeader(h, x.Header)
		upstream.DropFamilies(h, x.Families)
		l.Target.DropOtherVendorHeaders(h)
	} else {
		values := [...]string{l.UserAgent, "application/json", "identity"}
		if x.Stream {
			values[1] = "text/event-stream"
		}
		h["User-Agent"], h["Accept"], h["Accept-Encoding"] = values[0:1:1], values[1:2:2], values[2:3:3]
		if ct, ok := x.Header["Content-Type"]; ok {
			h["Content-Type"] = ct
		}
		if x.Operation == api.AudioSpeech {
			delete(h, "Accept")
		}
		for _, name := range x.Client.Headers() {
			if v, ok := x.Header[name]; ok && !spoken.translates() {
				h[name] = v
			}
		}
	}
	x.dropKeys(h)
	if len(l.Forward) == 0 {
		return h, nil
	}
	if err := upstream.Forward(h, x.Header, l.Forward); err != nil {
		return nil, err
	}
	return h, x.checkForwardedHeaders(h, l.Forward)
}

// body attaches the exchange's body to the call, with the target's edits
// spliced in where it is JSON.
func (l *TargetHandler) body(w attemptTimers, x *Exchange, spoken *wirePlan, call *provider.Call) (*bytepool.Buffer, error) {
	if x.Upload != nil {
		call.Body, call.Trailer = provider.Body{Source: uploads{x, w.dog}, Length: x.Length}, x.Trailer
		return nil, nil
	}
	if x.Body == nil {
		return nil, nil
	}
	buf, err := l.prepareBody(x, spoken, call.Header)
	if err != nil {
		return nil, err
	}
	call.Body = provider.Body{Source: buf, Length: int64(buf.Len()), Replayable: true}
	return buf, nil
}

func outOfMemory(err error) error {
	return apierr.New(apierr.Unavailable, "the gateway is out of body memory; try again shortly").
		WithCode("body_memory_full").WithCause(err)
}
