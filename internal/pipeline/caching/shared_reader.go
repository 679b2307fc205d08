package caching

import (
	"context"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

// sharedReader reads a shared response for one client. It is used by one
// goroutine. It implements [exchange.Stream] for streams and io.Reader for bodies.
type sharedReader struct {
	s    *sharedResponse
	ctx  context.Context
	rest []byte               // of the chunk being read, of a body
	seen dialect.ResponseInfo // what this client has read

	// finish ends the part of the request that makes the call, and waits for the
	// call. It is nil for other readers.
	finish func()
	free   bool // another request pays for the call

	next int   // number of the next chunk; guarded by s.mu, as are the fields below
	at   int64 // bytes read
	slow bool  // it was cut off
}

// open adds a reader. It returns nil if the beginning of the response is not
// held any more.
func (s *sharedResponse) open(ctx context.Context) *sharedReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first > 0 {
		return nil
	}
	r := &sharedReader{s: s, ctx: ctx, at: int64(len(s.held)), seen: dialect.ResponseInfo{Model: s.info.Model}}
	if s.form == respcache.Complete {
		r.seen = s.info
	}
	s.readers[r] = struct{}{}
	return r
}

// close ends reading.
func (r *sharedReader) close() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	delete(r.s.readers, r)
	if s := r.s; len(s.readers) == 0 && s.ended && s.memory != nil {
		s.memory.Release()
		s.memory = nil
	}
	r.s.wake()
}

// Release implements [exchange.Source].
func (*sharedReader) Release() {}

// Usage implements [exchange.Source]: it returns the usage of the call, once it has ended.
func (r *sharedReader) Usage() llm.Usage {
	if r.free {
		return llm.Usage{Known: true}
	}
	r.finish()
	if r.s.form == respcache.Raw { // the client's side reads the tap
		return r.s.source.Usage()
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.info.Usage
}

// Cut implements [exchange.Source]: it reports whether a limit of the request that made the
// call ended the response.
func (r *sharedReader) Cut() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.cut
}

// chunk returns the next chunk, once there is one. The error is how the response
// ended.
func (r *sharedReader) chunk() (chunk, error) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case r.slow:
			return chunk{}, apierr.New(apierr.Unavailable, "the client reads too slowly for a response that it shares with others; send the request again").WithCode("slow_client")
		case r.next-s.first < len(s.chunks):
			c := s.chunks[r.next-s.first]
			r.next++
			r.at = c.end
			if s.dropped {
				s.trim()
				s.wake()
			}
			return c, nil
		case s.ended:
			r.seen = s.info
			return chunk{}, s.err
		}
		changed := s.wait()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-r.ctx.Done():
		}
		s.mu.Lock()
		if r.ctx.Err() != nil {
			return chunk{}, apierr.New(apierr.ClientGone, "the client closed the request").WithCause(context.Cause(r.ctx))
		}
	}
}

// Next implements [exchange.Stream].
func (r *sharedReader) Next() (sse.Event, error) {
	c, err := r.chunk()
	if err != nil {
		return sse.Event{}, err
	}
	r.seen.Begun, r.seen.Finished, r.seen.Terminated = c.state.begun, c.state.finished, c.state.terminated
	if c.state.failed {
		r.seen.Failed = "the stream has an error"
	}
	return c.event, nil
}

// More implements [exchange.Stream].
func (r *sharedReader) More() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.next-r.s.first < len(r.s.chunks)
}

// Begun implements [exchange.Stream].
func (*sharedReader) Begun() bool { return true }

// Comments implements [exchange.Stream].
func (r *sharedReader) Comments() []byte { return r.s.held }

// Pause implements [exchange.Stream]. A slow client holds up others; see [sharedResponse].
func (*sharedReader) Pause() {}

// Resume implements [exchange.Stream] and [exchange.Source].
func (*sharedReader) Resume() {}

// Fail implements [exchange.Stream].
func (r *sharedReader) Fail(dst []byte, client dialect.ClientDialect, e *apierr.Error) []byte {
	return append(dst, r.s.streamError(client, e)...)
}

// Read implements io.Reader.
func (r *sharedReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		c, err := r.chunk()
		if err != nil {
			return 0, err
		}
		r.rest = c.event.Raw
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// sharedTap is the tap of a reader: the response was read by another one.
type sharedTap struct{ r *sharedReader }

func (sharedTap) Body([]byte)                   {}
func (sharedTap) Event(sse.Event)               {}
func (t sharedTap) Info() *dialect.ResponseInfo { return &t.r.seen }

// response returns the response for the reader's client. tap reads a body that
// streams through.
func (r *sharedReader) response(a *exchange.Attempt, h http.Header, tap dialect.Tap) *exchange.Response {
	s := r.s
	out := &exchange.Response{Status: s.head.Status, Header: h, Attempt: a, Tap: sharedTap{r}, Length: -1, MaxDecoded: s.decoded, Source: r}
	switch s.form {
	case respcache.Complete:
		out.Bytes, out.Length = s.body, s.head.Length
	case respcache.Events:
		out.Events = r
	default:
		out.Body, out.Length, out.Tap = r, s.head.Length, tap
	}
	return out
}
