package caching

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

// chunkSize is the size in bytes of reads of a body that is shared, and step the
// size in which memory is reserved.
const (
	chunkSize = 16 << 10
	step      = 64 << 10
)

// sharedResponse is a response that several clients read, each at its own pace.
// What is stored is collected on the way. A stream is held as long as it may be
// stored; one that is longer is held until every reader has read it, up to
// twice the limit. Then readers that hold up others for a second in total are cut
// off; if all are slow, the provider waits.
type sharedResponse struct {
	source  *exchange.Response // until its request has ended
	head    exchange.Response  // status and length of source
	form    respcache.Form
	header  http.Header
	info    dialect.ResponseInfo // when the response began; at its end, guarded by mu
	body    []byte               // of a complete response
	held    []byte               // comments before the first event
	limit   int                  // in bytes of what is stored
	decoded int64                // Response.MaxDecoded
	model   string               // that was sent to the provider
	params  []dialect.ParamChange
	onDrop  func() // called when the response is too long to be shared with further clients

	mu      sync.Mutex
	chunks  []chunk // from number first; guarded by mu, as are the fields below
	first   int
	before  int64 // bytes before the first chunk
	written int64 // bytes so far
	readers map[*sharedReader]struct{}
	changed chan struct{} // closed at the next change; nil if nobody waits
	ended   bool
	cut     bool  // a limit of the request that made the call ended the stream
	err     error // how the stream ended; io.EOF if it is complete
	dropped bool  // the stream is too long to be stored
	paid    exchange.SettledCost
	settled bool          // paid is final
	heldUp  time.Duration // for which slow readers held up others
	memory  *bytepool.Buffer
	counted int64 // bytes that memory has reserved

	broken   sync.Once
	breaking []byte // the in-band error of a broken stream
}

// chunk is an event, or a part of a body.
type chunk struct {
	event sse.Event
	end   int64 // offset after it
	state progress
}

// progress is what the tap had read up to a chunk.
type progress struct{ begun, finished, terminated, failed bool }

// newSharedResponse returns res to be shared. The caller must call run for a
// response with events or a body.
func newSharedResponse(res *exchange.Response, limit int, pool *bytepool.Pool, share *bytepool.Share) *sharedResponse {
	s := &sharedResponse{source: res, head: exchange.Response{Status: res.Status, Length: res.Length},
		decoded: res.MaxDecoded, header: res.Header, limit: limit, readers: make(map[*sharedReader]struct{})}
	if res.Attempt != nil {
		s.model, s.params = res.Attempt.Model, slices.Clone(res.Attempt.Params)
	}
	switch {
	case res.Events != nil:
		s.form, s.held = respcache.Events, bytes.Clone(res.Events.Comments())
		if res.Events.Begun() {
			s.info = *res.Tap.Info()
		}
		s.written = int64(len(s.held))
		s.before = s.written
	case res.Bytes != nil:
		s.form, s.body, s.info = respcache.Complete, bytes.Clone(res.Bytes), *res.Tap.Info()
		s.written = int64(len(s.body))
		s.dropped = len(s.body) > limit
		s.info.Usage = res.Usage()
		s.ended, s.err = true, io.EOF
	default:
		s.form = respcache.Raw
	}
	if !s.ended {
		s.memory, _ = pool.GetShare(0, share) // without memory nothing is stored
	}
	return s
}

// run reads the response to its end, or until ctx ends.
func (s *sharedResponse) run(ctx context.Context) {
	var err error
	for err == nil {
		var c chunk
		if s.form == respcache.Events {
			if c.event, err = s.source.Events.Next(); err == nil {
				c.event = c.event.Clone()
				seen := s.source.Tap.Info()
				c.state = progress{seen.Begun, seen.Finished, seen.Terminated, seen.Failed != ""}
			}
		} else {
			buf := make([]byte, chunkSize)
			var n int
			n, err = s.source.Body.Read(buf)
			c.event.Raw = buf[:n:n]
		}
		if len(c.event.Raw) > 0 {
			s.add(ctx, c)
		}
	}
	s.end(err)
}

// add adds a chunk, once there is room for it.
func (s *sharedResponse) add(ctx context.Context, c chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written += int64(len(c.event.Raw))
	c.end = s.written
	s.chunks = append(s.chunks, c)
	if s.info.Model == "" && s.form == respcache.Events {
		s.info.Model = s.source.Tap.Info().Model
	}
	s.reserve()
	if s.dropped {
		s.trim()
	}
	s.wake()
	for s.dropped && s.written-s.before > 2*int64(s.limit) && ctx.Err() == nil {
		s.awaitRoom(ctx)
	}
}

// maxHoldUp is how long the slow readers of a response may hold up others in
// total.
const maxHoldUp = time.Second

