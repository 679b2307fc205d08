package tools

import (
	"context"
	"sync"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
)

// catalogue remembers what servers offer. It is safe for concurrent use.
type catalogue struct {
	peers    peer.Sender
	sessions *sessions
	now      func() time.Time

	mu      sync.Mutex
	entries map[catalogueKey]*offer
	total   int64 // weight of the entries
	limit   int64 // of total
}

// catalogueKey is whose lists an offer has. Servers may describe other tools to other
// credentials, so those are never mixed.
type catalogueKey struct{ organisation, server, place, credential string }

// offer is what a server offers to a credential.
type offer struct {
	used   time.Time // guarded by the lock of the catalogue
	weight int64     // about the bytes that it takes, zero once removed; guarded by the lock of the catalogue

	mu    sync.Mutex
	hello *hello
	lists [len(listKinds)]*list
	busy  [len(listKinds) + 1]chan struct{} // closed when a fetch has ended; nil if none runs
	errs  [len(listKinds) + 1]error         // of the last fetch
}

// hello is what a server says of itself.
type hello struct {
	era          peer.Era
	capabilities map[string]bool
	extensions   map[string]bool
	instructions string
	raw          []byte // the result of initialize or server/discover
	until        time.Time
}

// list is a list of a server. It is immutable.
type list struct {
	items   []definition
	byName  map[string]*definition
	until   time.Time // when it is no longer fresh
	private bool      // other callers may get another list
	ttl     time.Duration
	skipped []skipped
	size    int // of all definitions, in bytes
}

// skipped is an item that is left out.
type skipped struct{ name, problem string }

// Limits of the catalogue.
const (
	maxPages = 64
	// maxCatalogue is the limit of the memory for what servers offer, in bytes, and emptyOffer
	// what an offer takes without its lists.
	maxCatalogue = 192 << 20
	emptyOffer   = 64 << 10

	// fetchTime is how long a list of a server may take.
	fetchTime = 10 * time.Second
	// staleTime is how long an older list is used while its server does not answer.
	staleTime = 5 * time.Minute
	// unhintedTime is how long a list without a hint of its server is fresh.
	unhintedTime = time.Minute
	maxTTL       = time.Hour
)

// helloIndex is the place of the hello in busy and errs.
const helloIndex = len(listKinds)

func newCatalogue(peers peer.Sender, s *sessions) *catalogue {
	return &catalogue{peers: peers, sessions: s, now: time.Now, entries: make(map[catalogueKey]*offer), limit: maxCatalogue}
}

// offerOf returns the offer of a server.
func (c *catalogue) offerOf(s *toolserver.Server, cred peer.Credential) *offer {
	key := catalogueKey{s.Organisation, s.ID, s.Place(), cred.Key}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.entries[key]
	if o == nil {
		o = &offer{weight: emptyOffer}
		c.entries[key] = o
		c.total += emptyOffer
		c.makeRoom(o)
	}
	o.used = c.now()
	return o
}

// weigh counts what an offer has got.
func (c *catalogue) weigh(o *offer) {
	weight := int64(emptyOffer)
	o.mu.Lock()
	for _, l := range o.lists {
		if l != nil {
			weight += int64(l.size)
		}
	}
	if o.hello != nil {
		weight += int64(len(o.hello.raw))
	}
	o.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.weight == 0 {
		return
	}
	c.total += weight - o.weight
	o.weight = weight
	c.makeRoom(o)
}

// makeRoom removes offers while all of them weigh too much: those of the organisation whose offers
// weigh the most, the one first that was not used for the longest time. It keeps one that is
// about to be used. The caller holds mu.
func (c *catalogue) makeRoom(keep *offer) {
	for c.total > c.limit {
		weights, heaviest := make(map[string]int64), ""
		for key, o := range c.entries {
			if o != keep {
				weights[key.organisation] += o.weight
			}
		}
		for organisation, weight := range weights {
			if heaviest == "" || weight > weights[heaviest] {
				heaviest = organisation
			}
		}
		var oldest catalogueKey
		for key, o := range c.entries {
			if key.organisation == heaviest && o != keep && (oldest.server == "" || o.used.Before(c.entries[oldest].used)) {
				oldest = key
			}
		}
		o := c.entries[oldest]
		if o == nil {
			return
		}
		c.total -= o.weight
		o.weight = 0
		delete(c.entries, oldest)
	}
}

// forget makes the next request ask the server again.
func (c *catalogue) forget(s *toolserver.Server, cred peer.Credential, k *listKind) {
	o := c.offerOf(s, cred)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lists[indexOf(k)] = nil
}

func indexOf(k *listKind) int {
	for i := range listKinds {
		if &listKinds[i] == k {
			return i
		}
	}
	return -1
}

// fresh returns the list in memory if it is fresh.
func (c *catalogue) fresh(s *toolserver.Server, cred peer.Credential, k *listKind) (*list, bool) {
	o, i := c.offerOf(s, cred), indexOf(k)
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lists[i]
	return l, l != nil && c.now().Before(l.until)
}

// list returns a list of a server: the one in memory while it is fresh, otherwise what the
// server sends. While a server does not answer, its last list is used for a while. The
// fetch goes on if ctx ends, for the others who wait.
func (c *catalogue) list(ctx context.Context, s *toolserver.Server, cred peer.Credential, k *listKind) (*list, error) {
	if l, ok := c.fresh(s, cred, k); ok {
		return l, nil
	}
	o, i := c.offerOf(s, cred), indexOf(k)
	err := c.share(ctx, o, i, func(ctx context.Context) error {
		l, err := c.fetch(ctx, s, cred, o, k)
		if err == nil {
			o.mu.Lock()
			o.lists[i] = l
			o.mu.Unlock()
			c.weigh(o)
		}
		return err
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.lists[i]; l != nil && (err == nil || c.now().Before(l.until.Add(staleTime))) {
		return l, nil
	}
	return nil, err
}

// hello returns what a server says of itself.
func (c *catalogue) hello(ctx context.Context, s *toolserver.Server, cred peer.Credential) (*hello, error) {
	o := c.offerOf(s, cred)
	o.mu.Lock()
	known := o.hello
	o.mu.Unlock()
	if known != nil && c.now().Before(known.until) {
		return known, nil
	}
	err := c.share(ctx, o, helloIndex, func(ctx context.Context) error {
		h, err := c.sessions.greet(ctx, s, cred)
		if err == nil {
			h.until = c.now().Add(maxTTL)
			o.mu.Lock()
			o.hello = h
			o.mu.Unlock()
			c.weigh(o)
		}
		return err
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hello != nil {
		return o.hello, nil
	}
	return nil, err
}

// share runs f for all who ask for the same at the same time.
func (c *catalogue) share(ctx context.Context, o *offer, i int, f func(context.Context) error) error {
	o.mu.Lock()
	running := o.busy[i]
	if running == nil {
		running = make(chan struct{})
		o.busy[i] = running
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
			defer cancel()
			err := f(ctx)
			o.mu.Lock()
			defer o.mu.Unlock()
			o.errs[i], o.busy[i] = err, nil
			close(running)
		}()
	}
	o.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
		return ctx.Err()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.errs[i]
}
