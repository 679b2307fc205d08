package pipeline

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

// maxParallel is how many requests of one bundle are under way at a time: enough to
// hide the way to the provider, and far from what its quota minds.
const maxParallel = 8

// sendAll makes the attempt as w says, or those of a request in pieces.
func (l *TargetHandler) sendAll(ctx context.Context, x *Exchange, w *wirePlan) (*Response, error) {
	pieces, err := l.splitRequest(x, w)
	if err != nil {
		return nil, err
	}
	if pieces != nil {
		return l.sendSplit(ctx, x, w, pieces)
	}
	return l.sendOne(ctx, x, *w)
}

// splitRequest returns the exchange once for each request that its target must be
// sent, and none where one says all.
func (l *TargetHandler) splitRequest(x *Exchange, w *wirePlan) ([]*Exchange, error) {
	if w.form == nil || w.form.Split == nil {
		return nil, nil
	}
	doc, list := x.Doc, x.Edits
	if l.editsBody() {
		configured, err := l.applyConfigParams(x)
		if err != nil {
			return nil, err
		}
		doc, list = configured, nil
	}
	body := doc.Apply(nil, list...)
	if w.client != nil {
		chat, err := w.client.Request(nil, body, w.target.Model)
		if err != nil {
			return nil, err
		}
		body = chat
	}
	if err := l.checkPieces(x, body); err != nil {
		return nil, err
	}
	bodies, err := w.form.Split(body, w.target)
	if err != nil {
		return nil, err
	}
	pieces := make([]*Exchange, len(bodies))
	for i, body := range bodies {
		doc := new(jsonedit.Doc)
		if err := doc.Scan(body); err != nil {
			return nil, fmt.Errorf("scanning a piece of a request: %w", err)
		}
		pieces[i] = x.fork()
		pieces[i].Doc, pieces[i].Edits, pieces[i].UpstreamModel, pieces[i].DryRun = doc, nil, x.UpstreamModel, x.DryRun
	}
	if len(pieces) == 0 {
		return nil, nil
	}
	return pieces, nil
}

// maxPieces is the size of all pieces of a request together, in bytes. Each has
// what the request says besides its inputs.
const maxPieces = 64 << 20

// checkPieces returns an error if the inputs of an embeddings request are more
// than the exchange has attempts left, or make pieces that are too large.
func (l *TargetHandler) checkPieces(x *Exchange, body []byte) error {
	n, size := dialect.CountInputs(body)
	limit := l.AttemptLimit()
	if left := limit - int(x.bill().attempts.Load()); n > left {
		return apierr.New(apierr.Invalid,
			"%s takes one input in a request, so %d inputs need as many attempts; a request may make %d attempts (limits.attempts in the gateway's settings) and has %d left: send fewer inputs", l.Target.ID, n, limit, max(left, 0)).
			WithParam("input").WithCode(codeAttempts)
	}
	if total := len(body) + (n-1)*(len(body)-size); total > maxPieces {
		return apierr.New(apierr.TooLarge,
			"%s takes one input in a request; %d requests with the other parameters take %d bytes, and at most %d are allowed: send fewer inputs or shorter parameters", l.Target.ID, n, total, maxPieces).
			WithParam("input")
	}
	return nil
}

// forSplit returns the leaf and the wire for pieces, which hold what the config
// asks for and are of the chat dialect.
func (l *TargetHandler) forSplit(w *wirePlan) (*TargetHandler, wirePlan) {
	leaf, spoken := *l, *w
	leaf.Defaults, leaf.Override, leaf.Drop = nil, nil, nil
	spoken.client = nil
	return &leaf, spoken
}

// sendSplit sends the pieces of an exchange, few at a time, and makes one answer of
// theirs. The first failure ends the others and is the answer to all.
func (l *TargetHandler) sendSplit(ctx context.Context, x *Exchange, spoken *wirePlan, pieces []*Exchange) (*Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &splitRun{spoken: spoken, pieces: pieces, answers: make([]*Response, len(pieces)), cancel: cancel}
	if limit := l.responseTimeout(x); limit > 0 { // of all together
		for _, piece := range pieces {
			piece.AttemptDeadline = time.Now().Add(limit)
		}
	}
	var wg sync.WaitGroup
	for range min(maxParallel, len(pieces)) {
		wg.Go(func() { b.work(ctx, l) })
	}
	wg.Wait()
	defer b.close()
	x.Params = pieces[0].Params
	for _, n := range pieces[0].Notes {
		x.note(n)
	}
	if b.failed {
		return b.res, b.err
	}
	return b.merge(x)
}

// splitRun is what happens to the pieces of an exchange.
type splitRun struct {
	spoken  *wirePlan
	pieces  []*Exchange
	answers []*Response // each set by the goroutine that took its piece
	cancel  context.CancelFunc
	taken   atomic.Int64

	mu     sync.Mutex
	failed bool      // guarded by mu, as is all below
	res    *Response // the first failure: an answer that tells of one, or an error
	err    error
}

// work takes pieces until none is left or one has failed.
func (b *splitRun) work(ctx context.Context, l *TargetHandler) {
	for ctx.Err() == nil {
		i := int(b.taken.Add(1)) - 1
		if i >= len(b.pieces) {
			return
		}
		res, err := b.send(ctx, l, b.pieces[i])
		if err != nil || res.Status > 299 {
			b.fail(res, err)
			return
		}
		b.answers[i] = res
	}
	b.fail(nil, apierr.New(apierr.ClientGone, "the client closed the request")) // where none has failed yet
}

// send sends one piece. A panic becomes its error: nobody above it on this
// goroutine catches one.
func (b *splitRun) send(ctx context.Context, l *TargetHandler, x *Exchange) (res *Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic of type %T: %s", v, debug.Stack())
		}
	}()
	leaf, spoken := l.forSplit(b.spoken)
	return leaf.sendOne(ctx, x, spoken)
}

// fail keeps the first failure and ends the other pieces.
func (b *splitRun) fail(res *Response, err error) {
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

// merge makes the answer of those to the pieces.
func (b *splitRun) merge(x *Exchange) (*Response, error) {
	bodies := make([][]byte, len(b.answers))
	for i, res := range b.answers {
		bodies[i] = res.Bytes
	}
	encoded, err := b.spoken.form.Join(nil, bodies)
	if err == nil && b.spoken.client != nil {
		encoded, err = b.spoken.client.Response(nil, encoded)
	}
	if err != nil {
		return nil, err
	}
	first := b.answers[0]
	out := &Response{Status: first.Status, Header: first.Header, Target: first.Target, Tap: x.Client.NewTap(x.Operation)}
	out.setBytes(encoded)
	out.Tap.Body(encoded)
	return out, nil
}

// close lets go of the answers, which were copied.
func (b *splitRun) close() {
	for _, res := range b.answers {
		if res != nil {
			res.Close()
		}
	}
}