// awaitRoom waits for the slowest readers. If others wait for them, it cuts them
// off in time. The caller must hold mu, which is released while waiting.
func (s *sharedResponse) awaitRoom(ctx context.Context) {
	slow := s.slow()
	holdUp := len(slow) > 0 && len(slow) < len(s.readers)
	if len(s.readers) == 0 || holdUp && s.heldUp >= maxHoldUp {
		for _, r := range slow {
			r.slow = true
			delete(s.readers, r)
		}
		s.trim()
		s.wake()
		return
	}
	var due <-chan time.Time
	if holdUp {
		timer := time.NewTimer(maxHoldUp - s.heldUp)
		defer timer.Stop()
		due = timer.C
	}
	changed, began := s.wait(), time.Now()
	s.pause(true)
	s.mu.Unlock()
	select {
	case <-changed:
	case <-due:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.pause(false)
	if holdUp {
		s.heldUp += time.Since(began)
	}
}

// slow returns the readers that are behind by more than the limit. The caller
// must hold mu.
func (s *sharedResponse) slow() []*sharedReader {
	var slow []*sharedReader
	for r := range s.readers {
		if s.written-r.at > int64(s.limit) {
			slow = append(slow, r)
		}
	}
	return slow
}

// pause stops or continues the idle timeout while nobody reads.
func (s *sharedResponse) pause(on bool) {
	switch {
	case s.form != respcache.Events && on:
		s.source.Pause()
	case s.form != respcache.Events:
		s.source.Resume()
	case on:
		s.source.Events.Pause()
	default:
		s.source.Events.Resume()
	}
}

// reserve counts the chunks as body memory. If there is none, or if the stream is
// too long, it is not stored. The caller must hold mu.
func (s *sharedResponse) reserve() {
	if s.dropped {
		return
	}
	full := s.written > int64(s.limit) || s.memory == nil
	if !full && s.written > s.counted {
		full = s.memory.Reserve(step) != nil
		s.counted += step
	}
	if full {
		s.dropped = true
		s.onDrop()
	}
}

// trim releases the chunks that every reader has read. The caller must hold mu.
func (s *sharedResponse) trim() {
	least := s.first + len(s.chunks)
	for r := range s.readers {
		least = min(least, r.next)
	}
	if n := least - s.first; n > 0 {
		s.before = s.chunks[n-1].end
		clear(s.chunks[:n])
		s.chunks = s.chunks[n:]
		s.first = least
	}
}

// end records how the stream ended.
func (s *sharedResponse) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	model := s.info.Model
	if s.form == respcache.Events {
		s.info = *s.source.Tap.Info()
		s.info.Usage = s.source.Usage()
	}
	if s.info.Model == "" {
		s.info.Model = model
	}
	s.ended, s.cut, s.err = true, s.source.Cut(), err
	s.wake()
}

// recordCost records what the response cost, once its call has ended.
func (s *sharedResponse) recordCost(c exchange.SettledCost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paid, s.settled = c, true
	s.wake()
}

// cost returns what the response cost, as far as that is known. If its events have
// ended, it waits for the settlement, which follows at once.
func (s *sharedResponse) cost() exchange.SettledCost {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.form == respcache.Events && s.ended && !s.settled {
		changed := s.wait()
		s.mu.Unlock()
		<-changed
		s.mu.Lock()
	}
	return s.paid
}

// wake wakes those that wait. The caller must hold mu.
func (s *sharedResponse) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait returns a channel that is closed at the next change. The caller must hold
// mu.
func (s *sharedResponse) wait() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// collected returns the complete body, or false if the response broke or is too
// long.
func (s *sharedResponse) collected() ([]byte, bool) {
	if s.form == respcache.Complete {
		return s.body, !s.dropped
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped || !s.ended || s.err != io.EOF {
		return nil, false
	}
	body := append(make([]byte, 0, s.written), s.held...)
	for _, c := range s.chunks {
		body = append(body, c.event.Raw...)
		if c.event.Unterminated {
			body = append(body, "\n\n"...)
		}
	}
	return body, true
}

// streamError returns the in-band error that ends the broken stream for every
// reader.
func (s *sharedResponse) streamError(client dialect.ClientDialect, e *apierr.Error) []byte {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if !ended { // the encoder is in use
		return client.ErrorEvent(nil, e)
	}
	s.broken.Do(func() { s.breaking = s.source.Events.Fail(nil, client, e) })
	return s.breaking
}

// headerOf returns the headers of a stored or shared response: those that
// describe its body. Others were about the first request.
func headerOf(contentType, encoding string) http.Header {
	h := make(http.Header, 2)
	if contentType != "" {
		h["Content-Type"] = []string{contentType}
	}
	if encoding != "" {
		h["Content-Encoding"] = []string{encoding}
	}
	return h
}

// storedResponse is the source of a response that another request paid for.
type storedResponse struct{}

// Release implements [exchange.Source].
func (storedResponse) Release() {}

// Pause implements [exchange.Source].
func (storedResponse) Pause() {}

// Resume implements [exchange.Source].
func (storedResponse) Resume() {}

// Cut implements [exchange.Source].
func (storedResponse) Cut() bool { return false }

// Usage implements [exchange.Source].
func (storedResponse) Usage() llm.Usage { return llm.Usage{Known: true} }
