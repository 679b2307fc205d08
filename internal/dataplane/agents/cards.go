package agents

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
)

// Limits of cards in memory.
const (
	cardLifetime  = 5 * time.Minute
	staleLifetime = time.Hour        // of a card whose agent is away
	failureTime   = 5 * time.Second  // in which an agent that has failed is not asked again
	fetchTime     = 10 * time.Second // of reading a card
	maxCards      = 1000
)

// cards are the cards of agents that this node has read lately. It is safe for concurrent use.
type cards struct {
	peers *peer.Peers
	mu    sync.Mutex
	all   map[cardKey]*cardEntry // guarded by mu, as is what they point to
}

// cardKey names a card: agents may show callers with another credential another card.
type cardKey struct{ organisation, agent, address, credential string }

// cardEntry is what is known of a card.
type cardEntry struct {
	used    time.Time
	card    *card         // read last; nil for none
	err     error         // of the last attempt to read it
	failed  time.Time     // when err occurred
	running chan struct{} // closed when an attempt has ended; nil if none runs
}

func newCards(p *peer.Peers) *cards { return &cards{peers: p, all: map[cardKey]*cardEntry{}} }

// of returns the card of an agent, reading it if the one in memory is old. That of an agent
// which is away stays in use for an hour. All who ask at the same time share one attempt, which
// goes on if ctx ends, and its failure is that of the next seconds.
func (c *cards) of(ctx context.Context, s *toolserver.Server, cred peer.Credential) (*card, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(s, cred)
	if e.card != nil && time.Since(e.card.read) < cardLifetime {
		return e.card, nil
	}
	if e.running == nil && (e.err == nil || time.Since(e.failed) >= failureTime) {
		e.running = make(chan struct{})
		go c.read(context.WithoutCancel(ctx), s, cred, e)
	}
	if running := e.running; running != nil {
		c.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if e.err != nil && (e.card == nil || time.Since(e.card.read) >= staleLifetime) {
		return nil, e.err
	}
	return e.card, nil
}

// read reads a card for all who wait for it.
func (c *cards) read(ctx context.Context, s *toolserver.Server, cred peer.Credential, e *cardEntry) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	found, err := c.fetch(ctx, s, cred)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.err, e.failed = err, time.Now(); err == nil {
		e.card = found
	}
	close(e.running)
	e.running = nil
}

// keep remembers a card.
func (c *cards) keep(s *toolserver.Server, cred peer.Credential, found *card) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(s, cred)
	e.card, e.err = found, nil
}

// entry returns the entry of a card. For a new one, it removes another if there are too many: of
// the organisation that has the most, the one that was not used for the longest time. The caller
// holds mu.
func (c *cards) entry(s *toolserver.Server, cred peer.Credential) *cardEntry {
	key := cardKey{s.Organisation, s.ID, s.URL.String(), cred.Key}
	e := c.all[key]
	if e == nil {
		if len(c.all) >= maxCards {
			c.makeRoom()
		}
		e = new(cardEntry)
		c.all[key] = e
	}
	e.used = time.Now()
	return e
}

func (c *cards) makeRoom() {
	counts, most := map[string]int{}, ""
	for key := range c.all {
		if counts[key.organisation]++; counts[key.organisation] > counts[most] {
			most = key.organisation
		}
	}
	var oldest cardKey
	for key, e := range c.all {
		if key.organisation == most && (oldest.agent == "" || e.used.Before(c.all[oldest].used)) {
			oldest = key
		}
	}
	delete(c.all, oldest)
}

// fetch reads the card of an agent.
func (c *cards) fetch(ctx context.Context, s *toolserver.Server, cred peer.Credential) (*card, error) {
	raw, err := c.get(ctx, s, cred)
	if err != nil {
		return nil, err
	}
	return parseCard(raw, s.URL)
}

// get returns the text of the card of an agent.
func (c *cards) get(ctx context.Context, s *toolserver.Server, cred peer.Credential) ([]byte, error) {
	reply, err := c.peers.SendForeign(ctx, &peer.ForeignCall{Server: s, Credential: cred, Method: http.MethodGet, URL: cardAddress(s.URL),
		Header: http.Header{"Accept": {"application/json"}}})
	if err != nil {
		return nil, err
	}
	defer reply.Close()
	if reply.Status() != http.StatusOK || reply.Streams() {
		return nil, invalidAnswer("has no card at /.well-known/agent-card.json below its address")
	}
	raw, err := reply.Next()
	if err != nil {
		return nil, invalidAnswer("has no card at /.well-known/agent-card.json below its address")
	}
	return slices.Clone(raw), nil
}

// cardAddress returns where the card of an agent is.
func cardAddress(home *url.URL) *url.URL {
	return below(home, ".well-known/agent-card.json", "")
}
