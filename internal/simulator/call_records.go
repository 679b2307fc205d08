package simulator

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// maxNames is the number of model names with separate counters; the rest is
// counted in the totals only.
const maxNames = 4096

// Request is what the simulator recorded of one request.
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

// Tokens are the tokens of one model, as the simulator would bill them: text
// that was sent counts, even if the response was cut or its usage withheld.
type Tokens struct {
	Requests   int
	Prompt     int
	Completion int
	Cached     int // of Prompt, read from the cache
}

// Totals are the counters of the simulator.
type Totals struct {
	Requests int // finished, of every kind
	Aborted  int // of these, broken off by a fault or by the client
	Models   map[string]Tokens
	// Dialects are the tokens of each protocol by its name: chat, messages,
	// responses, gemini, converse, cohere, ollama.
	Dialects map[string]Tokens
}

// A tally counts the calls of one name.
type tally struct {
	calls int
	first time.Time
}

type callRecords struct {
	mu       sync.Mutex
	calls    map[string]*tally // guarded by mu, as are the fields below
	served   map[string]*Tokens
	spoken   [protocolCount]Tokens
	finished int
	aborted  int
	changed  chan struct{} // closed when the next request finishes; nil while no caller waits
	requests []Request     // in the order they were finished
}

// Requests returns copies of the latest finished requests, oldest first, at
// most [Options].Record.
func (s *Simulator) Requests() []Request {
	s.records.mu.Lock()
	list := slices.Clone(s.records.requests)
	s.records.mu.Unlock()
	for i := range list {
		list[i].Header = list[i].Header.Clone()
		list[i].Body = slices.Clone(list[i].Body)
	}
	return list
}

// Calls returns the number of calls of this model name, including its faults.
func (s *Simulator) Calls(model string) int {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	if t := s.records.calls[model]; t != nil {
		return t.calls
	}
	return 0
}

// Served returns the totals since the start or the last Reset.
func (s *Simulator) Served() Totals {
	b := &s.records
	b.mu.Lock()
	defer b.mu.Unlock()
	t := Totals{Requests: b.finished, Aborted: b.aborted, Models: make(map[string]Tokens, len(b.served)), Dialects: map[string]Tokens{}}
	for name, sum := range b.served {
		t.Models[name] = *sum
	}
	for i, sum := range b.spoken {
		if sum.Requests > 0 {
			t.Dialects[protocolNames[i]] = sum
		}
	}
	return t
}

// Wait returns when n requests have finished since the start or the last Reset,
// or with the context's error.
func (s *Simulator) Wait(ctx context.Context, n int) error {
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

func (b *callRecords) waitFor(n int) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished >= n {
		return nil
	}
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

func (b *callRecords) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.calls)
	clear(b.served)
	b.spoken = [protocolCount]Tokens{}
	b.finished, b.aborted, b.requests = 0, 0, nil
}

// call counts a call of the name and returns the number of calls and the time
// of the first.
func (b *callRecords) call(name []byte) (calls int, first time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.calls[string(name)]
	if t == nil {
		if len(b.calls) >= maxNames {
			return 1, time.Now()
		}
		if b.calls == nil {
			b.calls = make(map[string]*tally)
		}
		t = &tally{first: time.Now()}
		b.calls[string(name)] = t
	}
	t.calls++
	return t.calls, t.first
}

// An outcome is what is recorded of a finished request.
type outcome struct {
	speech             int // index of the protocol
	model              []byte
	prompt, completion int
	cached             int // of prompt
	aborted            bool
	request            *Request // nil when not recorded
	keep               int
}

func (b *callRecords) finish(o *outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished++
	if o.aborted {
		b.aborted++
	}
	if len(o.model) > 0 {
		b.bill(o)
	}
	if o.request != nil {
		if len(b.requests) >= o.keep {
			b.requests = slices.Delete(b.requests, 0, len(b.requests)-o.keep+1)
		}
		b.requests = append(b.requests, *o.request)
	}
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

func (b *callRecords) bill(o *outcome) {
	b.spoken[o.speech].add(o)
	sum := b.served[string(o.model)]
	if sum == nil {
		if len(b.served) >= maxNames {
			return
		}
		if b.served == nil {
			b.served = make(map[string]*Tokens)
		}
		sum = new(Tokens)
		b.served[string(o.model)] = sum
	}
	sum.add(o)
}

func (t *Tokens) add(o *outcome) {
	t.Requests++
	t.Prompt += o.prompt
	t.Completion += o.completion
	t.Cached += o.cached
}
