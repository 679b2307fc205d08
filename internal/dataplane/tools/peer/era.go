package peer

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"modelgate/internal/provider/toolserver"
)

// Limits of what is remembered of eras.
const (
	legacyTime = 5 * time.Minute // after which a server of the legacy era is asked again
	maxEras    = 20_000
	probeTime  = 30 * time.Second
)

// discoverMessage asks a server which revisions it speaks.
const discoverMessage = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"` + ModernVersion + `",` +
	`"io.modelcontextprotocol/clientInfo":` + ownName + `,"io.modelcontextprotocol/clientCapabilities":{}}}}`

// Codes of errors of the modern era.
const (
	codeHeaderMismatch     = -32020
	codeCapabilityMissing  = -32021
	codeVersionUnsupported = -32022
)

// eraKey names whose era is remembered: that of a server at an address, as a credential
// sees it.
type eraKey struct{ server, address, credential string }

func keyOf(s *toolserver.Server, c Credential) eraKey { return eraKey{s.ID, addressOf(s), c.Key} }

// eras remembers what servers speak. It is safe for concurrent use.
type eras struct {
	mu     sync.Mutex
	known  map[eraKey]knownEra // guarded by mu
	probes map[eraKey]*probe   // in progress; guarded by mu
}

// knownEra is what is remembered of a server.
type knownEra struct {
	era  Era
	end  time.Time // when it is asked again; zero for never
	mute time.Time // until when it is known to have no stream of its own messages; zero if it may have
}

// probe is a question in progress, for all that wait for its answer.
type probe struct {
	done chan struct{} // closed at its end
	era  Era
	err  error
}

// Era implements Sender.
func (p *Peers) Era(ctx context.Context, s *toolserver.Server, c Credential) (Era, error) {
	if failure := p.checkServer(s); failure != nil {
		return Legacy, failure
	}
	switch s.Transport {
	case toolserver.HTTP:
	case toolserver.OpenAPI:
		return Modern, nil
	default:
		return Legacy, nil
	}
	key := keyOf(s, c)
	if era, ok := p.eras.lookup(key, time.Now()); ok {
		return era, nil
	}
	current := p.startProbe(s, c, key)
	if current == nil {
		return Legacy, &Failure{Kind: Unavailable, Unsent: true, Wait: time.Second,
			Reason: "too many tool servers are being asked; try again shortly"}
	}
	select {
	case <-current.done:
		return current.era, current.err
	case <-ctx.Done():
		return Legacy, &Failure{Kind: Cancelled, Unsent: true, Reason: "the call was cancelled", Err: context.Cause(ctx)}
	}
}

// startProbe returns the question in progress about a server, or a new one. It returns nil
// if there are too many.
func (p *Peers) startProbe(s *toolserver.Server, c Credential, key eraKey) *probe {
	e := &p.eras
	e.mu.Lock()
	defer e.mu.Unlock()
	if current := e.probes[key]; current != nil {
		return current
	}
	current := &probe{done: make(chan struct{})}
	if !p.background(func() { p.runProbe(s, c, key, current) }) {
		return nil
	}
	if e.probes == nil {
		e.probes = map[eraKey]*probe{}
	}
	e.probes[key] = current
	return current
}

// runProbe asks a server and remembers the answer. Callers that leave do not end it.
func (p *Peers) runProbe(s *toolserver.Server, c Credential, key eraKey, current *probe) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	current.era, current.err = p.discover(ctx, s, c)
	p.eras.mu.Lock()
	defer p.eras.mu.Unlock()
	delete(p.eras.probes, key)
	if current.err == nil {
		p.eras.remember(key, current.era, time.Now())
	}
	close(current.done)
}

// lookup returns what is remembered of a server.
func (e *eras) lookup(key eraKey, now time.Time) (era Era, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known, ok := e.known[key]
	return known.era, ok && (known.end.IsZero() || now.Before(known.end))
}

// remember must be called with mu held.
func (e *eras) remember(key eraKey, era Era, now time.Time) {
	if e.known == nil {
		e.known = map[eraKey]knownEra{}
	}
	known := knownEra{era: era, mute: e.known[key].mute}
	if era == Legacy {
		known.end = now.Add(legacyTime)
	}
	makeRoom(e.known, maxEras)
	e.known[key] = known
}

// forget makes the next call ask the server again.
func (e *eras) forget(s *toolserver.Server, c Credential) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, keyOf(s, c))
}

// setMute remembers for a while that a server has no stream of its own messages.
func (e *eras) setMute(s *toolserver.Server, c Credential, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known == nil {
		e.known = map[eraKey]knownEra{}
	}
	key := keyOf(s, c)
	known, ok := e.known[key]
	if !ok {
		makeRoom(e.known, maxEras)
		known = knownEra{era: Legacy, end: now} // asked again when its era matters
	}
	known.mute = now.Add(legacyTime)
	e.known[key] = known
}

func (e *eras) isMute(s *toolserver.Server, c Credential, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.Before(e.known[keyOf(s, c)].mute)
}

// discover asks a server which era it speaks. Only answers of a server that does not know
// the modern era mean the legacy one: never a refused credential, a redirect or a failure
// to connect, which an attacker could cause.
func (p *Peers) discover(ctx context.Context, s *toolserver.Server, c Credential) (Era, error) {
	reply, err := p.Send(ctx, &Call{Server: s, Credential: c, Method: "server/discover", Message: []byte(discoverMessage)})
	if err != nil {
		return eraOfFailure(err)
	}
	defer reply.Close()
	result, err := readResult(reply)
	if err != nil {
		return eraOfFailure(err)
	}
	return eraOf(textsOf(findMember(result, "supportedVersions")))
}

// eraOfFailure returns the era that a failed question shows, or the failure.
func eraOfFailure(err error) (Era, error) {
	if e, ok := errors.AsType[*serverError](err); ok {
		switch e.code {
		case codeHeaderMismatch, codeCapabilityMissing:
			return Modern, nil
		case codeVersionUnsupported:
			return eraOf(textsOf(findMember(e.data, "supported")))
		}
		return Legacy, nil
	}
	if f, ok := errors.AsType[*Failure](err); ok && f.Kind == Invalid {
		switch f.Status {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
			return Legacy, nil
		}
	}
	return Legacy, err
}

// eraOf returns the era to use with a server that speaks these revisions.
func eraOf(versions []string) (Era, error) {
	if slices.Contains(versions, ModernVersion) {
		return Modern, nil
	}
	for _, v := range legacyVersions {
		if slices.Contains(versions, v) {
			return Legacy, nil
		}
	}
	return Legacy, invalid(0, "the tool server speaks only revisions of the protocol that the gateway does not", nil)
}
