package tools

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
)

// watch is a stream on which a client receives what servers send by themselves. Changes of
// lists are reported only if the client's list differs, so that a server cannot make all clients
// read lists again and again.
type watch struct {
	request *request
	kinds   []*listKind // whose changes the client receives
	uris    map[string]subscription
	tasks   map[string]subscription // by the id that the client knows
	events  chan watchEvent
	// following are the servers whose streams are read, by id.
	following map[string]followed
	readers   sync.WaitGroup
	seen      map[*listKind][sha256.Size]byte
	dirty     map[*listKind]bool
}

// subscription is a resource or a task that a client of the modern era subscribes to.
type subscription struct {
	server *toolserver.Server
	item   toolserver.Item // the resource, or the tool of the task
	inner  string          // URI or id at the server
}

// followed is a server whose stream is read until stop is called.
type followed struct {
	place string
	stop  context.CancelFunc
}

// watchEvent is a message of a server, or that it has accepted what is watched.
type watchEvent struct {
	relay *relay
	msg   []byte // nil if the server has accepted
	uris  []string
	tasks []string
}

// Times of watching.
const (
	settleTime   = 200 * time.Millisecond // after a change of a list, in which others are joined to it
	recheckTime  = 5 * time.Second        // between looks at what the caller may do
	acceptTime   = 3 * time.Second        // for servers to accept what is watched
	minReconnect = time.Second
	maxReconnect = time.Minute
)

// listen serves the stream of a session of the legacy era.
func (x *request) listen() error {
	if x.http.Header.Get(headerSession) == "" && x.OldTransport && acceptsEvents(x.http) {
		return serveOldStream(x)
	}
	if x.http.Header.Get(headerSession) == "" || !acceptsEvents(x.http) {
		return errMethod
	}
	if problem := x.findSession(); problem != nil {
		return x.reject(nil, problem)
	}
	if err := x.tools.Count(x.http.Context()); err != nil {
		return err
	}
	return watchAll(x)
}

// watchAll serves a stream of the legacy era, on which everything is reported.
func watchAll(x *request) error {
	w := &watch{request: x}
	for i := range listKinds[:3] {
		w.kinds = append(w.kinds, &listKinds[i])
	}
	return w.run(nil)
}

// subscribeAll serves subscriptions/listen.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
func (x *request) subscribeAll() error {
	filter, _ := x.msg.params.Find("notifications")
	if filter.Kind() != jsonedit.Object {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidParams, "params must have notifications"))
	}
	if !x.answer.events {
		return x.reject(x.msg.id, newError(jsonrpc.InvalidRequest, "the request must accept text/event-stream"))
	}
	w := &watch{request: x, uris: map[string]subscription{}, tasks: map[string]subscription{}}
	for i, name := range [...]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"} {
		if v, ok := filter.Get(name); ok {
			if wanted, _ := v.Bool(); wanted {
				w.kinds = append(w.kinds, &listKinds[i])
			}
		}
	}
	list, _ := filter.Get("resourceSubscriptions")
	for e := range list.Elements() {
		uri, ok := e.Text()
		server, inner, found := x.findResource(uri)
		item := toolserver.Item{Kind: toolserver.Resource, Name: inner}
		if ok && found && len(w.uris) < maxSubscriptions && x.view.selects(server, item) {
			w.uris[uri] = subscription{server, item, inner}
		}
	}
	if ids, ok := filter.Get("taskIds"); ok {
		if !declaresTasks(x) {
			return x.reject(x.msg.id, errNoTasks)
		}
		w.addTasks(ids)
	}
	return w.run(x.msg.id)
}

const maxSubscriptions = 1000

// run serves the stream. id is that of the request of the modern era, nil in the legacy one.
func (w *watch) run(id []byte) error {
	leave, ok := w.request.running.enter(callerOf(w.request.tools.Identity))
	if !ok {
		return errStreams
	}
	defer leave()
	ctx, cancel := context.WithCancel(w.request.http.Context())
	defer w.readers.Wait()
	defer cancel()
	w.events, w.seen, w.dirty = make(chan watchEvent), make(map[*listKind][sha256.Size]byte), make(map[*listKind]bool)
	w.following = make(map[string]followed)
	w.followView(ctx)
	signIns, stop := w.awaitSignIns(id)
	defer stop()
	if id == nil {
		if err := w.request.answer.open(); err != nil {
			return err
		}
	} else if err := w.acknowledge(ctx, id); err != nil {
		return err
	}
	for _, k := range w.kinds {
		w.seen[k] = w.digest(k)
	}
	settle := time.NewTimer(time.Hour)
	defer settle.Stop()
	recheck := time.NewTicker(recheckTime)
	defer recheck.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			w.request.answer.close()
			return nil
		case <-w.request.draining: // clients connect to another node
			if id != nil {
				return w.request.answer.end(jsonrpc.Response(id, "result", w.ending(id)), http.StatusOK)
			}
			w.request.answer.close()
			return nil
		case e := <-w.events:
			if k, changed := w.listOf(e.msg); changed {
				w.dirty[k] = true
				w.forget(e.relay, k)
				settle.Reset(settleTime)
			} else if e.msg != nil {
				err = w.forward(ctx, e, id)
			}
		case <-settle.C:
			err = w.reportChanges(id)
		case <-recheck.C:
			err = w.recheck(ctx, id)
		case s := <-signIns.begun:
			signIns.add(s)
		case <-signIns.timer.C:
			err = w.reportSignIns(ctx, signIns)
		}
		if err != nil {
			return err
		}
	}
}

// errStreams is the error for a caller with too many open streams.
var errStreams = apierr.New(apierr.RateLimited, "the key has %d open streams to tool servers on this node; close one of them", maxStreams).
	WithCode("too_many_streams")

