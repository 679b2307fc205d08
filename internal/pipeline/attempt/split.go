package attempt

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

// maxParallel is the limit of parallel requests for the pieces of one request:
// enough to hide network latency, and small compared to a provider's quota.
const maxParallel = 8

// split returns an attempt for each piece of a request that the target needs
// split, and nil if one request is enough. The config has been applied to
// pieces, which are in the chat dialect.
func (a *attempt) split() ([]*attempt, error) {
	o, ok := a.plan.wire.translator.(*operation)
	if !ok || o.provider == nil || o.provider.Split == nil {
		return nil, nil
	}
	doc, list := a.plan.request.Received.Doc, a.plan.request.Edits
	if a.plan.editsBody() {
		configured, err := a.plan.applyConfigParams()
		if err != nil {
			return nil, err
		}
		doc, list = configured, nil
	}
	body, err := o.chatBody(doc.Apply(nil, list...))
	if err != nil {
		return nil, err
	}
	if err := a.checkPieces(body); err != nil {
		return nil, err
	}
	bodies, err := o.provider.Split(body, o.target)
	if err != nil || len(bodies) == 0 {
		return nil, err
	}
	bare := *a.plan.handler
	bare.Params = exchange.ConfigParams{}
	pieces := make([]*attempt, len(bodies))
	for i, body := range bodies {
		r := *a.plan.request
		if r.Received.Doc, r.Edits = new(jsonedit.Doc), nil; r.Received.Doc.Scan(body) != nil {
			return nil, fmt.Errorf("a piece of a request for %s is not a JSON object", a.plan.record.Target.Label())
		}
		piece := &attempt{plan: plan{record: exchange.Attempt{Target: a.plan.record.Target, Model: a.plan.record.Model},
			handler: &bare, request: &r, trail: a.plan.trail.Child(), wire: a.plan.wire, parent: a.plan.parent}}
		piece.plan.wire.translator = &operation{provider: o.provider, target: o.target}
		pieces[i] = piece
	}
	return pieces, nil
}

// maxPieces is the limit in bytes of all pieces of a request together. Each
// piece repeats everything except the inputs.
const maxPieces = 64 << 20

// checkPieces returns an error if an embeddings request has more inputs than
// attempts left, or if its pieces are too large.
func (a *attempt) checkPieces(body []byte) error {
	n, size := dialect.CountInputs(body)
	limit := a.plan.handler.Engine.Bounds.AttemptLimit()
	if left := limit - int(a.plan.trail.Bill().Used.Load()); n > left {
		return apierr.New(apierr.Invalid,
			"%s accepts one input per request, so %d inputs need as many attempts; a request may make %d attempts (limits.attempts in the gateway's settings) and has %d left: send fewer inputs", a.plan.record.Target.Label(), n, limit, max(left, 0)).
			WithParam("input").WithCode(exchange.CodeAttempts)
	}
	if total := len(body) + (n-1)*(len(body)-size); total > maxPieces {
		return apierr.New(apierr.TooLarge,
			"%s accepts one input per request; %d requests with the other parameters take %d bytes, and at most %d are allowed: send fewer inputs or shorter parameters", a.plan.record.Target.Label(), n, total, maxPieces).
			WithParam("input")
	}
	return nil
}

// sendSplit sends the pieces of a request, a few at a time, and merges their
// responses. The first failure cancels the others and is the response.
func (a *attempt) sendSplit(ctx context.Context, pieces []*attempt) (*exchange.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &splitRun{pieces: pieces, responses: make([]*exchange.Response, len(pieces)), cancel: cancel}
	if limit := a.plan.handler.responseTimeout(a.plan.request); limit > 0 { // of all pieces together
		for _, piece := range pieces {
			piece.plan.request.AttemptDeadline = time.Now().Add(limit)
		}
	}
	var wg sync.WaitGroup
	for range min(maxParallel, len(pieces)) {
		wg.Go(func() { b.work(ctx) })
	}
	wg.Wait()
	defer b.close()
	a.adopt(pieces[0])
	if b.failed {
		return b.res, b.err
	}
	return a.merge(b.responses)
}

// adopt copies the parameter changes of a piece, which are the same for all.
func (a *attempt) adopt(piece *attempt) {
	a.plan.record.Params = piece.plan.record.Params
	for _, n := range piece.plan.trail.Notes {
		a.plan.trail.Note(n)
	}
}

// splitRun sends the pieces of a request.
type splitRun struct {
	pieces    []*attempt
	responses []*exchange.Response // each is set by the goroutine that sends its piece
	cancel    context.CancelFunc
	taken     atomic.Int64

	mu     sync.Mutex
	failed bool               // guarded by mu, as are the fields below
	res    *exchange.Response // the first failure: an error response, or an error
	err    error
}

// work sends pieces until none is left or one has failed.
func (b *splitRun) work(ctx context.Context) {
	for ctx.Err() == nil {
		i := int(b.taken.Add(1)) - 1
		if i >= len(b.pieces) {
			return
		}
		res, err := b.send(ctx, b.pieces[i])
		if err != nil || res.Status > 299 {
			b.fail(res, err)
			return
		}
		b.responses[i] = res
	}
	b.fail(nil, apierr.New(apierr.ClientGone, "the client closed the request")) // unless one has failed before
}

// send sends one piece. A panic becomes its error, since no caller in this
// goroutine recovers it.
func (b *splitRun) send(ctx context.Context, piece *attempt) (res *exchange.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic of type %T: %s", v, debug.Stack())
		}
	}()
	return piece.sendOne(ctx)
}

// fail records the first failure and cancels the other pieces.
func (b *splitRun) fail(res *exchange.Response, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed {
		if res != nil {
			res.Close()
		}
		return
	}
	b.failed, b.res, b.err = true, res, err
	b.cancel()
}

// merge returns one response for the responses to the pieces.
func (a *attempt) merge(responses []*exchange.Response) (*exchange.Response, error) {
	bodies := make([][]byte, len(responses))
	for i, res := range responses {
		bodies[i] = res.Bytes
	}
	o := a.plan.wire.translator.(*operation)
	encoded, err := o.provider.Join(nil, bodies)
	if err == nil {
		encoded, err = o.clientBody(encoded)
	}
	if err != nil {
		return nil, err
	}
	first := responses[0]
	out := &exchange.Response{Status: first.Status, Header: first.Header, Attempt: &a.plan.record,
		Tap: a.plan.request.Client.NewTap(a.plan.request.Operation)}
	out.SetTapped(encoded)
	return out, nil
}

// close closes the responses, which have been copied.
func (b *splitRun) close() {
	for _, res := range b.responses {
		if res != nil {
			res.Close()
		}
	}
}
