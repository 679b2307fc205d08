package pipelinetest

import (
	"cmp"
	"context"
	"fmt"
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
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/routing"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
)

// Response is how a scripted target answers one call. The zero value is a
// success without delay.
type Response struct {
	Status int // 0 is 200
	header http.Header
	Err    error
	After  time.Duration
	Panics bool
	Final  bool // whether it responds like this even if it is cancelled before
}

func Status(status int, header ...string) Response {
	a := Response{Status: status, header: http.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		a.header.Set(header[i], header[i+1])
	}
	return a
}

func Refusal() Response {
	return Response{Err: apierr.New(apierr.UpstreamFailed, "refused").WithCode("upstream_refused")}
}

func Error(k apierr.Kind) Response { return Response{Err: apierr.New(k, "error of kind %d", k)} }

// Script answers the calls of a target: call n, counted from 0, gets
// answers[n], and the last one serves all further calls.
func Script(responses ...Response) func(n int) Response {
	return func(n int) Response { return responses[min(n, len(responses)-1)] }
}

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
	c := pipeline.Compiler{Engine: r.engine, State: r.State, Random: r.draw, Call: func(leaf *config.Config) pipeline.Handler {
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

// On scripts the target at path, which is given without "config.".
func (r *Routes) On(path string, responses ...Response) *Routes {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Script[Path(path)] = Script(responses...)
	return r
}

func Path(short string) string {
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

// target is a scripted target.
type target struct {
	r    *Routes
	path string
}

func (h target) Handle(ctx context.Context, _ *pipeline.Request, t *pipeline.Trail) (*pipeline.Response, error) {
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
	t.Outcome = &pipeline.Attempt{Record: attempt}
	t.Attempts = append(t.Attempts, t.Outcome)
	if a.Err != nil {
		return nil, a.Err
	}
	return r.response(a), nil
}

func (r *Routes) response(a Response) *pipeline.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.Open)
	r.Open[n] = 0
	res := &pipeline.Response{Status: a.Status, Header: a.header, Bytes: []byte("{}")}
	res.After = append(res.After, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Open[n]++
	})
	return res
}

// Result is how an exchange ended, its response closed.
type Result struct {
	X       *Request
	Status  int
	Err     *apierr.Error // nil where a response came
	Path    string        // that answered last, short as on takes it
	Targets []string      // short paths in the order of the attempts
	Took    time.Duration
}

// Request is a request under test, and what happened to it.
type Request struct {
	pipeline.Request
	admitted pipeline.Request // as it was when handling began
	Trail    pipeline.Trail
	Resolve  func(leaf *config.Config) (*provider.Target, error) // finds targets; nil where they are scripted
}

// Handle has h handle the request, with its leaves if h is compiled.
func (x *Request) Handle(ctx context.Context, h pipeline.Handler) (*pipeline.Response, error) {
	if tree, ok := h.(*pipeline.Tree); ok && x.Resolve != nil {
		x.Leaves = make([]pipeline.Leaf, len(tree.Leaves))
		for i, leaf := range tree.Leaves {
			x.Leaves[i].Target, x.Leaves[i].Err = x.Resolve(leaf)
			override, _ := leaf.OverrideParams.Text("model")
			standard, _ := leaf.DefaultParams.Text("model")
			x.Leaves[i].Model = cmp.Or(override, x.Model, standard)
		}
	}
	x.admitted = x.Request
	return h.Handle(ctx, &x.Request, &x.Trail)
}

// Unchanged fails if handling has changed the request.
func (x *Request) Unchanged(t testing.TB) {
	t.Helper()
	if !reflect.DeepEqual(x.Request, x.admitted) {
		t.Errorf("handling changed the request to %+v, admitted was %+v", x.Request, x.admitted)
	}
}

// Params is the header of what was adapted.
func (x *Request) Params() string { return strings.Join(x.Trail.Params(), ", ") }

// Target is the path of the target that answered last.
func (x *Request) Target() string {
	if x.Trail.Outcome == nil {
		return ""
	}
	return x.Trail.Outcome.Record.Target
}

// NewRequest returns a chat request.
func NewRequest() *Request {
	return &Request{Trail: pipeline.Trail{Explain: true}, Request: pipeline.Request{
		Time:      time.Now(),
		Client:    chat.Dialect{},
		Operation: api.Chat,
		Received:  pipeline.Received{Method: http.MethodPost, Path: "/chat/completions", Header: http.Header{}},
	}}
}

// SetBody gives x a JSON body.
func SetBody(t testing.TB, x *Request, body string) {
	t.Helper()
	x.Received.Doc = new(jsonedit.Doc)
	if err := x.Received.Doc.Scan([]byte(body)); err != nil {
		t.Fatal(err)
	}
}

func (r *Routes) Send(change ...func(*Request)) Result {
	r.TB.Helper()
	got := Send(context.Background(), r.Tree, change...)
	got.X.Unchanged(r.TB)
	return got
}

