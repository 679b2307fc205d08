package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"modelgate/internal/identity/jws"
)

// Times and limits of fetching the keys of issuers.
const (
	fresh     = 10 * time.Minute // older keys are fetched again
	usable    = 24 * time.Hour   // older keys are not used, if they cannot be fetched again
	pause     = 10 * time.Second // minimum time between two fetches
	fetchTime = 5 * time.Second
	maxFetch  = 256 << 10 // bytes of a response
	maxCached = 1000      // issuers
)

// Doer sends requests without following redirects. A guarded request may go only where
// clients may send requests. upstream.Client implements it.
type Doer interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	client Doer

	mu      sync.Mutex
	sources map[source]*cachedKeys // guarded by mu
}

// source is where the keys of an issuer come from.
type source struct{ issuer, address, use string }

// cachedKeys are the keys of a source.
type cachedKeys struct {
	mu    sync.Mutex
	keys  issuerKeys // guarded by mu, like the following
	at    time.Time  // of the last successful fetch
	asked time.Time  // of the last fetch
	err   error      // of the last fetch
}

// issuerKeys are keys with the address that they are from.
type issuerKeys struct {
	set     *jws.KeySet // nil for none
	address string
}

// NewVerifier returns a verifier that fetches keys with client.
func NewVerifier(client Doer) *Verifier {
	return &Verifier{client: client, sources: make(map[source]*cachedKeys)}
}

// find returns the key of an issuer with this kid.
func (v *Verifier) find(ctx context.Context, r *Request, kid string) (*jws.Key, error) {
	var set *jws.KeySet
	var err error
	if t := r.Trust; t.KeySet != "" {
		set, _, err = t.rules().ParseKeys([]byte(t.KeySet))
	} else {
		set, err = v.keysOf(t).find(ctx, v, r, kid)
	}
	if _, isRefusal := errors.AsType[*Refusal](err); isRefusal {
		return nil, err
	}
	if err != nil {
		return nil, refuse("keys", "the keys of the issuer are unavailable: %s", short(err))
	}
	if key := set.Find(kid); key != nil {
		return key, nil
	}
	return nil, refuse("unknown_key", "the token is signed with a key that its issuer does not have (kid)")
}

// keysOf returns the cached keys of the issuer of t.
func (v *Verifier) keysOf(t *Trust) *cachedKeys {
	s := source{t.Issuer, t.KeysURL, t.rules().Use}
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.sources[s]
	if k != nil {
		return k
	}
	for other := range v.sources { // any: it is fetched again when it is needed
		if len(v.sources) < maxCached {
			break
		}
		delete(v.sources, other)
	}
	k = new(cachedKeys)
	v.sources[s] = k
	return k
}

// find returns the keys, which it fetches if they are old or lack the kid, but not more often
// than the pause allows. The previous keys are used while fetching fails, for a day.
func (k *cachedKeys) find(ctx context.Context, v *Verifier, r *Request, kid string) (*jws.KeySet, error) {
	if err := r.checkAllowed(cmp.Or(r.Trust.KeysURL, r.Trust.Issuer)); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := r.Now; (now.Sub(k.at) >= fresh || k.keys.set.Find(kid) == nil) && now.Sub(k.asked) >= pause {
		keys, err := v.fetch(ctx, r)
		if _, isRefusal := errors.AsType[*Refusal](err); isRefusal {
			return nil, err // of this organisation; the keys are others' too
		}
		k.asked = now
		if k.err = err; err == nil {
			k.keys, k.at = keys, now
		}
	}
	if k.keys.set == nil || r.Now.Sub(k.at) >= usable {
		return nil, k.err
	}
	if err := r.checkAllowed(k.keys.address); err != nil { // what another organisation read is no way around the policy
		return nil, err
	}
	return k.keys.set, nil
}

// fetch reads the keys of an issuer. It does not end with the request, whose client
// could otherwise cause a fetch of the keys to fail for others.
func (v *Verifier) fetch(ctx context.Context, r *Request) (keys issuerKeys, err error) {
	t := r.Trust
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	if keys.address = t.KeysURL; keys.address == "" {
		var doc struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		text, err := v.get(ctx, strings.TrimSuffix(t.Issuer, "/")+"/.well-known/openid-configuration")
		if err != nil {
			return keys, err
		}
		if json.Unmarshal(text, &doc) != nil || doc.Issuer != t.Issuer || doc.Keys == "" {
			return keys, fmt.Errorf("the discovery document is not one of the issuer %.200q with a jwks_uri", t.Issuer)
		}
		keys.address = doc.Keys
	}
	if err := r.checkAllowed(keys.address); err != nil {
		return keys, err
	}
	text, err := v.get(ctx, keys.address)
	if err != nil {
		return keys, err
	}
	set, unused, err := t.rules().ParseKeys(text)
	if err == nil && set.Len() == 0 {
		err = fmt.Errorf("no key with a kid that can verify tokens")
		if len(unused) > 0 {
			err = unused[0]
		}
	}
	keys.set = set
	return keys, err
}

func (v *Verifier) get(ctx context.Context, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := v.client.Do(req, true)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s responded with the status %d", req.URL.Host, res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxFetch+1))
	if err != nil {
		return nil, fmt.Errorf("reading the response of %s: %w", req.URL.Host, err)
	}
	if len(text) > maxFetch {
		return nil, fmt.Errorf("the response of %s is larger than %d bytes", req.URL.Host, maxFetch)
	}
	return text, nil
}

// short returns the text of an error without what a server may have sent at length.
func short(err error) string {
	text := strings.ToValidUTF8(err.Error(), "")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}
