package secretref

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
)

const (
	// DefaultAge is how long a value is valid.
	DefaultAge = 5 * time.Minute
	// stale is how long the last value is used while its manager is unavailable.
	stale = time.Hour

	firstRetry, lastRetry = time.Second, time.Minute
)

// CacheOptions configure a [Cache]. The zero value works.
type CacheOptions struct {
	Age    time.Duration // maximum age of a value while its manager is available; default [DefaultAge]
	Logger *slog.Logger  // nil is silent
	// Changed is called when the result of [Cache.Value] for a reference has changed.
	// Nil is not called.
	Changed func()
}

// Cache caches the secrets in use and refreshes them before they are too old. While a
// manager is unavailable the last value stays valid for an hour. It is safe for
// concurrent use.
type Cache struct {
	CacheOptions
	resolver *Resolver

	base    context.Context // of reads in the background; ends with Close
	end     context.CancelFunc
	flights sync.WaitGroup

	mu       sync.Mutex
	closed   bool                // guarded by mu, like the following fields
	held     map[identity]*entry // by secret, which several references may share
	failures uint64
}

// entry is a cached secret. The cache's lock guards it, except for first.
type entry struct {
	ref     Reference
	first   chan struct{} // closed after the first read, successful or not; never changed
	landed  bool          // first is closed
	found   secretPayload
	read    time.Time // time of the last value; zero if there is none
	err     error     // of the last read; nil if it succeeded
	tries   int       // failed reads since the last value
	told    bool      // a caller has seen the current value
	waiting *time.Timer
}

// NewCache returns an empty cache. The caller must close it.
func NewCache(r *Resolver, o CacheOptions) *Cache {
	if o.Age == 0 {
		o.Age = DefaultAge
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	c := &Cache{CacheOptions: o, resolver: r, held: make(map[identity]*entry)}
	c.base, c.end = context.WithCancel(context.Background())
	return c
}

// Close ends the background reads and waits for them.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	for _, e := range c.held {
		e.stop()
	}
	c.mu.Unlock()
	c.end()
	c.flights.Wait()
}

func (e *entry) stop() {
	if e.waiting != nil {
		e.waiting.Stop()
	}
}

// Add adds references to the cache. It waits until each was read once, successfully or
// not, or until ctx ends.
func (c *Cache) Add(ctx context.Context, refs []Reference) {
	for _, e := range c.add(refs) {
		select {
		case <-e.first:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Cache) add(refs []Reference) (fresh []*entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range refs {
		id := ref.identity()
		if c.held[id] != nil || c.closed {
			continue
		}
		e := &entry{ref: ref, first: make(chan struct{})}
		c.held[id] = e
		fresh = append(fresh, e)
		c.startFetch(id, e)
	}
	return fresh
}

// Retain removes all references except these.
func (c *Cache) Retain(refs []Reference) {
	kept := make(map[identity]bool, len(refs))
	for _, ref := range refs {
		kept[ref.identity()] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.held {
		if !kept[id] {
			e.stop()
			delete(c.held, id)
		}
	}
}

// Value returns the value of a cached reference without waiting. The error is an
// *apierr.Error with the reason why there is none.
func (c *Cache) Value(ref Reference) (secret.String, error) {
	f, err := c.found(ref.identity())
	if err != nil {
		return secret.String{}, err
	}
	return f.pick(ref.Key, ref.Format)
}

func (c *Cache) found(id identity) (secretPayload, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.held[id]
	switch {
	case e == nil:
		return secretPayload{}, apierr.New(apierr.Unavailable, "it has not been read yet").WithCode("secret_pending")
	case !e.landed:
		e.told = true
		return secretPayload{}, apierr.New(apierr.Unavailable, "it is being read; try again in a moment").WithCode("secret_pending")
	}
	e.told = true
	if e.read.IsZero() {
		return secretPayload{}, e.err
	}
	return e.found, nil
}

// Stats are statistics of cached secrets.
type Stats struct {
	Kept     int    // all of them
	Stale    int    // with an old value because their manager is unavailable
	Failed   int    // without a value
	Failures uint64 // failed reads
}

// Stats returns the current statistics.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Stats{Kept: len(c.held), Failures: c.failures}
	for _, e := range c.held {
		switch {
		case e.err == nil:
		case e.read.IsZero():
			s.Failed++
		default:
			s.Stale++
		}
	}
	return s
}

// startFetch starts reading a secret in the background. The caller must hold the lock.
func (c *Cache) startFetch(id identity, e *entry) {
	if c.closed || c.held[id] != e {
		return
	}
	c.flights.Go(func() {
		f, err := c.resolver.fetch(c.base, &e.ref)
		if c.finishFetch(id, e, f, err) {
			c.Changed()
		}
	})
}

// finishFetch stores the result of a read and reports whether callers have seen another
// value.
func (c *Cache) finishFetch(id identity, e *entry, f secretPayload, err error) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.held[id] != e {
		return false
	}
	had, before := !e.read.IsZero(), e.err
	now := time.Now()
	if err == nil {
		changed = !had || e.found.text.Reveal() != f.text.Reveal()
		e.found, e.read, e.err, e.tries = f, now, nil, 0
	} else {
		c.failures++
		e.err = err
		e.tries++
		if had && now.Sub(e.read) >= stale {
			e.found, e.read, changed = secretPayload{}, time.Time{}, true
		}
		changed = changed || !had && (before == nil || before.Error() != err.Error())
	}
	c.log(e, had, before)
	e.waiting = time.AfterFunc(c.pause(e), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.startFetch(id, e)
	})
	if !e.landed {
		e.landed = true
		close(e.first)
	}
	changed = changed && e.told
	e.told = e.told && !changed
	return changed
}

// pause returns the time until the next read: before the value is too old, or longer
// after each failure.
func (c *Cache) pause(e *entry) time.Duration {
	if e.err == nil {
		return c.Age * 4 / 5
	}
	return min(firstRetry<<min(e.tries-1, 10), lastRetry, c.Age)
}

// log logs failures and recoveries.
func (c *Cache) log(e *entry, had bool, before error) {
	log := c.Logger.With("reference", e.ref.ID, "manager", e.ref.Manager)
	switch {
	case e.err == nil && before != nil:
		log.Info("reading a secret recovered")
	case e.err == nil:
	case had && e.read.IsZero():
		log.Error("reading a secret failed; the last value is too old to be used", "err", e.err.Error())
	case before != nil && before.Error() == e.err.Error():
	case had:
		log.Warn("reading a secret failed; using the last value", "err", e.err.Error())
	default:
		log.Warn("reading a secret failed", "err", e.err.Error())
	}
}
