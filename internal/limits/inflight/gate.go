// Package inflight limits how many requests the gateway handles at a time.
//
// A [Gate] admits requests while there is room. Others wait in a queue, in which
// each key has its turn, and are refused when their time is up or the queue is
// full. A [Governor] lowers the number of requests when the processors are
// overloaded, so that those that are admitted still end in time. The package does
// not know rate limits and budgets (see quota) or the memory of bodies (see
// bytepool).
package inflight

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/base/bytepool"
)

// Reasons of a refusal.
var (
	ErrQueueFull = errors.New("too many requests wait")
	ErrWaited    = errors.New("no room in time")
)

// Options configure a [Gate]. A zero value is the default, a negative one removes
// the limit.
type Options struct {
	Requests int           // in progress; default 40,000
	Key      int           // in progress of one key; default three quarters of Requests
	Queue    int           // waiting requests; default 10,000, negative lets none wait
	Wait     time.Duration // of a request; default 1 s, negative lets none wait

	// Bodies is the memory of bodies, in which each key has a share. A request waits
	// until its body fits. Nil is unlimited.
	Bodies *bytepool.Pool
}

// DefaultRequests, DefaultQueue and DefaultWait are the defaults of [Options].
const (
	DefaultRequests = 40_000
	DefaultQueue    = 10_000
	DefaultWait     = time.Second
)

// Gate admits requests. It is safe for concurrent use. An admission without a queue
// takes no lock that all keys share.
type Gate struct {
	most   int64 // configured limit of running
	key    int64 // limit of one key
	queue  int64
	wait   time.Duration
	bodies *bytepool.Pool

	// Requests that run and, of those, the ones that nothing was sent to a provider
	// for yet: these are the ones that take processor time for certain. Each has a
	// limit, which is most or what a Governor allows.
	limit, preparingLimit atomic.Int64
	running, preparing    atomic.Int64

	waiting atomic.Int64 // changed with mu held
	refused atomic.Int64

	seed   maphash.Seed
	shards [64]keyShard

	mu   sync.Mutex
	keys []*key // that have waiting requests; guarded by mu
	next int    // index in keys of the next turn; guarded by mu
}

// keyShard holds a part of the keys that have requests.
type keyShard struct {
	mu   sync.Mutex
	keys map[Caller]*key
}

// key is a key with requests, running or waiting.
type key struct {
	name    Caller
	bodies  *bytepool.Share
	users   int // requests that refer to it; guarded by its shard
	running atomic.Int64
	waiters list.List // of *waiter, the oldest first; guarded by Gate.mu
}

// waiter is a waiting request.
type waiter struct {
	size  int64         // of its body; zero if unknown
	place *list.Element // in the waiters of its key, nil if it does not wait; guarded by Gate.mu
	done  chan error    // receives nil once admitted, or why it is refused; has room for one value
}

// New returns a gate.
func New(o Options) *Gate {
	g := &Gate{seed: maphash.MakeSeed(), most: limitOf(o.Requests, DefaultRequests), queue: int64(max(cmp.Or(o.Queue, DefaultQueue), 0)),
		wait: max(cmp.Or(o.Wait, DefaultWait), 0), bodies: cmp.Or(o.Bodies, bytepool.New(0))}
	g.key = limitOf(o.Key, int(min(g.most, math.MaxInt32)-g.most/4))
	if o.Key == 0 && g.most == math.MaxInt64 {
		g.key = math.MaxInt64
	}
	g.limit.Store(g.most)
	g.preparingLimit.Store(g.most)
	return g
}

func limitOf(n, standard int) int64 {
	if n = cmp.Or(n, standard); n < 0 {
		return math.MaxInt64
	}
	return int64(n)
}

// Ticket is the admission of one request. A nil ticket holds nothing.
type Ticket struct {
	gate *Gate
	key  *key
	sent atomic.Bool
}

// Caller is who sends a request: a key, or another credential, of an organisation.
type Caller struct{ Organisation, Key string }

// Enter admits a request of a caller, or waits until there is room for it and its body of
// size bytes, which may be zero if unknown. An error is [ErrQueueFull], [ErrWaited], that
// of the share in the memory of bodies or that of ctx; nothing is held then. Otherwise the
// caller calls Leave once.
func (g *Gate) Enter(ctx context.Context, of Caller, size int64) (*Ticket, error) {
	k := g.acquire(of)
	t := &Ticket{gate: g, key: k}
	if g.waiting.Load() == 0 && g.start(k, size) {
		return t, nil
	}
	if err := g.await(ctx, k, size); err != nil {
		g.release(k)
		g.refused.Add(1)
		return nil, err
	}
	return t, nil
}

// Bodies returns the share of the key in the memory of bodies.
func (t *Ticket) Bodies() *bytepool.Share {
	if t == nil {
		return nil
	}
	return t.key.bodies
}

// Sent tells the gate that the request is being sent to a provider, for which it
// mostly waits from now on. A request that waits may be admitted instead of it to be
// prepared. Further calls have no effect.
func (t *Ticket) Sent() {
	if t == nil || t.sent.Swap(true) {
		return
	}
	t.gate.preparing.Add(-1)
	t.gate.admit()
}

// Leave ends the request and admits one that waits.
func (t *Ticket) Leave() {
	if t == nil {
		return
	}
	g := t.gate
	if !t.sent.Swap(true) {
		g.preparing.Add(-1)
	}
	t.key.running.Add(-1)
	g.running.Add(-1)
	g.admit()
	g.release(t.key)
}

// shardOf returns the shard with the key of a caller.
func (g *Gate) shardOf(name Caller) *keyShard {
	return &g.shards[maphash.String(g.seed, name.Key)%uint64(len(g.shards))]
}

