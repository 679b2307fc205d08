package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/internal/upstream"
)

// player is a provider that answers as it is recorded. A request says which
// tape it belongs to: by the header X-Replay, which names the exchange too, or
// by the first segment of its path. In the second case the exchange is looked
// up: same method, path, query and body, and repeats in their order.
type player struct {
	server *httptest.Server
	tapes  []*tape
	cut    cut
	// plain sends streams without chunks, so that the gateway sees each piece that
	// a cutConn makes: net/http gathers those of one chunk.
	plain bool
	// shorten leaves out the end of streams. Nil plays them whole.
	shorten func(stream []byte) []byte

	mu     sync.Mutex
	played map[string]bool // guarded by mu; keys are session and exchange
	got    map[string]arrived
}

// arrived is a request as it came to the provider.
type arrived struct {
	method, uri string
	header      http.Header
	body        []byte
}

func newPlayer(t *testing.T, tapes []*tape, c cut) *player {
	p := &player{tapes: tapes, cut: c, plain: c.single > 0, played: map[string]bool{}, got: map[string]arrived{}}
	p.server = httptest.NewServer(p)
	t.Cleanup(p.server.Close)
	return p
}

func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusTeapot)
		return
	}
	session, x := p.find(r, body)
	if x == nil {
		http.Error(w, "no exchange was recorded for "+r.Method+" "+r.RequestURI, http.StatusTeapot)
		return
	}
	p.mu.Lock()
	p.got[session] = arrived{r.Method, r.RequestURI, r.Header, body}
	p.mu.Unlock()
	p.play(w, x)
}

// find returns the exchange of a request and the session it belongs to.
func (p *player) find(r *http.Request, body []byte) (session string, x *exchange) {
	if session = r.Header.Get("X-Replay"); session != "" {
		tape, rest, _ := strings.Cut(session, "-")
		n, _, _ := strings.Cut(rest, "-")
		return session, p.tapes[number(tape)].Exchanges[number(n)]
	}
	session, target, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, "/"), "/")
	tape, _, _ := strings.Cut(session, "-")
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, x := range p.tapes[number(tape)].Exchanges {
		key := session + "#" + strconv.Itoa(n)
		if !p.played[key] && x.handles(r.Method, "/"+target, body) {
			p.played[key] = true
			return session, x
		}
	}
	return session, nil
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("a session is numbers: " + s)
	}
	return n
}

func (x *exchange) handles(method, target string, body []byte) bool {
	u, err := url.Parse(x.Request.URL)
	if err != nil || x.Request.Method != method || u.RequestURI() != target {
		return false
	}
	if !x.recorded() {
		return true
	}
	var want, got any
	return json.Unmarshal(x.Request.Body, &want) == nil && json.Unmarshal(body, &got) == nil && reflect.DeepEqual(want, got)
}

// date is the moment of every recorded response.
const date = "Fri, 21 Nov 2025 12:00:00 GMT"

// header returns the header that the recorded response is sent with.
func (x *exchange) header() http.Header {
	h := http.Header{"Date": {date}}
	for name, v := range x.Response.Headers {
		h.Set(name, v)
	}
	if !x.streamed() {
		h.Set("Content-Length", strconv.Itoa(len(x.body())))
	}
	return h
}

// play sends the recorded response, a stream in pieces that don't end where
// events do.
func (p *player) play(w http.ResponseWriter, x *exchange) {
	maps.Copy(w.Header(), x.header())
	body := x.body()
	if !x.streamed() {
		w.WriteHeader(x.Response.Status)
		w.Write(body)
		return
	}
	if p.plain {
		w.Header().Set("Transfer-Encoding", "identity")
	}
	if p.shorten != nil {
		body = p.shorten(body)
	}
	w.WriteHeader(x.Response.Status)
	r := rand.New(rand.NewPCG(uint64(x.tape), uint64(x.n)))
	for len(body) > 0 {
		n := min(1+r.IntN(900), len(body))
		w.Write(body[:n])
		http.NewResponseController(w).Flush()
		body = body[n:]
	}
}

// request returns what came in a session.
func (p *player) request(session string) (arrived, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.got[session]
	return a, ok
}

// reach leads all of a gateway's connections to p and cuts what comes back.
func (p *player) reach() upstream.Options {
	var dialled atomic.Uint64
	return upstream.Options{
		Resolver: publicAddress{},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, p.server.Listener.Addr().String())
			if err != nil {
				return nil, err
			}
			return newCutConn(conn, p.cut, dialled.Add(1)), nil
		},
	}
}

type publicAddress struct{}

func (publicAddress) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
}

// cut says how a response is cut on its way to the gateway: its first bytes one
// by one, the rest in pieces of random length. Streams have chunks of their own
// unless there are single bytes.
type cut struct {
	name   string
	single int64
}

// cutConn is a connection whose responses arrive in pieces.
type cutConn struct {
	net.Conn
	cut    cut
	in     *bufio.Reader
	random *rand.Rand
	single atomic.Int64 // bytes of the current answer still to come one by one
}

func newCutConn(conn net.Conn, c cut, seed uint64) *cutConn {
	return &cutConn{Conn: conn, cut: c, in: bufio.NewReader(conn), random: rand.New(rand.NewPCG(seed, 1))}
}

// Write sends a request, after which another response begins.
func (c *cutConn) Write(b []byte) (int, error) {
	c.single.Store(c.cut.single)
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n := 1
	if c.single.Add(-1) < 0 {
		n = 1 + c.random.IntN(900)
	}
	return c.in.Read(b[:min(n, len(b))])
}
