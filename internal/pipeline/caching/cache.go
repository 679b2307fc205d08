package caching

import (
	"bytes"
	"context"
	"time"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/cache/semantic"
	"modelgate/internal/dialect"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/records/reqlog"
)

// defaultCachedResponse is the default of ResponseCache.MaxResponse in bytes.
const defaultCachedResponse = 4 << 20

// maxCacheAge is the longest time for which a response is stored.
const maxCacheAge = 365 * 24 * time.Hour

// Cache stores responses and answers equal requests with them. Fields
// must not change once it is used.
type Cache struct {
	Store respcache.Store
	// Invalidations say which entries of the store are not served.
	Invalidations respcache.Invalidations
	// MaxResponse is the limit in bytes of a stored response. Zero means
	// 4 MB.
	MaxResponse int
	// Now is the clock of lifetimes. Nil means time.Now.
	Now func() time.Time

	// Index finds the responses to similar questions. Nil finds none: semantic mode
	// is simple. EmbeddingClient is the dialect of calls that embed a turn.
	Index           *semantic.Index
	EmbeddingClient dialect.ClientDialect

	flights flights
}

func (c *Cache) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func (c *Cache) limit() int {
	if c.MaxResponse > 0 {
		return c.MaxResponse
	}
	return defaultCachedResponse
}

// cacheHandler answers requests for one leaf with stored responses, and stores
// those of next. Equal requests in progress share one call of next.
type cacheHandler struct {
	cache    *Cache
	bounds   *exchange.Bounds
	path     string
	name     string        // of the target in its config
	leaf     int           // index in Request.Leaves
	settings respcache.Key // hash of the leaf's settings
	forward  []string
	timeout  time.Duration // of the leaf
	options  config.Cache
	// embedding is the index in Request.Embedders, if the options name an embedder.
	embedding int
	embed     exchange.Handler // calls the embedder; nil without one
	next      exchange.Handler
}

// Place identifies a leaf in its config, and what it has from there.
type Place struct {
	Bounds *exchange.Bounds
	Leaf   int // index in Request.Leaves
	// Embedder is the index in Request.Embedders, and Embed its handler, if the leaf
	// names an embedder.
	Embedder int
	Embed    exchange.Handler
}

// EmbedsBy returns the embedder that the cache of a leaf names, nil for none.
func EmbedsBy(n *config.Config) *config.Embedding {
	if n.Cache == nil || n.Cache.Mode != config.CacheSemantic {
		return nil
	}
	return n.Cache.Embedding
}

// Around returns a handler that answers requests for a leaf with stored responses, and
// stores those of next. n are the leaf's effective settings, which have a cache.
func (c *Cache) Around(n *config.Config, at Place, next exchange.Handler) exchange.Handler {
	return &cacheHandler{
		cache: c, bounds: at.Bounds, path: n.Path, name: n.Name, leaf: at.Leaf, settings: leafKey(n),
		forward: n.ForwardHeaders, timeout: n.RequestTimeout, options: *n.Cache,
		embedding: at.Embedder, embed: at.Embed, next: next,
	}
}

// Handle looks the response up, joins an equal request in progress, or calls
// next. A leaf that may not serve the request never looks anything up.
func (h *cacheHandler) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	if len(r.Leaves) == 0 || r.Leaves[h.leaf].Err != nil || r.Leaves[h.leaf].Target == nil || !cacheable(r) {
		return h.next.Handle(ctx, r, t)
	}
	leaf := &r.Leaves[h.leaf]
	if leaf.Prompt != nil && leaf.Prompt.Err != nil {
		return h.next.Handle(ctx, r, t)
	}
	key := h.cacheKey(r, leaf)
	if r.Cache.Refresh {
		t.Cache = exchange.CacheRefresh
		if r.DryRun {
			return h.next.Handle(ctx, r, t)
		}
		f := newFlight(h.cache.Invalidations.Generation(tenantOf(r)))
		f.question = h.question(ctx, r, t, leaf)
		h.forget(ctx, f.question)
		return h.callAndShare(ctx, r, t, key, f)
	}
	ended, generation := h.cache.flights.endedOf(key), h.cache.Invalidations.Generation(tenantOf(r))
	if e := h.lookUp(ctx, r, t, key); e != nil {
		h.recordHit(t)
		if r.DryRun {
			return h.next.Handle(ctx, r, t)
		}
		return h.replay(r, t, e), nil
	}
	t.Cache = exchange.CacheMiss
	q := h.question(ctx, r, t, leaf)
	if q != nil {
		t.Cache = exchange.CacheSemanticMiss
		if e := h.similar(ctx, r, t, q); e != nil {
			t.Cache = exchange.CacheSemanticHit
			if r.DryRun {
				return h.next.Handle(ctx, r, t)
			}
			return h.replay(r, t, e), nil
		}
	}
	if r.DryRun {
		return h.next.Handle(ctx, r, t)
	}
	if !r.Deadline.IsZero() { // others may wait longer than this request
		f := newFlight(generation)
		f.question = q
		return h.callAndShare(ctx, r, t, key, f)
	}
	f, first := h.cache.flights.join(key, generation, ended)
	for f == nil {
		ended = h.cache.flights.endedOf(key)
		if e := h.lookUp(ctx, r, t, key); e != nil {
			h.recordHit(t)
			return h.replay(r, t, e), nil
		}
		f, first = h.cache.flights.join(key, generation, ended)
	}
	if first {
		f.question = q
		return h.callAndShare(ctx, r, t, key, f)
	}
	res, err := h.joinFlight(ctx, r, t, f)
	if res == nil && err == nil { // the other request failed, for reasons that may be its own
		return h.callAndShare(ctx, r, t, key, newFlight(generation))
	}
	return res, err
}

