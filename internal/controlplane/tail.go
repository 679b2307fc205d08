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
	tailPulse         = 15 * time.Second // between signs of life
	tailLook          = time.Second      // between checks of whether a watcher still may
	tailStall         = 30 * time.Second // for a watcher that takes nothing
)

// Tail tells watchers of exchanges as they end: each of those that it may see in
// the log, and that its filters want. A watcher that is slow loses entries and
// is told how many. It is an http.Handler for TailPath and safe for concurrent use.
type Tail struct {
	Logs *Logs

	mu       sync.Mutex
	closed   bool                       // guarded by mu
	watchers atomic.Pointer[[]*watcher] // replaced under mu, never changed
}

// watcher is one who watches.
type watcher struct {
	organisation, workspace string // of its key; the workspace is empty for keys of the organisation

	wanted  atomic.Pointer[wanted]
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
		if !w.wanted.Load().matches(e) {
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

func (t *Tail) join(who *access.Identity, first *wanted) (*watcher, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*watcher
	if old := t.watchers.Load(); old != nil {
		all = *old
	}
	if t.closed || len(all) >= maxWatchers {
		e := apierr.New(apierr.Unavailable, "as many watch the log as may, or the gateway stops; try again shortly").WithCode("too_many_watchers")
		e.RetryAfter = tailPulse
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
		e.RetryAfter = tailPulse
		return nil, e
	}
	w := &watcher{organisation: who.Organisation, workspace: who.Workspace, entries: make(chan *reqlog.Entry, tailBuffer), end: make(chan struct{})}
	w.wanted.Store(first)
	all = append(slices.Clone(all), w)
	t.watchers.Store(&all)
	return w, nil
}

func (t *Tail) leave(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(*t.watchers.Load()), func(o *watcher) bool { return o == w })
	if len(left) == 0 {
		t.watchers.Store(nil)
		return
	}
	t.watchers.Store(&left)
}

// ServeHTTP tells of entries until the client leaves, the gateway stops, or the
// caller may not see them any more.
func (t *Tail) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, first, err := t.judge(r)
	if err == nil && readsAcross(who) {
		err = t.Logs.auditAcross(r.Context(), who, r, "")
	}
	if err == nil {
		var one *watcher
		if one, err = t.join(who, first); err == nil {
			defer t.leave(one)
			t.tell(w, r, one)
			return
		}
	}
	e := apierr.From(t.Logs.DB.Explain(err))
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

// judge returns the sender of r, and what it wants and may see now.
func (t *Tail) judge(r *http.Request) (*access.Identity, *wanted, error) {
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
	err = l.limit(r.Context(), who, &q.Query, access.ScopeLogsList.Right())
	if readsAcross(who) {
		q.Scope = everything
	}
	return who, q, err
}

func (t *Tail) tell(w http.ResponseWriter, r *http.Request, one *watcher) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(w)
	send := func(b []byte) bool {
		rc.SetWriteDeadline(time.Now().Add(tailStall))
		_, err := w.Write(b)
		if err == nil {
			err = rc.Flush()
		}
		inbound.BodyOf(r).ResponseBegun()
		return err == nil
	}
	ok := send([]byte(": watching\n\n"))
	pulse := time.NewTicker(tailPulse)
	defer pulse.Stop()
	look := time.NewTicker(tailLook)
	defer look.Stop()
	for ok {
		select {
		case e := <-one.entries:
			ok = send(append(e.AppendJSON([]byte("event: exchange\ndata: ")), "\n\n"...)) && one.tellDropped(send)
		case <-look.C:
			_, now, err := t.judge(r)
			if err != nil {
				return
			}
			one.wanted.Store(now)
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
func (w *watcher) tellDropped(send func([]byte) bool) bool {
	n := w.dropped.Swap(0)
	return n == 0 || send(fmt.Appendf(nil, "event: dropped\ndata: {\"dropped\":%d}\n\n", n))
}

// wanted is what a watcher wants of what it may see.
type wanted struct {
	logstore.Query
	low, high int // status, both in
}

// unwatched are filters of a listing that say nothing of an entry to come.
var unwatched = []string{"from", "to", "cursor", "limit", "text"}

func parseTail(values url.Values) (*wanted, error) {
	for name := range values {
		if slices.Contains(unwatched, name) || strings.HasSuffix(name, "_min") || strings.HasSuffix(name, "_max") {
			return nil, bad(name, "is not a filter of what is to come; GET %s takes it", LogPath)
		}
	}
	q, err := parseQuery(values)
	if err != nil {
		return nil, err
	}
	w := &wanted{Query: q, high: 999}
	if q.Status == "" {
		return w, nil
	}
	digits, class := strings.CutSuffix(q.Status, "xx")
	n, err := strconv.ParseUint(digits, 10, 10)
	switch {
	case err == nil && class && len(digits) == 1:
		w.low, w.high = int(n)*100, int(n)*100+99
	case err == nil && !class && n <= 999:
		w.low, w.high = int(n), int(n)
	default:
		return nil, bad("status", "takes a number such as 429 or a class such as 5xx")
	}
	return w, nil
}

// matches reports whether e is wanted, as a listing would.
func (w *wanted) matches(e *reqlog.Entry) bool {
	if w.Scope.Keys != nil && !slices.Contains(w.Scope.Keys, e.KeyID) {
		return false
	}
	if e.Status < w.low || e.Status > w.high || e.Total < w.MinLatency || w.Stream != nil && *w.Stream != e.Stream {
		return false
	}
	for _, pair := range [...][2]string{
		{w.Scope.Organisation, e.Organisation}, {w.Scope.Workspace, e.Workspace}, {w.Workspace, e.Workspace}, {w.Model, e.Model},
		{w.Provider, e.Provider}, {w.KeyID, e.KeyID}, {w.Config, e.Config}, {w.TraceID, e.TraceID}, {string(w.Operation), string(e.Operation)},
	} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	for key, value := range w.Metadata {
		if v, ok := e.Metadata[key]; !ok || v != value {
			return false
		}
	}
	return true
}

var _ reqlog.Recorder = (*Tail)(nil)
