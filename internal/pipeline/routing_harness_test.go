package pipeline_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
)

// rtResponse is how a scripted target answers one call. The zero value is a
// success without delay.
type rtResponse struct {
	status int // 0 is 200
	header http.Header
	err    error
	after  time.Duration
	panics bool
	final  bool // whether it responds like this even if it is cancelled before
}

func rtStatus(status int, header ...string) rtResponse {
	a := rtResponse{status: status, header: http.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		a.header.Set(header[i], header[i+1])
	}
	return a
}

func rtRefusal() rtResponse {
	return rtResponse{err: apierr.New(apierr.UpstreamFailed, "refused").WithCode("upstream_refused")}
}

func rtError(k apierr.Kind) rtResponse { return rtResponse{err: apierr.New(k, "error of kind %d", k)} }

// rtScript answers the calls of a target: call n, counted from 0, gets
// answers[n], and the last one serves all further calls.
func rtScript(responses ...rtResponse) func(n int) rtResponse {
	return func(n int) rtResponse { return responses[min(n, len(responses)-1)] }
}

// rtCall is one call that reached a target.
type rtCall struct {
	path string
	at   time.Time
}

// rtRoutes is a compiled config whose targets are scripted.
type rtRoutes struct {
	*pipeline.Tree
	t      testing.TB
	engine *pipeline.Engine
	state  *pipeline.State
	random func() float64 // nil: as in use

	mu     sync.Mutex
	script map[string]func(n int) rtResponse // by path; missing ones succeed
	calls  []rtCall
	counts map[string]int
	open   map[int]int // closings by number of the response
}

// rtNew compiles text.
func rtNew(t testing.TB, text string) *rtRoutes {
	t.Helper()
	r := &rtRoutes{
		t:      t,
		engine: &pipeline.Engine{},
		state:  new(pipeline.State),
		script: make(map[string]func(int) rtResponse),
		counts: make(map[string]int),
		open:   make(map[int]int),
	}
	r.Tree = r.compile(text)
	return r
}

// compile compiles another text with the same targets and the same state.
func (r *rtRoutes) compile(text string) *pipeline.Tree {
	r.t.Helper()
	root, err := config.Parse([]byte(text))
	if err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
	c := pipeline.Compiler{Engine: r.engine, State: r.state, Random: r.draw, Call: func(leaf *config.Config) pipeline.Handler {
		return rtTarget{r, leaf.Path}
	}}
	return c.Compile(root, pipeline.Key(root))
}

func (r *rtRoutes) draw() float64 {
	if r.random != nil {
		return r.random()
	}
	return rand.Float64()
}

// on scripts the target at path, which is given without "config.".
func (r *rtRoutes) on(path string, responses ...rtResponse) *rtRoutes {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script[rtPath(path)] = rtScript(responses...)
	return r
}

func rtPath(short string) string {
	if short == "" {
		return "config"
	}
	var b strings.Builder
	b.WriteString("config")
	for n := range strings.SplitSeq(short, ".") {
		b.WriteString(".targets[" + n + "]")
	}
	return b.String()
}

// rtTarget is a scripted target.
type rtTarget struct {
	r    *rtRoutes
	path string
}

func (h rtTarget) Handle(ctx context.Context, _ *pipeline.Request, t *pipeline.Trail) (*pipeline.Response, error) {
	r := h.r
	r.mu.Lock()
	n := r.counts[h.path]
	r.counts[h.path]++
	r.calls = append(r.calls, rtCall{h.path, time.Now()})
	var a rtResponse
	if s := r.script[h.path]; s != nil {
		a = s(n)
	}
	r.mu.Unlock()
	if a.after > 0 {
		select {
		case <-time.After(a.after):
		case <-ctx.Done():
			if !a.final {
				a = rtError(apierr.ClientGone)
			}
		}
	}
	if a.panics {
		panic("scripted")
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	attempt := reqlog.Attempt{Target: h.path, Status: a.status}
	if a.err != nil {
		attempt.Status, attempt.Error = 0, a.err.Error()
	}
	t.Outcome = &pipeline.Attempt{Record: attempt}
	t.Attempts = append(t.Attempts, t.Outcome)
	if a.err != nil {
		return nil, a.err
	}
	return r.response(a), nil
}

func (r *rtRoutes) response(a rtResponse) *pipeline.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.open)
	r.open[n] = 0
	res := &pipeline.Response{Status: a.status, Header: a.header, Bytes: []byte("{}")}
	return pipeline.OnClose(res, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.open[n]++
	})
}

