package saml

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Limits of requests for metadata.
const (
	requestTime = 10 * time.Second
	freshTime   = 24 * time.Hour
	pause       = time.Minute // minimum time between two requests to one address
	maxKnown    = 1000        // addresses; above it the cache begins again
)

// Doer sends requests without following redirects. A guarded request may go only where
// clients may send requests. upstream.Client implements it.
type Doer interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Cache has the metadata of providers that publish it at an address, read once a day. It is
// safe for concurrent use.
type Cache struct {
	client Doer
	now    func() time.Time

	mu    sync.Mutex
	known map[string]*fetched // guarded by mu
}

type fetched struct {
	mu   sync.Mutex // held while the metadata is read
	text string     // of the last successful attempt
	err  error      // of the last attempt
	read time.Time
	date string // of the response
}

// NewCache returns an empty cache. Now is the clock; nil is time.Now.
func NewCache(client Doer, now func() time.Time) *Cache {
	if now == nil {
		now = time.Now
	}
	return &Cache{client: client, now: now, known: make(map[string]*fetched)}
}

// Now returns the time of the cache's clock.
func (c *Cache) Now() time.Time { return c.now() }

func (c *Cache) entry(address string) *fetched {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxKnown {
		clear(c.known)
	}
	e := c.known[address]
	if e == nil {
		e = new(fetched)
		c.known[address] = e
	}
	return e
}

// Read reads the metadata at an address now, unless it was read within the last minute. The
// second result is the time of the response (Date). The error is a *Refusal.
func (c *Cache) Read(ctx context.Context, address string) (text, date string, err error) {
	e := c.entry(address)
	e.mu.Lock()
	defer e.mu.Unlock()
	c.read(ctx, address, e, pause)
	return e.text, e.date, e.err
}

// Current returns the metadata at an address as of the last day, or, if it cannot be read, the
// stored one: sign-ins go on while the address is away.
func (c *Cache) Current(ctx context.Context, address, stored string) string {
	e := c.entry(address)
	e.mu.Lock()
	defer e.mu.Unlock()
	wait := freshTime
	if e.err != nil || e.text == "" {
		wait = pause
	}
	c.read(ctx, address, e, wait)
	if e.text == "" {
		return stored
	}
	return e.text
}

// read reads the metadata at an address unless it was read within wait.
func (c *Cache) read(ctx context.Context, address string, e *fetched, wait time.Duration) {
	now := c.now()
	if !e.read.IsZero() && now.Sub(e.read) < wait {
		return
	}
	e.read = now
	text, date, err := c.get(context.WithoutCancel(ctx), address)
	if e.err = err; err == nil {
		e.text, e.date = text, date
	}
}

func (c *Cache) get(ctx context.Context, address string) (text, date string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", "", refuse("metadata", "metadata_url is not an address")
	}
	req.Header.Set("Accept", "application/samlmetadata+xml, application/xml, text/xml")
	res, err := c.client.Do(req, true)
	if err != nil {
		return "", "", refuse("metadata", "reading the metadata at %s failed: %s", address, short(err))
	}
	defer res.Body.Close()
	var m *Metadata
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the status is %d", res.StatusCode)
	}
	if err == nil {
		m, err = ParseMetadata(body)
	}
	if err != nil {
		return "", "", refuse("metadata", "reading the metadata at %s failed: %s", address, short(err))
	}
	return m.Text(), res.Header.Get("Date"), nil
}

// Ask sends the request of a sign-in as a browser does, without one, and returns the status of
// the provider's response.
func (c *Cache) Ask(ctx context.Context, address string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	res, err := c.client.Do(req, true)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, nil
}
