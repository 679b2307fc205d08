package tools

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// follow passes what a server sends by itself to the watch until ctx ends. A server without
// such a stream is not asked again.
func (w *watch) follow(ctx context.Context, s *toolserver.Server, by caller) {
	wait := minReconnect
	for {
		began := time.Now()
		r := &relay{request: w.request, server: s}
		err := w.readStream(ctx, r, by)
		f, failed := errors.AsType[*peer.Failure](err)
		switch {
		case ctx.Err() != nil:
			return
		case failed && (f.Status == http.StatusMethodNotAllowed || f.Kind == peer.Refused || f.Kind == peer.Unauthorized):
			w.pass(ctx, watchEvent{relay: r})
			return
		case errors.Is(err, errNothingToWatch):
			return
		case failed && f.Kind == peer.SessionLost && r.held:
			w.request.sessions.lose(r.key(), r.session)
		}
		if time.Since(began) > maxReconnect {
			wait = minReconnect
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = min(2*wait, maxReconnect)
	}
}

var errNothingToWatch = errors.New("nothing to watch")

// pass gives the watch an event.
func (w *watch) pass(ctx context.Context, e watchEvent) error {
	select {
	case w.events <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readStream follows one stream of a server.
func (w *watch) readStream(ctx context.Context, r *relay, by caller) error {
	var err error
	if r.cred, err = w.request.credentialOf(ctx, r.server, by); err != nil {
		return err
	}
	if r.era, err = w.request.Peers.Era(ctx, r.server, r.cred); err != nil {
		return err
	}
	var reply peer.Reply
	var uris []string
	if r.era == peer.Modern {
		reply, err = w.request.Peers.Send(ctx, w.listenCall(r))
	} else {
		if err = r.openSession(ctx); err != nil {
			return err
		}
		uris = w.subscribeLegacy(ctx, r)
		reply, err = w.listenLegacy(ctx, r)
		if f, ok := errors.AsType[*peer.Failure](err); ok && f.Kind == peer.SessionLost && !r.held {
			r.held = true
			if err = r.openSession(ctx); err == nil {
				reply, err = w.listenLegacy(ctx, r)
			}
		}
	}
	if err != nil {
		return err
	}
	defer reply.Close()
	if r.era == peer.Legacy {
		if err := w.pass(ctx, watchEvent{relay: r, uris: uris}); err != nil {
			return err
		}
	}
	for {
		msg, err := reply.Next()
		if err != nil {
			return err
		}
		e := watchEvent{relay: r, msg: bytes.Clone(msg)}
		if accepted, ok := w.acceptedBy(r, msg); ok {
			e = accepted
		}
		if err := w.pass(ctx, e); err != nil {
			return err
		}
	}
}

// listenLegacy opens the stream of a session of a server.
func (w *watch) listenLegacy(ctx context.Context, r *relay) (peer.Reply, error) {
	return w.request.Peers.Listen(ctx, &peer.Call{Server: r.server, Credential: r.cred, Client: w.request.client, Session: r.session})
}

// listenCall returns the request by which a server of the modern era is watched.
func (w *watch) listenCall(r *relay) *peer.Call {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("notifications")
	b.Open('{')
	for i, name := range [...]string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"} {
		for _, k := range w.kinds {
			if k == &listKinds[i] {
				b.Name(name)
				b.Bool(true)
			}
		}
	}
	addNames(&b, "resourceSubscriptions", innerNames(w.uris, r.server))
	addNames(&b, "taskIds", innerNames(w.tasks, r.server))
	b.Close('}')
	b.Name("_meta")
	b.Raw(modernMeta(w.request.client))
	b.Close('}')
	return &peer.Call{Server: r.server, Credential: r.cred, Client: w.request.client, Method: "subscriptions/listen",
		Message: w.request.sessions.request("subscriptions/listen", b.Bytes())}
}

// addNames adds a member with a list, unless it is empty.
func addNames(b *jsonedit.Builder, member string, names []string) {
	if len(names) == 0 {
		return
	}
	b.Name(member)
	b.Open('[')
	for _, name := range names {
		b.String(name)
	}
	b.Close(']')
}

func sortedKeys(m map[string]bool) []string {
	out := make([]string, 0, len(m))
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// innerNames returns the names at a server of what is subscribed to there.
func innerNames(list map[string]subscription, s *toolserver.Server) (names []string) {
	for _, i := range list {
		if i.server.ID == s.ID {
			names = append(names, i.inner)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// outerNames returns the names by which the client knows those of a list of a server.
func outerNames(list map[string]subscription, s *toolserver.Server, from jsonedit.Value) (names []string) {
	for e := range from.Elements() {
		inner, _ := e.Text()
		for outer, i := range list {
			if i.server.ID == s.ID && i.inner == inner {
				names = append(names, outer)
			}
		}
	}
	return names
}

// subscribeLegacy subscribes to resources of a server of the legacy era, and returns those
// that it accepts as the client names them.
func (w *watch) subscribeLegacy(ctx context.Context, r *relay) (uris []string) {
	for uri, s := range w.uris {
		if s.server.ID != r.server.ID {
			continue
		}
		params := append(jsonedit.AppendString([]byte(`{"uri":`), s.inner), '}')
		reply, err := w.request.Peers.Send(ctx, &peer.Call{Server: r.server, Credential: r.cred, Client: w.request.client,
			Session: r.session, Method: "resources/subscribe", Message: w.request.sessions.request("resources/subscribe", params)})
		if err != nil {
			continue
		}
		if _, err := readResult(reply); err == nil {
			uris = append(uris, uri)
		}
	}
	return uris
}

// acceptedBy returns what a server of the modern era says it watches.
func (w *watch) acceptedBy(r *relay, msg []byte) (e watchEvent, ok bool) {
	var doc jsonedit.Doc
	if r.era != peer.Modern || doc.Scan(msg) != nil {
		return e, false
	}
	if m, _ := doc.Find("method"); !m.IsText("notifications/subscriptions/acknowledged") {
		return e, false
	}
	params, _ := doc.Find("params")
	filter, _ := params.Get("notifications")
	uris, _ := filter.Get("resourceSubscriptions")
	tasks, _ := filter.Get("taskIds")
	return watchEvent{relay: r, uris: outerNames(w.uris, r.server, uris), tasks: outerNames(w.tasks, r.server, tasks)}, true
}
