// Package pipelinetest has what tests of the pipeline share: configs whose targets are
// scripted ([Routes]), requests under test ([Request]) and plans of what would be sent
// ([Plan]).
//
// It guarantees that nothing leaves the process, and that draws are the same in every run
// once they have a seed. Providers that are called over HTTP are the job of package
// simulator.
package pipelinetest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/routing"
	"modelgate/internal/records/reqlog"
)

// Call is one call that reached a target.
type Call struct {
	Path string
	At   time.Time
}

// Routes is a compiled config whose targets are scripted.
type Routes struct {
	*pipeline.Tree
	TB     testing.TB
	engine *attempt.Engine
	State  *routing.State
	Random func() float64 // nil: as in use

	mu     sync.Mutex
	Script map[string]func(n int) Response // by path; missing ones succeed
	Calls  []Call
	Counts map[string]int
	Open   map[int]int // closings by number of the response
}

// New compiles text.
func New(t testing.TB, text string) *Routes {
	t.Helper()
	r := &Routes{
		TB:     t,
		engine: &attempt.Engine{},
		State:  new(routing.State),
		Script: make(map[string]func(int) Response),
		Counts: make(map[string]int),
		Open:   make(map[int]int),
	}
	r.Tree = r.Compile(text)
	return r
}

// Compile compiles another text with the same targets and the same state.
func (r *Routes) Compile(text string) *pipeline.Tree {
	r.TB.Helper()
	root, err := config.Parse([]byte(text))
	if err != nil {
		r.TB.Fatalf("%s: %v", text, err)
	}
	c := pipeline.Compiler{Engine: r.engine, State: r.State, Random: r.draw, Call: func(leaf *config.Config) exchange.Handler {
		return target{r, leaf.Path}
	}}
	return c.Compile(root, routing.Key(root))
}

func (r *Routes) draw() float64 {
	if r.Random != nil {
		return r.Random()
	}
	return rand.Float64()
}

// Seed makes draws that are the same in every run.
func (r *Routes) Seed(seed uint64) *Routes {
	var mu sync.Mutex // hedged branches draw at the same time
	source := rand.New(rand.NewPCG(seed, seed))
	r.Random = func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return source.Float64()
	}
	return r
}

// On scripts the target at path, which is given without "config.".
func (r *Routes) On(path string, responses ...Response) *Routes {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Script[Path(path)] = script(responses...)
	return r
}

// Take scripts a target that needs the given time for each of its calls.
func (r *Routes) Take(path string, ms ...int) *Routes {
	var responses []Response
	for _, n := range ms {
		responses = append(responses, Response{After: time.Duration(n) * time.Millisecond})
	}
	return r.On(path, responses...)
}

// target is a scripted target.
type target struct {
	r    *Routes
	path string
}

// Handle implements [exchange.Handler].
func (h target) Handle(ctx context.Context, _ *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	r := h.r
	r.mu.Lock()
	n := r.Counts[h.path]
	r.Counts[h.path]++
	r.Calls = append(r.Calls, Call{h.path, time.Now()})
	var a Response
	if s := r.Script[h.path]; s != nil {
		a = s(n)
	}
	r.mu.Unlock()
	if a.After > 0 {
		select {
		case <-time.After(a.After):
		case <-ctx.Done():
			if !a.Final {
				a = Error(apierr.ClientGone)
			}
		}
	}
	if a.Panics {
		panic("scripted")
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	attempt := reqlog.Attempt{Target: h.path, Status: a.Status}
	if a.Err != nil {
		attempt.Status, attempt.Error = 0, a.Err.Error()
	}
	t.Outcome = &exchange.Attempt{Record: attempt}
	t.Attempts = append(t.Attempts, t.Outcome)
	if a.Err != nil {
		return nil, a.Err
	}
	return r.response(a), nil
}

func (r *Routes) response(a Response) *exchange.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.Open)
	r.Open[n] = 0
	res := &exchange.Response{Status: a.Status, Header: a.header, Bytes: []byte("{}")}
	res.After = append(res.After, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Open[n]++
	})
	return res
}

// Send sends a request, which change may change before, and fails if it is changed after.
func (r *Routes) Send(change ...func(*Request)) Result {
	r.TB.Helper()
	got := Send(context.Background(), r.Tree, change...)
	got.X.Unchanged(r.TB)
	return got
}

// CheckClosed fails unless every response was closed exactly once.
func (r *Routes) CheckClosed() {
	r.TB.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, times := range r.Open {
		if times != 1 {
			r.TB.Errorf("response %d was closed %d times, want once", n, times)
		}
	}
}