// acquire returns the key of a caller, in use by one more request.
func (g *Gate) acquire(name Caller) *key {
	s := g.shardOf(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[name]
	if k == nil {
		if s.keys == nil {
			s.keys = make(map[Caller]*key)
		}
		k = &key{name: name, bodies: g.bodies.Key(name.Organisation)}
		s.keys[name] = k
	}
	k.users++
	return k
}

// release ends the use of k by a request.
func (g *Gate) release(k *key) {
	s := g.shardOf(k.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(s.keys, k.name)
	}
}

// start counts a request of k as running if there is room.
func (g *Gate) start(k *key, size int64) bool {
	if k.bodies.Check(size) != nil {
		return false
	}
	if k.running.Add(1) > g.key {
		k.running.Add(-1)
		return false
	}
	if g.running.Add(1) > g.limit.Load() || !g.prepare() {
		g.running.Add(-1)
		k.running.Add(-1)
		return false
	}
	return true
}

// prepare counts a request as preparing if there is room.
func (g *Gate) prepare() bool {
	if g.preparing.Add(1) > g.preparingLimit.Load() {
		g.preparing.Add(-1)
		return false
	}
	return true
}

// full reports whether there is no room for a request of any key.
func (g *Gate) full() bool {
	return g.running.Load() >= g.limit.Load() || g.preparing.Load() >= g.preparingLimit.Load()
}

// await waits until a request of k is admitted.
func (g *Gate) await(ctx context.Context, k *key, size int64) error {
	w := &waiter{size: size, done: make(chan error, 1)}
	if err := g.enqueue(k, w); err != nil {
		return err
	}
	deadline := time.NewTimer(g.wait)
	defer deadline.Stop()
	var err error
	select {
	case err := <-w.done:
		return err
	case <-deadline.C:
		err = cmp.Or(k.bodies.Check(size), ErrWaited)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.remove(k, w) {
		return err
	}
	return <-w.done // decided in the meantime
}

// enqueue adds w to the waiting requests of k. If the queue is full, the last
// request of the key with the most waiting requests is refused, which may be w.
func (g *Gate) enqueue(k *key, w *waiter) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queue == 0 || g.wait == 0 {
		if g.start(k, w.size) {
			w.done <- nil
			return nil
		}
		return ErrQueueFull
	}
	if g.waiting.Load() >= g.queue && g.full() && k == g.longest() {
		return ErrQueueFull // it would be the one to go
	}
	if k.waiters.Len() == 0 {
		g.keys = append(g.keys, k)
	}
	w.place = k.waiters.PushBack(w)
	g.waiting.Add(1)
	g.admitWaiting() // room that was made before the request was counted as waiting
	if g.waiting.Load() > g.queue {
		g.refuseLast()
	}
	return nil
}

// longest returns the key with the most waiting requests, nil if none waits. The caller
// holds mu.
func (g *Gate) longest() (longest *key) {
	for _, k := range g.keys {
		if longest == nil || k.waiters.Len() >= longest.waiters.Len() {
			longest = k
		}
	}
	return longest
}

// refuseLast refuses the last request of the key with the most waiting requests.
// The caller holds mu.
func (g *Gate) refuseLast() {
	k := g.longest()
	w := k.waiters.Back().Value.(*waiter)
	g.remove(k, w)
	w.done <- ErrQueueFull
}

// remove removes w from the waiting requests of k. It reports whether w was still
// waiting. The caller holds mu.
func (g *Gate) remove(k *key, w *waiter) bool {
	if w.place == nil {
		return false
	}
	k.waiters.Remove(w.place)
	w.place = nil
	g.waiting.Add(-1)
	if k.waiters.Len() == 0 {
		g.dropKey(k)
	}
	return true
}

// dropKey removes k, which has no waiting requests, from the turns. The caller
// holds mu.
func (g *Gate) dropKey(k *key) {
	for i, other := range g.keys {
		if other == k {
			g.keys = append(g.keys[:i], g.keys[i+1:]...)
			if i < g.next {
				g.next--
			}
			return
		}
	}
}

// admit admits waiting requests while there is room.
func (g *Gate) admit() {
	if g.waiting.Load() > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.admitWaiting()
	}
}

// admitWaiting admits waiting requests while there is room, one of each key in
// turn. The caller holds mu.
func (g *Gate) admitWaiting() {
	for blocked := 0; blocked < len(g.keys); {
		g.next %= len(g.keys)
		k := g.keys[g.next]
		w := k.waiters.Front().Value.(*waiter)
		if !g.start(k, w.size) {
			if g.full() {
				return
			}
			blocked++ // the key has as many as it may, or a large body; others may go on
			g.next++
			continue
		}
		blocked = 0
		g.next++
		g.remove(k, w)
		w.done <- nil
	}
}

// setLimits changes how many requests may run, and how many of them be prepared: at
// most as many as configured.
func (g *Gate) setLimits(running, preparing int64) {
	g.limit.Store(min(running, g.most))
	g.preparingLimit.Store(min(preparing, g.most))
	g.admit()
}

// Load is the state of a [Gate].
type Load struct {
	Running, Waiting int
	Limit            int   // of Running at present; math.MaxInt for none
	Preparing        int   // those of Running that nothing was sent to a provider for
	PreparingLimit   int   // of Preparing at present; math.MaxInt for none
	Refused          int64 // since the start
}

// Load returns the present state.
func (g *Gate) Load() Load {
	return Load{
		Running: int(g.running.Load()), Waiting: int(g.waiting.Load()), Limit: int(g.limit.Load()),
		Preparing: int(g.preparing.Load()), PreparingLimit: int(g.preparingLimit.Load()), Refused: g.refused.Load(),
	}
}
