package dataplane

import (
	"net/http"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/records/reqlog"
)

// roundTrip is one request being served, from its first byte to its record. It
// holds what happens to the request; what the request is, is in its admission.
type roundTrip struct {
	admission admission
	targets   resolver

	trail    exchange.Trail
	entry    reqlog.Entry
	panicked bool
	relayed  bool         // a call has been recorded in its place
	turn     *turnWriter  // nil unless the response is kept
	tools    *ToolRequest // nil unless tool servers serve the request

	headerValues [8]string        // values of the gateway's own response headers
	headWritten  bool             // the response headers have been sent
	complete     bool             // the client received the complete response
	array        *jsonArrayWriter // converts a stream to a JSON array; nil for events
}

// newRoundTrip returns a round trip whose entry is e. The caller sets the request.
func (p *Plane) newRoundTrip(e reqlog.Entry) *roundTrip {
	x := &roundTrip{entry: e}
	x.admission = admission{plane: p, snap: p.Snapshot.Load(), id: e.ID.String(), entry: &x.entry, trail: &x.trail}
	x.targets = resolver{admission: &x.admission, reach: p.Engine.Client}
	return x
}

// open begins an exchange. Its path is the path of the request line in
// canonical form.
func (p *Plane) open(r *http.Request) *roundTrip {
	now := time.Now()
	path, query, marked := requestPath(r)
	x := p.newRoundTrip(reqlog.Entry{
		ID:     reqlog.NewID(now),
		Time:   now,
		Input:  reqlog.Input{Method: r.Method, Path: path, RequestBytes: max(r.ContentLength, 0)},
		Origin: reqlog.Origin{CacheStatus: "DISABLED"},
		Sender: reqlog.Sender{UserAgent: r.UserAgent()},
	})
	a := &x.admission
	a.remote = r.RemoteAddr
	a.route, a.noRoute = findRoute(r.Method, routePath(r.Header, path))
	if upgraded, ok := findSocketRoute(p, r, path); ok {
		a.route, a.noRoute = upgraded, nil
	}
	if r.Method == http.MethodPost && path == clientSecretsPath && !p.PassesThrough(r.Header) {
		a.route, a.noRoute = mintRoute, nil
	}
	if p.Clients[a.route.clientDialect()] == nil {
		a.route = passThrough
	}
	a.request = exchange.Request{
		ID:      x.entry.ID,
		Time:    now,
		Client:  p.Clients[a.route.clientDialect()],
		Dialect: a.route.clientDialect(),
		Received: exchange.Received{
			Method:         r.Method,
			Path:           path,
			Query:          query,
			EmptyQuery:     marked && query == "",
			Header:         r.Header,
			HeaderPrefixes: a.snap.HeaderPrefixes,
			Length:         r.ContentLength,
		},
		Limiting: exchange.Limiting{Prices: a.snap.Prices},
	}
	if a.route.api == (vendorAPI{}) {
		a.request.Received.Path = strings.TrimPrefix(path, api.BasePath)
	}
	return x
}

// requestPath splits the target of the request line. marked is true if it has a
// question mark, even with an empty query.
func requestPath(r *http.Request) (path, query string, marked bool) {
	target := r.RequestURI
	if !strings.HasPrefix(target, "/") { // absolute form, and requests made in tests
		target = r.URL.RequestURI()
	}
	return strings.Cut(target, "?")
}
