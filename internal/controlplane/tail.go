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

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/inbound"
	"modelgate/internal/logstore"
	"modelgate/internal/reqlog"
)

// TailPath is where exchanges are told of as they end, by server-sent events.
const TailPath = LogPath + "/tail"

// Limits of watching. Those of an organisation and of a workspace leave watchers
// to the others.
const (
	maxWatchers       = 64 // of a gateway
	maxOfOrganisation = 32
	maxOfWorkspace    = 16
	tailBuffer        = 256              // entries that wait for one watcher
	tailHeartbeat     = 15 * time.Second // between signs of life
	tailLook          = time.Second      // between checks of whether a watcher still may
	tailWriteTimeout  = 30 * time.Second // for a watcher that takes nothing
)

// Tail tells watchers of exchanges as they end: each of those that it may see in
// the log, and that its filters want. A watcher that is slow loses entries and
// is told how many. It is an http.Handler for TailPath and safe for concurrent use.
type Tail struct {
	Logs *LogHandler

	mu       sync.Mutex
	closed   bool                          // guarded by mu
	watchers atomic.Pointer[[]*subscriber] // replaced under mu, never changed
}

// subscriber is one who watches.
type subscriber struct {
	organisation, workspace string // of its key; the workspace is empty for keys of the organisation

	wanted  atomic.Pointer[logstore.Matcher]
	entries chan *reqlog.Entry
	dropped atomic.Int64
	end     chan struct{} // closed when the gateway stops
}

// Record implements [reqlog.Recorder]. It never waits.
func (t *Tail) Record(_ context.Context, e *reqlog.Entry) {
	all := t.watchers.Load()
	if all == nil {
		return
	}
	if e.Bodies != nil { // which are not told, and should not wait for watchers
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

// Close ends all watching, now and from then on.
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
	w := &subscriber{organisation: who.Organisation, workspace: who.Workspace, entries: make(chan *reqlog.Entry, tailBuffer), end: make(chan struct{})}
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

// ServeHTTP tells of entries until the client leaves, the gateway stops, or the
// caller may not see them any more.
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

// watch sends entries until the end. An error means that nothing was sent.
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

// query returns the sender of r, and its filters limited to what it may see now.
func (t *Tail) query(r *http.Request) (*access.Identity, *logstore.Query, error) {
	l := t.Logs
	who, err := l.Authenticate(r)
	if err != nil {
		return nil, nil, err
	}
	if r.Method != http.MethodGet {
		return nil, nil, apierr.New(apierr.MethodNotAllowed, "the log is watched with GET")
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

// stream sends entries that match q, whose names are resolved. What the caller may
// see is looked up again and again.
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
			ok = send(append(e.AppendJSON([]byte("event: exchange\ndata: ")), "\n\n"...)) && one.tellDropped(send)
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
			ok = one.tellDropped(send) && send([]byte(": watching\n\n"))
		case <-one.end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// tellDropped says how many entries found no room since it was last said.
func (w *subscriber) tellDropped(send func([]byte) bool) bool {
	n := w.dropped.Swap(0)
	return n == 0 || send(fmt.Appendf(nil, "event: dropped\ndata: {\"dropped\":%d}\n\n", n))
}

// unwatched are filters of a listing that say nothing of an entry to come.
var unwatched = []string{"from", "to", "cursor", "limit", "text"}

func parseTail(values url.Values) (logstore.Query, error) {
	for name := range values {
		if slices.Contains(unwatched, name) || strings.HasSuffix(name, "_min") || strings.HasSuffix(name, "_max") {
			return logstore.Query{}, bad(name, "is not a filter of what is to come; GET %s takes it", LogPath)
		}
	}
	return parseQuery(values)
}

var _ reqlog.Recorder = (*Tail)(nil)
