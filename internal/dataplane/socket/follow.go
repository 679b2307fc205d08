package socket

import (
	"context"
	"errors"

	"github.com/coder/websocket"

	"modelgate/internal/base/apierr"
)

// Follow reads a connection to a provider that has no client, such as one that reports what a
// call uses. It returns when the connection ends, when a limit refuses a turn, or when ctx
// ends; the result's error is why the gateway ended it. It closes the connection.
func (s *Server) Follow(ctx context.Context, o Relay) Result {
	c := &relay{session: s.newSession(ctx), o: o, observer: observer{protocol: o.Protocol}}
	o.Provider.conn.SetReadLimit(o.MaxMessage)
	c.client = newPeer(o.Provider.conn, nil) // the only peer
	c.fault, c.drain = noFault, func() {}
	c.check = func() error {
		err := o.Check()
		if err != nil {
			c.fail(err)
		}
		return err
	}
	c.stop = func() { c.end(ending{code: websocket.StatusGoingAway}) }
	c.start()
	c.follow()
	c.finish()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Unfinished = c.observer.unfinished()
	return c.result
}

// follow reads messages until the connection ends.
func (c *relay) follow() {
	for {
		kind, r, err := c.client.next()
		if err != nil {
			return
		}
		room := buffer()
		message, err := c.client.readMessage(*room, r)
		if errors.Is(err, websocket.ErrMessageTooBig) {
			c.fail(apierr.New(apierr.UpstreamFailed, "a message of the provider is larger than %d bytes", c.o.MaxMessage).
				WithCode("message_too_large"))
		}
		if err != nil {
			return
		}
		c.count(len(message))
		if kind == websocket.MessageText {
			err = c.account(c.observer.fromProvider(message))
		}
		if err != nil {
			c.endFor(err, websocket.StatusPolicyViolation)
			<-c.ctx.Done()
			return
		}
		reuse(room, message)
	}
}

// count counts a message of the provider.
func (c *relay) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Messages, c.result.Bytes = c.result.Messages+1, c.result.Bytes+int64(n)
}

// fail stores why the gateway ends the session; the first reason counts.
func (c *relay) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.result.Err == nil {
		c.result.Err = err
	}
}
