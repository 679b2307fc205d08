package caching

import (
	"context"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/cache/semantic"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

// question is the last turn of a request, as it is compared with those of stored
// responses.
type question struct {
	index     *semantic.Index
	partition semantic.Key
	vector    []float32 // nil if the turn could not be embedded
}

// question returns the question of a request, or nil if its turn is not compared:
// the target's cache is simple, or the turn is not text that can be read. The
// partition is the key of the request without the text of its last turn, and the
// facts of that text.
func (h *cacheHandler) question(ctx context.Context, r *exchange.Request, t *exchange.Trail, leaf *exchange.Leaf) *question {
	if h.options.Mode != config.CacheSemantic || h.cache.Index == nil ||
		r.Operation != api.Completions && r.Operation != r.Dialect.ConversationOperation() {
		return nil // the response to another operation depends on every letter
	}
	text, rest, ok := splitTurn(r)
	if !ok {
		return nil
	}
	turn, ok := semantic.Read(text)
	if !ok {
		return nil
	}
	var doc jsonedit.Doc
	if err := doc.Scan(rest); err != nil {
		return nil
	}
	other := *r
	other.Received.Doc = &doc
	e := h.embedder(r, t)
	q := &question{index: h.cache.Index, partition: semantic.Key(h.cacheKey(&other, leaf)).Narrow(turn, e.Name())}
	if _, local := e.(semantic.Lexical); !local && r.DryRun {
		t.Decide(h.path, "the last turn would be embedded by %s", e.Name())
		return q
	}
	vector, err := e.Embed(ctx, text)
	if err != nil {
		t.Decide(h.path, "the last turn was not embedded: %v", err)
		return q
	}
	q.vector = vector
	return q
}

// similar returns the stored response to the nearest question, or nil.
func (h *cacheHandler) similar(ctx context.Context, r *exchange.Request, t *exchange.Trail, q *question) *respcache.Entry {
	if q.vector == nil {
		return nil
	}
	key, similarity, ok := q.index.Find(ctx, q.partition, q.vector, float32(h.threshold()), h.cache.now())
	if !ok {
		return nil
	}
	e := h.lookUp(ctx, r, t, respcache.Key(key))
	if e == nil { // evicted or invalidated
		q.index.Remove(q.partition, key)
		return nil
	}
	t.Decide(h.path, "served from the cache: the last turn has a similarity of %.3f", similarity)
	return e
}

// forget removes the question that is nearest to q, whose response is replaced.
func (h *cacheHandler) forget(ctx context.Context, q *question) {
	if q == nil || q.vector == nil {
		return
	}
	if key, _, ok := q.index.Find(ctx, q.partition, q.vector, float32(h.threshold()), h.cache.now()); ok {
		q.index.Remove(q.partition, key)
	}
}

func (h *cacheHandler) threshold() float64 {
	if h.options.Threshold > 0 {
		return h.options.Threshold
	}
	return semantic.DefaultThreshold
}

// remember adds the question of a stored response. A nil question does nothing.
func (q *question) remember(key respcache.Key, expires time.Time) {
	if q != nil && q.vector != nil {
		q.index.Add(q.partition, semantic.Key(key), q.vector, expires)
	}
}
