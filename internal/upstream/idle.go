package upstream

import (
	"slices"
	"sync"
	"time"
)

// idleConns holds connections between requests. It is safe for concurrent use.
type idleConns struct {
	timeout time.Duration // how long a connection is kept
	most    int           // connections to all hosts together

	mu     sync.Mutex
	byHost map[string][]*inlineConn // guarded by mu; the longest idle first
	count  int                      // guarded by mu
	timer  *time.Timer              // guarded by mu; nil while nothing is idle
}

// take returns the connection to a host that was used last, or nil. Connections that
// the provider has closed, or has sent something on, are closed.
func (p *idleConns) take(host string) *inlineConn {
	for {
		c := p.pop(host)
		if c == nil || c.probe.isQuiet() {
			return c
		}
		c.close()
	}
}

func (p *idleConns) pop(host string) *inlineConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.byHost[host]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	p.set(host, list[:len(list)-1])
	p.count--
	return c
}

// put keeps a connection for another request. If there are too many, the one that has
// been idle for the longest time among those to the same host is closed, or this one.
func (p *idleConns) put(c *inlineConn) {
	if !c.probe.works() {
		c.close()
		return
	}
	if old := p.push(c); old != nil {
		old.close()
	}
}

// push adds c and returns the connection that has to make room.
func (p *idleConns) push(c *inlineConn) (old *inlineConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.byHost[c.host]
	if p.count >= p.most {
		if old = p.oldest(); old == nil {
			return c
		}
		list = p.byHost[c.host]
	}
	c.since = time.Now()
	p.set(c.host, append(list, c))
	p.count++
	if p.timer == nil {
		p.timer = time.AfterFunc(p.timeout, p.expire)
	}
	return old
}

// oldest removes the connection that has been idle for the longest time. It looks at
// one connection of each host, and is only called when the pool is full.
func (p *idleConns) oldest() *inlineConn {
	var first *inlineConn
	for _, list := range p.byHost {
		if c := list[0]; first == nil || c.since.Before(first.since) {
			first = c
		}
	}
	if first != nil {
		p.set(first.host, slices.Delete(p.byHost[first.host], 0, 1))
		p.count--
	}
	return first
}

// set stores the connections of a host. It must be called with mu held.
func (p *idleConns) set(host string, list []*inlineConn) {
	if len(list) == 0 {
		delete(p.byHost, host)
		return
	}
	p.byHost[host] = list
}

// expire closes the connections that have been idle for the timeout.
func (p *idleConns) expire() {
	for _, c := range p.removeIdleSince(time.Now().Add(-p.timeout)) {
		c.close()
	}
}

// closeAll closes every idle connection.
func (p *idleConns) closeAll() {
	for _, c := range p.removeIdleSince(time.Now()) {
		c.close()
	}
}

// removeIdleSince removes the connections that became idle no later than then, and
// sets the timer for the others.
func (p *idleConns) removeIdleSince(then time.Time) (old []*inlineConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for host, list := range p.byHost {
		n := 0
		for n < len(list) && !list[n].since.After(then) {
			n++
		}
		old = append(old, list[:n]...)
		p.set(host, slices.Delete(list, 0, n))
	}
	p.count -= len(old)
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if p.count > 0 {
		p.timer = time.AfterFunc(p.timeout/4, p.expire)
	}
	return old
}
