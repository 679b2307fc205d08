package responses

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// work describes a response in the background to any node.
type work struct {
	Body     json.RawMessage `json:"body"` // of the request, as its target gets it
	Header   http.Header     `json:"header,omitempty"`
	Key      string          `json:"key"` // hash of the gateway key
	Shown    []jsonedit.Edit `json:"shown"`
	Restarts int             `json:"restarts,omitempty"` // after nodes that have died
}

// start stores a response in the background with its job, and responds with it or its
// events.
func (t *turn) start(w http.ResponseWriter, b *dataplane.BackgroundRequest) error {
	k, ctx := t.keeper, b.HTTP.Context()
	if _, err := k.deps.KeyOwner(b.Identity.Hash, t.CreatedAt); err != nil {
		return apierr.New(apierr.Invalid, "background needs a gateway key: a session or a token may end before the work does").
			WithParam("background").WithCode("background_unmanaged")
	}
	var doc jsonedit.Doc
	if err := doc.Scan(b.Body); err != nil {
		return err
	}
	c, err := t.queued(&doc, b)
	if err != nil {
		return err
	}
	if err := t.add(context.WithoutCancel(ctx), c); err != nil {
		return k.deps.DB.ClientError(err)
	}
	k.deps.Queued()
	if b.Stream {
		return k.sendEvents(w, b.HTTP, &t.Object, -1)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, err = w.Write(c.Response)
	return err
}

// queued returns the content of a response that has not begun.
func (t *turn) queued(doc *jsonedit.Doc, b *dataplane.BackgroundRequest) (*content, error) {
	c := &content{Work: &work{Key: b.Identity.Hash.String(), Shown: t.plane.Shown, Header: make(http.Header)}}
	for name, values := range b.HTTP.Header {
		if strings.HasPrefix(name, api.HeaderPrefix) && name != api.HeaderKey {
			c.Work.Header[name] = values
		}
	}
	c.Work.Body = doc.Apply(nil, jsonedit.Edit{Name: "background"}, jsonedit.Edit{Name: "store", Value: []byte("false")},
		jsonedit.Edit{Name: "stream", Value: []byte("true")})
	for _, item := range t.items {
		named, _, err := t.keeper.identify(item, false)
		if err != nil {
			return nil, err
		}
		c.Input = append(c.Input, named)
	}
	if t.conversation != nil {
		c.Conversation = t.conversation.ID
	}
	var shown jsonedit.Doc
	if err := shown.Scan(queuedResponse(doc, t.CreatedAt)); err != nil {
		return nil, err
	}
	c.Response = shown.Apply(nil, t.plane.Shown...)
	return c, nil
}

// echoed are the members of a response that repeat the request, and what they are if the
// request does not have them.
var echoed = []struct{ name, def string }{
	{"model", `null`}, {"instructions", `null`}, {"max_output_tokens", `null`}, {"metadata", `{}`}, {"parallel_tool_calls", `true`},
	{"reasoning", `{"effort":null,"summary":null}`}, {"service_tier", `null`}, {"temperature", `null`}, {"text", `{"format":{"type":"text"}}`},
	{"tool_choice", `"auto"`}, {"tools", `[]`}, {"top_p", `null`}, {"truncation", `"disabled"`}, {"user", `null`},
}

// queuedResponse returns the response object of a request whose response has not begun.
func queuedResponse(doc *jsonedit.Doc, at time.Time) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("id")
	b.Null()
	b.Name("object")
	b.String("response")
	b.Name("created_at")
	b.Int(at.Unix())
	b.Name("status")
	b.String(stateQueued)
	for _, name := range [...]string{"error", "incomplete_details", "usage"} {
		b.Name(name)
		b.Null()
	}
	b.Name("output")
	b.Raw([]byte("[]"))
	for _, e := range echoed {
		b.Name(e.name)
		if v, ok := doc.Find(e.name); ok && !v.IsNull() {
			b.Raw(v.Raw())
		} else {
			b.Raw([]byte(e.def))
		}
	}
	b.Close('}')
	return b.Bytes()
}