// followView reads the streams of the servers of the view, and no others.
func (w *watch) followView(ctx context.Context) {
	keep := make(map[string]bool)
	for _, s := range w.request.view.servers {
		keep[s.ID] = true
		place := s.Place()
		if f, ok := w.following[s.ID]; ok {
			if f.place == place {
				continue
			}
			f.stop()
		}
		own, stop := context.WithCancel(ctx)
		w.following[s.ID] = followed{place, stop}
		by := w.request.caller()
		w.readers.Go(func() { w.follow(own, s, by) })
	}
	for id, f := range w.following {
		if !keep[id] {
			f.stop()
			delete(w.following, id)
		}
	}
}

// ending returns the result that ends a subscription.
func (w *watch) ending(id []byte) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("resultType")
	b.String("complete")
	b.Name("_meta")
	b.Open('{')
	b.Name(metaSubscription)
	b.Raw(id)
	b.Name(metaServer)
	w.request.serverInfo(&b)
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// acknowledge waits for the servers and says what is watched: the first message.
func (w *watch) acknowledge(ctx context.Context, id []byte) error {
	waiting := make(map[string]bool)
	for _, list := range [...]map[string]subscription{w.uris, w.tasks} {
		for _, s := range list {
			waiting[s.server.ID] = true
		}
	}
	accepted, tasks := make(map[string]bool), make(map[string]bool)
	timeout := time.NewTimer(acceptTime)
	defer timeout.Stop()
	for late := false; len(waiting) > 0 && !late; {
		select {
		case e := <-w.events:
			if e.msg == nil {
				delete(waiting, e.relay.server.ID)
				for _, uri := range e.uris {
					accepted[uri] = true
				}
				for _, id := range e.tasks {
					tasks[id] = true
				}
			}
		case <-timeout.C:
			late = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var b jsonedit.Builder
	b.Open('{')
	b.Name("notifications")
	b.Open('{')
	for i, name := range [...]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"} {
		if slices.Contains(w.kinds, &listKinds[i]) {
			b.Name(name)
			b.Bool(true)
		}
	}
	addNames(&b, "resourceSubscriptions", sortedKeys(accepted))
	addNames(&b, "taskIds", sortedKeys(tasks))
	b.Close('}')
	b.Close('}')
	return w.notice("notifications/subscriptions/acknowledged", b.Bytes(), id)
}

// notice sends a notification to the client. params may be nil.
func (w *watch) notice(method string, params, id []byte) error {
	var doc jsonedit.Doc
	if params == nil {
		params = []byte("{}")
	}
	if err := doc.Scan(params); err != nil {
		return err
	}
	if id != nil {
		params = tag(&doc, id)
	}
	var b jsonedit.Builder
	b.Open('{')
	b.Name("jsonrpc")
	b.String("2.0")
	b.Name("method")
	b.String(method)
	if id != nil || len(params) > 2 {
		b.Name("params")
		b.Raw(params)
	}
	b.Close('}')
	return w.request.answer.send(b.Bytes())
}

// tag returns parameters with the id of the subscription that they belong to.
func tag(params *jsonedit.Doc, id []byte) []byte {
	var meta jsonedit.Doc
	if v, ok := params.Find("_meta"); !ok || meta.Scan(v.Raw()) != nil {
		meta.Reset()
	}
	return params.Apply(nil, jsonedit.Edit{Name: "_meta", Value: apply(&meta, []jsonedit.Edit{{Name: metaSubscription, Value: id}})})
}

// listOf returns the list that a notification is about, if it is one that the client
// watches.
func (w *watch) listOf(msg []byte) (*listKind, bool) {
	var doc jsonedit.Doc
	if msg == nil || doc.Scan(msg) != nil {
		return nil, false
	}
	m, _ := doc.Find("method")
	for i := range listKinds {
		if m.IsText("notifications/" + listKinds[i].member + "/list_changed") {
			return &listKinds[i], true
		}
	}
	return nil, false
}

func (w *watch) forget(r *relay, k *listKind) {
	w.request.catalogue.forget(r.server, r.cred, k)
	if k.kind == toolserver.Resource {
		w.request.catalogue.forget(r.server, r.cred, kindOf(toolserver.Template))
	}
}

// digest identifies what the client sees of a list.
func (w *watch) digest(k *listKind) [sha256.Size]byte {
	sum := sha256.New()
	kinds := []*listKind{k}
	if k.kind == toolserver.Resource {
		kinds = append(kinds, kindOf(toolserver.Template))
	}
	for _, k := range kinds {
		for _, i := range w.request.visible(k, w.request.gather(k)) {
			sum.Write([]byte(i.name + "\x00" + i.digest + "\x00"))
		}
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// reportChanges tells the client which of the lists that may have changed are different.
func (w *watch) reportChanges(id []byte) error {
	for _, k := range w.kinds {
		if !w.dirty[k] {
			continue
		}
		delete(w.dirty, k)
		now := w.digest(k)
		if now == w.seen[k] {
			continue
		}
		w.seen[k] = now
		if err := w.notice("notifications/"+k.member+"/list_changed", nil, id); err != nil {
			return err
		}
	}
	return nil
}

// recheck ends the stream of a caller who may no longer use tools, and applies what has been
// changed in the meantime.
func (w *watch) recheck(ctx context.Context, id []byte) error {
	changed, err := w.request.tools.Refresh()
	if err != nil || !changed {
		return err
	}
	v, err := viewOf(w.request.tools, w.request.PlainNames)
	if err != nil {
		return err
	}
	w.request.view = v
	w.followView(ctx)
	for _, k := range w.kinds {
		w.dirty[k] = true
	}
	return w.reportChanges(id)
}
