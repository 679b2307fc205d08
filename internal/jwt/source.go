package jwt

import (
	"context"
	"crypto/rsa"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/apierr"
)

// How issuers are asked for their keys.
const (
	fresh     = 10 * time.Minute // keys that are older are asked for again, while they count on
	pause     = 10 * time.Second // between two questions, whatever the reason
	fetchTime = 5 * time.Second  // that an issuer has to answer
	patience  = 2 * time.Second  // that a request waits for it
	maxSet    = 256 << 10        // bytes of an answer
)

// Doer sends requests, following no redirect. A guarded request goes only where a
// client may send requests to. upstream.Client is one.
type Doer interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Options are what a [KeySetCache] needs.
type Options struct {
	Client Doer
	Logger *slog.Logger
	Now    func() time.Time // nil is time.Now
}

// KeySetCache keeps the keys of issuers. It is safe for concurrent use.
type KeySetCache struct {
	Options
	begin func() (context.Context, context.CancelFunc) // of a fetch; it ends with the keeper
	end   context.CancelFunc

	mu      sync.Mutex
	given   []Issuer  // guarded by mu, as are the next two
	tokens  *Verifier // of given
	sources map[string]*source

	life    sync.Mutex
	closed  bool           // guarded by life
	running sync.WaitGroup // fetches; none is added once closed
}

// New returns a keeper without keys. The caller closes it.
func New(o Options) *KeySetCache {
	if o.Now == nil {
		o.Now = time.Now
	}
	base, end := context.WithCancel(context.Background())
	begin := func() (context.Context, context.CancelFunc) { return context.WithTimeout(base, fetchTime) }
	return &KeySetCache{Options: o, begin: begin, end: end}
}

// Close gives up what is being fetched and waits for its end. Tokens that need no
// further keys are checked on.
func (k *KeySetCache) Close() {
	k.life.Lock()
	k.closed = true
	k.life.Unlock()
	k.end()
	k.running.Wait()
}

// start runs f beside, unless the keeper is closed.
func (k *KeySetCache) start(f func()) bool {
	k.life.Lock()
	defer k.life.Unlock()
	if !k.closed {
		k.running.Go(f)
	}
	return !k.closed
}

// Tokens returns what checks the tokens of these issuers: what it returned before
// when they are the same. Issuers that are new are asked for their keys at once,
// which is not waited for. The slice must not change any more.
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

// source returns where the keys of i come from. Those of one address are asked
// for once. The caller holds mu.
func (k *KeySetCache) source(i Issuer, now map[string]*source) *source {
	s := &source{keeper: k, url: i.URL}
	if i.URL == "" {
		set, _, err := parseKeys([]byte(i.Set))
		if err != nil {
			k.Logger.Error("the keys of an organisation's tokens can't be used", "organisation", i.Organisation, "err", err.Error())
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

// source is where the keys of issuers come from.
type source struct {
	keeper *KeySetCache
	url    string               // empty for keys that stay
	set    atomic.Pointer[keys] // nil until there were some
	asked  atomic.Int64         // when it was last asked, in Unix nanoseconds

	mu     sync.Mutex
	answer chan struct{} // closed when there is one; nil while nobody asks; guarded by mu
	failed bool          // the last answer was none; only who asks knows
}

// current returns the keys available, and has old ones fetched in the background.
func (s *source) current(now time.Time) *keys {
	if s.url != "" && now.UnixNano()-s.asked.Load() > int64(fresh) {
		s.ask(now)
	}
	return s.set.Load()
}

// find returns the key with this id, and the keys it is one of. The issuer is
// asked for one that is unknown.
func (s *source) find(kid string, now time.Time) (*rsa.PublicKey, *keys, error) {
	set := s.current(now)
	if key := set.key(kid); key != nil {
		return key, set, nil
	}
	if answer := s.ask(now); answer != nil {
		wait(answer)
		set = s.set.Load()
	}
	if key := set.key(kid); key != nil {
		return key, set, nil
	}
	if set == nil {
		return nil, nil, apierr.New(apierr.Unavailable, "the token issuer's keys are unavailable; try again later").
			WithParam("x-gateway-api-key").WithCode("token_keys_unavailable")
	}
	return nil, nil, rejected("is signed with a key that its issuer does not have (kid)")
}

// key returns the key with this id, or nil.
func (k *keys) key(kid string) *rsa.PublicKey {
	if k == nil {
		return nil
	}
	return k.byID[kid]
}

func wait(answer <-chan struct{}) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-answer:
	case <-t.C:
	}
}

// ask has the issuer asked and returns what is closed when it has answered: one
// question for all who ask in the meantime. It is nil when it was asked just before.
func (s *source) ask(now time.Time) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil {
		return s.answer
	}
	if s.url == "" || now.UnixNano()-s.asked.Load() < int64(pause) {
		return nil
	}
	answer := make(chan struct{})
	started := s.keeper.start(func() {
		s.fetch()
		s.mu.Lock()
		s.answer = nil
		s.mu.Unlock()
		close(answer)
	})
	if !started {
		return nil
	}
	s.asked.Store(now.UnixNano())
	s.answer = answer
	return answer
}

// fetch takes the issuer's keys instead of those before. Without an answer
// those count on.
func (s *source) fetch() {
	log := s.keeper.Logger.With("issuer", host(s.url))
	set, unused, err := s.get()
	switch {
	case err != nil && !s.failed:
		log.Warn("fetching issuer keys failed; using cached keys", "err", err.Error())
	case err == nil && s.failed:
		log.Info("the keys of a token issuer are to be had again")
	}
	s.failed = err != nil
	if before := s.set.Load(); err != nil || before != nil && before.same(set) {
		return
	}
	s.set.Store(set)
	for _, why := range unused {
		log.Warn("a key of a token issuer is not used", "err", why.Error())
	}
}

// host is the part of an address that may be logged.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func (s *source) get() (set *keys, unused []error, err error) {
	ctx, cancel := s.keeper.begin()
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for keys: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := s.keeper.Client.Do(req, true)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("the answer has the status %d", res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxSet+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading keys: %w", err)
	}
	if len(text) > maxSet {
		return nil, nil, fmt.Errorf("the answer is larger than %d bytes", maxSet)
	}
	return parseKeys(text)
}