// lookUp returns the stored response, or nil. A store that fails has none.
func (h *cacheHandler) lookUp(ctx context.Context, r *exchange.Request, t *exchange.Trail, key respcache.Key) *respcache.Entry {
	began := time.Now()
	e, err := h.cache.Store.Get(ctx, tenantOf(r), key, h.cache.now())
	if took := time.Since(began); took > time.Millisecond { // waiting for a store is not the gateway's own time
		t.UpstreamTime += took
	}
	if err != nil {
		t.Decide(h.path, "the cache is unavailable")
		return nil
	}
	if e != nil && h.cache.Invalidations.Covers(e) {
		return nil
	}
	return e
}

func tenantOf(r *exchange.Request) respcache.Tenant {
	return respcache.Tenant{Organisation: r.Identity.Organisation, Workspace: r.Identity.Workspace}
}

// outcome returns the record of an attempt that was not made, which names the target
// of a shared or stored response.
func (h *cacheHandler) outcome(r *exchange.Request, t *exchange.Trail, model string, params []dialect.ParamChange) *exchange.Attempt {
	leaf := &r.Leaves[h.leaf]
	for _, n := range leaf.Notes {
		t.Note(n)
	}
	a := &exchange.Attempt{
		Target: leaf.Target, Prompt: r.Prompt, Model: model, Params: params, NamesRequestedModel: r.NamesRequestedModel(""),
		Record: reqlog.Attempt{Target: h.path, Name: h.name, Provider: leaf.Target.ID, Slug: leaf.Target.Slug},
	}
	if leaf.Prompt != nil {
		a.Prompt = leaf.Prompt.Prompt
	}
	t.Outcome, t.Retries = a, 0
	return a
}

func (h *cacheHandler) recordHit(t *exchange.Trail) {
	t.Cache = exchange.CacheHit
	t.Decide(h.path, "served from the cache")
}

// replay returns a stored response.
func (h *cacheHandler) replay(r *exchange.Request, t *exchange.Trail, e *respcache.Entry) *exchange.Response {
	t.Saved = exchange.SettledCost{Cost: e.Cost, Known: e.Priced}
	info := &dialect.ResponseInfo{Model: e.Model, Finish: e.Finish, Usage: e.Usage, Begun: true, Finished: true, Terminated: e.Terminated}
	out := &exchange.Response{Status: e.Status, Header: headerOf(e.ContentType, e.Encoding),
		Attempt: h.outcome(r, t, e.Upstream, e.Params), Tap: exchange.StoredTap{Read: info}, Length: int64(len(e.Body)), Source: storedResponse{}}
	switch e.Form {
	case respcache.Complete:
		out.Bytes = e.Body
	case respcache.Events:
		out.Length = -1
		out.Events = exchange.ReplayBytes(e.Body)
	default:
		out.Body, out.Tap = bytes.NewReader(e.Body), r.Client.NewTap(r.Operation)
	}
	return out
}

