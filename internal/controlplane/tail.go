package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/inbound"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
)

// TailPath is the path of the live log, which sends entries as requests finish by
// server-sent events.
const TailPath = LogPath + "/tail"

// Limits of log tails. The limits of an organisation and of a workspace leave capacity
// to others.
const (
	maxWatchers       = 64 // of a gateway
	maxOfOrganisation = 32
	maxOfWorkspace    = 16
	tailBuffer        = 256              // entries buffered for a subscriber
	tailHeartbeat     = 15 * time.Second // between heartbeats
	tailLook          = time.Second      // between checks of the subscriber's permissions
	tailWriteTimeout  = 30 * time.Second // for a subscriber that does not read
)

// Tail sends log entries to subscribers as requests finish: the entries that the
// subscriber may see and that match its filters. A slow subscriber loses entries and
// receives their number. Tail is an http.Handler for TailPath and safe for concurrent
// use.
type Tail struct {
	Logs *LogHandler

	mu       sync.Mutex
	closed   bool                          // guarded by mu
	watchers atomic.Pointer[[]*subscriber] // replaced under mu, never modified
}

// subscriber is a client of the live log.
type subscriber struct {
	organisation, workspace string // of its key; the workspace is empty for organisation keys

	wanted  atomic.Pointer[logstore.Matcher]
	entries chan *reqlog.Entry
	dropped atomic.Int64
	end     chan struct{} // closed when the gateway stops
}

// Record implements [reqlog.Recorder]. It never blocks.
func (t *Tail) Record(_ context.Context, e *reqlog.Entry) {
	all := t.watchers.Load()
	if all == nil {
		return
	}
	if e.Bodies != nil { // not sent to subscribers, so release the memory early
		bare := *e
		bare.Bodies = nil
		e = &bare
	}
	for _, w := range *all {
		if !w.wanted.Load().Matches(e) {
			continue
		}
		select {
		case w.entries <- e:
		default:
			w.dropped.Add(1)
		}
	}
}

// Close ends all subscriptions and refuses new ones.
func (t *Tail) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	if all := t.watchers.Load(); all != nil {
		for _, w := range *all {
			close(w.end)
		}
	}
}

func (t *Tail) join(who *access.Identity, first *logstore.Matcher) (*subscriber, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*subscriber
	if old := t.watchers.Load(); old != nil {
		all = *old
	}
	if t.closed || len(all) >= maxWatchers {
		e := apierr.New(apierr.Unavailable, "the limit of concurrent log tails is reached, or the gateway is shutting down; try again shortly").WithCode("too_many_watchers")
		e.RetryAfter = tailHeartbeat
		return nil, e
	}
	var ofOrganisation, ofWorkspace int
	for _, w := range all {
		if w.organisation == who.Organisation {
			ofOrganisation++
			if w.workspace == who.Workspace {
				ofWorkspace++
			}
		}
	}
	if ofWorkspace >= maxOfWorkspace || ofOrganisation >= maxOfOrganisation {
		e := apierr.New(apierr.RateLimited, "the limit of concurrent log tails is reached: %d of a workspace, %d of an organisation; close another one first", maxOfWorkspace, maxOfOrganisation).
			WithCode("too_many_watchers")
		e.RetryAfter = tailHeartbeat
		return nil, e
	}
	w := &subscriber{organisation: who.Organisation, workspace: who.Workspace, entries: make(chan *reqlog.Entry, tailBuffer),
		end: make(chan struct{})}
	w.wanted.Store(first)
	all = append(slices.Clone(all), w)
	t.watchers.Store(&all)
	return w, nil
}

func (t *Tail) leave(w *subscriber) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(*t.watchers.Load()), func(o *subscriber) bool { return o == w })
	if len(left) == 0 {
		t.watchers.Store(nil)
		return
	}
	t.watchers.Store(&left)
}

// ServeHTTP sends entries until the client leaves, the gateway stops, or the caller may
// no longer see them.
func (t *Tail) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := t.watch(w, r)
	if err == nil {
		return
	}
	e := apierr.From(t.Logs.DB.ClientError(err))
	body := e.Body()
	if e.Kind == apierr.MethodNotAllowed {
		w.Header().Set("Allow", http.MethodGet)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status())
	w.Write(body)
}

