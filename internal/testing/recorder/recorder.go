// Package recorder provides a simulator that records its requests, for tests.
//
// It guarantees that a request is recorded as it was sent, and that everything it
// returns is a copy. It is not part of the program; see [simulator] for the
// responses.
package recorder

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"modelgate/internal/simulator"
)

// Options are the settings of a recorder. The zero value counts requests and
// records none.
type Options struct {
	simulator.Options
	// Record is the number of recorded requests. Zero means none.
	Record int
	// Check, if not nil, is called for every request before the simulator sees it,
	// with its complete body. An error becomes the message of a 403 response.
	// Requests with an AWS signature in Authorization need no Key then. It may be
	// called concurrently.
	Check func(r *http.Request, body []byte) error
}

// Request is a recorded request.
type Request struct {
	Method string
	URI    string // as in the request line
	Header http.Header
	Body   []byte // the first MiB
	Size   int64  // of the body, as far as it was read
	SHA256 string // of the body, as far as it was read, in hex
	Time   time.Time
	// Canceled is true if the client disconnected before the end, which was
	// noticed at CanceledAt.
	Canceled   bool
	CanceledAt time.Time
}

// Tokens are the tokens of one model or dialect; see [simulator.Outcome].
type Tokens struct {
	Requests   int
	Prompt     int
	Completion int
	Cached     int // of Prompt, read from the cache
}

// Totals are the counters of a recorder.
type Totals struct {
	Requests int // finished, of every kind
	Aborted  int // of these, broken off by a fault or by the client
	Models   map[string]Tokens
	// Dialects are the tokens of each protocol by its name: chat, messages,
	// responses, gemini, converse, cohere, ollama.
	Dialects map[string]Tokens
}

// Recorder is a simulator that records its requests. It is safe for concurrent
// use.
type Recorder struct {
	*simulator.Simulator
	opts    Options
	records records
}

// New returns a recorder. It starts no goroutine and needs no closing.
func New(opts Options) *Recorder {
	r := &Recorder{opts: opts}
	opts.Observer = &r.records
	r.records.limit = opts.Record
	r.records.reset()
	r.Simulator = simulator.New(opts.Options)
	return r
}

// ServeHTTP answers one request.
func (s *Recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.opts.Record > 0 {
		r.Body = newTap(r)
	}
	if s.opts.Check != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has disconnected
		}
		r.Body = withBytes(r.Body, body)
		if err := s.opts.Check(r, body); err != nil {
			w.Header().Set("X-Amzn-Errortype", "InvalidSignatureException")
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		if strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") {
			r.Header.Set("Authorization", "Bearer "+s.opts.Key)
		}
	}
	s.Simulator.ServeHTTP(w, r)
}

// Reset removes every recorded request, counter, total and file, as if the
// recorder were new. Requests in progress are counted when they finish.
func (s *Recorder) Reset() {
	s.records.reset()
	s.Simulator.Reset()
}

// Requests returns copies of the latest finished requests, oldest first, at
// most [Options].Record.
func (s *Recorder) Requests() []Request {
	s.records.mu.Lock()
	list := slices.Clone(s.records.requests)
	s.records.mu.Unlock()
	for i := range list {
		list[i].Header = list[i].Header.Clone()
		list[i].Body = bytes.Clone(list[i].Body)
	}
	return list
}

// Calls returns the number of calls of this model name, including its faults.
func (s *Recorder) Calls(model string) int {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	return s.records.calls[model]
}

// Served returns the totals since the start or the last Reset.
func (s *Recorder) Served() Totals {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	t := s.records.totals
	t.Models, t.Dialects = maps.Clone(t.Models), maps.Clone(t.Dialects)
	return t
}

// Wait returns when n requests have finished since the start or the last Reset,
// or with the context's error.
func (s *Recorder) Wait(ctx context.Context, n int) error {
	for {
		changed := s.records.waitFor(n)
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// records is what is known of the requests. It observes the simulator.
type records struct {
	limit int // of requests

	mu       sync.Mutex
	calls    map[string]int // guarded by mu, as are the fields below
	totals   Totals
	changed  chan struct{} // closed when the next request finishes; nil while no caller waits
	requests []Request     // in the order they were finished
}

var _ simulator.Observer = (*records)(nil)

func (b *records) waitFor(n int) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.totals.Requests >= n {
		return nil
	}
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

func (b *records) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls, b.requests = map[string]int{}, nil
	b.totals = Totals{Models: map[string]Tokens{}, Dialects: map[string]Tokens{}}
}

// BeginCall counts a call.
func (b *records) BeginCall(model string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[model]++
}

// FinishRequest records a request.
func (b *records) FinishRequest(o simulator.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Requests++
	if o.Aborted {
		b.totals.Aborted++
	}
	if o.Model != "" {
		b.totals.Models[o.Model] = b.totals.Models[o.Model].with(o)
		b.totals.Dialects[o.Dialect] = b.totals.Dialects[o.Dialect].with(o)
	}
	if t, ok := o.Request.Body.(*tap); ok {
		if len(b.requests) >= b.limit {
			b.requests = slices.Delete(b.requests, 0, len(b.requests)-b.limit+1)
		}
		b.requests = append(b.requests, t.request(o))
	}
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

func (t Tokens) with(o simulator.Outcome) Tokens {
	t.Requests++
	t.Prompt += o.Prompt
	t.Completion += o.Completion
	t.Cached += o.Cached
	return t
}