// callAndShare calls next and shares its response with those that join the flight. The
// call ends when its last user has left.
func (h *cacheHandler) callAndShare(ctx context.Context, r *exchange.Request, t *exchange.Trail,
	key respcache.Key, f *flight) (*exchange.Response, error) {
	f.finish = h.options.OnDisconnect == config.FinishAndCache && r.Deadline.IsZero()
	call := f.begin(ctx)
	me := f.watch(ctx)
	landed := false
	defer func() {
		if !landed { // a failure or a panic
			me.stop()
			f.publish(nil)
		}
	}()
	res, err := h.next.Handle(call, r, t)
	if err != nil || res.Status > 299 || res.Status < 200 {
		if err == nil {
			res.After = append(res.After, me.end)
		} else {
			me.end()
		}
		return res, err
	}
	landed = true
	made := res.Attempt // another may continue the stream
	s := newSharedResponse(res, h.cache.limit(), h.bounds.Pool, r.Memory)
	s.onDrop = f.close
	own := s.open(ctx)
	settle := func() {
		res.Close()
		s.recordCost(made.Paid)
	}
	store := func() {
		h.store(r, key, s, f.generation, f.question)
		f.close()
	}
	ended := make(chan struct{})
	switch s.form {
	case respcache.Complete:
		settle()
		f.complete()
		close(ended)
	default:
		go func() {
			defer close(ended)
			s.run(call)
			f.complete()
			if s.form == respcache.Events {
				settle()
				store()
			}
		}()
	}
	if res.Metered { // others have budgets of their own
		f.publish(nil)
	} else {
		f.publish(s)
	}
	out := own.response(res.Attempt, s.header, res.Tap)
	own.finish = func() {
		me.end()
		own.close()
		<-ended
	}
	out.After = append(out.After, func() {
		own.finish()
		switch s.form {
		case respcache.Complete:
			store()
		case respcache.Raw:
			settle()
			store()
		}
	})
	return out, nil
}

// joinFlight returns the response of a flight that another request began, for a
// client of its own. It returns nothing if that request failed.
func (h *cacheHandler) joinFlight(ctx context.Context, r *exchange.Request, t *exchange.Trail, f *flight) (*exchange.Response, error) {
	me := f.watch(ctx)
	began := time.Now()
	limit := h.wait(r)
	var due <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		due = timer.C
	}
	var err error
	select {
	case <-f.ended:
	case <-ctx.Done():
		err = apierr.New(apierr.ClientGone, "the client closed the request").WithCause(context.Cause(ctx))
	case <-due:
		err = apierr.New(apierr.Timeout, "%s did not respond within the request timeout of %d ms",
			r.Leaves[h.leaf].Target.Label(), limit.Milliseconds())
	}
	t.UpstreamTime += time.Since(began)
	if err != nil {
		me.end()
		return nil, err
	}
	s := f.response
	var own *sharedReader
	if s != nil {
		own = s.open(ctx)
	}
	if own == nil {
		me.end()
		return nil, nil
	}
	t.Cache = exchange.CacheHit
	t.Decide(h.path, "shares the call of an equal request")
	a := h.outcome(r, t, s.model, s.params)
	out := own.response(a, headerOf(s.header.Get("Content-Type"), s.header.Get("Content-Encoding")), r.Client.NewTap(r.Operation))
	own.free = true
	out.After = append(out.After, func() {
		own.close()
		me.end()
		t.Saved = s.cost()
	})
	return out, nil
}

// wait returns how long to wait for another request's response; zero means until
// its end.
func (h *cacheHandler) wait(r *exchange.Request) time.Duration {
	if r.AttemptDeadline.IsZero() {
		return h.timeout
	}
	left := max(time.Until(r.AttemptDeadline), time.Millisecond)
	if h.timeout > 0 {
		return min(h.timeout, left)
	}
	return left
}

// store stores the response of a call that has ended, if it may be stored.
// generation is that of invalidations when the call began.
func (h *cacheHandler) store(r *exchange.Request, key respcache.Key, s *sharedResponse, generation int64, q *question) {
	body, ok := s.collected()
	if !ok || s.source.Cut() {
		return
	}
	age := h.options.MaxAge
	if age == 0 {
		age = config.DefaultMaxAge
	}
	cost := s.cost()
	e := &respcache.Entry{
		Owner: tenantOf(r), Generation: generation, Expires: h.cache.now().Add(min(age, maxCacheAge)),
		Namespace: r.Cache.Namespace, Config: r.Cache.Config, KeyID: r.Identity.KeyID,
		Status: s.head.Status, ContentType: s.header.Get("Content-Type"), Encoding: s.header.Get("Content-Encoding"), Form: s.form,
		Model: s.info.Model, Finish: s.info.Finish, Usage: s.info.Usage, Terminated: s.info.Terminated,
		Upstream: s.model, Params: s.params, Cost: cost.Cost, Priced: cost.Known, Body: body,
	}
	if storable(r, e, &s.info, h.options.ToolCalls) {
		if h.cache.Store.Put(context.Background(), key, e) == nil { // a store that fails stores nothing
			q.remember(key, e.Expires)
		}
	}
}
