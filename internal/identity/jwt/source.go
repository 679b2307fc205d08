package jwt

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/jws"
)

// Times and limits of fetching keys.
const (
	fresh     = 10 * time.Minute // older keys are fetched again, while they stay valid
	pause     = 10 * time.Second // minimum time between two fetches
	fetchTime = 5 * time.Second
	patience  = 2 * time.Second
	maxSet    = 256 << 10 // limit of a response, in bytes
)

// Doer sends requests without following redirects. A guarded request may go only where
// clients may send requests. upstream.Client implements it.
type Doer interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Options configure a [KeySetCache].
type Options struct {
	Client Doer
	Logger *slog.Logger
	Now    func() time.Time // nil is time.Now

	// FetchTime limits a fetch, and Patience how long a request waits for one.
	// Zero means 5 and 2 seconds.
	FetchTime, Patience time.Duration
}

// KeySetCache caches the keys of issuers. It is safe for concurrent use.
type KeySetCache struct {
	Options
	begin func() (context.Context, context.CancelFunc) // context of a fetch; it ends with the cache
	end   context.CancelFunc

	mu      sync.Mutex
	given   []Issuer  // guarded by mu, like the next two fields
	tokens  *Verifier // of given
	sources map[string]*source

	life    sync.Mutex
	closed  bool           // guarded by life
	running sync.WaitGroup // fetches; none is added once closed
}

// New returns an empty cache. The caller must close it.
func New(o Options) *KeySetCache {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.FetchTime, o.Patience = cmp.Or(o.FetchTime, fetchTime), cmp.Or(o.Patience, patience)
	base, end := context.WithCancel(context.Background())
	begin := func() (context.Context, context.CancelFunc) { return context.WithTimeout(base, o.FetchTime) }
	return &KeySetCache{Options: o, begin: begin, end: end}
}

// Close cancels fetches and waits for them. Tokens that need no further keys can still
// be verified.
func (k *KeySetCache) Close() {
	k.life.Lock()
	k.closed = true
	k.life.Unlock()
	k.end()
	k.running.Wait()
}

// start runs f in a goroutine, unless the cache is closed.
func (k *KeySetCache) start(f func()) bool {
	k.life.Lock()
	defer k.life.Unlock()
	if !k.closed {
		k.running.Go(f)
	}
	return !k.closed
}

// Tokens returns a verifier for the tokens of these issuers, the previous one if they
// are unchanged. Fetching the keys of new issuers starts in the background. The slice
// must not change any more.
func (k *KeySetCache) Tokens(issuers []Issuer) *Verifier {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tokens != nil && reflect.DeepEqual(k.given, issuers) {
		return k.tokens
	}
	t := &Verifier{issuers: make(map[string]*issuer, len(issuers))}
	sources := make(map[string]*source)
	for _, i := range issuers {
		by := &issuer{i, k.source(i, sources), make(map[string]*Workspace, 2*len(i.Workspaces))}
		for n := range i.Workspaces {
			w := &i.Workspaces[n]
			by.workspaces[w.Slug], by.workspaces[w.ID] = w, w
		}
		t.issuers[i.Organisation] = by
	}
	k.given, k.tokens, k.sources = issuers, t, sources
	return t
}

// source returns the source of the keys of i. Issuers with the same address share one.
// The caller must hold mu.
func (k *KeySetCache) source(i Issuer, now map[string]*source) *source {
	s := &source{keeper: k, url: i.URL}
	if i.URL == "" {
		set, _, err := parseKeys([]byte(i.Set))
		if err != nil {
			k.Logger.Error("unusable key set of an organisation's issuer", "organisation", i.Organisation, "err", err.Error())
		}
		s.set.Store(set)
		return s
	}
	if known := now[i.URL]; known != nil {
		return known
	}
	if known := k.sources[i.URL]; known != nil {
		s = known
	} else {
		s.ask(k.Now())
	}
	now[i.URL] = s
	return s
}

// source is a source of keys.
type source struct {
	keeper *KeySetCache
	url    string                     // empty for configured keys
	set    atomic.Pointer[jws.KeySet] // nil until first fetched
	asked  atomic.Int64               // time of the last fetch, in Unix nanoseconds

	mu       sync.Mutex
	response chan struct{} // closed when the current fetch ends; nil if there is none; guarded by mu
	failed   bool          // the last fetch failed; used by the fetching goroutine only
}

// current returns the cached keys, and refreshes old ones in the background.
func (s *source) current(now time.Time) *jws.KeySet {
	if s.url != "" && now.UnixNano()-s.asked.Load() > int64(fresh) {
		s.ask(now)
	}
	return s.set.Load()
}

// find returns the key with this id and its set. For an unknown key it fetches the set.
func (s *source) find(kid string, now time.Time) (*jws.Key, *jws.KeySet, error) {
	set := s.current(now)
	if key := set.Find(kid); key != nil {
		return key, set, nil
	}
	if response := s.ask(now); response != nil {
		s.keeper.wait(response)
		set = s.set.Load()
	}
	if key := set.Find(kid); key != nil {
		return key, set, nil
	}
	if set == nil {
		return nil, nil, apierr.New(apierr.Unavailable, "the token issuer's keys are unavailable; try again later").
			WithParam("x-gateway-api-key").WithCode("token_keys_unavailable")
	}
	return nil, nil, rejected("is signed with a key that its issuer does not have (kid)")
}

func (k *KeySetCache) wait(response <-chan struct{}) {
	t := time.NewTimer(k.Patience)
	defer t.Stop()
	select {
	case <-response:
	case <-t.C:
	}
}

// ask starts a fetch and returns a channel that is closed when it has ended; concurrent
// callers share one fetch. It returns nil if the last fetch was a moment ago.
func (s *source) ask(now time.Time) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.response != nil {
		return s.response
	}
	if s.url == "" || now.UnixNano()-s.asked.Load() < int64(pause) {
		return nil
	}
	response := make(chan struct{})
	started := s.keeper.start(func() {
		s.fetch()
		s.mu.Lock()
		s.response = nil
		s.mu.Unlock()
		close(response)
	})
	if !started {
		return nil
	}
	s.asked.Store(now.UnixNano())
	s.response = response
	return response
}

// fetch replaces the keys by the issuer's. If it fails the previous keys stay valid.
func (s *source) fetch() {
	log := s.keeper.Logger.With("issuer", host(s.url))
	set, unused, err := s.get()
	switch {
	case err != nil && !s.failed:
		log.Warn("fetching issuer keys failed; using cached keys", "err", err.Error())
	case err == nil && s.failed:
		log.Info("fetching issuer keys recovered")
	}
	s.failed = err != nil
	if before := s.set.Load(); err != nil || before != nil && before.Equal(set) {
		return
	}
	s.set.Store(set)
	for _, why := range unused {
		log.Warn("unusable key of a token issuer", "err", why.Error())
	}
}

// host returns the part of an address that may be logged.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func (s *source) get() (set *jws.KeySet, unused []error, err error) {
	ctx, cancel := s.keeper.begin()
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("fetching keys: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := s.keeper.Client.Do(req, true)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the response has the status %d", res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxSet+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading keys: %w", err)
	}
	if len(text) > maxSet {
		return nil, nil, fmt.Errorf("the response is larger than %d bytes", maxSet)
	}
	return parseKeys(text)
}