// watch sends entries until the subscription ends. An error means that nothing was
// sent.
func (t *Tail) watch(w http.ResponseWriter, r *http.Request) error {
	who, q, err := t.query(r)
	if err != nil {
		return err
	}
	if err := t.Logs.resolve(r.Context(), who, q); err != nil {
		return err
	}
	first, err := t.matcher(who, q)
	if err != nil {
		return err
	}
	if readsAcross(who) {
		if err := t.Logs.auditAcross(r.Context(), who, r, ""); err != nil {
			return err
		}
	}
	one, err := t.join(who, first)
	if err != nil {
		return err
	}
	defer t.leave(one)
	t.stream(w, r, one, q)
	return nil
}

// query returns the sender of r, and its filters restricted to what it may see now.
func (t *Tail) query(r *http.Request) (*access.Identity, *logstore.Query, error) {
	l := t.Logs
	who, err := l.Authenticate(r)
	if err != nil {
		return nil, nil, err
	}
	if r.Method != http.MethodGet {
		return nil, nil, apierr.New(apierr.MethodNotAllowed, "method not allowed; use GET")
	}
	if err := allow(who, access.ScopeLogsList); err != nil {
		return nil, nil, err
	}
	q, err := parseTail(r.URL.Query())
	if err != nil {
		return nil, nil, err
	}
	return who, &q, l.limitScope(r.Context(), who, &q, access.ScopeLogsList.Permission())
}

func (t *Tail) matcher(who *access.Identity, q *logstore.Query) (*logstore.Matcher, error) {
	if readsAcross(who) {
		q.Scope = everything
	}
	return q.Matcher()
}

// stream sends entries that match q, whose names are resolved. The caller's permissions
// are checked again at intervals.
func (t *Tail) stream(w http.ResponseWriter, r *http.Request, one *subscriber, q *logstore.Query) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(w)
	send := func(b []byte) bool {
		rc.SetWriteDeadline(time.Now().Add(tailWriteTimeout))
		_, err := w.Write(b)
		if err == nil {
			err = rc.Flush()
		}
		inbound.BodyOf(r).ResponseBegun()
		return err == nil
	}
	ok := send([]byte(": watching\n\n"))
	pulse := time.NewTicker(tailHeartbeat)
	defer pulse.Stop()
	look := time.NewTicker(tailLook)
	defer look.Stop()
	for ok {
		select {
		case e := <-one.entries:
			ok = send(append(e.AppendJSON([]byte("event: exchange\ndata: ")), "\n\n"...)) && one.sendDropped(send)
		case <-look.C:
			who, now, err := t.query(r)
			if err != nil {
				return
			}
			q.Scope = now.Scope
			m, err := t.matcher(who, q)
			if err != nil {
				return
			}
			one.wanted.Store(m)
		case <-pulse.C:
			ok = one.sendDropped(send) && send([]byte(": watching\n\n"))
		case <-one.end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// sendDropped sends the number of entries dropped since it was last sent.
func (w *subscriber) sendDropped(send func([]byte) bool) bool {
	n := w.dropped.Swap(0)
	return n == 0 || send(fmt.Appendf(nil, "event: dropped\ndata: {\"dropped\":%d}\n\n", n))
}

// unwatched are the filters of a list that make no sense for future entries.
var unwatched = []string{"from", "to", "cursor", "limit", "text", "order", "order_by"}

func parseTail(values url.Values) (logstore.Query, error) {
	if _, err := route.RenameParams(values, isFilter); err != nil {
		return logstore.Query{}, err
	}
	for name := range values {
		if slices.Contains(unwatched, name) || strings.HasSuffix(name, "_min") || strings.HasSuffix(name, "_max") {
			return logstore.Query{}, bad(name, "is not supported for a log tail; use it with GET %s", LogPath)
		}
	}
	return parseQuery(values)
}

var _ reqlog.Recorder = (*Tail)(nil)