// add stores a response with its first events and its job.
func (t *turn) add(ctx context.Context, c *content) error {
	k := t.keeper
	key, err := k.sealing(ctx, t.Organisation)
	if err != nil {
		return err
	}
	sealed, err := c.seal(key, t.ID)
	if err != nil {
		return err
	}
	var text []byte
	for i, typ := range [...]string{"response.created", "response.queued"} {
		text = appendResponseEvent(text, typ, int64(i), c.Response)
	}
	t.State = stateQueued
	j := store.Job{ID: k.deps.NewID(), Kind: store.JobResponse, Subject: t.ID, Organisation: t.Organisation, Workspace: t.Workspace,
		NextAt: t.CreatedAt, CreatedAt: t.CreatedAt}
	return k.group.do(ctx, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.AddObject(ctx, t.Object); err != nil {
			return err
		}
		if err := tx.PutResponseContent(ctx, t.ID, sealed); err != nil {
			return err
		}
		first := store.ResponseEvents{First: 0, Last: 1, Content: key.SealMessage(text, turnBound(t.ID))}
		if err := tx.AddResponseEvents(ctx, t.ID, first); err != nil {
			return err
		}
		return tx.AddJob(ctx, j)
	})
}

// appendResponseEvent appends an event with a response object.
func appendResponseEvent(dst []byte, typ string, sequence int64, response []byte) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("type")
	b.String(typ)
	b.Name("sequence_number")
	b.Int(sequence)
	b.Name("response")
	b.Raw(response)
	b.Close('}')
	return sse.AppendEvent(dst, typ, b.Bytes())
}

// Kind returns the kind of jobs that make responses in the background; atOnce of them run
// on a node.
func (k *Keeper) Kind(atOnce int) jobs.Kind {
	return jobs.Kind{Name: store.JobResponse, Run: k.run, AtOnce: atOnce, Tries: 3}
}

// run makes a response. If its node has died, it is made again from the beginning.
func (k *Keeper) run(ctx context.Context, j *jobs.Job) error {
	db := k.deps.DB
	o, err := db.ObjectByID(ctx, j.Subject)
	if apierr.IsNotFound(err) {
		return nil // deleted
	}
	if err != nil {
		return db.ClientError(err)
	}
	c, err := k.read(ctx, &o)
	if err != nil {
		return err
	}
	if c.Work == nil || o.State != stateQueued && o.State != stateInProgress {
		return nil
	}
	m := &making{keeper: k, job: j, object: o, content: c}
	if m.key, err = k.sealing(ctx, o.Organisation); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	if err := m.run(ctx); err != nil {
		return err
	}
	return m.finish(ctx)
}

// begin stores that the response has begun, and finds the number of its next event.
func (m *making) begin(ctx context.Context) error {
	if m.object.State == stateInProgress {
		m.content.Work.Restarts++
		m.keeper.deps.Logger.Warn("a response in the background begins again", "response", m.object.ID, "restarts", m.content.Work.Restarts)
	}
	rows, err := m.keeper.deps.DB.ResponseEventsAfter(ctx, m.object.ID, -1, 1<<20)
	if err != nil {
		return m.keeper.deps.DB.ClientError(err)
	}
	for i := range rows {
		m.next = rows[i].Last + 1
	}
	sealed, err := m.content.seal(m.key, m.object.ID)
	if err != nil {
		return err
	}
	return m.job.Write(ctx, func(tx *store.Tx) error {
		m.object.State = stateInProgress
		if err := tx.UpdateObject(ctx, &m.object); err != nil {
			return err
		}
		return tx.PutResponseContent(ctx, m.object.ID, sealed)
	})
}

