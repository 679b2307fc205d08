package auth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

const (
	// renewBefore is how long before its expiry a token is renewed.
	renewBefore = 5 * time.Minute
	// maxHeld limits the cached tokens: clients may send any number of
	// credentials.
	maxHeld = 4096
	// retryAfterFailure is the time between attempts to renew a token, as long
	// as the token is valid.
	retryAfterFailure = 30 * time.Second
)

// key is a hash of everything that a token depends on.
type key [sha256.Size]byte

func keyOf(parts ...string) key {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return key(h.Sum(nil))
}

// cache holds fetched values until shortly before they expire. The zero value
// with a clock is usable.
type cache[V any] struct {
	now func() time.Time

	mu   sync.Mutex
	held map[key]*entry[V] // guarded by mu
}

// entry is one token. Its fields are guarded by the cache's lock.
type entry[V any] struct {
	value      V
	renew, end time.Time
	flight     *fetchCall[V] // the fetch in progress, or nil
}

// fetchCall is a fetch that several callers may wait for. Its fields may be
// read once done is closed.
type fetchCall[V any] struct {
	done  chan struct{}
	value V
	err   error
	left  bool // its request ended before the response, so err means nothing
}

// fetcher fetches a token and returns when it expires.
type fetcher[V any] func(context.Context) (V, time.Time, error)

// get returns the token of k and fetches it if it is not cached. One of several
// callers fetches; if its request ends, another one takes over. A token is used
// while it is being renewed.
func (c *cache[V]) get(ctx context.Context, k key, fetch fetcher[V]) (V, error) {
	for {
		v, f, leads := c.joinFetch(k)
		switch {
		case f == nil:
			return v, nil
		case leads:
			c.fetch(ctx, k, f, fetch)
			return f.value, f.err
		}
		select {
		case <-f.done:
			if !f.left {
				return f.value, f.err
			}
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
}

// joinFetch returns the token, or the fetch that will return it. leads is true
// if the caller must do that fetch.
func (c *cache[V]) joinFetch(k key) (v V, f *fetchCall[V], leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, now := c.entry(k), c.now()
	switch {
	case now.Before(e.renew), e.flight != nil && now.Before(e.end):
		return e.value, nil, false
	case e.flight != nil:
		return v, e.flight, false
	}
	e.flight = &fetchCall[V]{done: make(chan struct{}), left: true}
	return v, e.flight, true
}

// entry returns the entry of k, which is added if it does not exist.
func (c *cache[V]) entry(k key) *entry[V] {
	if e, ok := c.held[k]; ok {
		return e
	}
	if c.held == nil {
		c.held = make(map[key]*entry[V])
	}
	if len(c.held) >= maxHeld {
		c.makeRoom()
	}
	e := &entry[V]{}
	c.held[k] = e
	return e
}

// forget deletes the value of k if it is one that the caller means.
func (c *cache[V]) forget(k key, isMeant func(V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.held[k]; ok && e.flight == nil && isMeant(e.value) {
		delete(c.held, k)
	}
}

// makeRoom deletes expired entries, and others until a sixteenth is free.
// Entries with a fetch in progress stay, since callers wait for them.
func (c *cache[V]) makeRoom() {
	now, before := c.now(), len(c.held)
	for k, e := range c.held {
		if e.flight == nil && !now.Before(e.end) {
			delete(c.held, k)
		}
	}
	for k, e := range c.held {
		if len(c.held) <= before-maxHeld/16 {
			return
		}
		if e.flight == nil {
			delete(c.held, k)
		}
	}
}

// fetch runs the fetcher and publishes its result, also if the fetcher panics.
func (c *cache[V]) fetch(ctx context.Context, k key, f *fetchCall[V], fetch fetcher[V]) {
	var end time.Time
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(f.done)
		e := c.entry(k)
		e.flight = nil
		now := c.now()
		switch {
		case !f.left && f.err == nil:
			e.value, e.renew, e.end = f.value, end.Add(-min(renewBefore, end.Sub(now)/2)), end
		case now.Before(e.end):
			f.value, f.err, f.left = e.value, nil, false
			e.renew = now.Add(retryAfterFailure)
		default:
			delete(c.held, k)
		}
	}()
	f.value, end, f.err = fetch(ctx)
	f.left = f.err != nil && ctx.Err() != nil
}
