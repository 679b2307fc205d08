package peer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/upstream"
)

// Limits of what happens in the background.
const (
	maxBackground = 256
	cancelTime    = 5 * time.Second // for a message that cancels a request
	defaultSize   = 16 << 20
)

// Options of [New]. The zero value reaches servers over HTTP that are not guarded.
type Options struct {
	Client *upstream.Client // nil is one without options
	Bodies *bytepool.Pool   // memory of responses; nil is without a limit
	Logger *slog.Logger     // nil is silent
	// Commands are the programs that servers with the transport stdio name. Nil lets none run.
	Commands map[string]Command
	// IdleEnd is how long a process, or a stream of the older HTTP with server-sent events, is
	// kept without a call. Zero is 5 minutes.
	IdleEnd time.Duration
	// MaxMessage is the limit of a message of a server in bytes. Zero is 16 MB.
	MaxMessage int
}

// Peers sends messages to tool servers. It is safe for concurrent use.
type Peers struct {
	client     *upstream.Client
	bodies     *bytepool.Pool
	logger     *slog.Logger
	maxMessage int
	commands   map[string]Command
	idleEnd    time.Duration

	readers   sync.Pool // of *sse.Reader
	breakers  breakers
	eras      eras
	documents *apiDocuments

	connections connections

	slots   chan struct{} // taken by what happens in the background
	running sync.WaitGroup
	stop    chan struct{} // closed by Close
	once    sync.Once
}

var _ Sender = (*Peers)(nil)

// New returns a Peers with these options.
func New(o Options) *Peers {
	p := &Peers{client: o.Client, bodies: o.Bodies, logger: o.Logger, maxMessage: o.MaxMessage, commands: o.Commands, idleEnd: o.IdleEnd,
		documents: newAPIDocuments(maxAPIMemory), slots: make(chan struct{}, maxBackground), stop: make(chan struct{})}
	if p.client == nil {
		p.client = upstream.New(upstream.Options{})
	}
	if p.bodies == nil {
		p.bodies = bytepool.New(0)
	}
	if p.logger == nil {
		p.logger = slog.New(slog.DiscardHandler)
	}
	if p.maxMessage <= 0 {
		p.maxMessage = defaultSize
	}
	if p.idleEnd <= 0 {
		p.idleEnd = defaultIdleEnd
	}
	return p
}

// Close ends the sessions of connections that are kept, with their processes, and waits for
// what happens in the background.
func (p *Peers) Close() {
	p.once.Do(func() { close(p.stop) })
	p.running.Wait()
}

// State returns what this node has seen of a server, by its id.
func (p *Peers) State(server string) State { return p.breakers.stateOf(server) }

// Send implements Sender.
func (p *Peers) Send(ctx context.Context, c *Call) (Reply, error) {
	if failure := p.checkServer(c.Server); failure != nil {
		return nil, failure
	}
	switch c.Server.Transport {
	case toolserver.HTTP:
		return p.sendHTTP(ctx, c)
	case toolserver.OpenAPI:
		return p.sendAPI(ctx, c)
	}
	return p.sendShared(ctx, c)
}

// checkServer returns the failure of a call to a server that cannot be used.
func (p *Peers) checkServer(s *toolserver.Server) *Failure {
	f := &Failure{Kind: Unavailable, Unsent: true}
	switch {
	case s.Fault != nil:
		f.Reason, f.Err = "the tool server cannot be used; see its state", s.Fault
	case s.Transport == toolserver.Stdio:
		if _, ok := p.commands[s.Command]; ok {
			return nil
		}
		f.Reason = "the command of the tool server is not in the settings of this node"
	case (s.Transport == toolserver.HTTP || s.Transport == toolserver.SSE) && s.URL != nil:
		return nil
	case s.Transport == toolserver.OpenAPI && s.URL != nil && s.Document != "":
		return nil
	default:
		f.Reason = "the transport of the tool server cannot be used"
	}
	return f
}

// background runs f on a goroutine of its own, and reports false if there are too many.
func (p *Peers) background(f func()) bool {
	select {
	case p.slots <- struct{}{}:
	default:
		return false
	}
	p.running.Go(func() {
		defer func() { <-p.slots }()
		f()
	})
	return true
}
