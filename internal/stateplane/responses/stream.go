package responses

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/format/sse"
	"modelgate/internal/store"
)

// Intervals of a stream that is joined.
const (
	pollEvery  = 500 * time.Millisecond // another node may make the response
	commentAll = 15 * time.Second       // of silence
	rowsAtOnce = 64
)

// changes tells the streams of this node that events were stored. It is safe for concurrent
// use.
type changes struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next change; guarded by mu
}

// wait returns a channel that the next change closes.
func (c *changes) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

func (c *changes) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// rejoin streams the events of a response in the background that follow a sequence number.
func (q *request) rejoin(o *store.Object, after int64) error {
	c, err := q.keeper.read(q.HTTP.Context(), o)
	if err != nil {
		return err
	}
	if c.Work == nil {
		return apierr.New(apierr.Invalid, "only a response that was created with background can be streamed again; read it without stream").WithParam("stream")
	}
	return q.keeper.sendEvents(q.W, q.HTTP, o, after)
}

// eventStream sends the events of a response to a client.
type eventStream struct {
	keeper *Keeper
	object *store.Object
	key    *secret.DataKey
	w      http.ResponseWriter
	flush  *http.ResponseController
	after  int64 // sequence number of the last event that was sent
	ended  bool  // that event ends the response
}

// sendEvents sends the events after a sequence number until the response has ended.
func (k *Keeper) sendEvents(w http.ResponseWriter, r *http.Request, o *store.Object, after int64) error {
	ctx := r.Context()
	key, err := k.sealing(ctx, o.Organisation)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &eventStream{keeper: k, object: o, key: key, w: w, flush: http.NewResponseController(w), after: after}
	quiet := time.Now()
	for {
		changed := k.changes.wait() // before reading, so that none is missed
		sent, err := s.send(ctx)
		switch {
		case err != nil:
			return err
		case s.ended:
			return nil
		case sent:
			quiet = time.Now()
			continue
		}
		if time.Since(quiet) > commentAll {
			quiet = time.Now()
			if err := s.write(sse.AppendComment(nil, "keep-alive")); err != nil {
				return err
			}
		}
		poll := time.NewTimer(pollEvery)
		select {
		case <-ctx.Done():
			poll.Stop()
			return context.Cause(ctx)
		case <-changed:
			poll.Stop()
		case <-poll.C:
		}
	}
}

// send sends the events that have come since the last call, and reports whether there were
// any.
func (s *eventStream) send(ctx context.Context) (sent bool, err error) {
	db := s.keeper.deps.DB
	o, err := db.Object(ctx, s.object.Workspace, store.ObjectResponse, s.object.ID) // before its events: none follows the end
	if err != nil {
		return false, db.ClientError(err)
	}
	rows, err := db.ResponseEventsAfter(ctx, o.ID, s.after, rowsAtOnce)
	if err != nil {
		return false, db.ClientError(err)
	}
	for i := range rows {
		if err := s.row(&rows[i]); err != nil {
			return false, err
		}
	}
	if len(rows) == 0 && !o.EndedAt.IsZero() {
		return true, s.end(ctx, &o)
	}
	return len(rows) > 0, nil
}

// row sends the events of a row that the client does not have.
func (s *eventStream) row(r *store.ResponseEvents) error {
	plain, err := s.key.OpenMessage(r.Content, turnBound(s.object.ID))
	if err != nil {
		return err
	}
	var out []byte
	events := sse.NewReader(bytes.NewReader(plain), len(plain)+1)
	for n := r.First; ; n++ {
		e, err := events.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if n > s.after {
			out, s.after, s.ended = append(out, e.Raw...), n, isEnd(string(e.Type))
		}
	}
	return s.write(out)
}

// end sends the end of a response whose node did not send it: it was cancelled, or has
// failed.
func (s *eventStream) end(ctx context.Context, o *store.Object) error {
	s.ended = true
	if o.State != stateCancelled && o.State != stateFailed {
		return nil // the client has all of its events
	}
	c, err := s.keeper.read(ctx, o)
	if err != nil {
		return err
	}
	if status := textOfResponse(c.Response, "status"); status == o.State {
		return nil
	}
	return s.write(appendResponseEvent(nil, "response."+o.State, s.after+1, endedResponse(o, c.Response)))
}

func (s *eventStream) write(b []byte) error {
	if _, err := s.w.Write(b); err != nil {
		return apierr.New(apierr.ClientGone, "the client has left")
	}
	if err := s.flush.Flush(); err != nil {
		return apierr.New(apierr.ClientGone, "the client has left")
	}
	return nil
}