// rtResult is how an exchange ended, its response closed.
type rtResult struct {
	x       *rtRequest
	status  int
	err     *apierr.Error // nil where a response came
	path    string        // that answered last, short as on takes it
	targets []string      // short paths in the order of the attempts
	took    time.Duration
}

// rtRequest is a request under test, and what happened to it.
type rtRequest struct {
	pipeline.Request
	admitted pipeline.Request // as it was when handling began
	trail    pipeline.Trail
	resolve  func(leaf *config.Config) (*provider.Target, error) // finds targets; nil where they are scripted
}

// handle has h handle the request, with its leaves if h is compiled.
func (x *rtRequest) handle(ctx context.Context, h pipeline.Handler) (*pipeline.Response, error) {
	if tree, ok := h.(*pipeline.Tree); ok && x.resolve != nil {
		x.Leaves = make([]pipeline.Leaf, len(tree.Leaves))
		for i, leaf := range tree.Leaves {
			x.Leaves[i].Target, x.Leaves[i].Err = x.resolve(leaf)
		}
	}
	x.admitted = x.Request
	return h.Handle(ctx, &x.Request, &x.trail)
}

// unchanged fails if handling has changed the request.
func (x *rtRequest) unchanged(t testing.TB) {
	t.Helper()
	if !reflect.DeepEqual(x.Request, x.admitted) {
		t.Errorf("handling changed the request to %+v, admitted was %+v", x.Request, x.admitted)
	}
}

// params is the header of what was adapted.
func (x *rtRequest) params() string { return strings.Join(x.trail.Params(), ", ") }

// target is the path of the target that answered last.
func (x *rtRequest) target() string {
	if x.trail.Outcome == nil {
		return ""
	}
	return x.trail.Outcome.Record.Target
}

// rtNewRequest returns a chat request.
func rtNewRequest() *rtRequest {
	return &rtRequest{trail: pipeline.Trail{Explain: true}, Request: pipeline.Request{
		Time:      time.Now(),
		Client:    chat.Dialect{},
		Operation: api.Chat,
		Received:  pipeline.Received{Method: http.MethodPost, Path: "/chat/completions", Header: http.Header{}},
	}}
}

// rtBody gives x a JSON body.
func rtBody(t testing.TB, x *rtRequest, body string) {
	t.Helper()
	x.Received.Doc = new(jsonedit.Doc)
	if err := x.Received.Doc.Scan([]byte(body)); err != nil {
		t.Fatal(err)
	}
}

func (r *rtRoutes) send(change ...func(*rtRequest)) rtResult {
	r.t.Helper()
	got := rtSend(context.Background(), r.Tree, change...)
	got.x.unchanged(r.t)
	return got
}

func rtSend(ctx context.Context, h pipeline.Handler, change ...func(*rtRequest)) rtResult {
	x := rtNewRequest()
	for _, f := range change {
		f(x)
	}
	began := time.Now()
	res, err := x.handle(ctx, h)
	out := rtResult{x: x, took: time.Since(began), path: rtShort(x.target())}
	if err != nil {
		out.err = apierr.From(err)
		out.status = out.err.Status()
	} else {
		out.status = res.Status
		res.Close()
	}
	for _, a := range x.trail.Attempts {
		out.targets = append(out.targets, rtShort(a.Record.Target))
	}
	return out
}

func rtShort(path string) string {
	return strings.NewReplacer("config.targets[", "", "].targets[", ".", "]", "", "config", "").Replace(path)
}

func rtMeta(pairs ...string) func(*rtRequest) {
	return func(x *rtRequest) {
		x.Metadata = make(map[string]string)
		for i := 0; i+1 < len(pairs); i += 2 {
			x.Metadata[pairs[i]] = pairs[i+1]
		}
	}
}

// targetList is where the attempts of an exchange went.
func (r rtResult) targetList() string { return strings.Join(r.targets, " ") }

func (r rtResult) hasDecision(text string) bool {
	for _, d := range r.x.trail.Decisions {
		if strings.Contains(d.Text, text) {
			return true
		}
	}
	return false
}

// closedOnce fails unless every response was closed exactly once.
func (r *rtRoutes) closedOnce() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, times := range r.open {
		if times != 1 {
			r.t.Errorf("response %d was closed %d times, want once", n, times)
		}
	}
}
