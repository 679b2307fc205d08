package storetest

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Relay is a proxy between a program and a database that disturbs the traffic. It is
// safe for concurrent use.
type Relay struct {
	to       string
	listener net.Listener

	mu    sync.Mutex
	delay time.Duration         // guarded by mu, like the following fields
	late  time.Duration         // delay of what the server sends
	deaf  chan struct{}         // closed when paused traffic may continue; nil passes traffic
	conns map[net.Conn]struct{} // both ends
	loses bool                  // the response to the next COMMIT
	lost  net.Conn              // the server's end of a connection whose next data is lost
	drop  bool                  // notifications are dropped
}

// NewRelay returns a relay to the server of dsn, and the address of the same database
// through it. It is closed with the test.
func NewRelay(t testing.TB, dsn string) (r *Relay, through string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r = &Relay{to: u.Host, listener: l, conns: make(map[net.Conn]struct{})}
	var serving sync.WaitGroup
	serving.Go(func() { r.serve(&serving) })
	t.Cleanup(func() {
		l.Close()
		r.Pause(false)
		r.Cut()
		serving.Wait()
	})
	u.Host = l.Addr().String()
	return r, u.String()
}

// Delay delays each piece of data, in both directions, by d.
func (r *Relay) Delay(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

// DelayReplies delays each piece of data that the server sends by d.
func (r *Relay) DelayReplies(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = d
}

// Pause stops all traffic while on is set, like a network that drops packets.
func (r *Relay) Pause(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case on && r.deaf == nil:
		r.deaf = make(chan struct{})
	case !on && r.deaf != nil:
		close(r.deaf)
		r.deaf = nil
	}
}

// Cut breaks every connection.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

// LoseCommit lets the next COMMIT reach the server, and breaks its connection
// instead of passing the response on.
func (r *Relay) LoseCommit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loses = true
}

// Loses reports whether the COMMIT of [Relay.LoseCommit] is still to come.
func (r *Relay) Loses() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loses
}

// DropNotifications drops the notifications that the server sends to idle connections
// while on is set, as a pooler that assigns connections to transactions does.
func (r *Relay) DropNotifications(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop = on
}

// drops reports whether data is a notification that must be dropped.
// https://www.postgresql.org/docs/current/protocol-message-formats.html
func (r *Relay) drops(data []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drop && data[0] == 'A'
}

// commits notes a COMMIT in data for the server whose response must be lost.
func (r *Relay) commits(data []byte, server net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loses && bytes.Contains(bytes.ToLower(data), []byte("commit\x00")) {
		r.loses, r.lost = false, server
	}
}

// loss reports whether data of the server is lost.
func (r *Relay) loss(server net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost != nil && r.lost == server
}

func (r *Relay) serve(serving *sync.WaitGroup) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.to)
		if err != nil {
			client.Close()
			continue
		}
		r.mu.Lock()
		r.conns[client], r.conns[server] = struct{}{}, struct{}{}
		r.mu.Unlock()
		serving.Go(func() { r.pass(client, server, func() time.Duration { return r.delay }) })
		serving.Go(func() { r.pass(server, client, func() time.Duration { return r.delay + r.late }) })
	}
}

// pass passes data on with a delay, which is called with r.mu held.
func (r *Relay) pass(from, to net.Conn, delay func() time.Duration) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		r.wait(delay)
		if r.loss(from) {
			return
		}
		if n > 0 && !r.drops(buf[:n]) {
			r.commits(buf[:n], to)
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				r.forget(from, to)
			}
			return
		}
	}
}

func (r *Relay) wait(delay func() time.Duration) {
	r.mu.Lock()
	pause, deaf := delay(), r.deaf
	r.mu.Unlock()
	if deaf != nil {
		<-deaf
	}
	if pause > 0 {
		<-time.After(pause)
	}
}

func (r *Relay) forget(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.conns, c)
	}
}