// run calls the plane for the response, and stores its events as they come.
func (m *making) run(ctx context.Context) error {
	w := m.content.Work
	hash, err := access.ParseHash(w.Key)
	if err != nil {
		return err
	}
	id, err := m.keeper.deps.KeyOwner(hash, m.keeper.deps.Now())
	if err != nil {
		m.fault = apierr.From(err).Message
		return nil
	}
	working := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m.keeper.running.Store(m.object.ID, stop)
	defer m.keeper.running.Delete(m.object.ID)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, api.BasePath+"/responses", bytes.NewReader(w.Body))
	if err != nil {
		return err
	}
	r.RequestURI = api.BasePath + "/responses"
	r.Header = w.Header.Clone()
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	r.Header.Set("Content-Type", "application/json")
	call := &dataplane.Call{Identity: id}
	ends := m.storePeriodically(ctx, stop)
	m.keeper.deps.Call(m, r, call)
	stop()
	ends()
	if m.lost != nil {
		return m.lost
	}
	if !m.ended {
		return context.Cause(working) // another node makes it
	}
	return nil
}

// storePeriodically stores the events that have come until ctx ends; the result waits for
// the end. If the job is lost, it stops the work.
func (m *making) storePeriodically(ctx context.Context, stop func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(storeEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := m.store(ctx); err != nil {
				m.mu.Lock()
				m.lost = err
				m.mu.Unlock()
				stop()
				return
			}
		}
	}()
	return func() { <-done }
}

// storeEvery is the interval in which events are stored, so that clients that have joined
// see them.
const storeEvery = 100 * time.Millisecond

// store stores the events that have come since the last call.
func (m *making) store(ctx context.Context) error {
	e, ok := m.takeEvents()
	if !ok {
		return nil
	}
	err := m.job.Write(ctx, func(tx *store.Tx) error { return tx.AddResponseEvents(ctx, m.object.ID, e) })
	if err == nil {
		m.keeper.changes.announce()
	}
	return err
}

// finish stores the end of the response.
func (m *making) finish(ctx context.Context) error {
	if !m.ended {
		m.fail()
	}
	state := textOfResponse(m.content.Response, "status")
	if m.content.Work.Restarts > 0 {
		m.content.Response = withRestarts(m.content.Response, m.content.Work.Restarts)
	}
	restarts := m.content.Work.Restarts
	m.content.Work = &work{Restarts: restarts}
	sealed, err := m.content.seal(m.key, m.object.ID)
	if err != nil {
		return err
	}
	appended, err := m.appended(ctx, state)
	if err != nil {
		return err
	}
	e, hasEvents := m.takeEvents()
	err = m.job.Finish(ctx, func(tx *store.Tx) error {
		o := m.object
		o.State, o.EndedAt, o.UpdatedAt = state, m.keeper.deps.Now(), m.keeper.deps.Now()
		if err := tx.UpdateObject(ctx, &o); err != nil {
			return err
		}
		if err := tx.PutResponseContent(ctx, o.ID, sealed); err != nil {
			return err
		}
		if err := m.content.putItems(ctx, tx, &o); err != nil {
			return err
		}
		if hasEvents {
			if err := tx.AddResponseEvents(ctx, o.ID, e); err != nil {
				return err
			}
		}
		if err := appended(ctx, tx); err != nil {
			return err
		}
		return tx.EmitEvent(ctx, store.Event{
			Organisation: o.Organisation, Workspace: o.Workspace, Type: "response." + state, Object: o.ID, Time: o.EndedAt,
		})
	})
	m.keeper.deps.Queued()
	m.keeper.changes.announce()
	return err
}

// appended returns the change that adds the items of an ended response to its conversation.
func (m *making) appended(ctx context.Context, state string) (change, error) {
	none := func(context.Context, *store.Tx) error { return nil }
	if m.content.Conversation == "" || state != stateCompleted && state != stateIncomplete {
		return none, nil
	}
	o, err := m.keeper.deps.DB.ObjectByID(ctx, m.content.Conversation)
	if apierr.IsNotFound(err) || err == nil && !hasContent(&o) { // deleted in the meantime
		return none, nil
	}
	if err != nil {
		return nil, m.keeper.deps.DB.ClientError(err)
	}
	t := turn{keeper: m.keeper, conversation: &o}
	return t.append(m.key, append(append([]json.RawMessage(nil), m.content.Input...), output(m.content.Response)...)), nil
}
