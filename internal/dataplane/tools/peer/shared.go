package peer

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"modelgate/internal/provider/toolserver"
)

// Limits of connections that are kept for sessions.
const (
	defaultIdleEnd = 5 * time.Minute
	maxStreams     = 4096 // of the older HTTP with server-sent events
	openTime       = 30 * time.Second
)

// connections are those that this node keeps for sessions: streams of the older HTTP with
// server-sent events, and child processes.
type connections struct {
	mu        sync.Mutex
	byID      map[string]*mux     // guarded by mu, as are the fields below
	processes map[eraKey]*process // that run or begin
	streams   int
}

// find returns the connection of a session of a credential.
func (c *connections) find(key eraKey, session string) *mux {
	id, _, _ := strings.Cut(session, ".")
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.byID[id]; m != nil && m.key == key {
		return m
	}
	return nil
}

func (c *connections) add(m *mux) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[string]*mux{}
	}
	c.byID[m.id] = m
}

func (c *connections) remove(m *mux) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, m.id)
}

// connectionOf returns the connection of the session of a call.
func (p *Peers) connectionOf(s *toolserver.Server, c Credential, session Session) (*mux, *Failure) {
	if m := p.connections.find(keyOf(s, c), session.ID); m != nil {
		return m, nil
	}
	return nil, sessionLost()
}

// sendShared sends the message of a call on the connection of its session.
func (p *Peers) sendShared(ctx context.Context, c *Call) (Reply, error) {
	m, lost := p.connectionOf(c.Server, c.Credential, c.Session)
	if lost != nil {
		return nil, lost
	}
	return m.send(ctx, c)
}

// greet begins a session on a new connection, and returns its revision and the result of
// initialize.
func (p *Peers) greet(ctx context.Context, m *mux, s *toolserver.Server, by Client) (version string, result []byte, err error) {
	result, err = p.greetWith(ctx, m, s, by, LegacyVersion)
	if older := offeredInstead(err); older != "" {
		result, err = p.greetWith(ctx, m, s, by, older)
	}
	if err != nil {
		return "", nil, err
	}
	session := Session{Version: textOf(findMember(result, "protocolVersion"))}
	if err := checkSession(session); err != nil {
		return "", nil, err
	}
	if failure := m.write(ctx, []byte(initializedMessage)); failure != nil {
		return "", nil, failure
	}
	return session.Version, result, nil
}

func (p *Peers) greetWith(ctx context.Context, m *mux, s *toolserver.Server, by Client, version string) ([]byte, error) {
	reply, err := m.send(ctx, &Call{Server: s, Method: "initialize", Message: initializeMessage(by, version)})
	if err != nil {
		return nil, err
	}
	result, err := readResult(reply)
	reply.(*muxReply).answered = true // initialize is never cancelled
	reply.Close()
	return slices.Clone(result), err
}

// watchIdle ends a connection that nothing has used for a while. It returns when the
// connection has ended, or the gateway ends.
func (p *Peers) watchIdle(m *mux) {
	idle := time.NewTimer(p.idleEnd)
	defer idle.Stop()
	for {
		select {
		case <-m.done:
			return
		case <-p.stop:
			m.end(sessionLost())
			return
		case <-idle.C:
			ended, again := m.endIfIdle(time.Now(), p.idleEnd)
			if ended {
				return
			}
			idle.Reset(again)
		}
	}
}

// newID returns an id that nobody can guess, without dots.
func newID() string { return rand.Text() }