func Send(ctx context.Context, h pipeline.Handler, change ...func(*Request)) Result {
	x := NewRequest()
	for _, f := range change {
		f(x)
	}
	began := time.Now()
	res, err := x.Handle(ctx, h)
	out := Result{X: x, Took: time.Since(began), Path: Short(x.Target())}
	if err != nil {
		out.Err = apierr.From(err)
		out.Status = out.Err.Status()
	} else {
		out.Status = res.Status
		res.Close()
	}
	for _, a := range x.Trail.Attempts {
		out.Targets = append(out.Targets, Short(a.Record.Target))
	}
	return out
}

func Short(path string) string {
	return strings.NewReplacer("config.targets[", "", "].targets[", ".", "]", "", "config", "").Replace(path)
}

func Meta(pairs ...string) func(*Request) {
	return func(x *Request) {
		x.Metadata = make(map[string]string)
		for i := 0; i+1 < len(pairs); i += 2 {
			x.Metadata[pairs[i]] = pairs[i+1]
		}
	}
}

// TargetList is where the attempts of an exchange went.
func (r Result) TargetList() string { return strings.Join(r.Targets, " ") }

func (r Result) HasDecision(text string) bool {
	for _, d := range r.X.Trail.Decisions {
		if strings.Contains(d.Text, text) {
			return true
		}
	}
	return false
}

// ClosedOnce fails unless every response was closed exactly once.
func (r *Routes) ClosedOnce() {
	r.TB.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, times := range r.Open {
		if times != 1 {
			r.TB.Errorf("response %d was closed %d times, want once", n, times)
		}
	}
}

const Leaf = `{"provider":"@a"}`

// Tree is a node of this mode with n equal targets.
func Tree(mode string, n int, more string) string {
	return fmt.Sprintf(`{"strategy":{"mode":%q}%s,"targets":[%s]}`, mode, more, strings.TrimSuffix(strings.Repeat(Leaf+",", n), ","))
}

// Weighted is a loadbalance node; a weight below zero is left out.
func Weighted(more string, weights ...float64) string {
	var targets []string
	for _, w := range weights {
		if w < 0 {
			targets = append(targets, Leaf)
			continue
		}
		targets = append(targets, fmt.Sprintf(`{"provider":"@a","weight":%v}`, w))
	}
	return `{"strategy":{"mode":"loadbalance"` + more + `},"targets":[` + strings.Join(targets, ",") + `]}`
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

// Spec is a provider row with one quirk of each kind.
var Spec = &provider.Spec{
	ID:      "quirky",
	BaseURL: "https://quirky.example.com/v1",
	Dialect: api.DialectChat,
	Auth:    provider.Auth{Header: "Authorization", Scheme: "Bearer"},
	Paths:   map[api.Operation]string{api.Chat: "/chat/completions"},
	Drop:    []string{"logit_bias"},
	Rename:  map[string]string{"max_tokens": "max_completion_tokens"},
	Limits:  map[string]provider.Range{"temperature": {Min: 0, Max: 1}},
	Models:  modeldata.NewTable(modeldata.Model{Pattern: "^thinker", Drop: []string{"temperature"}}),
}

// Plan sends nothing: it returns what would be sent first, with the
// exchange.
func Plan(t *testing.T, text, body string, edits ...func(*Request)) (pipeline.DryRunRequest, *Request, error) {
	t.Helper()
	root, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	pool := bytepool.New(0)
	c := pipeline.Compiler{Engine: &attempt.Engine{Bounds: pipeline.Bounds{Pool: pool}}, State: new(routing.State)}
	x := NewRequest()
	x.DryRun = true
	x.Resolve = func(*config.Config) (*provider.Target, error) {
		return provider.NewTarget(Spec, provider.Settings{Key: secret.New("provider-key")})
	}
	if body != "" {
		if x.Received.Body, err = pool.ReadAll(strings.NewReader(body), int64(len(body)), 1<<20); err != nil {
			t.Fatal(err)
		}
		defer func() {
			x.Received.Body.Release()
			if n := pool.Used(); n != 0 {
				t.Errorf("%d bytes of bodies are still lent", n)
			}
		}()
		SetBody(t, x, body)
		if v, ok := x.Received.Doc.Find("model"); ok {
			x.Model, _ = v.Text()
		}
	}
	for _, f := range edits {
		f(x)
	}
	res, err := x.Handle(t.Context(), c.Compile(root, routing.Key(root)))
	if err != nil {
		return pipeline.DryRunRequest{}, x, err
	}
	res.Close()
	return x.Trail.Planned[0], x, nil
}

// Take scripts a target that takes the given time for each of its calls.
func (r *Routes) Take(path string, ms ...int) *Routes {
	var responses []Response
	for _, n := range ms {
		responses = append(responses, Response{After: time.Duration(n) * time.Millisecond})
	}
	return r.On(path, responses...)
}
